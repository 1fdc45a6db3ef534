"""LinkedSchema: what is public about linked tables; the way from their rows to a LinkedDataset, and back to tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset
from pgmest.data.linked_rules import Rule
from pgmest.errors import ArgumentError, SchemaError, listed
from pgmest.privacy.linked_unit import LinkedUnit
from pgmest.schema.column import SchemaColumn
from pgmest.schema.grid import Grid
from pgmest.schema.kinds import whole_column
from pgmest.schema.linked.orders_above import OrderAbove
from pgmest.schema.linked.within import counted
from pgmest.schema.notation import SchemaNode
from pgmest.schema.public_types import public_types
from pgmest.schema.schema import SCHEMA_OF_TABLES, Schema
from pgmest.tables.domain import Domain

if TYPE_CHECKING:
    from pgmest.schema.linked.check import LinkedCheck


@dataclass(frozen=True, eq=False)
class TableSchema:
    """The public description of one of several linked tables.

    Attributes:
        name: the table.
        schema: its columns, but for keys and computed ones.
        key: the columns that identify its rows, on which rows of other tables hang; none if nothing hangs on it.
        parent: the table on whose rows its rows hang; None for the root.
        link: its columns that hold the key of the parent row, in the order of the parent's key.
        at_most: how many rows of one parent row count; 0 for the root.
        rules: what holds among the rows of one parent row.
        computed: the columns without codes -> the table whose rows they count (`type: count`); None for a column that
            numbers the rows of each parent row (`type: sequence`).
        place: where it is described, for errors.
        order: the column by which the rows of one parent row are ordered; None if their order means nothing.
        orders_above: the orders between its columns and those of its parent; `rules` has what they say about bins.
    """

    name: str
    schema: Schema
    key: tuple[str, ...]
    parent: str | None
    link: tuple[str, ...]
    at_most: int
    rules: tuple[Rule, ...]
    computed: Mapping[str, str | None]
    place: str
    order: str | None = None
    orders_above: tuple[OrderAbove, ...] = ()

    @property
    def order_by(self) -> str | None:
        """The attribute whose codes never fall from row to row of one parent row; None without one."""
        return self.order if self.order in self.schema.domain else None

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of both keys, each once."""
        return tuple(dict.fromkeys((*self.link, *self.key)))

    @property
    def numbered(self) -> str | None:
        """The column of its key that numbers its rows in synthetic tables; None if the link identifies the rows."""
        return next((name for name in self.key if name not in self.link), None)


