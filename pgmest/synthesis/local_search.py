"""Records changed code by code until they have all tables as far as these agree."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest._base.errors import ArgumentError, at_least
from pgmest.data.dataset import Dataset
from pgmest.synthesis.gum import Callback
from pgmest.synthesis.pair_descent import PairDescent
from pgmest.synthesis.starts import STARTS, as_rows
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

ENOUGH = 1e-3
"""No further sweep where so few codes changed in one."""

NEAR_CELLS = 1 << 17
"""Tables of pairs that have more cells in all (8 MB as `Descent` holds them) are not read for each record, but
attribute after attribute."""


@dataclass(frozen=True, kw_only=True)
class LocalSearch:
    r"""Coordinate descent on the distance between the records' tables and those that are wanted.

    With counts c of the records in the cells, and t wanted, the distance is the sum of (c - t)^2 / sqrt(t + 1) over
    the cells of all tables. Each code of each record in turn becomes the one with which it is least, all others being
    as they are. So it never grows, however many tables there are; gradual updates (`GradualUpdate`), which look at one
    table at a time, undo what others had: with all pairs of twenty attributes records end further off than a tree's.
    Where the tables are pairs and too many for the cache, all records are given their codes of one attribute, then of
    the next (`PairDescent`): the same descent in another order.

    Args:
        sweeps: how often all records are looked at, at most; fewer where hardly a code changes.
        start: the first records: "tree", by a tree of those tables whose attributes depend on each other most, or
            "independent", each attribute by itself. Codes change one at a time, so what can only change together must
            be right from there.

    Raises:
        ArgumentError: a parameter out of its range.
    """

    sweeps: int = 10
    start: str = "tree"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sweeps", at_least("sweeps", self.sweeps, 1))
        if self.start not in STARTS:
            raise ArgumentError.of("start", self.start, tuple(STARTS))

    def records(
        self,
        tables: Sequence[Factor],
        domain: Domain,
        n: int,
        generator: np.random.Generator,
        callback: Callback | None = None,
    ) -> list[np.ndarray]:
        """Arguments and result as for `GradualUpdate.records`."""
        rows = as_rows(STARTS[self.start](tables, domain, n, generator), domain)
        self._change(rows, domain, tables, generator, callback)
        return [np.ascontiguousarray(rows[:, axis]) for axis in range(len(domain))]

    def improved(self, records: Dataset, tables: Sequence[Factor], generator: np.random.Generator) -> Dataset:
        """These records, changed until they are closer to the tables; none enters a cell where a table has exactly 0.

        Args:
            records: without weights.
            tables: of counts, over attributes of the records; negative ones count as 0.
            generator: for the order.
        """
        if not records.records or not len(records.domain):
            return records
        rows = as_rows([np.asarray(column) for column in records.columns], records.domain)
        start = rows.copy()
        self._change(rows, records.domain, tables, generator, None)
        for table in tables:
            axes = records.domain.axes(table.domain)
            entered = table.values[tuple(rows[:, axis] for axis in axes)] == 0.0
            rows[entered] = start[entered]
        columns = [np.ascontiguousarray(rows[:, axis]) for axis in range(rows.shape[1])]
        return Dataset.from_codes(columns, records.domain, trusted=True)

    def _change(
        self,
        rows: np.ndarray,
        domain: Domain,
        tables: Sequence[Factor],
        generator: np.random.Generator,
        callback: Callback | None,
    ) -> None:
        """Change records, shape (records, attributes), in place."""
        n = len(rows)
        if sum(table.values.size for table in tables) > NEAR_CELLS and all(len(t.domain) == 2 for t in tables):
            self._change_by_attribute(rows, domain, tables, generator, callback)
            return
        descent = Descent.of(rows, domain, [Goal(t.domain.attributes, _wanted(t.values, n)) for t in tables])
        self._repeat(
            lambda: descent.sweep(rows, generator.permutation(n)), lambda: descent.mean_error(n), rows.size, callback
        )

    def _change_by_attribute(
        self,
        rows: np.ndarray,
        domain: Domain,
        tables: Sequence[Factor],
        generator: np.random.Generator,
        callback: Callback | None,
    ) -> None:
        """The same by `PairDescent`, which takes the records in one random order for all sweeps."""
        n = len(rows)
        wanted = [_wanted(table.values, n) for table in tables]
        descent, order = PairDescent.of(tables, domain, wanted), generator.permutation(n)
        shuffled = rows[order]
        self._repeat(
            lambda: descent.sweep(shuffled),
            lambda: _mean_error(shuffled, domain, tables, wanted),
            rows.size,
            callback,
        )
        rows[order] = shuffled

    def _repeat(
        self, sweep: Callable[[], int], error: Callable[[], float], codes: int, callback: Callback | None
    ) -> None:
        """Sweep until hardly a code changes."""
        for number in range(1, self.sweeps + 1):
            changed = sweep()
            if callback is not None:
                callback(number, error())
            if changed <= ENOUGH * codes:
                break


def _mean_error(rows: np.ndarray, domain: Domain, tables: Sequence[Factor], wanted: Sequence[np.ndarray]) -> float:
    """The mean total variation error of records in the tables, a fraction."""
    records = Dataset.from_codes(list(np.ascontiguousarray(rows.T)), domain, trusted=True)
    found = records.project_many([table.domain.attributes for table in tables])
    apart = [np.abs(table.values - goal).sum() for table, goal in zip(found, wanted, strict=True)]
    return float(np.mean(apart)) / (2 * max(1, len(rows)))


def _wanted(table: np.ndarray, n: int) -> np.ndarray:
    positive = np.maximum(table, 0.0)
    return positive * (n / positive.sum()) if positive.any() else np.full(table.shape, n / table.size)


@dataclass(frozen=True)
class Goal:
    """A table that records should have, and how much each cell matters.

    A cell's weight is one over the geometric mean of what its count would vary by if records were drawn, and of the
    variance of the noise: between the distances that count where there is little noise, and where there is much.

    Attributes:
        clique: the attributes.
        table: counts, an axis for each; negative ones count as 0.
        variance: of the noise in them, before anything was done about it.
    """

    clique: Clique
    table: np.ndarray
    variance: float = 0.0


@dataclass(frozen=True)
class Descent:
    """Tables and the counts of records in them, as `kernels.change_codes` has them.

    Attributes:
        sizes: of the attributes.
        first, links, members, costs, weights: see there.
        once: where each table lies for the first time.
    """

    sizes: np.ndarray
    first: np.ndarray
    links: np.ndarray
    members: np.ndarray
    costs: np.ndarray
    weights: np.ndarray
    once: list[slice]

    @classmethod
    def of(cls, rows: np.ndarray, domain: Domain, goals: Sequence[Goal], scale: float = 1.0) -> Descent:
        """Of records, shape (records, attributes), of which there are `scale` for each that the tables count."""
        goals = [goal for goal in goals if goal.clique]
        first, links, members = _links(domain, [goal.clique for goal in goals])
        costs, weights = _costs(rows, domain, goals, scale)
        ends = np.cumsum([0, *(len(goal.clique) * goal.table.size for goal in goals)])
        once = [slice(begin, begin + goal.table.size) for begin, goal in zip(ends[:-1], goals, strict=True)]
        return cls(np.array(domain.shape, dtype=np.int64), first, links, members, costs, weights, once)

    @property
    def steps(self) -> float:
        """Cells that are looked at for each record in a sweep."""
        return float(np.diff(self.first) @ self.sizes)

    def sweep(self, rows: np.ndarray, order: np.ndarray) -> int:
        """Change the records at these places, in this order; returns how many codes changed."""
        from pgmest.synthesis.kernels import change_codes

        if not len(self.links):
            return 0
        space = np.empty(int(self.sizes.max()), dtype=np.float32)
        return change_codes(
            rows, order, self.sizes, self.first, self.links, self.members, self.costs, self.weights, space
        )

    def mean_error(self, n: int) -> float:
        """The mean total variation error of n records in the tables, a fraction."""
        apart = [np.abs(self.costs[one] / self.weights[one] - 1).sum(dtype=np.float64) for one in self.once]
        return float(np.mean(apart)) / (4 * max(1, n)) if apart else 0.0  # each is twice the distance of the counts


def _links(domain: Domain, cliques: Sequence[Clique]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each attribute the places where a table lies by its codes, in the order of the others."""
    starts, end = [], 0
    for clique in cliques:
        size = domain.size(clique)
        starts.append([end + turn * size for turn in range(len(clique))])
        end += len(clique) * size
    places = [domain.axes(clique) for clique in cliques]
    ordered = sorted(
        (axes[turn], (*axes[:turn], *axes[turn + 1 :]), table, turn)
        for table, axes in enumerate(places)
        for turn in range(len(axes))
    )
    number = {(table, turn): k for k, (*_, table, turn) in enumerate(ordered)}
    links, members = [], []
    for own, others, table, turn in ordered:
        shape = [*(domain.shape[axis] for axis in others), domain.shape[own]]
        steps = [math.prod(shape[place + 1 :]) for place in range(len(others))]
        neighbor = (others[0], steps[0]) if others else (own, 0)
        links.append((starts[table][turn], *neighbor, len(members), len(members) + len(others)))
        for axis, step in zip(others, steps, strict=True):
            members.append((axis, step, number[table, places[table].index(axis)]))
    counts = np.bincount([own for own, *_ in ordered], minlength=len(domain))
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return first, np.array(links, dtype=np.uint64).reshape(-1, 5), np.array(members, dtype=np.uint64).reshape(-1, 3)


def _costs(rows: np.ndarray, domain: Domain, goals: Sequence[Goal], scale: float) -> tuple[np.ndarray, np.ndarray]:
    """What one more record in each cell would add, and the weights, each table once for each of its attributes."""
    cells = sum(len(goal.clique) * goal.table.size for goal in goals)
    costs, weights, end = np.empty(cells, dtype=np.float32), np.empty(cells, dtype=np.float32), 0
    records = Dataset.from_codes(list(np.ascontiguousarray(rows.T)), domain, trusted=True)
    for goal, found in zip(goals, records.project_many([goal.clique for goal in goals]), strict=True):
        target, counts = np.maximum(goal.table, 0.0) * scale, found.values
        weight = 1 / np.sqrt((target + 1) * (goal.variance * scale**2 + 1))
        cost = weight * (2 * (counts - target) + 1)
        for turn in range(target.ndim):
            inside = slice(end, end + target.size)
            costs[inside], weights[inside] = (np.moveaxis(part, turn, -1).ravel() for part in (cost, weight))
            end += target.size
    return costs, weights
