"""Independent parts of tables with facts, such as the zones of margins by zone, each of which is repaired by itself.

Two cells are in one part if a fact or a separator counts both, and so on along a chain of cells. The total of all
counts is no such link: facts that count each cell of a part once say how many records the part has. The cells in no
such part are one more part, whose total stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pgmest.sampling.repair import WHOLE, ChangingTable, FactRows, repair

IMPOSSIBLE, REST = -1, -2
"""The numbers of classes without possible cells, and of the part whose number of records no facts determine."""


def repair_parts(tables: Sequence[ChangingTable], facts: Sequence[FactRows], generator: np.random.Generator) -> None:
    """Change the tables' counts as `repair` does, part by part if there are several parts.

    The program of a part has few cells, so facts about hundreds of zones are held in seconds. All tables are repaired
    together if the totals of the parts do not add up, or if facts are still missed: records that move between parts
    may then miss them by less.
    """
    parts = _Parts.of(tables, facts)
    if not parts.covering:
        return repair(tables, facts, generator)
    before = [table.counts.copy() for table in tables]
    for number in parts.missed(tables, facts):
        parts.repair(number, tables, facts, generator)
    if any(table.counts.sum() != counts.sum() for table, counts in zip(tables, before, strict=True)):
        for table, counts in zip(tables, before, strict=True):
            table.counts[:] = counts
        repair(tables, facts, generator)
    elif parts.missed(tables, facts):
        repair(tables, facts, generator)


@dataclass(frozen=True, eq=False)
class _Parts:
    """The parts of tables.

    Attributes:
        of_class: for each table the part of each class.
        of_row: for each fact the part of each row.
        covering: part -> a table and a fact whose rows count each record of the part in this table once.
    """

    of_class: list[np.ndarray]
    of_row: list[np.ndarray]
    covering: dict[int, tuple[int, int]]

    @classmethod
    def of(cls, tables: Sequence[ChangingTable], facts: Sequence[FactRows]) -> _Parts:
        """Return the parts that facts and separators make."""
        known = [table.sums(table.possible) > 0.0 for table in tables]
        starts = np.cumsum([0, *(table.number for table in tables)])
        ends = starts[-1] + np.cumsum([0, *(len(fact.low) for fact in facts)])
        joints: dict[tuple[int, int], int] = {}
        links = [np.zeros((2, 0), dtype=np.int64)]
        for start, table, usable in zip(starts, tables, known, strict=False):
            for place, cells in table.facts:
                rows, classes = _entries(facts[place], cells)
                links.append(np.stack([start + classes, ends[place] + rows])[:, usable[classes]])
            for number, cells, _ in table.separators:
                if cells.any():
                    names, of = np.unique(cells, return_inverse=True)
                    nodes = [joints.setdefault((number, int(name)), int(ends[-1]) + len(joints)) for name in names]
                    links.append(np.stack([start + np.arange(len(cells)), np.array(nodes)[of]])[:, usable])
        left, right = np.concatenate(links, axis=1)
        nodes = int(ends[-1]) + len(joints)
        graph: Any = coo_array((np.ones(len(left)), (left, right)), shape=(nodes, nodes))
        labels = connected_components(graph, directed=False)[1]
        of_class = [
            np.where(usable, labels[start : start + len(usable)], IMPOSSIBLE)
            for start, usable in zip(starts, known, strict=False)
        ]
        covering = _covering(tables, facts, of_class)
        covered = np.array(list(covering), dtype=np.int64)
        of_row = [labels[end : end + len(fact.low)] for end, fact in zip(ends, facts, strict=False)]
        return cls(
            [np.where(np.isin(one, covered) | (one == IMPOSSIBLE), one, REST) for one in of_class],
            [np.where(np.isin(one, covered), one, REST) for one in of_row],
            covering,
        )

    def missed(self, tables: Sequence[ChangingTable], facts: Sequence[FactRows]) -> list[int]:
        """Return the parts with facts that the counts miss."""
        answers = [np.zeros(len(fact.low)) for fact in facts]
        for table in tables:
            counts = table.sums(table.counts)
            for place, cells in table.facts:
                matrix = facts[place].matrix
                answers[place] += matrix @ np.bincount(cells, counts, minlength=matrix.shape[1])
        found: set[int] = set()
        for fact, parts, answer in zip(facts, self.of_row, answers, strict=True):
            found.update(parts[(answer < fact.low - WHOLE) | (answer > fact.high + WHOLE)].tolist())
        return sorted(found)

    def repair(
        self, part: int, tables: Sequence[ChangingTable], facts: Sequence[FactRows], generator: np.random.Generator
    ) -> None:
        """Repair a part. Its total stays as it is, unless facts say that it has another one."""
        keeps = self._keeps_total(part, tables, facts)
        chosen = [np.flatnonzero(parts == part) for parts in self.of_class]
        rows = [np.flatnonzero(parts == part) for parts in self.of_row]
        places = [place for place, row in enumerate(rows) if row.size]
        about = [FactRows(facts[p].matrix[rows[p]], facts[p].low[rows[p]], facts[p].high[rows[p]]) for p in places]
        within = [number for number, classes in enumerate(chosen) if classes.size]
        inside = [_inside(tables[number], chosen[number], places, keeps) for number in within]
        if inside:
            repair([one for one, _ in inside], about, generator)
        for number, (one, cells) in zip(within, inside, strict=True):
            tables[number].counts[cells] = one.counts

    def _keeps_total(self, part: int, tables: Sequence[ChangingTable], facts: Sequence[FactRows]) -> bool:
        if part == REST:
            return True
        table, place = self.covering[part]
        counts = tables[table].sums(tables[table].counts)[self.of_class[table] == part]
        return abs(float(facts[place].low[self.of_row[place] == part].sum() - counts.sum())) < WHOLE


def _entries(fact: FactRows, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and classes of the entries of a fact's matrix, given the fact's cell of each class."""
    rows, classes = fact.matrix[:, cells].tocoo().coords
    return rows, classes


