r"""Non-negative, consistent marginals from noisy ones for any number of attributes (GReM-LNN).

The marginal on a set of attributes is a sum of residuals, one for each subset B: its interaction of all attributes of
B. Consistent marginals correspond one to one to residuals, which are independent parameters. A noisy marginal, or a
noisy residual (`pgmest.strategies.ResidualStrategy`), estimates residuals with known variances; the weighted means
$\hat c_B$ are the least-squares solution, with variances $\tau_B^2$. The residuals that solve

.. math:: \min \sum_B \lVert c_B - \hat c_B \rVert^2 / 2 \tau_B^2 \quad \text{subject to} \quad \mu_C = \sum_{B
          \subseteq C} c_B \otimes 1 / n_{C \setminus B} \ge 0

for all cliques C are found by block coordinate ascent on the dual, one clique after the other: for multipliers
$\lambda_C \ge 0$ the residuals are $\hat c_B + \tau_B^2 \sum_{C \supseteq B}$ (the residual of $\lambda_C$ on B).
No junction tree is needed, so treewidth is no limit. A distribution that has all these marginals need not exist.

Source: Mullins, Fuentes, Xiao, Kifer, Musco, Sheldon 2024, Efficient and private marginal reconstruction with local
non-negativity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pgmest._base.memory import check_room
from pgmest.errors import QueryError, at_least
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.queries.kron import Kron
from pgmest.solvers.total import estimate_total
from pgmest.tables.domain import Clique, Domain, as_domain
from pgmest.tables.factor import Factor
from pgmest.workloads.workload import closure


@dataclass(frozen=True, eq=False)
class LocalMarginals:
    """Consistent tables, and the negative counts that remain in them.

    Attributes:
        tables: tables of counts, one for each maximal clique, all summing to the total.
        negative: the largest sum of negative counts in a table, as a fraction of the total, at least 0.
        rounds: the number of passes over all tables.
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
    """Return the consistent, non-negative marginals nearest to noisy ones, in least squares weighted by their noise.

    >>> noisy = [LinearMeasurement([[6.0, -2.0], [1.0, 5.0]], ("a", "b")), LinearMeasurement([4.0, 6.0], "b")]
    >>> found = locally_nonnegative(noisy, {"a": 2, "b": 2}, total=10)
    >>> found.tables[0].values.round(2) + 0
    array([[4.75, 0.  ],
           [0.  , 5.25]])

    Args:
        measurements: measurements of whole marginals, or of residuals, in counts.
        domain: the attributes.
        total: the number of records; by default it is estimated with the marginals.
        rounds: the largest number of passes over all tables; with 0 the tables are consistent and keep negative counts.
        tolerance: negative counts may remain if their sum in each table is at most this fraction of the total.

    Raises:
        QueryError: a measurement has another query, or a residual was measured without those of all subsets.
        UnknownAttributeError, ShapeError, TotalError: the measurements do not fit the domain.
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
    if rounds and size < 0:  # non-negative tables cannot sum to a negative estimate of the total: fix the total instead
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
        tables: set of attributes, in domain order -> its residual, in counts, with mean 0 along each axis.
        variances: set of attributes -> the variance of its residual's noise in each direction of the residual's space.
    """

    domain: Domain
    tables: Mapping[Clique, np.ndarray]
    variances: Mapping[Clique, float]

    @classmethod
    def of(cls, measurements: Sequence[LinearMeasurement], domain: Domain, total: float | None = None) -> Residuals:
        """Return the means of the measured residuals, weighted by precision; a given total is exact.

        Raises:
            QueryError: a measurement is neither of a marginal nor of a residual, a residual of a subset is missing, or
                there are no measurements and no total.
        """
        sums: dict[Clique, np.ndarray] = {}
        precisions: dict[Clique, float] = {}
        for measurement in measurements:
            for part, table, variance in _residuals_of(measurement, domain):
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
                        "the residuals on all subsets, or give total=."
                    )
        if () not in tables:
            raise QueryError("nothing was measured; give at least one measurement, or total=.")
        return cls(domain, tables, variances)

    @property
    def parts(self) -> tuple[Clique, ...]:
        """The sets of attributes of the residuals."""
        return tuple(self.tables)


