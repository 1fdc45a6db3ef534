"""The choice of the rows of linked tables that belong together and count, by numbers of keys and a secret key.

Rows that share keys belong to one unit, and what one unit's rows are changes nothing for another unit's. Public rules,
with no regard to other units, say what becomes of rows that do not fit:

- A row of the root without a key, or a row of another table without one or whose parent is not there, is left out.
- Of several rows of the root with the same key one counts, the one that a keyed hash says.
- If rows of two units have the same key in a table with children, the two are one unit: of such units, one row of the
  root counts, with what hangs on it. Within one unit, the children hang on one of the rows with their key.
- Of the rows of one parent row at most `at_most` count: first those that a rule asks for (`Exactly`, `AtLeast`), then
  those that the keyed hash says. What hangs on a row that does not count does not count either.
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
        key: the number of each row's own key, -1 for none, shape (rows,); None if nothing hangs on the table.
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
        fates = self.fates[self.root]
        fates[number < 0] = KEYLESS
        units = int(number.max(initial=-1)) + 1
        lost = ~self._chosen(units)
        fates[(number >= 0) & lost[number]] = DOUBLED
        there = fates == COUNTED
        doubled = np.flatnonzero(there & (np.bincount(number[there], minlength=units + 1)[number] > 1))
        if len(doubled):
            hashes = row_hashes(self._starts(number[doubled]), number[doubled], self._codes(self.root, doubled))
            order = np.lexsort((hashes, number[doubled]))
            fates[doubled[order[place_within(number[doubled][order]) > 0]]] = DOUBLED

    def _chosen(self, units: int) -> np.ndarray:
        """Return which units count: of those that are one, as they share keys, one; booleans of shape (units + 1,)."""
        chosen, pairs = np.ones(units + 1, dtype=bool), self._shared(units)
        if len(pairs):
            from scipy.sparse import coo_array
            from scipy.sparse.csgraph import connected_components

            graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(units, units))
            _, label = connected_components(graph, directed=False)
            one = np.unique(pairs)
            order = one[np.lexsort((self._starts(one), label[one]))]
            chosen[order[place_within(label[order]) > 0]] = False
        return chosen

    def _shared(self, units: int) -> np.ndarray:
        """Return pairs of units whose rows have the same key in a table with children: integers of shape (pairs, 2)."""
        root_key = self.tables[self.root].key
        assert root_key is not None
        present = np.zeros(units + 1, dtype=bool)
        present[root_key[root_key >= 0]] = True
        unit_of, pairs = (
            {self.root: np.where(present, np.arange(units + 1), -1)[:-1]},
            [np.empty((0, 2), dtype=np.int64)],
        )
        for name, table in self.tables.items():
            if table.parent is None or table.key is None or table.link is None:
                continue
            unit = _looked_up(unit_of[table.parent], table.link)
            held = np.flatnonzero((table.key >= 0) & (unit >= 0))
            order = held[np.lexsort((unit[held], table.key[held]))]
            key, own = table.key[order], unit[order]
            differ = (key[1:] == key[:-1]) & (own[1:] != own[:-1])
            pairs.append(np.stack([own[:-1][differ], own[1:][differ]], axis=1))
            unit_of[name] = np.full(int(table.key.max(initial=-1)) + 1, -1)
            unit_of[name][key] = own
        return np.concatenate(pairs)

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
