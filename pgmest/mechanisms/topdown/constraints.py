"""Constraints: answers that are known exactly or lie between two ends, and cells that are impossible, by area.

A constraint about areas of one level says something about all areas above: their answers lie between the sums of the
ends. These implied constraints are held from the root down, so that children can hold their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from pgmest.errors import ArgumentError, QueryError
from pgmest.inference.exact.structural_zeros import Rule
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.topdown.spine import Spine
from pgmest.queries import Kron
from pgmest.queries.matrices import SparseQuery
from pgmest.tables.domain import Domain

MET = 1e-6
"""An answer within this distance of its ends, relative to answers above 1, holds them."""


@dataclass(frozen=True, eq=False)
class Limits:
    """The constraints of the areas of a level.

    Attributes:
        rows: the queries on detail cells, shape (rows, cells).
        low, high: the ends of their answers in each area, infinite without one, shape (areas, rows).
        possible: the cells that may have records, shape (areas, cells).
    """

    rows: np.ndarray
    low: np.ndarray
    high: np.ndarray
    possible: np.ndarray

    @cached_property
    def hard(self) -> np.ndarray:
        """True for rows whose answer is known in every area of the level, shape (rows,)."""
        return (self.low == self.high).all(axis=0)

    def held(self) -> Limits:
        """Return the limits without rows that say nothing but that counts are not negative."""
        empty = (self.low <= 0.0) & np.isinf(self.high) & (self.rows >= 0.0).all(axis=1)
        kept = ~(empty | (np.isinf(self.low) & np.isinf(self.high))).all(axis=0)
        return Limits(self.rows[kept], self.low[:, kept], self.high[:, kept], self.possible)

    def missed(self, tables: np.ndarray) -> np.ndarray:
        """Return the distance of each answer from its ends, 0 between them; shape (areas, rows)."""
        answers = tables @ self.rows.T
        off = np.maximum(np.maximum(self.low - answers, answers - self.high), 0.0)
        return np.where(off <= MET * np.maximum(1.0, np.abs(answers)), 0.0, off)

    @cached_property
    def totals(self) -> np.ndarray:
        """True for the rows that count all records, of which there is at most one, shape (rows,)."""
        return (self.rows == 1.0).all(axis=1)

    def with_totals(self, tables: np.ndarray) -> Limits:
        """Return the limits in which the total of each area is that of its table."""
        kept, total = ~self.totals, tables.sum(axis=1, keepdims=True)
        low, high = (np.concatenate([end[:, kept], total], axis=1) for end in (self.low, self.high))
        return Limits(np.concatenate([self.rows[kept], np.ones((1, self.rows.shape[1]))]), low, high, self.possible)

    def of(self, areas: slice) -> Limits:
        """Return the limits of some areas."""
        return Limits(self.rows, self.low[areas], self.high[areas], self.possible[areas])


class _Collected:
    """The constraints of a level while they are collected: queries by their entries, and ends."""

    def __init__(self, areas: int) -> None:
        self.areas = areas
        self.places: dict[bytes, int] = {}
        self.rows: list[np.ndarray] = []
        self.low: list[np.ndarray] = []
        self.high: list[np.ndarray] = []

    def add(self, row: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        """Add ends of a query's answers; of two ends, the narrower one holds. All have shape (areas,)."""
        if row[np.flatnonzero(row)[:1]].sum() < 0.0:  # so that bounds above and below are about one row
            row, low, high = -row, -high, -low
        row = row + 0.0  # so that -0.0 and 0.0 are one key
        place = self.places.setdefault(row.tobytes(), len(self.rows))
        if place == len(self.rows):
            self.rows.append(row)
            self.low.append(np.full(self.areas, 0.0 if (row >= 0.0).all() else -np.inf))
            self.high.append(np.full(self.areas, np.inf))
        self.low[place] = np.maximum(self.low[place], low)
        self.high[place] = np.minimum(self.high[place], high)

    def limits(self, cells: int, possible: np.ndarray) -> Limits:
        if not self.rows:
            nothing = np.zeros((self.areas, 0))
            return Limits(np.zeros((0, cells)), nothing, nothing, possible)
        return Limits(np.stack(self.rows), np.stack(self.low, axis=1), np.stack(self.high, axis=1), possible).held()


