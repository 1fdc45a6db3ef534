"""Moves of single records between the rows of a fact, in all tables of a part of the junction tree at once.

A move changes the codes of the fact's attributes in one record and keeps all others, so it changes one cell of each
table with such an attribute. It is made if fewer facts are missed afterwards. Facts about different attributes do not
interfere, so most facts hold after some moves; `repair` solves an integer program for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.sampling.clique_tables import CliqueTable, project
from pgmest.sampling.facts import Facts
from pgmest.tables.domain import Domain

FAILURES = 30
"""The moves that may fail before the search gives up on a fact."""

CANDIDATES = 3
"""The cells of a row with several cells that are tried, those with the most records too many or too few."""

PARTNERS = 4
"""The cells of a table that are tried until a move is possible in the neighboring tables, too."""

MISS = 1000.0
"""The cost of missing a fact by one record, where a count that gets further from its expectation costs 1."""

Codes = dict[str, int]
"""A code for each of some attributes."""


@dataclass(eq=False)
class _Claim:
    """A fact, the sums of its rows, and the ends between which they should lie."""

    facts: Facts
    table: int
    groups: np.ndarray
    sums: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def missed(self, sums: np.ndarray) -> np.ndarray:
        return np.maximum(np.maximum(self.low - sums, sums - self.high), 0.0)

    def costs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the change of what is missed if a row gets one record more, and one less; the last entry is no row."""
        now = self.missed(self.sums)
        return np.append(self.missed(self.sums + 1.0) - now, 0.0), np.append(self.missed(self.sums - 1.0) - now, 0.0)


@dataclass(frozen=True)
class _Step:
    """The change of one table by a move, from a cell to another, and its cost."""

    table: int
    source: tuple[int, ...]
    goal: tuple[int, ...]
    missed: float


