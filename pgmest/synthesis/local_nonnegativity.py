r"""Marginals without negative counts from noisy ones, however many attributes there are (GReM-LNN).

The marginal on a set of attributes splits into residuals, one for each subset B: what varies in all of B and in nothing
else. Marginals that agree wherever they overlap are the same thing as residuals, which are free of one another. Each
noisy marginal, or noisy residual (`pgmest.strategies.ResidualStrategy`), is an estimate of residuals with known
variances, so that their weighted means are the least-squares solution, and the residuals for which

.. math:: \sum_B \lVert c_B - \hat c_B \rVert^2 / 2 \tau_B^2 \quad \text{is least while} \quad \mu_C = \sum_{B
          \subseteq C} c_B \otimes 1 / n_{C \setminus B} \ge 0

for all cliques C are found by ascent on the dual, clique after clique: with multipliers $\lambda_C \ge 0$ the residuals
are $\hat c_B + \tau_B^2 \sum_{C \supseteq B}$ (the residual of $\lambda_C$ on B). No junction tree is made, so no width
limits it; nor does it promise that a distribution with all these marginals exists.

Mullins, Fuentes, Xiao, Kifer, Musco, Sheldon 2024, Efficient and private marginal reconstruction with local
non-negativity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pgmest._base.errors import QueryError, at_least
from pgmest._base.memory import check_room
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.queries.kron import Kron
from pgmest.queries.workloads.workload import closure
from pgmest.solvers.total import estimate_total
from pgmest.tables.domain import Clique, Domain, as_domain
from pgmest.tables.factor import Factor


@dataclass(frozen=True, eq=False)
class LocalMarginals:
    """Tables that agree, and how far they are from being non-negative.

    Attributes:
        tables: of counts, one for each clique, all summing to the total; those of maximal cliques only.
        negative: the largest sum of negative counts in a table, as a share of the total.
        rounds: how often each table was visited.
    """

    tables: tuple[Factor, ...]
    negative: float
    rounds: int


def locally_nonnegative(
    measurements: Iterable[LinearMeasurement],
    domain: Domain | Mapping[str, int],
    *,
    total: float | None = None,
    rounds: int = 200,
    tolerance: float = 1e-3,
) -> LocalMarginals:
    """The marginals nearest to noisy ones, weighted by their noise, that agree exactly and are not negative.

    >>> noisy = [LinearMeasurement([[6.0, -2.0], [1.0, 5.0]], ("a", "b")), LinearMeasurement([4.0, 6.0], "b")]
    >>> found = locally_nonnegative(noisy, {"a": 2, "b": 2}, total=10)
    >>> found.tables[0].values.round(2) + 0
    array([[4.75, 0.  ],
           [0.  , 5.25]])

    Args:
        measurements: of whole marginals, or of residuals, in counts.
        domain: the attributes.
        total: the number of records; by default it is estimated with the rest.
        rounds: the most visits of each table; 0 for agreement only, with negative counts.
        tolerance: negative counts that sum to at most this share of the total in each table are left there.

    Raises:
        QueryError: another query, or a residual that was measured without those inside of it.
        UnknownAttributeError, MeasurementShapeError, TotalError: the measurements do not fit the domain.
        ModelTooLarge: the tables do not fit into memory.
    """
    known, noisy = as_domain(domain), list(measurements)
    for measurement in noisy:
        measurement.check(known)
    rounds = at_least("rounds", rounds, 0)
    residuals = Residuals.of(noisy, known, total)
    cliques = _maximal(residuals.parts)
    check_room("the tables", sum(known.size(clique) for clique in cliques))
    ascent = _Ascent(residuals, cliques)
    size = float(residuals.tables[()])
    if rounds and size < 0:
        residuals = Residuals.of(noisy, known, max(1.0, estimate_total(noisy, known).value))
        ascent, size = _Ascent(residuals, cliques), float(residuals.tables[()])
    done = ascent.run(rounds, tolerance * max(size, 1.0))
    tables = tuple(ascent.table(clique) for clique in cliques)
    negative = max((-float(table.values.clip(max=0.0).sum()) for table in tables), default=0.0)
    return LocalMarginals(tables, negative / max(size, 1.0), done)


@dataclass(frozen=True, eq=False)
class Residuals:
    """Least-squares estimates of residuals.

    Attributes:
        domain: the attributes.
        tables: a set of attributes, in domain order -> its residual, in counts, with mean 0 along each axis.
        variances: of each residual's noise, in each direction that it has.
    """

    domain: Domain
    tables: Mapping[Clique, np.ndarray]
    variances: Mapping[Clique, float]

    @classmethod
    def of(cls, measurements: Sequence[LinearMeasurement], domain: Domain, total: float | None = None) -> Residuals:
        """Weighted means of what the measurements say about each residual; the total is exact where it is given.

        Raises:
            QueryError: see `locally_nonnegative`.
        """
        sums: dict[Clique, np.ndarray] = {}
        precisions: dict[Clique, float] = {}
        for measurement in measurements:
            for part, table, variance in _seen_by(measurement, domain):
                sums[part] = sums.get(part, 0.0) + table / variance
                precisions[part] = precisions.get(part, 0.0) + 1.0 / variance
        tables = {part: table / precisions[part] for part, table in sums.items()}
        variances = {part: 1.0 / precision for part, precision in precisions.items()}
        if total is not None:
            tables[()], variances[()] = np.array(float(total)), 0.0
        for part in tables:
            for without in combinations(part, len(part) - 1) if part else ():
                if without not in tables:
                    raise QueryError(
                        f"the residual on {part} was measured, but not the one on {without or 'the total'}; measure "
                        "all subsets, or give total=."
                    )
        if () not in tables:
            raise QueryError("nothing was measured; give at least one measurement, or total=.")
        return cls(domain, tables, variances)

    @property
    def parts(self) -> tuple[Clique, ...]:
        """The sets of attributes."""
        return tuple(self.tables)


def _seen_by(measurement: LinearMeasurement, domain: Domain) -> Iterable[tuple[Clique, np.ndarray, float]]:
    """The residuals that a measurement shows, each with its variance."""
    variance = float(np.mean(np.square(measurement.stddev)))
    clique, shape = measurement.clique, domain.project(measurement.clique).shape
    if measurement.query is None:
        ordered = domain.ordered(clique)
        cells = measurement.values.reshape(shape).transpose([clique.index(name) for name in ordered])
        for part in closure([ordered]):
            out = tuple(axis for axis, name in enumerate(ordered) if name not in part)
            yield part, centered(cells.sum(axis=out)), variance * domain.size(ordered) / domain.size(part)
        return
    if not is_residual(measurement.query, domain):
        raise QueryError(
            f"the measurement of {clique} answers {measurement.query}, neither the cells nor their residual; measure "
            "whole marginals, or a ResidualStrategy."
        )
    assert isinstance(measurement.query, Kron)
    asked = tuple(measurement.query.factors)
    scale, ordered = math.prod(domain.project(asked).shape), domain.ordered(asked)
    cells = measurement.values.reshape(domain.project(asked).shape) / scale
    yield ordered, centered(cells.transpose([asked.index(name) for name in ordered])), variance / scale**2


def is_residual(query: object, domain: Domain) -> bool:
    """Whether a query is the product of n I - 1 1^T on each of its attributes."""
    return isinstance(query, Kron) and all(
        factor.columns == factor.rows == domain[name] and _is_centering(factor)
        for name, factor in query.factors.items()
    )


_known_factors: dict[int, tuple[object, bool]] = {}


def _is_centering(factor: object) -> bool:
    """Whether a factor is n I - 1 1^T; of the factors that many queries share it is found out once."""
    found = _known_factors.get(id(factor))
    if found is None or found[0] is not factor:
        matrix = np.asarray(factor.matrix())  # type: ignore[attr-defined]
        same = np.array_equal(matrix, len(matrix) * np.eye(len(matrix)) - 1.0)
        if len(_known_factors) > 1000:
            _known_factors.clear()
        found = _known_factors[id(factor)] = factor, same
    return found[1]


def centered(table: np.ndarray) -> np.ndarray:
    """The residual of a table: its mean along each axis taken off."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return np.asarray(table)


