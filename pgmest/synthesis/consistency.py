"""Noisy tables that overlap, made to agree: averaging over what they share, and no negative counts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest._base.errors import ArgumentError, QueryError, at_least
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
    r"""The measured tables, changed as little as makes them agree exactly wherever they overlap (PriView, PrivSyn).

    For each set A of attributes that tables share, smallest first, the tables' marginals on A are averaged with weights
    $n_A / (n_i \sigma_i^2)$, the inverse of their variances for tables of $n_i$ cells, and each table is moved evenly
    to the average. In that order no step undoes an earlier one, and the result is the weighted least-squares solution:
    of all tables that agree and sum to the total, the one of least $\sum_i \lVert x_i - y_i \rVert^2 / \sigma_i^2$.
    Negative counts are then removed from each table by `norm_sub`, which unsettles the agreement, and so on in turns.

    >>> a = LinearMeasurement([6.0, 4.0], "a")
    >>> ab = LinearMeasurement([[2.0, 2.0], [3.0, 3.0]], ("a", "b"))
    >>> first, second = consistent_tables([a, ab], {"a": 2, "b": 2}, total=10)
    >>> [round(float(x), 3) for x in first.values], [round(float(x), 3) for x in second.project(("a",)).values]
    ([5.333, 4.667], [5.333, 4.667])

    Args:
        measurements: of whole tables (identity queries), in counts.
        domain: the attributes.
        total: the number of records; by default the best estimate from the measurements.
        rounds: the most turns; 0 for agreement only, with negative counts.
        tolerance: negative counts that sum to at most this share of the total in each table are left there.

    Returns:
        a table per measurement, in the order and with the axes of the measurements, all summing to the total. They
        agree to rounding, and are negative at most by the tolerance where `rounds` sufficed.

    Raises:
        QueryError: a measurement with a query other than identity.
        TotalError, UnknownAttributeError, MeasurementShapeError: the measurements do not fit the domain.
    """
    known, noisy = as_domain(domain), list(measurements)
    for measurement in noisy:
        measurement.check(known)
        if measurement.query is not None:
            raise QueryError(f"the measurement of {measurement.clique} answers {measurement.query}, not the cells.")
    from pgmest.synthesis.kernels import most_negative, onto_simplexes

    rounds = at_least("rounds", rounds, 0)
    size = estimate_total(noisy, known).value if total is None else float(total)
    cliques = [known.ordered(m.clique) for m in noisy]
    flat, starts, tables = _laid_out(noisy, cliques, known)
    weights = [1 / float(np.mean(np.square(measurement.stddev))) for measurement in noisy]
    steps = [_Agreement.on(shared, cliques, known, weights) for shared in shared_sets(cliques)]
    for turn in range(rounds + 1):
        _agree(tables, steps, size)
        if turn == rounds or not tables or most_negative(flat, starts) <= tolerance * size:
            break
        onto_simplexes(flat, starts, size)
    return [
        Factor(known.project(clique), table).transpose(m.clique)
        for m, clique, table in zip(noisy, cliques, tables, strict=True)
    ]


def _laid_out(
    noisy: Sequence[LinearMeasurement], cliques: Sequence[Clique], domain: Domain
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """The noisy tables one after the other, where each starts, and each as a part of that array."""
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
    """The nearest table, in l2, without negative counts and with this sum: one amount off every count, cut at 0.

    >>> norm_sub(np.array([5.0, 3.0, -1.0]), 6.0)
    array([4., 2., 0.])

    Raises:
        ArgumentError: the total is negative.
    """
    if total < 0:
        raise ArgumentError.of("total", total, "at least 0")
    return onto_simplex(values, total)


def shared_sets(cliques: Sequence[Iterable[str]]) -> list[Clique]:
    """What two or more cliques have in common, and what these sets have in common, and (); smallest first.

    >>> shared_sets([("a", "b"), ("b", "c"), ("a", "b", "d")])
    [(), ('b',), ('a', 'b')]
    """
    order = {name: place for place, name in enumerate(dict.fromkeys(itertools.chain(*cliques)))}
    sets = [frozenset(clique) for clique in cliques]
    found = {frozenset[str]()} | {one & other for one, other in itertools.combinations(sets, 2)}
    fresh = set(found)
    while fresh:
        fresh = {one & other for one in fresh for other in found} - found
        found |= fresh
    named = [tuple(sorted(shared, key=order.__getitem__)) for shared in found]
    return sorted(named, key=lambda clique: (len(clique), [order[name] for name in clique]))


@dataclass(frozen=True, eq=False)
class _Agreement:
    """The tables that share some attributes: for each its position, the axes to sum out, and its weight here."""

    shape: tuple[int, ...]
    members: list[tuple[int, tuple[int, ...], float, float]]

    @classmethod
    def on(cls, shared: Clique, cliques: Sequence[Clique], domain: Domain, weights: Sequence[float]) -> _Agreement:
        members = []
        for place, clique in enumerate(cliques):
            if set(shared) <= set(clique):
                out = tuple(axis for axis, name in enumerate(clique) if name not in shared)
                summed = domain.size(clique) / domain.size(shared)
                members.append((place, out, summed, weights[place] / summed))
        return cls(domain.project(domain.ordered(shared)).shape, members)


def _agree(tables: list[np.ndarray], steps: Sequence[_Agreement], total: float) -> None:
    """Move the tables, in place, to the nearest ones that agree and sum to the total."""
    for step in steps:
        sums = [tables[place].sum(axis=out) for place, out, _, _ in step.members]
        if step.shape:
            share = sum(weight for _, _, _, weight in step.members)
            goal = sum(weight * x for x, (_, _, _, weight) in zip(sums, step.members, strict=True)) / share
        else:
            goal = np.array(total)
        for here, (place, out, summed, _) in zip(sums, step.members, strict=True):
            tables[place] += np.expand_dims((goal - here) / summed, out)
