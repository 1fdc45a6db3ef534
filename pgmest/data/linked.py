"""LinkedDataset: tables of codes of which the rows of one hang on the rows of another, such as persons on households.

The tables are a tree. Its root holds the units: a household with its persons, a patient with visits and their
diagnoses. Each row of another table belongs to one row of its parent table, by position; keys are for files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pgmest.data.codes import read_only
from pgmest.data.dataset import Dataset
from pgmest.data.linked_names import name_problem
from pgmest.errors import ArgumentError, DataError, ShapeError, at_least, listed, plural
from pgmest.tables.domain import Clique, Domain

if TYPE_CHECKING:
    from pgmest.data.linked_rules import Rule


@dataclass(frozen=True, eq=False)
class LinkedTable:
    """One table of a LinkedDataset.

    Attributes:
        dataset: the codes; of a table without attributes, `Dataset.from_codes(np.empty((rows, 0)), {})`.
        parent: the name of the table on whose rows these hang; None for the root.
        parent_rows: the row of the parent table to which each row belongs, shape (rows,), in any order; None for the
            root.
        at_most: the public limit of how many rows hang on one parent row; None for the root.
        structural_zeros: the attributes of combinations that cannot occur in a row -> a boolean table, True where
            impossible; public, as `pgmest.estimate` takes them.
        ordered: whether the rows of one parent row are in an order that means something, such as visits of a patient.
        order_by: the attribute whose codes never fall in this order, such as a date; None without one.

    Raises:
        ArgumentError: `parent`, `parent_rows` and `at_most` are not all given or all None, `at_most` is below 1, or
            `ordered` and `order_by` do not fit.
        ShapeError: `parent_rows` has not one entry for each row.
        DataError: `parent_rows` holds other things than rows, or the records have weights.
    """

    dataset: Dataset
    parent: str | None = None
    parent_rows: np.ndarray | None = None
    at_most: int | None = None
    structural_zeros: Mapping[Clique, np.ndarray] = field(default_factory=dict)
    ordered: bool = False
    order_by: str | None = None

    def __post_init__(self) -> None:
        if self.dataset.weights is not None:
            raise DataError("records of linked tables have no weights: leave them out, or make them an attribute.")
        given = {"parent": self.parent, "parent_rows": self.parent_rows, "at_most": self.at_most}
        lacking = [name for name, value in given.items() if value is None]
        if len(lacking) == len(given):
            if self.ordered or self.order_by is not None:
                raise ArgumentError.of(
                    "ordered", self.ordered, "False, and order_by None: only the rows of one parent row have an order"
                )
            return
        if self.parent is None or self.parent_rows is None or self.at_most is None:
            raise ArgumentError.of(lacking[0], None, f"given, since a table with a parent needs all of {listed(given)}")
        at_least("at_most", self.at_most, 1)
        if self.order_by is not None and (not self.ordered or self.order_by not in self.domain):
            allowed = f"None, or with ordered=True one of {listed(self.domain)}"
            raise ArgumentError.of("order_by", self.order_by, allowed)
        rows = np.asarray(self.parent_rows)
        if rows.shape != (self.rows,):
            raise ShapeError.of("parent_rows", (self.rows,), rows.shape, "It has one entry for each row.")
        if rows.dtype.kind not in "iu" and self.rows:
            raise DataError(f"parent_rows must hold rows of '{self.parent}', whole numbers, not {rows.dtype}.")
        object.__setattr__(self, "parent_rows", read_only(rows.astype(np.int64)))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.dataset.records

    @property
    def domain(self) -> Domain:
        """The attributes."""
        return self.dataset.domain


@dataclass(frozen=True, eq=False, repr=False)
class LinkedDataset:
    """Tables of codes that form a tree, with what holds among the rows of one parent row.

    >>> households = LinkedTable(Dataset.from_codes(np.array([[0], [1], [1]]), {"region": 2}))
    >>> persons = Dataset.from_codes(np.array([[4], [1], [3]]), {"age": 5})
    >>> members = LinkedTable(persons, "households", np.array([0, 0, 2]), 8)
    >>> linked = LinkedDataset({"households": households, "persons": members})
    >>> linked
    LinkedDataset(households: 3 rows; persons: 3 rows, at most 8 for a row of households)
    >>> linked.sizes("persons"), linked.units("persons")
    (array([2, 0, 1]), array([0, 0, 2]))

    Attributes:
        tables: name -> table; the parents before their children, the root first.
        rules: what holds among the rows of one parent row; public. The records may break them: `rule.broken(linked)`.
        unit: the table whose rows are protected; the root by default (`pgmest.privacy.linked_unit.LinkedUnit`).

    Raises:
        ArgumentError: `unit` is no table, or a name of a table or column means something else, too (`name_problem`).
        DataError: there is no table, not one root, or a parent that is no table; `parent_rows` are no rows of the
            parent, or more of them than `at_most` are the same; or a rule is about a table or attribute that is not
            there.
    """

    tables: Mapping[str, LinkedTable]
    rules: Sequence[Rule] = ()
    unit: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", _root_first(dict(self.tables)))
        object.__setattr__(self, "rules", tuple(self.rules))
        object.__setattr__(self, "unit", self.root if self.unit is None else self.unit)
        if self.unit not in self.tables:
            raise ArgumentError.of("unit", self.unit, tuple(self.tables))
        if problem := name_problem({name: table.domain.attributes for name, table in self.tables.items()}):
            name, column, why = problem
            raise ArgumentError(f"table '{name}'{'' if column is None else f': column {column!r}'} {why}.")
        for name in self.order[1:]:
            parent, rows = self.link(name)
            _check_rows(name, rows, self.tables[name].at_most or 0, parent, self.tables[parent].rows)
            _check_order(name, self.tables[name], rows)
        for rule in self.rules:
            rule.check(self.tables)

    # -- the tree ---------------------------------------------------------------------------------------------------

    @property
    def root(self) -> str:
        """The name of the table that has no parent."""
        return next(iter(self.tables))

    @property
    def order(self) -> tuple[str, ...]:
        """The names of the tables, parents before their children."""
        return tuple(self.tables)

    def children(self, name: str) -> tuple[str, ...]:
        """Return the names of the tables whose rows hang on those of `name`."""
        self._table(name)
        return tuple(child for child, table in self.tables.items() if table.parent == name)

    def path(self, name: str) -> tuple[str, ...]:
        """Return the names of the tables from the root to `name`, both included."""
        above = self._table(name).parent
        return (name,) if above is None else (*self.path(above), name)

    def link(self, name: str) -> tuple[str, np.ndarray]:
        """Return the name of a table's parent, and the row of it to which each row belongs: integers of shape (rows,).

        Raises:
            ArgumentError: there is no such table, or it is the root.
        """
        table = self._table(name)
        if table.parent is None or table.parent_rows is None:
            raise ArgumentError.of("name", name, "a table with a parent")
        return table.parent, table.parent_rows

    def sizes(self, name: str) -> np.ndarray:
        """Return how many rows of a table hang on each row of its parent: integers of shape (parent rows,).

        Raises:
            ArgumentError: there is no such table, or it is the root.
        """
        parent, rows = self.link(name)
        return np.bincount(rows, minlength=self.tables[parent].rows)

    def units(self, name: str) -> np.ndarray:
        """Return the row of the root to which each row of a table belongs: integers of shape (rows,)."""
        return self.ancestors(name, self.root)

    def ancestors(self, name: str, above: str) -> np.ndarray:
        """Return the row of the table `above` to which each row of a table belongs: integers of shape (rows,).

        Raises:
            ArgumentError: there is no such table, or `above` is neither `name` nor over it.
        """
        if above not in self.path(name):
            raise ArgumentError.of("above", above, self.path(name))
        rows = np.arange(self.tables[name].rows)
        while name != above:
            name, parent_rows = self.link(name)
            rows = parent_rows[rows]
        return rows

    def most(self, name: str, above: str | None = None) -> int:
        """Return the public limit of how many rows of a table belong to one row of `above`, by default of the unit's.

        >>> data, none = Dataset.from_codes(np.empty((0, 0)), {}), np.empty(0)
        >>> visits, codes = LinkedTable(data, "patients", none, 5), LinkedTable(data, "visits", none, 3)
        >>> LinkedDataset({"patients": LinkedTable(data), "visits": visits, "codes": codes}).most("codes")
        15

        A table that is not below `above` has one row for each of its rows if it is over it or the same, else none.
        """
        above = self.unit if above is None else above
        assert above is not None
        path = self.path(name)
        if above not in path:
            return int(name in self.path(above))
        limits = [self.tables[one].at_most for one in path[path.index(above) + 1 :]]
        return math.prod(limit for limit in limits if limit is not None)

    def _table(self, name: str) -> LinkedTable:
        if name not in self.tables:
            raise ArgumentError.of("name", name, tuple(self.tables))
        return self.tables[name]

    # -- parts ------------------------------------------------------------------------------------------------------

    def take(self, rows: Any) -> LinkedDataset:
        """Return some rows of the root with all that hangs on them; the rows of each table stay in their order.

        Args:
            rows: positions in the root, ascending or not but each once, or a boolean mask.

        Raises:
            ArgumentError: there are no such rows, or one is named twice.
        """
        root = self.tables[self.root]
        allowed = f"distinct rows of '{self.root}', which has {root.rows:,}, or a mask of them"
        try:
            kept = np.atleast_1d(np.arange(root.rows)[rows if len(rows) else slice(0)])
        except (IndexError, TypeError):
            raise ArgumentError.of("rows", rows, allowed) from None
        if len(np.unique(kept)) != len(kept):
            raise ArgumentError.of("rows", rows, allowed)
        taken = {self.root: replace(root, dataset=root.dataset.take(kept))}
        return self._with_rows(taken, {self.root: places_of(kept, root.rows)})

    def at_most(self, name: str, limit: int) -> LinkedDataset:
        """Return the linked tables with at most this many rows of a table for each row of its parent.

        Of more rows, some that are evenly spaced in their order stay, with all that hangs on them.

        Raises:
            ArgumentError: there is no such table, or it is the root; or the limit is below 1.
        """
        limit = at_least("limit", limit, 1)
        parent_rows, sizes, table = self.link(name)[1], self.sizes(name), self.tables[name]
        places = evenly_spaced(np.cumsum(sizes) - sizes, sizes, np.minimum(sizes, limit))
        kept = np.sort(np.argsort(parent_rows, kind="stable")[places])
        tables = {other: held for other, held in self.tables.items() if name not in self.path(other)}
        tables[name] = replace(
            table,
            dataset=table.dataset.take(kept),
            parent_rows=parent_rows[kept],
            at_most=min(limit, table.at_most or limit),
        )
        return self._with_rows(tables, {name: places_of(kept, table.rows)})

    def _with_rows(
        self, taken: Mapping[str, LinkedTable], places: Mapping[str, np.ndarray], in_order: bool = False
    ) -> LinkedDataset:
        """Return the linked tables with some tables as given, and in the others the rows that hang on what they keep.

        Args:
            taken: some tables, with all those above them.
            places: of those on which others hang, the place of each row, or -1 where it is left out.
            in_order: whether the rows of the others come in the order of their parents.
        """
        tables, places = dict(taken), dict(places)
        for name in [name for name in self.order if name not in taken]:
            table, (parent, parent_rows) = self.tables[name], self.link(name)
            to = places[parent][parent_rows]
            stays = np.flatnonzero(to >= 0)
            stays = stays[np.argsort(to[stays], kind="stable")] if in_order else stays
            tables[name] = replace(table, dataset=table.dataset.take(stays), parent_rows=to[stays])
            places[name] = places_of(stays, table.rows)
        return replace(self, tables=tables)

    def in_order(self) -> LinkedDataset:
        """Return the same rows with those of each table in the order of their parents, otherwise in their own."""
        root = self.root
        return self._with_rows({root: self.tables[root]}, {root: np.arange(len(self))}, in_order=True)

    def __len__(self) -> int:
        """Return the number of rows of the root."""
        return self.tables[self.root].rows

    def __eq__(self, other: object) -> bool:
        """Equal when tables, their codes and parents, limits, rules and the unit agree."""
        if not isinstance(other, LinkedDataset) or self.order != other.order:
            return False
        return (self.rules, self.unit) == (other.rules, other.unit) and all(
            mine.parent == other.tables[name].parent
            and mine.at_most == other.tables[name].at_most
            and (mine.ordered, mine.order_by) == (other.tables[name].ordered, other.tables[name].order_by)
            and mine.dataset == other.tables[name].dataset
            and (name == self.root or np.array_equal(self.link(name)[1], other.link(name)[1]))
            for name, mine in self.tables.items()
        )

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = [
            f"{name}: {plural(table.rows, 'row')}"
            + ("" if table.parent is None else f", at most {table.at_most} for a row of {table.parent}")
            + (f", in order{'' if table.order_by is None else f' of {table.order_by}'}" if table.ordered else "")
            for name, table in self.tables.items()
        ]
        rules = f"; {plural(len(self.rules), 'rule')}" if self.rules else ""
        protected = "" if self.unit == self.root else f"; unit: a row of {self.unit}"
        return f"LinkedDataset({'; '.join(parts)}{rules}{protected})"


def tree_order(parents: Mapping[str, str | None]) -> list[str]:
    """Return the names of tables, the root first and parents before their children, otherwise as they are given.

    Args:
        parents: the parent of each table; None for the root.

    Raises:
        DataError: there is no table, not one root, a parent that is no table, or a circle.
    """
    roots = [name for name, parent in parents.items() if parent is None]
    if len(roots) != 1:
        what = f"{listed(roots)} have none" if roots else "there is none without"
        raise DataError(f"linked tables form one tree, with one table that has no parent: {what}.")
    for name, parent in parents.items():
        if parent is not None and parent not in parents:
            raise DataError(f"the parent of '{name}' is '{parent}', which is no table ({listed(parents)}).")
    order = roots
    while len(order) < len(parents):
        further = [name for name, parent in parents.items() if parent in order and name not in order]
        if not further:
            circle = [name for name in parents if name not in order]
            raise DataError(f"the tables {listed(circle)} are parents of one another; each must lead to {roots[0]}.")
        order = [*order, *further]
    return order


def _root_first(tables: dict[str, LinkedTable]) -> dict[str, LinkedTable]:
    return {name: tables[name] for name in tree_order({name: table.parent for name, table in tables.items()})}


def _check_rows(name: str, rows: np.ndarray, at_most: int, parent: str, parents: int) -> None:
    if not len(rows):
        return
    if rows.min() < 0 or rows.max() >= parents:
        wrong = rows.min() if rows.min() < 0 else rows.max()
        raise DataError(f"parent_rows of '{name}' has {wrong}, but '{parent}' has rows 0 to {parents - 1}.")
    if np.bincount(rows).max() > at_most:
        raise DataError(
            f"a row of '{parent}' has more than at_most={at_most} rows of '{name}': choose which of them count, as "
            "Schema.encode does, or raise at_most."
        )


def _check_order(name: str, table: LinkedTable, rows: np.ndarray) -> None:
    if table.order_by is None:
        return
    order = np.argsort(rows, kind="stable")
    codes, parents = np.asarray(table.dataset.column(table.order_by), dtype=np.int64)[order], rows[order]
    if np.any((codes[1:] < codes[:-1]) & (parents[1:] == parents[:-1])):
        raise DataError(
            f"rows of '{name}' are not in order of '{table.order_by}' within a row of '{table.parent}': sort them, as "
            "Schema.encode does."
        )


def evenly_spaced(first: np.ndarray, sizes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the places of as many rows of each parent as wanted, evenly spaced: [i n / k] for k of n adjacent rows.

    If more are wanted than there are, rows occur several times.

    >>> evenly_spaced(np.array([0, 5]), np.array([5, 1]), np.array([2, 3]))
    array([0, 2, 5, 5, 5])

    Args:
        first: the place of the first row of each parent.
        sizes: the number of its rows, which is positive where some are wanted.
        wanted: the number of rows to take.
    """
    owners = np.repeat(np.arange(len(wanted)), wanted)
    number = np.arange(len(owners)) - (np.cumsum(wanted) - wanted)[owners]
    return first[owners] + number * sizes[owners] // wanted[owners]


def places_of(rows: np.ndarray, size: int) -> np.ndarray:
    """Return the place of each of `size` rows among `rows`, -1 for those that are not."""
    places = np.full(size, -1, dtype=np.int64)
    places[rows] = np.arange(len(rows))
    return places