def _maximal(parts: Iterable[Clique]) -> list[Clique]:
    """The sets that are inside no other one, given that all subsets are there."""
    inside = {smaller for part in parts if part for smaller in combinations(part, len(part) - 1)}
    return [part for part in parts if part not in inside]


class _Ascent:
    """The arrays of the dual ascent, as the kernel reads them."""

    def __init__(self, residuals: Residuals, cliques: Sequence[Clique]):
        self.domain = residuals.domain
        self.index = {part: place for place, part in enumerate(residuals.parts)}
        sizes = [self.domain.size(part) for part in self.index]
        starts = np.cumsum([0, *sizes]).tolist()
        ends = np.cumsum([0, *(len(part) for part in self.index)]).tolist()
        self.parts = np.array(list(zip(starts, sizes, ends, ends[1:], strict=False)), dtype=np.int64).reshape(-1, 4)
        self.shapes = np.array([self.domain[name] for part in self.index for name in part], dtype=np.int64)
        self.residuals = np.concatenate([np.ravel(table) for table in residuals.tables.values()])
        self.spread = np.array(list(residuals.variances.values()))
        self.maps: list[np.ndarray] = []
        self.known_maps: dict[tuple, int] = {}
        self.length = 0
        rows, subsets, begin = [], [], 0
        for clique in cliques:
            first = len(subsets)
            subsets += [(self.index[part], self.map(clique, part)) for part in closure([clique])]
            cells = self.domain.size(clique)
            rows.append((begin, cells, first, len(subsets)))
            begin += cells
        self.cliques = np.array(rows, dtype=np.int64).reshape(-1, 4)
        self.subsets = np.array(subsets, dtype=np.int64).reshape(-1, 2)
        self.duals = np.zeros(begin)

    def map(self, clique: Clique, part: Clique) -> int:
        """Start of the map from the cells of a clique to those of a part; equal maps are kept once."""
        key = tuple((self.domain[name], name in part) for name in clique)
        start = self.known_maps.get(key)
        if start is None:
            shape = [size if kept else 1 for size, kept in key]
            cells = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
            start = self.known_maps[key] = self.length
            self.maps.append(np.broadcast_to(cells, [size for size, _ in key]).reshape(-1))
            self.length += math.prod(size for size, _ in key)
        return start

    def run(self, rounds: int, negative: float) -> int:
        """Ascend until no table has more negative counts than that; the number of rounds."""
        from pgmest.synthesis.kernels import raise_negative

        maps = np.concatenate(self.maps) if self.maps else np.zeros(1, dtype=np.int32)
        largest = max((int(row[1]) for row in self.cliques), default=1)
        table, change = np.empty(largest), np.empty(largest)
        for number in range(rounds):
            worst = raise_negative(
                self.cliques,
                self.subsets,
                self.parts,
                self.shapes,
                maps,
                self.residuals,
                self.duals,
                table,
                change,
                self.spread,
            )
            if worst <= negative:
                return number + 1
        return rounds

    def table(self, clique: Clique) -> Factor:
        """The marginal on a clique."""
        domain = self.domain.project(clique)
        found = np.zeros(domain.shape)
        for part in closure([clique]):
            start, cells = (int(value) for value in self.parts[self.index[part], :2])
            shape = [self.domain[name] if name in part else 1 for name in clique]
            found += self.residuals[start : start + cells].reshape(shape) * (cells / domain.size())
        return Factor.owning(domain, found)
