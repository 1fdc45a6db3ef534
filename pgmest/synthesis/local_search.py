"""Coordinate descent of records toward tables: one code changes at a time, until hardly a change helps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, at_least
from pgmest.synthesis.gum import Callback
from pgmest.synthesis.pair_descent import PairDescent
from pgmest.synthesis.starts import STARTS, as_rows
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

STOPPING_SHARE = 1e-3
"""The search stops after a sweep that changed at most this share of the codes."""

NEAR_CELLS = 1 << 17
"""Two-way tables with more cells than this in all are matched by `PairDescent`, attribute after attribute.

`Descent` stores 2^17 cells of two-way tables in 2 MB and reads them in random order, so they should stay in a cache.
"""


FORBIDDEN = 1e30
"""The cost of a forbidden cell; sums of many such costs stay finite in single precision."""


@dataclass(frozen=True, kw_only=True)
class LocalSearch:
    r"""Coordinate descent on the distance between the records' tables and the target tables.

    For counts c of the records and target counts t, the distance is the sum of (c - t)^2 / sqrt(t + 1) over the cells
    of all tables. Each code of each record in turn gets the value that minimizes the distance, while all other codes
    stay. So the distance never grows, for any number of tables. Gradual updates (`GradualUpdate`), which match one
    table at a time, spoil other tables: for all pairs of twenty attributes their error ends above that of a tree of
    tables. If the tables are two-way and too many for the cache, the descent visits one attribute of all records after
    the other (`PairDescent`).

    Args:
        sweeps: the largest number of passes over all records; the search ends earlier if few codes change.
        start: the initial records: "tree", drawn from the tree of tables with the largest mutual information, or
            "independent", each attribute drawn separately. Only one code changes at a time, so the descent cannot find
            improvements that need two changes at once; the tree provides many of them.

    Raises:
        ArgumentError: a parameter is out of its range.
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
        """Return n records as columns of codes; arguments and result are those of `GradualUpdate.records`."""
        rows = as_rows(STARTS[self.start](tables, domain, n, generator), domain)
        self._change(rows, domain, tables, generator, callback)
        return [np.ascontiguousarray(rows[:, axis]) for axis in range(len(domain))]

    def improved(self, records: Dataset, tables: Sequence[Factor], generator: np.random.Generator) -> Dataset:
        """Return the records after changes that bring them closer to the tables.

        A record whose change would put it into a cell with a target of exactly 0 stays as it was.

        Args:
            records: records without weights.
            tables: tables of counts over attributes of the records; negative counts count as 0.
            generator: the source of the order of visits.
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
        """Change records, shape (records, attributes), in place.

        `Descent` visits them in a new random order in each sweep, `PairDescent` in one random order in all sweeps.
        """
        n, wanted = len(rows), [_wanted(table.values, len(rows)) for table in tables]
        if sum(table.size for table in wanted) > NEAR_CELLS and all(table.ndim == 2 for table in wanted):
            pairs = PairDescent.of([table.domain.attributes for table in tables], domain, wanted)
            order = generator.permutation(n)
            shuffled = rows[order]
            self._repeat(
                lambda: pairs.sweep(shuffled),
                lambda: _mean_error(shuffled, domain, tables, wanted),
                rows.size,
                callback,
            )
            rows[order] = shuffled
            return
        targets = [TargetTable(table.domain.attributes, target) for table, target in zip(tables, wanted, strict=True)]
        descent = Descent.of(rows, domain, targets)
        self._repeat(
            lambda: descent.sweep(rows, generator.permutation(n)), lambda: descent.mean_error(n), rows.size, callback
        )

    def _repeat(
        self, sweep: Callable[[], int], error: Callable[[], float], codes: int, callback: Callback | None
    ) -> None:
        """Sweep until few codes change, or `sweeps` times."""
        for number in range(1, self.sweeps + 1):
            changed = sweep()
            if callback is not None:
                callback(number, error())
            if changed <= STOPPING_SHARE * codes:
                break


def _mean_error(rows: np.ndarray, domain: Domain, tables: Sequence[Factor], wanted: Sequence[np.ndarray]) -> float:
    """Return the mean total-variation error of the records' tables, as a fraction."""
    records = Dataset.from_codes(list(np.ascontiguousarray(rows.T)), domain, trusted=True)
    found = records.project_many([table.domain.attributes for table in tables])
    apart = [np.abs(table.values - goal).sum() for table, goal in zip(found, wanted, strict=True)]
    return float(np.mean(apart)) / (2 * max(1, len(rows)))


def _wanted(table: np.ndarray, n: int) -> np.ndarray:
    """Return the table without negative counts, scaled to sum to n; uniform if no count is positive."""
    positive = np.maximum(table, 0.0)
    return positive * (n / positive.sum()) if positive.any() else np.full(table.shape, n / table.size)


@dataclass(frozen=True)
class TargetTable:
    """A target table and the variance of its noise, which determines the weights of the cells.

    The weight of a cell with target t is 1 / sqrt((t + 1) (variance + 1)): one over the geometric mean of the count's
    variance if records were sampled, t, and the variance of the noise. Without noise this is the weight of
    `LocalSearch`.

    Attributes:
        clique: the attributes.
        table: the target counts, one axis for each attribute; negative counts count as 0.
        variance: the variance of the noise in each count, before any smoothing of the table.
    """

    clique: Clique
    table: np.ndarray
    variance: float = 0.0


