"""Changes of integer tables, as few as possible, after which they hold facts; or miss them by as little as possible.

The tables are those of a part of the junction tree, or one list of records. Cells that no fact and no separator tells
apart form a class. An integer program changes the classes' counts; its linear relaxation often has whole solutions, as
transportation problems do. Cells of weight 0 stay empty.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import block_array, coo_array, csr_array, eye_array

ATTEMPTS = ((1 << 12, 1.0), (1 << 14, 1.0), (1 << 14, np.inf), (1 << 17, np.inf))
"""The attempts to hold all facts: the most classes of cells that may change, and the most records by which each may.

Few classes and small changes are tried first: they keep the program small and spread the changes over the tables.
"""

MISS = 1000.0
"""The cost of missing facts by one record; the cost of changing the count of a cell by one is at most 2."""

WHOLE = 1e-6
"""A solution of the linear relaxation that is this close to whole numbers is one."""

EXTRA = (300, 2000)
"""The numbers of classes that are freed besides those with fractions in the linear relaxation, before all are."""

GAP = 0.45 * MISS
"""The search for whole numbers ends when its cost is proven to be at most this much above the least one."""

OFFSET = 10.0 * MISS
"""A constant in the cost, because the solver ends at a relative gap, and costs can be near 0."""

MOST_NODES = 2000
"""The most nodes of the search for whole numbers, which bounds its time and leaves its result reproducible."""

MOST_SECONDS = 30.0
"""The most seconds of one search for whole numbers; only where it is reached, a seed need not give the same records."""


@dataclass(frozen=True, eq=False)
class FactRows:
    """Answers to queries that should lie between two ends.

    Attributes:
        matrix: shape (rows, cells of the fact's table).
        low, high: the ends, shape (rows,).
    """

    matrix: Any  # a csr_array, whose stubs lack shapes
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True, eq=False)
class ChangingTable:
    """A table of counts that may change.

    Attributes:
        counts: whole numbers, one for each cell; `repair` changes them.
        expected: the expected count of each cell.
        possible: whether records may be in the cell; the others stay empty.
        classes: the class of each cell; cells of a class are in the same rows of all facts and separators.
        facts: for each fact about the table its position in the list of facts, and the fact's cell of each class.
        separators: for each separator its number, the separator's cell of each class, and 1, or -1 if another table
            has the separator with 1, too; changes of cells with the same separator and cell must sum to 0.
    """

    counts: np.ndarray
    expected: np.ndarray
    possible: np.ndarray
    classes: np.ndarray
    facts: Sequence[tuple[int, np.ndarray]]
    separators: Sequence[tuple[int, np.ndarray, int]]

    @cached_property
    def number(self) -> int:
        """The number of classes."""
        return int(self.classes.max()) + 1 if self.classes.size else 0

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of values of cells over each class."""
        return np.bincount(self.classes, values, minlength=self.number)

    def change(self, chosen: np.ndarray, changes: np.ndarray) -> None:
        """Add changes to the counts of classes, spread over their cells such that counts stay near the expectation."""
        for one, change in zip(chosen, changes, strict=True):
            if change:
                cells = self._members(one)
                self.counts[cells] += _spread(
                    self.counts[cells], self.expected[cells], self.possible[cells], int(change)
                )

    def _members(self, one: int) -> np.ndarray:
        order, ends = self._order
        return order[ends[one] : ends[one + 1]]

    @cached_property
    def _order(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(self.classes, kind="stable")
        return order, np.searchsorted(self.classes[order], np.arange(self.number + 1))


def _spread(counts: np.ndarray, expected: np.ndarray, possible: np.ndarray, change: int) -> np.ndarray:
    """Return changes of cells that sum to `change`: first in proportion, the rest where it is needed most."""
    added, amount = change > 0, abs(change)
    usable = possible if added else counts > 0.0
    weights, short = (np.where(possible, expected, 0.0), expected - counts) if added else (counts, counts - expected)
    spread = np.zeros(len(counts))
    if amount > usable.sum():
        shares = weights if weights.any() else usable.astype(np.float64)
        spread = np.floor(shares / shares.sum() * amount)
    if not added:
        spread = np.minimum(spread, counts)
        usable = counts - spread > 0.0
    need = np.where(usable, short - spread, -np.inf)
    spread[np.argsort(-need, kind="stable")[: amount - int(spread.sum())]] += 1.0
    return spread if added else -spread


def repair(tables: Sequence[ChangingTable], facts: Sequence[FactRows], generator: np.random.Generator) -> None:
    """Change the tables' counts so that they hold the facts, or miss them by as little as this search finds.

    Args:
        tables: the tables.
        facts: what they should hold.
        generator: chooses the cells that may change, if there are many.
    """
    classes, last = sum(table.number for table in tables), (0, 0.0)
    least, best, waiting = np.inf, None, []
    for most, reach in ATTEMPTS:
        if (min(most, classes), reach) == last:
            continue
        last = (min(most, classes), reach)
        program = _Program.of(tables, facts, most, reach, generator)
        relaxed = program.relaxed()
        bound = program.missed(relaxed)
        if bound > WHOLE:  # more freedom may hold more facts
            waiting.append((program, relaxed, bound))
            continue
        changes = program.whole(relaxed, bound, generator)
        if program.missed(changes) < least:
            least, best = program.missed(changes), (program, changes)
        if least < WHOLE:
            break
    for program, relaxed, bound in sorted(waiting, key=operator.itemgetter(2)):
        if bound < least - WHOLE:
            changes = program.whole(relaxed, bound, generator)
            if program.missed(changes) < least:
                least, best = program.missed(changes), (program, changes)
    if best is not None:
        program, changes = best
        for table, chosen, change in zip(tables, program.chosen, program.split(changes), strict=True):
            table.change(chosen, change)


@dataclass(frozen=True, eq=False)
class _Program:
    """The integer program of some classes: increases and decreases of their counts, then misses below and above.

    Attributes:
        chosen: for each table the classes that may change.
        matrix: the rows of separators, then of facts; a column for the change of each class.
        low, high: the ends of each row.
        costs: the cost of each increase, then of each decrease, by one.
        limits: the largest increase of each class, then the largest decrease.
        facts: the number of rows of facts.
    """

    chosen: list[np.ndarray]
    matrix: Any  # a csr_array, whose stubs lack shapes
    low: np.ndarray
    high: np.ndarray
    costs: np.ndarray
    limits: np.ndarray
    facts: int

    @classmethod
    def of(
        cls,
        tables: Sequence[ChangingTable],
        facts: Sequence[FactRows],
        most: int,
        reach: float,
        generator: np.random.Generator,
    ) -> _Program:
        """Return the program of at most `most` classes, each of which may change by at most `reach` records."""
        starts = np.cumsum([0, *(len(fact.low) for fact in facts)])
        counts = [table.sums(table.counts) for table in tables]
        answers = np.zeros(starts[-1])
        for table, count in zip(tables, counts, strict=True):
            for place, cells in table.facts:
                held = np.bincount(cells, count, minlength=facts[place].matrix.shape[1])
                answers[starts[place] : starts[place + 1]] += facts[place].matrix @ held
        low = np.concatenate([fact.low for fact in facts]) - answers
        high = np.concatenate([fact.high for fact in facts]) - answers
        missed = (low > WHOLE) | (high < -WHOLE)
        total = sum(table.number for table in tables)
        chosen, columns, joints, costs, limits = [], [], [], [], []
        for table, count in zip(tables, counts, strict=True):
            expected, possible = table.sums(table.expected), table.sums(table.possible) > 0.0
            urgent = np.zeros(table.number, dtype=bool)
            for place, cells in table.facts:
                rows = missed[starts[place] : starts[place + 1]]
                urgent |= (abs(facts[place].matrix).T @ rows.astype(np.float64) > 0.0)[cells]
            few = most if total <= most else most // len(tables)
            classes = _choose(possible, urgent, expected, few, generator)
            chosen.append(classes)
            blocks = [csr_array((len(fact.low), classes.size)) for fact in facts]
            for place, cells in table.facts:
                blocks[place] = blocks[place] + csr_array(facts[place].matrix[:, cells[classes]])
            columns.append(block_array([[block] for block in blocks], format="csr"))
            joints.append([(number, cells[classes], sign) for number, cells, sign in table.separators])
            count, expected = count[classes], expected[classes]
            nearer = np.abs(count - expected)
            costs.append(1.0 + np.clip(np.abs(count + 1.0 - expected) - nearer, -0.9, 1.0))
            costs.append(1.0 + np.clip(np.abs(count - 1.0 - expected) - nearer, -0.9, 1.0))
            limits += [np.full(classes.size, reach), np.minimum(count, reach)]
        separators = _separator_rows(joints, [len(classes) for classes in chosen])
        matrix: Any = block_array([[separators], [block_array([columns], format="csr")]], format="csr")
        fixed = np.zeros(matrix.shape[0] - len(answers))
        return cls(
            chosen,
            matrix,
            np.concatenate([fixed, low]),
            np.concatenate([fixed, high]),
            np.concatenate(costs[::2] + costs[1::2]),
            np.concatenate(limits[::2] + limits[1::2]),
            len(answers),
        )

    def relaxed(self) -> np.ndarray:
        """Return the change of each chosen class, which may be a fraction, that costs least."""
        n = self.matrix.shape[1]
        return self._solution(np.zeros(n), np.ones(n, dtype=bool), None)

    def whole(self, relaxed: np.ndarray, bound: float, generator: np.random.Generator) -> np.ndarray:
        """Return whole changes of the chosen classes.

        Few classes have no whole change in the linear relaxation. Whole numbers are searched for these and for others
        in the same rows; the rest keep their changes. More classes are freed while more facts are missed than in the
        relaxation.

        Args:
            relaxed: the changes of the linear relaxation.
            bound: the sum of the distances by which facts are missed after them.
            generator: breaks ties between the classes to free.
        """
        n, changes = len(relaxed), np.rint(relaxed)
        fractional = np.abs(relaxed - changes) > WHOLE
        if not fractional.any():
            return changes
        cost = np.where(relaxed > 0.0, self.costs[:n], self.costs[n:]) @ np.abs(relaxed) + MISS * bound
        best = np.zeros(n)
        least = self.missed(best)
        for extra in (*EXTRA, n):
            free = self._near(fractional, extra, generator)
            found = self._solution(changes, free, float(GAP / (OFFSET + cost + GAP)))
            left = self.missed(found)
            if left < least:
                best, least = found, left
            if least < bound + WHOLE or free.all():
                break
        return best

    def _near(self, fractional: np.ndarray, extra: int, generator: np.random.Generator) -> np.ndarray:
        """Return the fractional classes and at most `extra` others, first those with all their rows in common."""
        joined = (self.matrix[:, fractional] != 0).sum(axis=1) > 0
        entries = self.matrix != 0
        outside = entries.T @ ~joined
        order = np.argsort(outside + generator.random(len(outside)), kind="stable")
        free = fractional.copy()
        free[order[: extra + int(fractional.sum())]] = True
        return free

    def _solution(self, given: np.ndarray, free: np.ndarray, gap: float | None) -> np.ndarray:
        """Return the changes that cost least; those of classes that are not free are given.

        With a gap the changes are whole numbers, and cost at most this share more than needed; otherwise fractions.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        between: Any = Bounds  # the stubs know numbers only
        equal: Any = LinearConstraint

        (rows, n), facts = self.matrix.shape, self.facts
        slack, empty = eye_array(facts), csr_array((rows - facts, facts))
        misses = block_array([[empty, empty], [slack, -slack]])
        fixed, both = np.concatenate([np.maximum(given, 0.0), np.maximum(-given, 0.0)]), np.tile(free, 2)
        low, high = np.where(both, 0.0, fixed), np.where(both, self.limits, fixed)
        constant = csr_array((rows, 1))
        matrix = block_array([[self.matrix, -self.matrix, misses, constant]], format="csr")
        found = milp(
            np.concatenate([self.costs, np.full(2 * facts, MISS), [OFFSET]]),
            integrality=np.repeat([int(gap is not None), 0], [2 * n, 2 * facts + 1]),
            constraints=equal(matrix, self.low, self.high),
            bounds=between(
                np.concatenate([low, np.zeros(2 * facts), [1.0]]),
                np.concatenate([high, np.full(2 * facts, np.inf), [1.0]]),
            ),
            options={} if gap is None else {"node_limit": MOST_NODES, "mip_rel_gap": gap, "time_limit": MOST_SECONDS},
        )
        if found.x is None:
            return np.zeros(n)
        changes = found.x[:n] - found.x[n : 2 * n]
        return changes if gap is None else np.rint(changes)

    def missed(self, changes: np.ndarray) -> float:
        """Return the sum of the distances by which facts are missed after changes; inf if separators are broken."""
        off = self.matrix @ changes
        if np.abs(off[: len(off) - self.facts]).max(initial=0.0) > WHOLE:
            return np.inf
        return float(np.maximum(np.maximum(self.low - off, off - self.high), 0.0).sum())

    def split(self, changes: np.ndarray) -> list[np.ndarray]:
        """Return the changes of each table's classes."""
        return np.split(changes, np.cumsum([len(classes) for classes in self.chosen])[:-1])


def _choose(
    possible: np.ndarray, urgent: np.ndarray, expected: np.ndarray, most: int, generator: np.random.Generator
) -> np.ndarray:
    """Return at most `most` possible classes: first those in facts that are missed, then those with many records."""
    classes = np.flatnonzero(possible)
    if classes.size <= most:
        return classes
    keys = generator.random(classes.size) ** (1.0 / np.clip(expected[classes], 1e-3, 1.0)) + urgent[classes]
    return np.sort(classes[np.argpartition(-keys, most)[:most]])


def _separator_rows(joints: Sequence[Sequence[tuple[int, np.ndarray, int]]], widths: Sequence[int]) -> csr_array:
    """Return a row for each separator and cell of it, with the signs of the classes in this cell."""
    starts = np.cumsum([0, *widths])
    rows, columns, signs = [], [], []
    for start, width, joint in zip(starts, widths, joints, strict=False):
        for number, cells, sign in joint:
            rows.append(np.stack([np.full(width, number), cells]))
            columns.append(start + np.arange(width))
            signs.append(np.full(width, float(sign)))
    if not rows:
        return csr_array((0, int(starts[-1])))
    names, row = np.unique(np.concatenate(rows, axis=1), axis=1, return_inverse=True)
    entries = (np.concatenate(signs), (row.reshape(-1), np.concatenate(columns)))
    return csr_array(coo_array(entries, shape=(names.shape[1], int(starts[-1]))))
