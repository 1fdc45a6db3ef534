"""Schema: what is public about a raw table; the way from its rows to codes, and from synthetic codes to a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pgmest._base.files import read_text
from pgmest.data.beginning import placed_file
from pgmest.data.dataset import Dataset
from pgmest.data.table_file import READ, is_file, table_file
from pgmest.errors import FileFormatError, SchemaError, listed
from pgmest.schema.bought import BoughtColumn
from pgmest.schema.code_book import with_code_books
from pgmest.schema.column import SchemaColumn, domain_of
from pgmest.schema.frame_types import LIBRARIES, FrameTypes
from pgmest.schema.notation import SchemaNode, node_of, parse_toml, parse_yaml
from pgmest.schema.orders import Order
from pgmest.schema.public_types import public_types
from pgmest.schema.schema_parts import schema_parts
from pgmest.schema.sums import Sum
from pgmest.schema.unit import Unit
from pgmest.schema.weight import Weight
from pgmest.tables.domain import Clique, Domain

if TYPE_CHECKING:
    from pgmest.schema.check import TableCheck

TABLE_ENDINGS = (*READ, ".xls", ".xlsm", ".ods", ".npz")

SCHEMA_OF_TABLES: list[Callable[[SchemaNode], Any]] = []
"""The function that reads a schema with `tables:`; linked/reading.py imports this file and adds it."""

DRAFT_MARK = "READ FROM THE PRIVATE DATA"
"""Stands on each line of a draft that was read from the records; a schema with such a line is not public."""


@dataclass(frozen=True, eq=False)
class Schema:
    """The columns of a raw table, and what cannot occur in it. Everything in it is public.

    >>> schema = Schema.parse('''
    ... columns:
    ...   sex: {type: categorical, values: [F, M], other: X}
    ...   age: {type: integer, min: 0, max: 99, width: 10, missing: true}
    ... ''')
    >>> schema.domain
    Domain({'sex': 3, 'age': 11})
    >>> import pandas as pd
    >>> data = schema.encode(pd.DataFrame({"sex": ["M", "?"], "age": [47, None]}))
    >>> data.codes
    array([[ 1,  4],
           [ 2, 10]], dtype=uint8)
    >>> table = schema.decode(data, seed=0)
    >>> table["sex"].tolist(), table["age"].isna().tolist()
    (['M', 'X'], [False, True])

    Attributes:
        columns: the coded columns, in the order of the attributes; computed totals have none.
        structural_zeros: attributes -> a boolean table, True where impossible; as `pgmest.estimate` takes them.
        source: the name of the file, for errors.
        drafted: whether it still says `drafted_from_private_data: true`, as `draft` writes it, or has marked lines.
        unit: the persons whose rows are bounded; None if each row is a person's only one.
        invariants: the tables that releases have exactly, by their columns or levels; they are not protected.
        weight: the survey weight that each record carries; None without one.
        description: the whole schema as plain data of the file's form; `from_dict` reads it.
        file: the options of a `TableFile` by which the private table is read, if its name does not imply them.
        bought: the columns with bounds or values to be bought first, by name. Until then `columns` has the others
            alone, and nothing can be coded (`pgmest.synthesizer.purchase`).
        described: the descriptions of all columns, in the order of the table.
        order: the columns whose values ascend in each row (`ordered: [...]`).
        sums: the totals, which are the sums of their parts in each row (`sum: {...}`).
        frame: the types of the private table's columns, which synthetic tables have, too; None if the schema decides.
        marked_lines: the lines, from 1, that are still marked as read from the records, as `draft` marks them.
    """

    columns: tuple[SchemaColumn, ...]
    structural_zeros: Mapping[Clique, np.ndarray] = field(default_factory=dict)
    source: str = "schema"
    drafted: bool = False
    unit: Unit | None = None
    marked_lines: tuple[int, ...] = ()
    file: Mapping[str, Any] = field(default_factory=dict)
    bought: Mapping[str, BoughtColumn] = field(default_factory=dict)
    description: Mapping[str, Any] = field(default_factory=dict)
    described: tuple[SchemaColumn, ...] = ()
    order: Order = field(default_factory=Order)
    sums: tuple[Sum, ...] = ()
    frame: FrameTypes | None = None
    weight: Weight | None = None
    invariants: tuple[Clique, ...] = ()

    # -- making one -------------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the schema in a `.yaml`, `.yml`, `.json` or `.toml` file: a `LinkedSchema` if it has `tables:`.

        Raises:
            FileFormatError: the file cannot be read, or is not in its format.
            SchemaError: it is no schema; names the line.
            OptionalDependencyError: a YAML or JSON file, and no PyYAML.
        """
        if any(str(path).lower().endswith(ending) for ending in TABLE_ENDINGS):
            raise FileFormatError.of(
                path, "a table, not a schema.", "A schema is a .yaml, .yml, .json or .toml file; see `pgmest schema`."
            )
        return cls.parse(read_text(path), source=str(path), toml=Path(path).suffix.lower() == ".toml")

    @classmethod
    def parse(cls, text: str, source: str = "schema", *, toml: bool = False) -> Self:
        """Return the schema in a text, YAML or JSON unless `toml`. Raises as `load`.

        `source` is its name in errors; files with values are looked for in the folder of that name.
        """
        node = parse_toml(text, source) if toml else parse_yaml(text, source)
        schema = cls.from_node(with_code_books(node, Path(source).parent))
        lines = tuple(number for number, line in enumerate(text.split("\n"), 1) if DRAFT_MARK in line.upper())
        return replace(schema, drafted=schema.drafted or bool(lines), marked_lines=lines)

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Self:
        """Return the schema in plain data of Python, of the same form as the file.

        It opens no file, so that the schema inside a model or another file cannot name one: its values are listed.

        Raises:
            SchemaError: it is no schema, or names a file with values.
        """
        try:
            return cls.from_node(with_code_books(node_of(description), None))
        except RecursionError:
            raise SchemaError("the schema is nested too deeply: it is flat.") from None

    @classmethod
    def from_node(cls, node: SchemaNode) -> Self:
        """Return the schema in a node; raises as `from_dict`."""
        if isinstance(node.value, dict) and "tables" in node.value:
            return SCHEMA_OF_TABLES[0](node)
        return cls(**schema_parts(node))

    # -- what it says -----------------------------------------------------------------------------------------------

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of linked tables (`pgmest.schema.LinkedSchema`); none of a schema of a single table."""
        return ()

    @property
    def domain(self) -> Domain:
        """The attributes and their numbers of codes.

        Raises:
            SchemaError: something of a column is yet to be bought.
        """
        self.check_settled()
        return domain_of(self.columns)

    def check_settled(self) -> None:
        """Raise SchemaError if anything is still to be bought.

        Raises:
            SchemaError: something is.
        """
        if self.bought:
            named = listed([f"{column.name} ({column.wanted})" for column in self.bought.values()], 6)
            raise SchemaError(
                f"{self.source} has columns of which something is to be bought first: {named}. `pgmest synthesize` "
                "and Synthesizer.fit do that with a share of the budget, and keep the schema that they found."
            )

    def with_columns(self, described: Mapping[str, Mapping[str, Any]]) -> Schema:
        """Return the schema with other descriptions of some columns, given as plain data.

        Raises:
            SchemaError: it is no schema.
        """
        columns = {**self.description["columns"], **described}
        made = Schema.from_dict({**self.description, "columns": columns})
        return replace(made, source=self.source, drafted=self.drafted, marked_lines=self.marked_lines)

    def typed(self, table: Any) -> Schema:
        """Return the schema with the types that were declared for a table's columns; no record is read.

        Args:
            table: as for `encode`; text files have no types, but an order of columns.

        Raises:
            FileFormatError, ArgumentError: as for `encode`.
        """
        types = public_types(table, self)
        return replace(self, frame=types, description={**self.description, "frame": types.plain()})

    @property
    def summed(self) -> set[str]:
        """The totals, and the columns that add up to them."""
        return {name for one in self.sums for name in (one.name, *one.leaves)}

    @property
    def library(self) -> str:
        """The library of the private table if it is installed and known, else pandas."""
        library = "pandas" if self.frame is None else self.frame.library
        return library if library in LIBRARIES and find_spec(library) is not None else "pandas"

    def stand_in(self) -> Schema:
        """Return the schema with made-up bounds and values where they are to be bought: for plans, not for tables."""
        return self.with_columns({n: c.stand_in() for n, c in self.bought.items()}) if self.bought else self

    def column(self, name: str) -> SchemaColumn:
        """Return the column of that name.

        Raises:
            UnknownAttributeError: if there is no such attribute.
        """
        return self.columns[self.domain.axes((name,))[0]]

    def select(self, columns: Iterable[str] | str) -> Schema:
        """Return the schema of these columns alone, in the order given, with the constraints among them.

        It decodes data over a part of the attributes: `schema.select(data.domain).decode(data)`.

        Raises:
            UnknownAttributeError, DuplicateAttributeError: the schema lacks a column, or it is named twice.
            ArgumentError: `columns` is no list of names.
            SchemaError: no column, or a total without its parts.
        """
        from pgmest.schema.selection import select

        return select(self, columns)

    def evidence(self, given: Mapping[str, Any]) -> dict[str, int]:
        """Return the codes of values, as `Model.condition` and `given=` of `Model.project` take them.

        >>> schema = Schema.from_dict({"columns": {"age": {"type": "integer", "min": 0, "max": 99, "width": 10}}})
        >>> schema.evidence({"age": 42})
        {'age': 4}

        Args:
            given: column -> a value; None for a missing one. A set or a range is allowed if it has a single code.

        Raises:
            UnknownAttributeError: the schema lacks a column; the error suggests the nearest name.
            QueryError: a value that the column does not have, with the nearest one; or one with several codes.
        """
        from pgmest.schema.given import evidence

        return evidence(self, given)

    def labels(self, name: str) -> list[str]:
        """Return the label of each code of an attribute, or of each group of a level, such as "diagnosis@chapter".

        >>> Schema.parse("columns: {age: {type: integer, min: 0, max: 19, width: 10, missing: true}}").labels("age")
        ['0..9', '10..19', 'missing']

        Raises:
            UnknownAttributeError: the schema has no such attribute or level.
        """
        domain = self.domain
        if domain.names_levels(name):
            return list(domain.group_labels(name))
        column = self.column(name)
        return [*column.labels(), *(["missing"] if column.missing else [])]

    # -- tables -----------------------------------------------------------------------------------------------------

    def encode(self, table: Any, *, key: bytes | None = None) -> Dataset:
        """Return the raw table as codes over `domain`; columns that the schema does not name are ignored.

        The code of a value depends on that value and the schema alone, not on the engine or file that holds it, the
        type of its column, or other values. No value raises an error, except with `outside: error`; a table without
        rows gives a dataset without records.

        A file, and a table that an engine in this process holds (DuckDB, a polars LazyFrame, ...), is read some rows at
        a time. Spark and Dask encode and count their partitions where they are: the result is a `LazyDataset`.

        With a `unit`, at most `unit.at_most` rows of each person stay, by a keyed hash; rows of nobody are left out.
        The dataset says so in `records_per_person`, which the neighboring relation follows.

        Args:
            table: a dataframe of any library, or the path of a file, or a `TableFile`, which lists the kinds of files.
                What neither says of the file the schema's `file:` does. The fields of CSV are text, read as what the
                schema says.
            key: 16 secret bytes that fix which rows of a person stay, where there is a unit; by default new ones from
                the operating system for each call.

        Raises:
            DataError: a column is missing; or, with `outside: error`, a value is not foreseen; rows are counted from 0.
            FileFormatError: the file is unreadable or not such a table.
            ArgumentError: not a dataframe, or no such key.
        """
        from pgmest.schema.encoding import coding_of, encode

        self.check_settled()
        table = self.table_file(table)
        return encode(self.columns, self.unit, table, key, coding=coding_of(self, table))

    def check(self, table: Any) -> TableCheck:
        """Return a check of a raw table: how many of its values are unreadable, clipped, other or missing.

        **It is counted from the records without noise: for the owner of the table only.** Values that `outside: error`
        would stop at are counted, too.

        Args:
            table: as for `encode`.

        Raises:
            DataError: the table has no rows, or lacks a column.
            FileFormatError, ArgumentError: as for `encode`.
        """
        from pgmest.schema.check import check, warn_of_place

        self.check_settled()
        table = self.table_file(table)
        warn_of_place(table)
        return check(self, table)

    def table_file(self, table: Any, keys: Sequence[str] = ()) -> Any:
        """Return a path with what `file:` says about reading it; return any other table as it is.

        Args:
            table: the table.
            keys: columns of the table that the schema does not describe.

        Raises:
            FileFormatError: a file that is no table.
        """
        return placed_file(table_file(table), self.file, [*keys, *self._names]) if is_file(table) else table

    @property
    def _names(self) -> list[str]:
        """The names of all columns, but for totals, which a table need not have."""
        totals = {one.name for one in self.sums}
        weight = [self.weight.name] if self.weight else []
        return [name for name in (*self.description.get("columns", {}), *weight) if name not in totals]

    def decode(
        self,
        data: Dataset,
        seed: int | np.random.Generator | None = None,
        like: Any = "pandas",
        *,
        written: bool = False,
    ) -> Any:
        """Return codes as a table of values: those listed, numbers and dates drawn uniformly within their bin, nulls.

        Values of ordered columns are drawn together; totals are the sums of their parts, which are moved where a sum
        would be beyond the bounds of its total.
        Whole numbers are integers, also with gaps; dates are dates. Encoding the table gives the codes again.

        Args:
            data: over `domain`, such as what `model.sample()` returns. Attributes on which the model was conditioned
                (`Model.condition`) have the given codes.
            seed: of the draws.
            like: "pandas", "polars" or "pyarrow"; or a dataframe, whose library, types and order of columns the table
                gets. A type that cannot hold all values of its column, or missing ones, is replaced by one that can.
            written: whether values are as text files have them: dates in their column's `format`, numbers with its
                decimal mark, and gaps as the first marker that `missing: [...]` lists.

        Raises:
            SchemaError: the data are over another domain, or over a part of it (see `select`).
            ArgumentError: another library.
            OptionalDependencyError: the library is not installed.
        """
        from pgmest.schema.decoding import complete, decode

        return decode(self, complete(self, data), np.random.default_rng(seed), like, written)

    def __repr__(self) -> str:
        if self.bought:
            return (
                f"Schema({self.source}: to be bought: {listed(self.bought)}; {listed([c.name for c in self.columns])})"
            )
        sizes: Iterable[str] = (f"{name} ({size})" for name, size in self.domain.items())
        zeros = f", {len(self.structural_zeros)} constrained sets of columns" if self.structural_zeros else ""
        return f"Schema({self.source}: {listed(sizes)}{zeros})"