@dataclass(frozen=True, eq=False, repr=False)
class LinkedSchema(Schema):
    """The schema of linked tables: `tables:` in its file. Everything in it is public.

    >>> schema = Schema.parse('''
    ... tables:
    ...   households: {key: hid, columns: {region: {type: categorical, values: [N, S], outside: clip}}}
    ...   persons:
    ...     parent: households
    ...     key: hid
    ...     at_most: 8
    ...     columns: {age: {type: integer, min: 0, max: 99, width: 10}}
    ... ''')
    >>> schema
    LinkedSchema(schema: households (region); persons (age), at most 8 for a row of households)
    >>> import pandas as pd
    >>> households = pd.DataFrame({"hid": [1, 2], "region": ["N", "S"]})
    >>> linked = schema.encode({"households": households, "persons": pd.DataFrame({"hid": [2, 2], "age": [30, 4]})})
    >>> linked.sizes("persons"), schema.decode(linked, seed=0)["persons"]["hid"].tolist()
    (array([0, 2]), [2, 2])

    It is a `Schema` whose `encode`, `decode` and `check` take and return a mapping of names to tables. Each of its
    `parts` has the schema of one table.

    A key of the root names one unit, and every row of every table names its unit, as the key of a table with children
    contains that of its parent. If several rows of the root share a key, none of them counts, nor what hangs on them.

    Attributes:
        parts: the tables by name, parents before their children, the root first.
        protected: the table whose rows are protected (`unit:`), the root or one on which nothing hangs.
    """

    parts: Mapping[str, TableSchema] = field(default_factory=dict)
    protected: str = ""

    @classmethod
    def from_node(cls, node: SchemaNode) -> LinkedSchema:
        """Return the schema in a node; raises as `Schema.from_dict`, also if it has no `tables:`."""
        return SCHEMA_OF_TABLES[0](node)

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(self.parts)

    @property
    def root(self) -> str:
        """The name of the table that has no parent."""
        return next(iter(self.parts))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules about the rows of one parent row, of all tables."""
        return tuple(rule for part in self.parts.values() for rule in part.rules)

    @property
    def protection(self) -> str:
        """What neighboring tables differ in, in words; see `pgmest.privacy.linked_unit`."""
        unit = LinkedUnit(self.protected, {name: part.parent for name, part in self.parts.items()})
        below = [part for part in self.parts.values() if part.parent is not None]
        limits = [f"at most {part.at_most} rows of '{part.name}' for each row of '{part.parent}'" for part in below]
        return f"{unit} ({'; '.join(limits)})" if unit.is_root else str(unit)

    @property
    def limits(self) -> tuple[str, ...]:
        """What synthetic tables of this schema do not keep at any budget, in words, with what to do about it."""
        found, described = [], [name for name, part in self.parts.items() if part.schema.domain]
        for part in self.parts.values():
            above = self.parts[part.parent].parent if part.parent else None
            if part.name in described and above in described:
                found.append(
                    f"what a row of '{part.name}' has to do with its row of '{above}' is not measured at any budget, "
                    f"but only what each has to do with '{part.parent}': repeat the columns of '{above}' that matter "
                    f"in '{part.parent}', under other names, with rules within: impossible: where they differ"
                )
        parents = [name for name in described if set(self.children(name)) & set(described)]
        if parents:
            found.append(
                f"columns of {listed(parents)} that follow from the rows below (a sum, the oldest, the number with a "
                "value) will not agree with these rows: leave them out, and compute them from the synthetic rows; only "
                "the number of all rows can be computed (type: count)"
            )
        return tuple(found)

    def children(self, name: str) -> tuple[str, ...]:
        """Return the names of the tables whose rows hang on those of `name`."""
        return tuple(part.name for part in self.parts.values() if part.parent == name)

    def computed(self, name: str) -> dict[str, Grid]:
        """Return the columns of a table that count the rows of others, or number its own, as whole numbers."""
        part, found = self.parts[name], {}
        for column, of in part.computed.items():
            found[column] = counted(column, part.at_most if of is None else self.parts[of].at_most, part.place)
        return found

    # -- what a schema of one table has -------------------------------------------------------------------------------

    @property
    def domain(self) -> Domain:
        self._refuse()

    def select(self, columns: Any) -> Schema:
        self._refuse()

    def with_columns(self, described: Mapping[str, Mapping[str, Any]]) -> Schema:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise SchemaError(
            f"{self.source} describes linked tables ({listed(self.parts)}), which have no columns in common: take one "
            f"of them, schema.parts['{self.root}'].schema."
        )

    def column(self, name: str) -> SchemaColumn:
        self._refuse()

    def stand_in(self) -> LinkedSchema:
        return self

    @property
    def library(self) -> str:
        return self.parts[self.root].schema.library

    def typed(self, table: Any) -> LinkedSchema:
        found, described = {}, dict(self.description["tables"])
        for name, one in self.given(table).items():
            part = self.parts[name]
            keys = tuple(whole_column(key, (1,), 10**9, part.place) for key in part.keys)
            seen = replace(part.schema, described=(*keys, *self.computed(name).values(), *part.schema.described))
            types = public_types(one, seen, tuple(part.keys))
            schema = replace(part.schema, frame=types, description={**part.schema.description, "frame": types.plain()})
            found[name] = replace(part, schema=schema)
            described[name] = {**described[name], "frame": types.plain()}
        return replace(self, parts={**self.parts, **found}, description={**self.description, "tables": described})

    def given(self, tables: Any) -> dict[str, Any]:
        """Return the tables that were given, in the order of the schema; files with what `file:` says of them.

        The root may be left out if it has no columns: its rows are then those that the others name.

        Raises:
            ArgumentError: it is no mapping of the schema's tables.
            FileFormatError: a file that is no table.
        """
        allowed = f"a table for each name, such as {{{', '.join(f'{name!r}: ...' for name in self.parts)}}}"
        if not isinstance(tables, Mapping) or isinstance(tables, LinkedDataset):
            raise ArgumentError.of("table", type(tables), allowed)
        optional = [] if self.parts[self.root].schema.described or self.parts[self.root].computed else [self.root]
        lacking = [name for name in self.parts if name not in tables and name not in optional]
        unknown = [name for name in tables if name not in self.parts]
        if lacking or unknown or not tables:
            raise ArgumentError(
                f"{self.source} describes {listed(self.parts)}, but "
                + (
                    f"there is no table {listed(lacking or optional)}"
                    if not unknown
                    else f"{listed(unknown)} is none of them"
                )
                + f"; give {allowed}."
            )
        held = {name: part for name, part in self.parts.items() if name in tables}
        return {name: part.schema.table_file(tables[name], part.keys) for name, part in held.items()}

    def table_file(self, table: Any) -> Any:
        return self.given(table)

    # -- tables -------------------------------------------------------------------------------------------------------

    def encode(self, table: Any, *, key: bytes | None = None) -> LinkedDataset:  # type: ignore[override]
        """Return the tables as a `LinkedDataset`, with what holds within parents (`rules`).

        Rows are joined by their keys: values that are written alike are one key, such as 1, 1.0 and "1". No row raises
        an error; public rules decide what becomes of rows that do not fit (`pgmest.schema.linked.linking`), and `check`
        counts them: rows without a key, children without a parent, all rows of the root with a key that occurs twice,
        and children beyond `at_most` are left out. What the rows of one unit are changes nothing for another one.

        Args:
            table: name -> a dataframe of any library, or the path of a file. Of tables of an engine, such as DuckDB,
                only the columns that the schema names are read. The root may be left out if it has no columns.
            key: 16 secret bytes that fix which children of a crowded parent count; by default new ones for each call.

        Raises:
            DataError: a column is missing; or, with `outside: error`, a value is not foreseen.
            FileFormatError: a file is unreadable or not such a table.
            ArgumentError: not a mapping of the schema's tables, or no such key.
        """
        from pgmest.schema.linked.encoding import encode

        return encode(self, self.given(table), key)

    def decode(
        self,
        data: Dataset | LinkedDataset,
        seed: int | np.random.Generator | None = None,
        like: Any = None,
        *,
        written: bool | Collection[str] = False,
    ) -> dict[str, Any]:
        """Return linked codes as tables of values by name, with fresh keys that join, from 1 on.

        Values are drawn as `Schema.decode` draws them; rules such as `older` hold among them, too.

        Args:
            data: a LinkedDataset over the attributes of the tables, such as `encode` returns.
            seed: of the draws.
            like: "pandas", "polars" or "pyarrow"; by default the library of the tables that `typed` saw, else pandas.
            written: whether values are in the notation of text files; or the tables whose values are.

        Raises:
            SchemaError: the data have other tables or attributes.
            ArgumentError, OptionalDependencyError: as for `Schema.decode`.
        """
        from pgmest.schema.linked.decoding import decode

        return decode(self, data, np.random.default_rng(seed), self.library if like is None else like, written)

    def check(self, table: Any) -> LinkedCheck:  # type: ignore[override]
        """Return a check of the tables: what `Schema.check` counts of each, and how they join.

        **It is counted from the records without noise: for the owner of the tables only.**

        Args:
            table: as for `encode`.

        Raises:
            DataError: a table has no rows, or lacks a column.
            FileFormatError, ArgumentError: as for `encode`.
        """
        from pgmest.schema.linked.check import check

        return check(self, self.given(table))

    def __repr__(self) -> str:
        parts = [
            f"{name} ({listed(part.schema.domain) or 'no attributes'})"
            + (f", at most {part.at_most} for a row of {part.parent}" if part.parent else "")
            for name, part in self.parts.items()
        ]
        number = len({str(rule) for rule in self.rules})
        rules = f"; {number} rules within parents" if number else ""
        unit = f"; unit: {self.protected}" if self.protected != self.root else ""
        return f"LinkedSchema({self.source}: {'; '.join(parts)}{rules}{unit})"
