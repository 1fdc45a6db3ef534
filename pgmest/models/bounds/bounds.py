"""TableBounds: the least and the largest answer that any compatible table gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.bounds.contradiction import check_total, compatible_point
from pgmest.models.bounds.ends import answer_ends
from pgmest.models.bounds.polytope import TablePolytope
from pgmest.models.bounds.presolve import Presolved
from pgmest.models.bounds.program import proven_minima, with_finite_ends
from pgmest.models.intervals import WHOLE, Interval, check_level
from pgmest.models.question import Question
from pgmest.models.refittable import Refittable, estimated_from
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain, as_domain
from pgmest.tables.factor import Factor


class TableBounds:
    """The tables compatible with measurements.

    The true answers of a compatible table lie between the ends that were published, and inside boxes around noisy
    answers that contain all true answers at once with probability `level`. No model is assumed: the bounds hold for
    every table of non-negative counts, however its attributes depend on each other. They are proven by the duals of
    linear programs, two for each number of an answer.

    >>> published = LinearMeasurement.rounded([[5, 10], [0, 5]], ("age", "sex"), base=5)
    >>> totals = LinearMeasurement.exact([11, 8], "age")
    >>> bounds = TableBounds([published, totals], {"age": 2, "sex": 2})
    >>> low, high = bounds.of(("age", "sex"))
    >>> low.values.tolist(), high.values.tolist()
    ([[3.0, 8.0], [1.0, 6.0]], [[3.0, 8.0], [2.0, 7.0]])

    Args:
        measurements: the answers.
        domain: all attributes.
        level: the probability that the boxes contain all true answers.
        total: the number of records, if it is known; by default the one that is stated with the measurements
            (`LinearMeasurement.stated_total`), if they agree.
        zeros: potentials whose -inf cells are impossible.
        max_megabytes: refuse junction trees whose tables would need more.

    Raises:
        MeasurementError, UnknownAttributeError, QueryError: a measurement does not fit the domain.
        ArgumentError: the level is not between 0 and 1, the total is not a number of records, or nothing bounds the
            number of records.
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
        check_total(total)
        self.domain: Domain = as_domain(domain)
        self.measurements: tuple[LinearMeasurement, ...] = tuple(
            one.without_levels(self.domain) for one in measurements
        )
        self.level: float = level
        for measurement in self.measurements:
            measurement.check(self.domain)
        self._ends = answer_ends(self.measurements, level)
        stated = {measurement.stated_total for measurement in self.measurements} - {None}
        self._total = stated.pop() if total is None and len(stated) == 1 else total
        self._zeros, self._max_megabytes = zeros, max_megabytes
        self._programs: dict[Clique, tuple[Presolved, np.ndarray | None]] = {}

    def of(
        self, query: Any, clique: Iterable[str] | str | None = None, given: Mapping[str, int] | None = None
    ) -> Interval:
        """Return the least and the largest answer, in counts; arguments as for `Model.answer`, but one query only.

        The counts of a marginal are whole numbers, so their ends are moved inwards to whole numbers.

        Raises:
            InconsistentMeasurementsError: no table is compatible; the error names answers that contradict each other.
            ModelTooLarge: the tables of the query and the measurements together need too much memory.
            ArgumentError: nothing bounds the number of records.
            QueryError: a query that does not fit, or a function of a model.
        """
        question = Question.of(self.domain, query, clique, given)
        rows, names, evidence = question.rows(), question.names, question.evidence
        asked = (*names, *evidence)
        presolved, point = self._program(asked)
        cells = rows @ _given_cells(self.domain, names, evidence)
        objectives = sparse.csr_array(cells @ presolved.polytope.marginal(asked))
        ends = proven_minima(sparse.csr_array(sparse.vstack([objectives, -objectives])), presolved, point)
        low, top = ends[: len(ends) // 2], -ends[len(ends) // 2 :]
        if question.query is None:
            low, top = _whole(low, top)
        low = np.where(_have_negative(cells, len(low)), low, np.maximum(low, 0.0))
        axes = question.axes
        below, above = (Factor(axes, end.reshape(axes.shape)) for end in (low, top))
        return Interval(below, above, self.level, "bounds", basis="tables")

    def check(self) -> None:
        """Check that some table is compatible.

        Raises:
            InconsistentMeasurementsError: no table is.
        """
        self._compatible(())

    def _program(self, asked: Clique) -> tuple[Presolved, np.ndarray | None]:
        """Return the presolved constraints with finite ends, and a compatible point if one is known."""
        key = tuple(sorted(asked))
        if key not in self._programs:
            presolved, point = self._compatible(key)
            self._programs[key] = with_finite_ends(presolved, self._total), point
        return self._programs[key]

    def _compatible(self, asked: Clique) -> tuple[Presolved, np.ndarray | None]:
        """Return the presolved constraints, with the query's attributes inside one table, and a compatible point."""
        polytope = TablePolytope.of(
            self.domain,
            self.measurements,
            self._ends,
            total=self._total,
            zeros=self._zeros,
            extra=[asked] if asked else [],
            max_megabytes=self._max_megabytes,
        )
        presolved = Presolved.of(polytope)
        return presolved, compatible_point(polytope, presolved, self.measurements)


def _given_cells(domain: Domain, names: Clique, evidence: Mapping[str, int]) -> sparse.csr_array:
    """Return the matrix that selects the cells of the marginal on names and evidence that have the evidence's codes."""
    count, codes = domain.size(names), domain.size(tuple(evidence))
    code = int(np.ravel_multi_index(tuple(evidence.values()), domain.project(tuple(evidence)).shape)) if evidence else 0
    columns = np.arange(count) * codes + code
    return sparse.csr_array((np.ones(count), (np.arange(count), columns)), shape=(count, count * codes))


def _have_negative(rows: sparse.csr_array, count: int) -> np.ndarray:
    """Return which rows have negative numbers."""
    places, _, numbers = sparse.find(rows)
    return np.bincount(places, numbers < 0, count) > 0


def _whole(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Move the ends inwards to whole numbers.

    Ends between which there is no whole number stay as they are, as a table of non-integer counts has them.
    """
    inner, outer = np.ceil(low - WHOLE), np.floor(high + WHOLE)
    whole = inner <= outer
    return np.where(whole, inner, low), np.where(whole, outer, high)


def bounds_of(
    model: Refittable,
    query: Any,
    clique: Iterable[str] | str | None = None,
    given: Mapping[str, int] | None = None,
    *,
    level: float = 0.95,
    max_megabytes: float = 100.0,
) -> Interval:
    """Return the least and the largest answer that any table compatible with a model's measurements gives, in counts.

    This is `Model.bounds`, with its arguments and errors, for every kind of model that can be estimated again.
    """
    refit, measurements = estimated_from(
        model, "bounds", "or pgmest.models.bounds.TableBounds with the measurements, which needs no model"
    )
    total = refit.objective.total
    known = float(total) if isinstance(total, int | float | np.number) else None
    compatible = TableBounds(
        measurements, model.domain, level=level, total=known, zeros=refit.start, max_megabytes=max_megabytes
    )
    return compatible.of(query, clique, given)
