"""TableBounds: the least and the largest answer that any compatible table gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError, QueryError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.bounds.contradiction import check_compatible
from pgmest.models.bounds.ends import answer_ends
from pgmest.models.bounds.polytope import TablePolytope
from pgmest.models.bounds.program import finite_ends, proven_minimum
from pgmest.models.intervals import Interval, check_level
from pgmest.queries import Kron, MatrixQuery, as_query
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain, as_domain
from pgmest.tables.evidence import checked_evidence
from pgmest.tables.factor import Factor

WHOLE = 1e-6
"""Ends of counts are moved to whole numbers inside, if they are further than this from one."""


class TableBounds:
    """The tables compatible with measurements: true answers between the ends that were published, or, where there is
    noise, inside boxes that hold them all at once with probability `level`.

    It takes no model: bounds hold for every table of at least 0 in each cell, however its attributes depend on each
    other. They are proven by the duals of linear programs, two for each number asked for.

    >>> published = LinearMeasurement.rounded([[5, 10], [0, 5]], ("age", "sex"), base=5)
    >>> totals = LinearMeasurement.exact([11, 8], "age")
    >>> bounds = TableBounds([published, totals], {"age": 2, "sex": 2})
    >>> low, high = bounds.of(("age", "sex"))
    >>> low.values.tolist(), high.values.tolist()
    ([[3.0, 8.0], [1.0, 6.0]], [[3.0, 8.0], [2.0, 7.0]])

    Args:
        measurements: the answers.
        domain: the attributes.
        level: the probability that noisy answers are as close to the truth as is assumed.
        total: the number of records, where it is known.
        zeros: potentials whose -inf cells are impossible.
        max_megabytes: refuse junction trees whose tables would need more.

    Raises:
        MeasurementError, UnknownAttributeError, QueryError: a measurement does not fit the domain.
        ArgumentError: the level is not between 0 and 1, or nothing bounds the number of records.
    """

    def __init__(
        self,
        measurements: Iterable[LinearMeasurement],
        domain: Domain | Mapping[str, int],
        *,
        level: float = 0.95,
        total: float | None = None,
        zeros: CliqueVector | None = None,
        max_megabytes: float = 100.0,
    ):
        check_level(level)
        self.measurements: tuple[LinearMeasurement, ...] = tuple(measurements)
        self.domain: Domain = as_domain(domain)
        self.level: float = level
        for measurement in self.measurements:
            measurement.check(self.domain)
        self._ends = answer_ends(self.measurements, level)
        self._total, self._zeros, self._max_megabytes = total, zeros, max_megabytes
        self._polytopes: dict[Clique, tuple[TablePolytope, np.ndarray]] = {}

    def of(
        self, query: Any, clique: Iterable[str] | str | None = None, given: Mapping[str, int] | None = None
    ) -> Interval:
        """The least and largest answers, in counts; arguments as for `Model.answer` and `Model.project`, one query.

        Counts of a marginal are whole numbers, and the ends are moved to these.

        Raises:
            InconsistentMeasurementsError: no table is compatible; it names answers that contradict each other.
            ModelTooLarge: the tables of the query and the measurements together need too much memory.
            ArgumentError: nothing bounds the number of records.
            QueryError: a query that does not fit, or a function of a model.
        """
        names, shape, rows, counts = self._rows(query, clique)
        evidence = checked_evidence(self.domain, given, names)
        asked = (*names, *evidence)
        polytope, high = self._polytope(asked)
        table = self.domain.project(asked)
        selection = np.zeros(table.shape)
        selection[(..., *evidence.values())] = 1.0
        found = []
        for row in rows:
            spread = np.asarray(row).reshape(tuple(self.domain.project(names).shape))
            weights = selection * spread.reshape((*spread.shape, *([1] * len(evidence))))
            objective = polytope.objective(asked, weights.reshape(-1))
            found.append((proven_minimum(objective, polytope, high), -proven_minimum(-objective, polytope, high)))
        low, top = np.array(found).T
        if counts:
            low, top = _whole(low, top)
        axes = Domain(shape)
        below, above = (Factor(axes, end.reshape(axes.shape)) for end in (low, top))
        return Interval(below, above, self.level, "bounds", basis="tables")

    def check(self) -> None:
        """See that some table is compatible.

        Raises:
            InconsistentMeasurementsError: none is.
        """
        self._polytope(())

    def _polytope(self, asked: Clique) -> tuple[TablePolytope, np.ndarray]:
        """The constraints, with the attributes asked about inside one table; kept."""
        key = tuple(sorted(asked))
        if key not in self._polytopes:
            polytope = TablePolytope.of(
                self.domain,
                self.measurements,
                self._ends,
                total=self._total,
                zeros=self._zeros,
                extra=[asked] if asked else [],
                max_megabytes=self._max_megabytes,
            )
            check_compatible(polytope, self.measurements)
            self._polytopes[key] = polytope, finite_ends(polytope, self._total)
        return self._polytopes[key]

    def _rows(self, query: Any, clique: Any) -> tuple[Clique, dict[str, int], Iterator[np.ndarray], bool]:
        """The attributes that a query reads, the axes of its answer, its rows, and whether these are counts."""
        if clique is None and isinstance(query, LinearMeasurement):
            query, clique = query.query, query.clique
            if query is None:
                query, clique = clique, None
            elif isinstance(query, Kron):
                clique = None
        if clique is None and isinstance(query, Kron):
            query.check(self.domain)
            rows = (query.transpose(unit).reshape(-1) for unit in _units(query.shape[0]))
            return query.attributes, dict(zip(query.attributes, query.answer_shape, strict=True)), rows, False
        if clique is not None:
            names = self.domain.clique(clique)
            if isinstance(query, Kron):
                raise QueryError("a Kron names its attributes itself: leave clique= out.")
            one_row = not isinstance(query, MatrixQuery) and np.ndim(query) == 1
            matrix = as_query([query] if one_row else query)
            if matrix.columns != self.domain.size(names):
                raise QueryError(
                    f"the query on {names}: expected {self.domain.size(names):,} columns, one per cell, got a matrix "
                    f"of shape {matrix.shape}."
                )
            return (
                names,
                {",".join(names) or "total": matrix.rows},
                (matrix.transpose(unit) for unit in _units(matrix.rows)),
                False,
            )
        if isinstance(query, str | list | tuple) and not any(isinstance(one, Kron) for one in query):
            names = self.domain.clique((query,) if isinstance(query, str) else query)
            return names, dict(self.domain.project(names)), _units(self.domain.size(names)), True
        raise QueryError(
            "bounds are of linear queries, one at a time: give attributes, a pg.Kron, or a query matrix and the "
            "clique= that it is about."
        )


def _units(count: int) -> Iterator[np.ndarray]:
    """The rows of the identity, one at a time."""
    for index in range(count):
        unit = np.zeros(count)
        unit[index] = 1.0
        yield unit


def _whole(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers between the ends, where there are any: a table of other numbers keeps its ends."""
    inner, outer = np.ceil(low - WHOLE), np.floor(high + WHOLE)
    whole = inner <= outer
    return np.where(whole, np.maximum(inner, 0.0), np.maximum(low, 0.0)), np.where(whole, outer, high)


def check_bounded(refit: Any, measurements: Any) -> None:
    """See that a model knows what was measured.

    Raises:
        ArgumentError: it does not.
    """
    if refit is None or measurements is None:
        raise ArgumentError(
            "this model does not know what it was estimated from, so there are no bounds: ask the model that "
            "pg.estimate returned, or pgmest.models.bounds.TableBounds with the measurements."
        )