def limits_of(
    spine: Spine,
    domain: Domain,
    detail: Domain,
    known: Iterable[LinearMeasurement],
    rules: Sequence[Rule],
    total: float | None,
) -> list[Limits]:
    """Return the constraints of each level, from the root to the leaves.

    Args:
        spine: the tree of areas.
        domain, detail: all attributes, and those besides the areas.
        known: answers without noise, exact or between two ends.
        rules: the structural zeros.
        total: the number of records, if it is known.

    Raises:
        ArgumentError, QueryError: an answer has noise, is not about areas of the spine, or contradicts others.
        UnknownAttributeError, ShapeError: an answer does not fit the domain.
    """
    levels = range(len(spine.names))
    collected = [_Collected(spine.size(level)) for level in levels]
    for measurement in known:
        _collect(collected, spine, domain, detail, measurement.without_levels(domain))
    if total is not None:
        collected[0].add(np.ones(detail.size()), np.array([total]), np.array([total]))
    for level in reversed(levels[1:]):
        parents, below = spine.parents(level), collected[level]
        for row, low, high in zip(below.rows, below.low, below.high, strict=True):
            sums = np.zeros((2, spine.size(level - 1)))
            np.add.at(sums[0], parents, low)
            np.add.at(sums[1], parents, high)
            collected[level - 1].add(row, *sums)
    possible = _possible(spine, domain, detail, rules)
    found = [one.limits(detail.size(), cells) for one, cells in zip(collected, possible, strict=True)]
    for level, limits in enumerate(found):
        _check(limits, spine.names[level])
    return found


def _check(limits: Limits, level: str) -> None:
    """Raise ArgumentError if ends contradict each other, or no table of possible cells is between them."""
    positive = (limits.rows >= 0.0).all(axis=1)
    room = (limits.possible.astype(np.float64) @ limits.rows.T) > 0.0
    apart = limits.low - limits.high > MET * np.maximum(1.0, np.abs(limits.high))
    broken = apart | (positive & ((limits.high < -MET) | (~room & (limits.low > MET))))
    if broken.any():
        area, row = np.argwhere(broken)[0]
        raise ArgumentError(
            f"what is known about the areas of level '{level}' is contradictory: answers of at least "
            f"{limits.low[area, row]:g} and at most {limits.high[area, row]:g} to one query. Check invariants= "
            "and structural_zeros=; answers about smaller areas must add up to those about larger ones."
        )


def _possible(spine: Spine, domain: Domain, detail: Domain, rules: Sequence[Rule]) -> list[np.ndarray]:
    """Return, for each level, the cells that may have records in each area, shape (areas, cells)."""
    names = (spine.attribute, *detail.attributes)
    shape = domain.project(names).shape
    possible = np.ones(shape, dtype=bool)
    for rule in rules:
        clique = domain.clique(rule.attributes)
        order = sorted(range(len(clique)), key=lambda axis: names.index(clique[axis]))
        mask = np.asarray(rule.mask(domain)).transpose(order)
        absent = tuple(axis for axis, name in enumerate(names) if name not in clique)
        possible &= ~np.expand_dims(mask, absent)
    cells = possible.reshape(shape[0], -1)
    found = []
    for level, groups in enumerate(spine.groups):
        allowed = np.zeros((spine.size(level), cells.shape[1]), dtype=bool)
        if rules:
            np.logical_or.at(allowed, groups, cells)
        else:
            allowed[:] = True
        found.append(allowed)
    return found


def _collect(
    collected: Sequence[_Collected], spine: Spine, domain: Domain, detail: Domain, measurement: LinearMeasurement
) -> None:
    """Add the ends of a measurement to the level of its areas."""
    if measurement.low is None or measurement.high is None:
        raise ArgumentError(f"{measurement!r} has noise: give exact answers or bounds as invariants=.")
    measurement.check(domain)
    for rows, by_area, low, high in _products(measurement, spine, domain, detail):
        levels, areas = _areas(spine, by_area, measurement)
        for level in np.unique(levels):
            chosen, one = levels == level, collected[level]
            for place, row in enumerate(rows):
                ends = np.full(one.areas, -np.inf), np.full(one.areas, np.inf)
                np.maximum.at(ends[0], areas[chosen], low[chosen, place])
                np.minimum.at(ends[1], areas[chosen], high[chosen, place])
                one.add(row, *ends)


