"""Consistency of overlapping noisy tables: averages over shared attributes, and non-negative counts."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.errors import ArgumentError, QueryError, at_least
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.solvers.total import estimate_total
from pgmest.tables.domain import Clique, Domain, as_domain
from pgmest.tables.factor import Factor
from pgmest.tables.simplex import onto_simplex


def consistent_tables(
    measurements: Iterable[LinearMeasurement],
    domain: Domain | Mapping[str, int],
    *,
    total: float | None = None,
    rounds: int = 100,
    tolerance: float = 1e-3,
) -> list[Factor]:
    r"""Return the measured tables after the least change that makes them consistent (PriView, PrivSyn).

    For each set A of attributes that tables share, smallest first, the tables' marginals on A are averaged with weights
    $n_A / (n_i \sigma_i^2)$, the inverse variances for tables of $n_i$ cells. Each table then gets the average as its
    marginal, by adding the same amount to all cells of a group. In that order no step undoes an earlier one, and the
    result is the weighted least-squares solution: among all consistent tables that sum to the total, it minimizes
    $\sum_i \lVert x_i - y_i \rVert^2 / \sigma_i^2$. Then `norm_sub` removes negative counts from each table. This
    disturbs consistency, so the two steps alternate.

    >>> a = LinearMeasurement([6.0, 4.0], "a")
    >>> ab = LinearMeasurement([[2.0, 2.0], [3.0, 3.0]], ("a", "b"))
    >>> first, second = consistent_tables([a, ab], {"a": 2, "b": 2}, total=10)
    >>> [round(float(x), 3) for x in first.values], [round(float(x), 3) for x in second.project(("a",)).values]
    ([5.333, 4.667], [5.333, 4.667])

    Args:
        measurements: measurements of whole tables (identity queries), in counts.
        domain: the attributes.
        total: the number of records; by default the best estimate from the measurements.
        rounds: the largest number of alternations; with 0 tables are made consistent once and keep negative counts.
        tolerance: negative counts may remain if their sum in each table is at most this fraction of the total.

    Returns:
        one table for each measurement, in the order and with the axes of the measurements, all summing to the total.
        They are consistent to rounding error, and non-negative up to the tolerance if `rounds` sufficed.

    Raises:
        QueryError: a measurement has a query other than identity.
        ArgumentError: the total is negative.
        TotalError, UnknownAttributeError, ShapeError: the measurements do not fit the domain.
    """
    known, noisy = as_domain(domain), list(measurements)
    for measurement in noisy:
        measurement.check(known)
        if measurement.query is not None:
            raise QueryError(
                f"the measurement of {measurement.clique} answers {measurement.query}; measure the cells (query=None)."
            )
    from pgmest.synthesis.kernels import agree, most_negative, onto_simplexes

    rounds = at_least("rounds", rounds, 0)
    size = max(0.0, estimate_total(noisy, known).value) if total is None else float(total)
    if not size >= 0:
        raise ArgumentError.of("total", total, "at least 0")
    cliques = [known.ordered(m.clique) for m in noisy]
    flat, starts, tables = _flat_tables(noisy, cliques, known)
    weights = [1 / float(np.mean(np.square(measurement.stddev))) for measurement in noisy]
    agreement = _Agreement.of(cliques, known, weights, starts)
    for turn in range(rounds + 1):
        agree(flat, *agreement.arrays, size, *agreement.space)
        if turn == rounds or not tables or most_negative(flat, starts) <= tolerance * size:
            break
        onto_simplexes(flat, starts, size)
    return [
        Factor(known.project(clique), table).transpose(m.clique)
        for m, clique, table in zip(noisy, cliques, tables, strict=True)
    ]


def _flat_tables(
    noisy: Sequence[LinearMeasurement], cliques: Sequence[Clique], domain: Domain
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return the noisy tables in one flat array, the start of each in the array, and each as a view of the array."""
    starts = np.cumsum([0, *(domain.size(clique) for clique in cliques)], dtype=np.int64)
    flat = np.empty(int(starts[-1]))
    tables = []
    for m, clique, start in zip(noisy, cliques, starts, strict=False):
        table = domain.project(m.clique)
        values = Factor.owning(table, m.values.reshape(table.shape)).transpose(clique).values
        tables.append(flat[start : start + values.size].reshape(values.shape))
        tables[-1][...] = values
    return flat, starts, tables