class Moves:
    """Tables with facts, some of which the counts miss.

    Args:
        domain: the attributes.
        tables: all tables.
        made: the counts of the tables with facts and of those between them; `run` changes them.
        expected: the expected counts of the same tables.
        scale: the factor from the facts to counts of these records.
    """

    def __init__(
        self,
        domain: Domain,
        tables: Sequence[CliqueTable],
        made: Mapping[int, np.ndarray],
        expected: Mapping[int, np.ndarray],
        scale: float,
    ):
        self._domain, self._tables, self._made = domain, tables, made
        self._names = {index: tables[index].attributes for index in made}
        shapes = {index: tuple(domain[name] for name in names) for index, names in self._names.items()}
        self._counts = {index: made[index].reshape(shape) for index, shape in shapes.items()}
        self._expected = {index: expected[index].reshape(shape) for index, shape in shapes.items()}
        self._possible = {index: (tables[index].weights > 0.0).reshape(shape) for index, shape in shapes.items()}
        self._claims = [
            _Claim(facts, index, facts.groups, facts.matrix @ self._margin(index, facts), *facts.ends(scale))
            for index in made
            for facts in tables[index].facts
            if facts.groups is not None
        ]
        self._others = {i: {name for f in tables[i].facts if f.groups is None for name in f.clique} for i in made}
        self._near: dict[int, list[tuple[int, frozenset[str]]]] = {index: [] for index in made}
        for index in made:
            if tables[index].parent >= 0:
                joint = frozenset(tables[index].separator)
                self._near[index].append((tables[index].parent, joint))
                self._near[tables[index].parent].append((index, joint))

    def run(self) -> None:
        """Move records while fewer facts are missed."""
        for claim in self._claims:
            failures, futile = 0, set()
            while failures < FAILURES:
                pair = next((pair for pair in self._pairs(claim) if pair not in futile), None)
                if pair is None:
                    break
                if not any(self._move(claim, *cells) for cells in self._cells(claim, *pair)):
                    failures += 1
                    futile.add(pair)

    def _pairs(self, claim: _Claim) -> Iterator[tuple[int, int]]:
        """Yield pairs of a row with too many records and one with too few, the worst first; -1 is outside all rows."""
        over, under = claim.sums - claim.high, claim.low - claim.sums
        tops = [*(int(row) for row in np.argsort(-over)[:FAILURES] if over[row] > 0), -1]
        lows = [*(int(row) for row in np.argsort(-under)[:FAILURES] if under[row] > 0), -1]
        yield from ((top, low) for top in tops for low in lows if (top, low) != (-1, -1))

    def _cells(self, claim: _Claim, top: int, low: int) -> Iterator[tuple[Codes, Codes]]:
        """Yield pairs of cells of the fact's table from which and to which a record may move."""
        sources, goals = (np.flatnonzero(claim.groups == row) for row in (top, low))
        if len(sources) > 1 or len(goals) > 1:
            margin = self._margin(claim.table, claim.facts)
            names, expected = self._tables[claim.table].attributes, self._expected[claim.table]
            excess = margin - project(self._domain, names, expected, claim.facts.clique)
            sources = sources[np.argsort(-np.where(margin > 0, excess, -np.inf)[sources])][:CANDIDATES]
            goals = goals[np.argsort(excess[goals])][:CANDIDATES]
        for source in sources:
            for goal in goals:
                yield self._codes(claim, int(source)), self._codes(claim, int(goal))

    def _codes(self, claim: _Claim, cell: int) -> Codes:
        names = claim.facts.clique
        codes = np.unravel_index(cell, [self._domain[name] for name in names])
        return dict(zip(names, map(int, codes), strict=True))

    def _margin(self, index: int, facts: Facts) -> np.ndarray:
        return project(self._domain, self._tables[index].attributes, self._made[index], facts.clique)

    def _move(self, claim: _Claim, source: Codes, goal: Codes) -> bool:
        """Move a record if fewer facts are missed then; return whether one was moved."""
        changed = {name: code for name, code in goal.items() if source[name] != code}
        steps = self._steps(claim.table, -1, source, changed)
        if not steps or sum(step.missed for step in steps) > -1e-9:
            return False
        for step in steps:
            for one, groups in self._groups(step.table, changed):
                for cell, amount in ((step.source, -1.0), (step.goal, 1.0)):
                    row = groups[self._place(step.table, one.facts, cell)]
                    if row >= 0:
                        one.sums[row] += amount
            self._counts[step.table][step.source] -= 1.0
            self._counts[step.table][step.goal] += 1.0
        return True

    def _groups(self, index: int, changed: Codes) -> Iterator[tuple[_Claim, np.ndarray]]:
        """Yield the facts about a table that a change of codes can affect."""
        for claim in self._claims:
            if claim.table == index and not changed.keys().isdisjoint(claim.facts.clique):
                yield claim, claim.groups

    def _place(self, index: int, facts: Facts, cell: Sequence[int]) -> int:
        codes = dict(zip(self._names[index], cell, strict=True))
        place = 0
        for name in facts.clique:
            place = place * self._domain[name] + codes[name]
        return place

    def _steps(self, index: int, before: int, known: Codes, changed: Codes) -> list[_Step]:
        """Return the changes of a table and its neighbors other than `before` by a move; none if it is impossible.

        Args:
            index: the table.
            before: the neighbor whose change is chosen already.
            known: the record's codes that are chosen already.
            changed: the new codes.
        """
        if not changed.keys().isdisjoint(self._others[index]):
            return []
        names = self._names[index]
        open_axes = [name for name in names if name not in known]
        old = tuple(known.get(name, slice(None)) for name in names)
        new = tuple(changed.get(name, known.get(name, slice(None))) for name in names)
        held, other = self._counts[index][old], self._counts[index][new]
        mean, other_mean = self._expected[index][old], self._expected[index][new]
        missed = self._missed(index, known, changed, open_axes)
        cost = np.abs(held - 1.0 - mean) - np.abs(held - mean) + np.abs(other + 1.0 - other_mean)
        cost = cost - np.abs(other - other_mean) + MISS * missed
        cost = np.where((held > 0.0) & self._possible[index][new], cost, np.inf).reshape(-1)
        count = min(PARTNERS, cost.size)
        best = np.argpartition(cost, count - 1)[:count]
        for place in best[np.argsort(cost[best], kind="stable")]:
            if np.isinf(cost[place]):
                break
            chosen = np.unravel_index(place, [self._domain[name] for name in open_axes]) if open_axes else ()
            codes = known | dict(zip(open_axes, map(int, chosen), strict=True))
            source = tuple(codes[name] for name in names)
            goal = tuple(changed.get(name, codes[name]) for name in names)
            steps = [_Step(index, source, goal, float(np.broadcast_to(missed, held.shape).reshape(-1)[place]))]
            if self._follow(index, before, codes, changed, steps):
                return steps
        return []

    def _follow(self, index: int, before: int, codes: Codes, changed: Codes, steps: list[_Step]) -> bool:
        """Add the changes of the neighbors that share a changed attribute; return whether all are possible."""
        for near, joint in self._near[index]:
            if near != before and not changed.keys().isdisjoint(joint):
                further = self._steps(near, index, {name: codes[name] for name in joint}, changed)
                if not further:
                    return False
                steps += further
        return True

    def _missed(self, index: int, known: Codes, changed: Codes, open_axes: Sequence[str]) -> np.ndarray:
        """Return how much more facts about a table are missed by a move, for each code of the open axes."""
        total = np.zeros([1] * len(open_axes))
        for claim, groups in self._groups(index, changed):
            names = claim.facts.clique
            table = groups.reshape([self._domain[name] for name in names])
            kept = [name for name in names if name not in known]
            order = [kept.index(name) for name in open_axes if name in kept]
            shape = [self._domain[name] if name in kept else 1 for name in open_axes]
            rows = [
                table[tuple(codes.get(name, slice(None)) for name in names)].transpose(order).reshape(shape)
                for codes in (known, known | {n: c for n, c in changed.items() if n in names})
            ]
            more, less = claim.costs()
            total = total + np.where(rows[0] == rows[1], 0.0, less[rows[0]] + more[rows[1]])
        return total