Product = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Rows on detail cells, shape (queries, cells); rows on the values of the attribute of areas, shape (sums, values); and
the low and the high ends of the answers to their products, shape (sums, queries), infinite without one."""


def _products(measurement: LinearMeasurement, spine: Spine, domain: Domain, detail: Domain) -> Iterator[Product]:
    """Yield the queries of a measurement as products of queries on detail cells and of sums of areas."""
    query, low, high = _of_cells(measurement)
    if query is not None and not isinstance(query, Kron):
        yield from _products_of_matrix(measurement, query, spine, domain, detail)
        return
    clique = measurement.clique
    factors = {name: np.eye(domain[name]) for name in clique}
    if query is not None:
        factors = {name: matrix.matrix() for name, matrix in query.factors.items()}
    given = list(factors)
    axes = [given.index(name) for name in (spine.attribute, *detail.attributes) if name in factors]
    own = [factors[name] if name in factors else np.ones((1, size)) for name, size in detail.items()]
    by_area = factors.get(spine.attribute, np.ones((1, domain[spine.attribute])))
    shape, count = [len(factors[name]) for name in given], len(by_area)
    low, high = (end.reshape(shape).transpose(axes).reshape(count, -1) for end in (low, high))
    yield reduce(np.kron, own, np.ones((1, 1))), by_area, low, high


def _of_cells(measurement: LinearMeasurement) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return query and ends of a measurement; where each row reads one cell, as in `at_most`, those of the table."""
    query: Any = measurement.query
    ends = np.array([measurement.low, measurement.high])
    if query is None or isinstance(query, Kron):
        return query, *ends
    entries: Any = csr_array(query.values if isinstance(query, SparseQuery) else query.matrix(), copy=True)
    entries.eliminate_zeros()
    if (np.diff(entries.indptr) != 1).any():
        return entries, *ends
    ends = np.sort(ends / entries.data, axis=0)
    low, high = np.full(query.cells, -np.inf), np.full(query.cells, np.inf)
    np.maximum.at(low, entries.indices, ends[0])
    np.minimum.at(high, entries.indices, ends[1])
    return None, low, high


def _products_of_matrix(
    measurement: LinearMeasurement, entries: Any, spine: Spine, domain: Domain, detail: Domain
) -> Iterator[Product]:
    """Yield the product that each row of a matrix over all cells of a clique must be.

    Raises:
        QueryError: a row asks different queries in different areas.
    """
    names, clique = (spine.attribute, *detail), measurement.clique
    order = [clique.index(name) for name in names if name in clique]
    absent = tuple(axis for axis, name in enumerate(names) if name not in clique)
    for place, ends in enumerate(np.array([measurement.low, measurement.high]).T):
        table = entries[[place]].toarray().reshape(domain.project(clique).shape).transpose(order)
        table = np.broadcast_to(np.expand_dims(table, absent), domain.project(names).shape)
        table = table.reshape(domain[spine.attribute], -1)
        asked = table.any(axis=1)
        row = table[asked.argmax()]
        if not np.array_equal(table, np.outer(asked, row)):
            raise QueryError(
                f"{measurement!r} asks different queries in different areas: give one measurement for each of them."
            )
        yield row[None], np.where(asked.any(), asked, True)[None].astype(np.float64), ends[:1, None], ends[1:, None]


def _areas(spine: Spine, by_area: np.ndarray, measurement: LinearMeasurement) -> tuple[np.ndarray, np.ndarray]:
    """Return the level and the area of each row of a matrix over the values of the attribute of areas.

    The level is the same for all rows if it can be, and then the finest such level.
    """
    found = [spine.areas_of(row == 1.0) if np.isin(row, (0.0, 1.0)).all() else {} for row in by_area]
    if not all(found):
        raise QueryError(
            f"{measurement!r} counts records of values of '{spine.attribute}' that are no area of the spine "
            f"({' > '.join(spine.names)}): give answers about the areas of its levels."
        )
    common = set.intersection(*(set(areas) for areas in found))
    levels = [max(common) if common else max(areas) for areas in found]
    return np.array(levels), np.array([areas[level] for areas, level in zip(found, levels, strict=True)])