def _residuals_of(measurement: LinearMeasurement, domain: Domain) -> Iterable[tuple[Clique, np.ndarray, float]]:
    """Yield the residuals that a measurement estimates: attributes, residual and the variance of its noise."""
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
    """Return whether a query is the Kronecker product of n I - 1 1^T on each of its attributes."""
    return isinstance(query, Kron) and all(
        factor.cells == factor.rows == domain[name] and _is_centering(factor) for name, factor in query.factors.items()
    )


CACHED_FACTORS = 1000
"""The number of factors whose result `_is_centering` keeps."""

_checked_factors: dict[int, tuple[object, bool]] = {}


def _is_centering(factor: object) -> bool:
    """Return whether a factor is n I - 1 1^T; the result is cached, because many queries share a factor."""
    found = _checked_factors.get(id(factor))
    if found is None or found[0] is not factor:
        matrix = np.asarray(factor.matrix())  # type: ignore[attr-defined]
        same = np.array_equal(matrix, len(matrix) * np.eye(len(matrix)) - 1.0)
        if len(_checked_factors) > CACHED_FACTORS:
            _checked_factors.clear()
        found = _checked_factors[id(factor)] = factor, same
    return found[1]


def centered(table: np.ndarray) -> np.ndarray:
    """Return the residual of a table: the table minus its mean along each axis."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return np.asarray(table)


def _maximal(parts: Iterable[Clique]) -> list[Clique]:
    """Return the maximal sets of a family that contains all subsets of its members."""
    inside = {smaller for part in parts if part for smaller in combinations(part, len(part) - 1)}
    return [part for part in parts if part not in inside]


class _Ascent:
    """The arrays of the dual ascent, as the kernel `ascend_dual` reads them."""

    def __init__(self, residuals: Residuals, cliques: Sequence[Clique]):
        self.domain = residuals.domain
        self.index = {part: place for place, part in enumerate(residuals.parts)}
        sizes = [self.domain.size(part) for part in self.index]
        starts = np.cumsum([0, *sizes]).tolist()
        ends = np.cumsum([0, *(len(part) for part in self.index)]).tolist()
        self.parts = np.array(list(zip(starts, sizes, ends, ends[1:], strict=False)), dtype=np.int64).reshape(-1, 4)
        self.shapes = np.array([self.domain[name] for part in self.index for name in part], dtype=np.int64)
        self.residuals = np.concatenate([np.ravel(table) for table in residuals.tables.values()])
        self.variances = np.array(list(residuals.variances.values()))
        self.maps: list[np.ndarray] = []
        self.map_starts: dict[tuple, int] = {}
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
        """Return the start of the map from the cells of a clique to those of a part; equal maps are stored once."""
        key = tuple((self.domain[name], name in part) for name in clique)
        start = self.map_starts.get(key)
        if start is None:
            shape = [size if kept else 1 for size, kept in key]
            cells = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
            start = self.map_starts[key] = self.length
            self.maps.append(np.broadcast_to(cells, [size for size, _ in key]).reshape(-1))
            self.length += math.prod(size for size, _ in key)
        return start

    def run(self, rounds: int, negative: float) -> int:
        """Ascend until the negative counts of each table sum to at most `negative`; return the number of rounds."""
        from pgmest.synthesis.kernels import ascend_dual

        maps = np.concatenate(self.maps) if self.maps else np.zeros(1, dtype=np.int32)
        largest = max((int(row[1]) for row in self.cliques), default=1)
        table, change = np.empty(largest), np.empty(largest)
        for number in range(rounds):
            worst = ascend_dual(
                self.cliques,
                self.subsets,
                self.parts,
                self.shapes,
                maps,
                self.residuals,
                self.duals,
                table,
                change,
                self.variances,
            )
            if worst <= negative:
                return number + 1
        return rounds

    def table(self, clique: Clique) -> Factor:
        """Return the marginal on a clique, in counts."""
        domain = self.domain.project(clique)
        found = np.zeros(domain.shape)
        for part in closure([clique]):
            start, cells = (int(value) for value in self.parts[self.index[part], :2])
            shape = [self.domain[name] if name in part else 1 for name in clique]
            found += self.residuals[start : start + cells].reshape(shape) * (cells / domain.size())
        return Factor.owning(domain, found)