@dataclass(frozen=True)
class ForbiddenCells:
    """Cells that a change of a code must not enter.

    Attributes:
        clique: the attributes.
        table: True in forbidden cells, one axis for each attribute.
    """

    clique: Clique
    table: np.ndarray


@dataclass(frozen=True)
class Descent:
    """The target tables and the records' counts in them, as `kernels.change_codes` reads them.

    Attributes:
        sizes: the number of codes of each attribute.
        first, links, members, costs, weights: the kernel's arguments of these names.
        once: the slice of `costs` that holds the first copy of each table.
    """

    sizes: np.ndarray
    first: np.ndarray
    links: np.ndarray
    members: np.ndarray
    costs: np.ndarray
    weights: np.ndarray
    once: list[slice]

    @classmethod
    def of(
        cls, rows: np.ndarray, domain: Domain, targets: Sequence[TargetTable | ForbiddenCells], scale: float = 1.0
    ) -> Descent:
        """Return the descent of records toward target tables.

        Args:
            rows: the codes of the records, shape (records, attributes).
            domain: the attributes.
            targets: the target tables, and cells that no record may enter.
            scale: the number of records for each record that the tables count; targets are multiplied by it.
        """
        targets = [target for target in targets if target.clique]
        first, links, members = _links(domain, [target.clique for target in targets])
        costs, weights = _costs(rows, domain, targets, scale)
        ends = np.cumsum([0, *(len(target.clique) * target.table.size for target in targets)])
        once = [
            slice(begin, begin + target.table.size)
            for begin, target in zip(ends[:-1], targets, strict=True)
            if isinstance(target, TargetTable)
        ]
        return cls(np.array(domain.shape, dtype=np.int64), first, links, members, costs, weights, once)

    @property
    def steps(self) -> float:
        """The number of cells that a sweep reads for each record."""
        return float(np.diff(self.first) @ self.sizes)

    def sweep(self, rows: np.ndarray, order: np.ndarray) -> int:
        """Change the records at the positions `order`, in this order, in place; return the number of changed codes."""
        from pgmest.synthesis.kernels import change_codes

        if not len(self.links):
            return 0
        space = np.empty(int(self.sizes.max()), dtype=np.float32)
        return change_codes(
            rows, order, self.sizes, self.first, self.links, self.members, self.costs, self.weights, space
        )

    def mean_error(self, n: int) -> float:
        """Return the mean total-variation error of n records in the tables, as a fraction."""
        # costs / weights - 1 = 2 (count - target), so the sum is four times the total variation in counts.
        apart = [np.abs(self.costs[one] / self.weights[one] - 1).sum(dtype=np.float64) for one in self.once]
        return float(np.mean(apart)) / (4 * max(1, n)) if apart else 0.0


def _links(domain: Domain, cliques: Sequence[Clique]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the arguments `first`, `links` and `members` of `kernels.change_codes` for tables on these cliques.

    An attribute's links are sorted by their other attributes, so that consecutive links read the same codes.
    """
    starts, end = [], 0
    for clique in cliques:
        size = domain.size(clique)
        starts.append([end + turn * size for turn in range(len(clique))])
        end += len(clique) * size
    clique_axes = [domain.axes(clique) for clique in cliques]
    ordered = sorted(
        (axes[turn], (*axes[:turn], *axes[turn + 1 :]), table, turn)
        for table, axes in enumerate(clique_axes)
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
            members.append((axis, step, number[table, clique_axes[table].index(axis)]))
    counts = np.bincount([own for own, *_ in ordered], minlength=len(domain))
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return first, np.array(links, dtype=np.uint64).reshape(-1, 5), np.array(members, dtype=np.uint64).reshape(-1, 3)


def _costs(
    rows: np.ndarray, domain: Domain, targets: Sequence[TargetTable | ForbiddenCells], scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the arguments `costs` and `weights` of `kernels.change_codes`: a copy of each table for each attribute.

    The cost of a forbidden cell is `FORBIDDEN`, without any weight, so that it does not depend on the count.
    """
    cells = sum(len(target.clique) * target.table.size for target in targets)
    costs, weights, end = np.empty(cells, dtype=np.float32), np.empty(cells, dtype=np.float32), 0
    records = Dataset.from_codes(list(np.ascontiguousarray(rows.T)), domain, trusted=True)
    for target, found in zip(targets, records.project_many([target.clique for target in targets]), strict=True):
        if isinstance(target, ForbiddenCells):
            cost, weight = np.where(target.table, FORBIDDEN, 0.0), np.zeros(target.table.shape)
        else:
            wanted, counts = np.maximum(target.table, 0.0) * scale, found.values
            weight = 1 / np.sqrt((wanted + 1) * (target.variance * scale**2 + 1))
            cost = weight * (2 * (counts - wanted) + 1)
        for turn in range(cost.ndim):
            inside = slice(end, end + cost.size)
            costs[inside], weights[inside] = (np.moveaxis(part, turn, -1).ravel() for part in (cost, weight))
            end += cost.size
    return costs, weights
