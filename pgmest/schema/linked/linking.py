"""The choice of the rows of linked tables that belong together and count, by numbers of keys and a secret key.

Every row names a key of the root: by its own columns, since the key of a table with children contains that of its
parent. Rows that name one key of the root are one unit. Which of them count depends on them alone:

- A row of the root without a key, or a row of another table without one or whose parent is not there, is left out.
- If several rows of the root have one key, none of them counts, so that one row more removes a unit at most, and never
  replaces one. Of another table, the children hang on one of the rows with their key.
- Of the rows of one parent row at most `at_most` count: first those that a rule asks for (`Exactly`, `AtLeast`), then
  those that a keyed hash says. What hangs on a row that does not count does not count either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.data.linked import places_of
from pgmest.schema.keyed_hash import place_within, row_hashes

FATES = (
    "counted",
    "without a key",
    "without a parent",
    "of a key that occurs twice",
    "beyond at_most",
    "of a parent left out",
)
COUNTED, KEYLESS, ORPHAN, DOUBLED, BEYOND, FOLLOWED = range(len(FATES))


@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of one table as linking sees them.

    Attributes:
        parent: the name of the parent table; None for the root.
        key: the number of each row's own key, -1 for none, shape (rows,); None if nothing hangs on the table. Rows with
            the same key have the same `link`.
        link: the number of each row's parent key, among those of the parent's `key`, -1 for none; None for the root.
        at_most: the largest number of rows of one parent row that count.
        codes: columns of numbers that tell rows apart, each of shape (rows,).
        wanted: rows that are asked for, as masks, and how many of one parent are.
    """

    parent: str | None
    key: np.ndarray | None
    link: np.ndarray | None
    at_most: int
    codes: Sequence[np.ndarray] = ()
    wanted: Sequence[tuple[np.ndarray, int]] = ()

    @property
    def rows(self) -> int:
        one = self.key if self.link is None else self.link
        assert one is not None
        return len(one)


@dataclass(frozen=True, eq=False)
class LinkedRows:
    """The rows of one table that count.

    Attributes:
        rows: these rows, in the order of their parents; shape (counted,).
        parent_rows: the place of each one's parent row among those of the parent table that count; for the root -1.
        sizes: how many rows each of the parent's `rows` has, before any is left out for `at_most`.
        fates: what became of each row of the table, an index of `FATES`; shape (rows,).
    """

    rows: np.ndarray
    parent_rows: np.ndarray
    sizes: np.ndarray
    fates: np.ndarray