def _covering(
    tables: Sequence[ChangingTable], facts: Sequence[FactRows], of_class: Sequence[np.ndarray]
) -> dict[int, tuple[int, int]]:
    """Return the parts with a fact whose exact rows count each class of a table in the part once."""
    found: dict[int, tuple[int, int]] = {}
    for number, (table, parts) in enumerate(zip(tables, of_class, strict=True)):
        for place, cells in table.facts:
            fact = facts[place]
            entries = fact.matrix[:, cells].tocoo()
            exact = (fact.low == fact.high)[entries.coords[0]] & (entries.data == 1.0)
            counted = np.bincount(entries.coords[1][exact], minlength=table.number)
            every = np.bincount(entries.coords[1], minlength=table.number)
            bad = np.unique(parts[(counted != 1) | (every != 1)])
            for part in np.setdiff1d(np.unique(parts), [*bad, IMPOSSIBLE, *found]).tolist():
                found[part] = number, place
    return found


def _inside(
    table: ChangingTable, classes: np.ndarray, places: Sequence[int], keeps: bool
) -> tuple[ChangingTable, np.ndarray]:
    """Return the part of a table with some of its classes and facts, and the positions of its cells in the table.

    Args:
        table: the table.
        classes: the classes of the part.
        places: the positions of the facts with rows in the part.
        keeps: whether the total of the part stays as it is.
    """
    new = np.full(table.number, IMPOSSIBLE)
    new[classes] = np.arange(classes.size)
    cells = np.flatnonzero(new[table.classes] >= 0)
    facts = [(places.index(place), of[classes]) for place, of in table.facts if place in places]
    separators = [(number, of[classes], sign) for number, of, sign in table.separators if keeps or of.any()]
    counts, expected, possible = table.counts[cells], table.expected[cells], table.possible[cells]
    return ChangingTable(counts, expected, possible, new[table.classes[cells]], facts, separators), cells
