"""FrameTypes: the types of a dataframe's columns as plain data, so that a synthetic table can have the same ones.

    frame: {library: pandas, columns: {age: Int16, sex: {type: category}, height: float32, born: "datetime64[us, UTC]"}}

The names of a table's columns are public, and so is what somebody declared of their types. What a library reads from
the values is not kept (`pgmest.schema.public_types`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgmest.data.chunked_reader import column_names, empty_frame
from pgmest.data.frames import table_types
from pgmest.data.names import pandas_names, with_text_names
from pgmest.data.table_file import is_file
from pgmest.schema.notation import SchemaNode

if TYPE_CHECKING:
    from pgmest.schema.schema import Schema

LIBRARIES = ("pandas", "polars", "pyarrow")

ENGINE = "engine"
"""The library of tables that others hold, such as DuckDB: their types are checked, but no synthetic table has them."""


NUMBER, TEXT = "number", "text"
"""The types of a category's levels that are numbers, and of keys that are texts, in each library."""


FORMS = {
    "int": r"u?int\d+",
    "float16": "float16|halffloat",
    "float32": "float(32)?",
    "float64": "float64|double",
    "bool": "bool(ean)?",
    "decimal": "decimal.*",
    "duration": "(duration|timedelta).*",
    "clock": r"time(32|64)?(\[.*)?",
    "day": "(date|timestamp).*",
    "category": "category|categorical|enum|dictionary.*",
}
"""The forms of values, and the names of the types that have each, in small letters; all other types are of texts."""


def form_of(name: str) -> str:
    """Return the form of the values of a type of pandas, polars, pyarrow or an engine, by its name.

    >>> form_of("UInt8"), form_of("timestamp[us, tz=UTC]"), form_of("large_string")
    ('int', 'day', 'text')
    """
    return next((form for form, names in FORMS.items() if re.fullmatch(names, name.lower())), "text")


@dataclass(frozen=True)
class ColumnType:
    """The type of a column in a library.

    Attributes:
        name: as the library writes it: "Int64", "category", "Datetime(time_unit='us', time_zone=None)".
        ordered: whether the levels of a category have an order, which is that of the schema's values.
        of: the type of a category's levels, as `name`; none for texts.
    """

    name: str
    ordered: bool = False
    of: str = ""

    def plain(self) -> str | dict[str, Any]:
        """Return the type as plain data."""
        extra = {"ordered": self.ordered, "of": self.of}
        kept = {key: value for key, value in extra.items() if value}
        return {"type": self.name, **kept} if kept else self.name


@dataclass(frozen=True)
class FrameTypes:
    """The types of the columns of a table.

    Attributes:
        library: "pandas", "polars" or "pyarrow", or "engine" for tables of others.
        columns: the type of each column, in the order of the table; None where the schema decides.
    """

    library: str
    columns: Mapping[str, ColumnType | None]

    @classmethod
    def from_node(cls, node: SchemaNode) -> FrameTypes:
        """Return the types in the `frame:` of a schema.

        Raises:
            SchemaError: if the node describes no types.
        """
        fields = node.fields(("library", "columns"), ("library", "columns"))
        columns = fields["columns"].mapping("a mapping of columns to types")
        library = fields["library"].choice((*LIBRARIES, ENGINE))
        return cls(library, {name: _read(inner.called(f"{node.name}: {name}")) for name, inner in columns.items()})

    def plain(self) -> dict[str, Any]:
        """Return the types as plain data, which `from_node` reads."""
        columns = {name: None if kind is None else kind.plain() for name, kind in self.columns.items()}
        return {"library": self.library, "columns": columns}


def library_of(table: Any) -> str:
    """Return the library of a synthetic table for a private one: polars, pyarrow, or else pandas."""
    library = type(native(table)).__module__.partition(".")[0]
    return library if library in ("polars", "pyarrow") else "pandas"


def native(table: Any) -> Any:
    """Return a dataframe of narwhals as one of its library; any other table as it is."""
    return table.to_native() if type(table).__module__.partition(".")[0] == "narwhals" else table


def types_of(table: Any, schema: Schema) -> tuple[str, dict[str, ColumnType | None]]:
    """Return the library of a table and the types of its columns as they are, also where records decide them.

    Args:
        table: a dataframe or a file. No record of it is read; text files have no types.
        schema: columns that it does not name are left out.

    Raises:
        FileFormatError, ArgumentError: if the table cannot be read.
    """
    named = {*(column.name for column in schema.described), *schema.bought}
    types: dict[str, ColumnType | None]
    if is_file(table):
        file = schema.table_file(table)
        library, parquet = "pandas", file.format == ".parquet"
        types = _types(empty_frame(file), library) if parquet else dict.fromkeys(column_names(file))
    else:
        frame, library = native(table), library_of(table)
        if library == "pandas" and pandas_names(frame) is None:
            library = ENGINE
        types = _types(frame, library)
    return library, {name: kind for name, kind in types.items() if name in named}


def _read(node: SchemaNode) -> ColumnType | None:
    if not isinstance(node.value, dict):
        return None if node.value is None else ColumnType(node.text())
    fields = node.fields(("type", "ordered", "of"), ("type",))
    ordered = "ordered" in fields and fields["ordered"].flag()
    return ColumnType(fields["type"].text(), ordered, fields["of"].text() if "of" in fields else "")


def _types(frame: Any, library: str) -> dict[str, ColumnType | None]:
    if library == "polars":
        return {name: _polars_type(kind) for name, kind in frame.lazy().collect_schema().items()}
    if library == "pyarrow":
        return {field.name: ColumnType(str(field.type)) for field in frame.schema}
    if library == ENGINE:
        return {name: ColumnType(kind) for name, kind in table_types(frame).items()}
    frame = with_text_names(frame)
    return {name: _pandas_type(kind) for name, kind in zip(frame.columns, frame.dtypes, strict=True)}


def _pandas_type(kind: Any) -> ColumnType:
    if hasattr(kind, "categories"):
        return ColumnType("category", bool(kind.ordered), _pandas_type(kind.categories.dtype).name)
    if hasattr(kind, "pyarrow_dtype"):
        return ColumnType(f"arrow[{kind.pyarrow_dtype}]")
    if getattr(kind, "storage", None) and str(kind) == "string":
        return ColumnType(f"string[{kind.storage}]")
    return ColumnType(str(kind))


def _polars_type(kind: Any) -> ColumnType:
    name = str(kind)
    if name.startswith("Enum"):
        return ColumnType("Enum", True)
    return ColumnType("Categorical" if name.startswith("Categorical") else name)