def norm_sub(values: np.ndarray, total: float) -> np.ndarray:
    """Return the nearest table, in l2, that has no negative count and sums to `total` (see `onto_simplex`).

    >>> norm_sub(np.array([5.0, 3.0, -1.0]), 6.0)
    array([4., 2., 0.])

    Raises:
        ArgumentError: the total is negative.
    """
    if total < 0:
        raise ArgumentError.of("total", total, "at least 0")
    return onto_simplex(values, total)


def shared_sets(cliques: Sequence[Iterable[str]]) -> list[Clique]:
    """Return the intersections of any two or more cliques, and the empty set; smallest first.

    >>> shared_sets([("a", "b"), ("b", "c"), ("a", "b", "d")])
    [(), ('b',), ('a', 'b')]
    """
    order = {name: place for place, name in enumerate(dict.fromkeys(itertools.chain(*cliques)))}
    holders = _holders([frozenset(clique) for clique in cliques])
    found = {frozenset[str]()}
    for sets in holders.values():
        found |= {one & other for (_, one), (_, other) in itertools.combinations(sets, 2)}
    fresh = set(found)
    while fresh:
        fresh = {one & other for one in fresh for other in found} - found
        found |= fresh
    named = [tuple(sorted(shared, key=order.__getitem__)) for shared in found]
    return sorted(named, key=lambda clique: (len(clique), [order[name] for name in clique]))


def _holders(sets: Sequence[frozenset[str]]) -> dict[str, list[tuple[int, frozenset[str]]]]:
    """Return, for each attribute, the sets that contain it, each after its position."""
    found: dict[str, list[tuple[int, frozenset[str]]]] = defaultdict(list)
    for position, one in enumerate(sets):
        for name in one:
            found[name].append((position, one))
    return found


@dataclass(frozen=True, eq=False)
class _Agreement:
    """The tables that share attributes, as the kernel `agree` reads them.

    Attributes:
        arrays: the kernel's steps, members, weights, sizes and strides.
        space: the kernel's workspace.
    """

    arrays: tuple[np.ndarray, ...]
    space: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, cliques: Sequence[Clique], domain: Domain, weights: Sequence[float], starts: np.ndarray) -> _Agreement:
        """Return the arrays for tables that are stored one after the other, each of a clique in domain order."""
        sets = [frozenset(clique) for clique in cliques]
        everyone, holders = list(enumerate(sets)), _holders(sets)
        steps, members, shares = [], [], []
        runs: list[tuple[int, int]] = []
        for shared in shared_sets(cliques):
            cells, first = domain.size(shared), len(members)
            inside = frozenset(shared)
            for place, clique in min((holders[name] for name in shared), key=len, default=everyone):
                if inside <= clique:
                    begin, end, run = int(starts[place]), int(starts[place + 1]), len(runs)
                    runs += _runs(cliques[place], inside, domain)
                    members.append((begin, end, run, len(runs)))
                    shares.append(weights[place] * cells / (end - begin))
            steps.append((cells, first, len(members)))
        sizes, strides = np.array(runs, dtype=np.int64).reshape(-1, 2).T.copy()
        work = max(cells * (last - first) for cells, first, last in steps)
        rows = max((stop - run for _, _, run, stop in members), default=0)
        return cls(
            (
                np.array(steps, dtype=np.int64),
                np.array(members, dtype=np.int64).reshape(-1, 4),
                np.array(shares, dtype=np.float64),
                sizes,
                strides,
            ),
            (np.empty(max(cells for cells, _, _ in steps)), np.empty(work), np.empty(rows, dtype=np.int64)),
        )


def _runs(clique: Clique, shared: frozenset[str], domain: Domain) -> list[tuple[int, int]]:
    """Return a table's axes as runs of adjacent axes that are all shared, or all summed out.

    Each run is its number of cells and its stride in the marginal on the shared attributes, 0 if it is summed out.

    >>> _runs(("a", "b", "c"), frozenset("bc"), Domain({"a": 2, "b": 3, "c": 4}))
    [(2, 0), (12, 1)]
    """
    found: list[tuple[int, int]] = []
    cells = 1
    for kept, names in itertools.groupby(reversed(clique), shared.__contains__):
        size = domain.size(tuple(names))
        found.append((size, cells if kept else 0))
        cells *= size if kept else 1
    return found[::-1] or [(1, 0)]