class Linking:
    """The work of `link_rows`: rows by table, and hashes that are computed when they are first needed."""

    def __init__(self, tables: Mapping[str, TableRows], hashes_of_units: Callable[[np.ndarray], np.ndarray]):
        self.tables = tables
        self.root: str = next(name for name, table in tables.items() if table.parent is None)
        self.parent_row: dict[str, np.ndarray] = {}
        self.fates: dict[str, np.ndarray] = {name: np.zeros(tables[name].rows, dtype=np.int8) for name in tables}
        self.sizes: dict[str, np.ndarray] = {self.root: np.empty(0, dtype=np.int64)}
        self._hashes_of_units = hashes_of_units
        self._hashes: dict[str, np.ndarray] = {}

    def run(self) -> dict[str, LinkedRows]:
        """Decide about all tables, the parents first."""
        self._settle_root()
        for name in self.tables:
            if name != self.root:
                self._settle(name)
        places: dict[str, np.ndarray] = {}
        found: dict[str, LinkedRows] = {}
        for name, table in self.tables.items():
            rows = np.flatnonzero(self.fates[name] == COUNTED)
            parents = np.full(len(rows), -1)
            if table.parent is not None:
                parents = places[table.parent][self.parent_row[name][rows]]
                order = np.argsort(parents, kind="stable")
                rows, parents = rows[order], parents[order]
            places[name] = places_of(rows, table.rows)
            sizes = self.sizes[name][found[table.parent].rows] if table.parent else self.sizes[name]
            found[name] = LinkedRows(rows, parents, sizes, self.fates[name])
        return found

    # -- the root ---------------------------------------------------------------------------------------------------

    def _settle_root(self) -> None:
        number = self.tables[self.root].key
        assert number is not None
        rows_with_key = np.bincount(number[number >= 0], minlength=1)
        self.fates[self.root][rows_with_key[number] > 1] = DOUBLED
        self.fates[self.root][number < 0] = KEYLESS

    # -- the other tables -------------------------------------------------------------------------------------------

    def _settle(self, name: str) -> None:
        table = self.tables[name]
        assert table.parent is not None and table.link is not None  # noqa: PT018
        above, fates = self.tables[table.parent], self.fates[name]
        assert above.key is not None
        known = np.zeros(int(above.key.max(initial=-1)) + 1, dtype=bool)
        known[above.key[above.key >= 0]] = True
        parent = _looked_up(self._row_of_key(table.parent), table.link)
        self.parent_row[name] = parent
        fates[parent < 0] = FOLLOWED
        fates[~_looked_up(known, table.link, False)] = ORPHAN
        fates[table.link < 0] = KEYLESS
        held = np.flatnonzero(fates == COUNTED)
        sizes = np.bincount(parent[held], minlength=above.rows)
        self.sizes[name] = sizes
        crowded = held[sizes[parent[held]] > table.at_most]
        if len(crowded):
            hashes, group = self._hash_of(name, crowded), parent[crowded]
            order = np.lexsort((hashes, ~self._preferred(table, crowded, group, hashes), group))
            fates[crowded[order[place_within(group[order]) >= table.at_most]]] = BEYOND

    def _row_of_key(self, name: str) -> np.ndarray:
        """Return the counted row with each key, -1 for none; of several with one key the one of the least hash."""
        key = self.tables[name].key
        assert key is not None
        rows = np.flatnonzero((self.fates[name] == COUNTED) & (key >= 0))
        if len(np.unique(key[rows])) < len(rows):
            rows = rows[np.argsort(self._hash(name)[rows])[::-1]]
        row_of = np.full(int(key.max(initial=-1)) + 1, -1)
        row_of[key[rows]] = rows  # the last of those with one key stays
        return row_of

    def _preferred(self, table: TableRows, rows: np.ndarray, group: np.ndarray, hashes: np.ndarray) -> np.ndarray:
        """Return which of the rows a rule asks for: of each parent as many as it says, those of the least hash."""
        preferred = np.zeros(len(rows), dtype=bool)
        for mask, least in table.wanted:
            among = np.flatnonzero(mask[rows])
            order = among[np.lexsort((hashes[among], group[among]))]
            preferred[order[place_within(group[order]) < least]] = True
        return preferred

    def _hash_of(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Return the hash of some rows of a table: all rows of their parents."""
        above = self.tables[name].parent
        if above != self.root or name in self._hashes:
            return self._hash(name)[rows]
        parent, key = self.parent_row[name][rows], self.tables[self.root].key
        assert key is not None
        return row_hashes(self._starts(key[parent]), parent, self._codes(name, rows))

    def _hash(self, name: str) -> np.ndarray:
        """Return the hash of each row of a table that hangs on a counted one; of other rows it means nothing."""
        if name not in self._hashes:
            table, number = self.tables[name], self.tables[name].key
            if table.parent is None:
                assert number is not None
                self._hashes[name] = np.zeros(table.rows, dtype=np.uint64)
                self._hashes[name][number >= 0] = self._starts(number[number >= 0])
            else:
                held = np.flatnonzero(self.parent_row[name] >= 0)
                parent = self.parent_row[name][held]
                self._hashes[name] = np.zeros(table.rows, dtype=np.uint64)
                start = self._hash(table.parent)[parent]
                self._hashes[name][held] = row_hashes(start, parent, self._codes(name, held))
        return self._hashes[name]

    def _codes(self, name: str, rows: np.ndarray) -> list[np.ndarray]:
        return [column[rows] for column in self.tables[name].codes]

    def _starts(self, units: np.ndarray) -> np.ndarray:
        """Return the hash of each unit, of which none is -1; shape (rows,)."""
        found, positions = np.unique(units, return_inverse=True)
        return self._hashes_of_units(found)[positions.reshape(-1)]


def link_rows(
    tables: Mapping[str, TableRows], hashes_of_units: Callable[[np.ndarray], np.ndarray]
) -> dict[str, LinkedRows]:
    """Return the rows of each table that count, and the parent of each.

    Args:
        tables: the tables, the root first and parents before their children.
        hashes_of_units: returns a keyed hash of each of some numbers of the root's keys, shape (numbers,).
    """
    return Linking(tables, hashes_of_units).run()


def _looked_up(table: np.ndarray, numbers: np.ndarray, default: int = -1) -> np.ndarray:
    """Return the entry of each number, and `default` for those that the table does not have."""
    known = (numbers >= 0) & (numbers < len(table))
    found = np.full(len(numbers), default, dtype=table.dtype)
    found[known] = table[numbers[known]]
    return found
