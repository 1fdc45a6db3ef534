"""FrameTypes: the types of a dataframe's columns as plain data, so that a synthetic table can have the same ones.

    frame: {library: pandas, columns: {age: Int64, sex: {type: category}, height: float32, born: "datetime64[ns, UTC]"}}

The types of a table are public, as its names are. Three properties of them are not kept, since a library may have read
them from the records: the levels of a category, which are those that the schema lists, and the choices of pandas that
gaps decide, between int64 and float64, and between bool and object for a boolean column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgmest.data.chunked_reader import column_names
from pgmest.data.frames import table_types
from pgmest.data.names import pandas_names, with_text_names
from pgmest.data.table_file import TableFile, is_file
from pgmest.schema.categorical import Boolean, Categorical, written
from pgmest.schema.notation import SchemaNode
from pgmest.schema.readings import text_of

if TYPE_CHECKING:
    from pgmest.schema.schema import Schema

LIBRARIES = ("pandas", "polars", "pyarrow")

ENGINE = "engine"
"""The library of tables that others hold, such as DuckDB: their types are checked, but no synthetic table has them."""

NUMBER = "number"
"""The type of a column of pandas that is int64 or float64: gaps turn the one into the other."""

MOST_LEVELS = 100_000
"""The most levels of a category or an enumeration whose order is kept."""


@dataclass(frozen=True)
class ColumnType:
    """The type of a column in a library.

    Attributes:
        name: as the library writes it: "Int64", "category", "Datetime(time_unit='us', time_zone=None)".
        levels: the order of the levels of a category that has an order, as texts; only those that a schema lists.
        ordered: whether the levels have an order.
        of: the type of the levels, as `name`.
    """

    name: str
    levels: tuple[str, ...] = ()
    ordered: bool = False
    of: str = ""

    def plain(self) -> str | dict[str, Any]:
        """Return the type as plain data."""
        extra = {"ordered": self.ordered, "of": self.of, "levels": list(self.levels)}
        kept = {key: value for key, value in extra.items() if value}
        return {"type": self.name, **kept} if kept else self.name


TRUTH_OR_GAPS = (ColumnType("bool"), ColumnType("object"))
"""The types of truth values in pandas: gaps turn the one into the other, and the schema says whether there are gaps."""


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

    @classmethod
    def of(cls, table: Any, schema: Schema) -> FrameTypes:
        """Return the types of the columns of a dataframe or a file that a schema describes; no record is read.

        Raises:
            FileFormatError, ArgumentError: if the table cannot be read.
        """
        described = {column.name: column for column in schema.described if isinstance(column, Categorical)}
        named = [*(column.name for column in schema.described), *schema.bought]
        if is_file(table):
            frame, library = _frame_of_file(schema.table_file(table)), "pandas"
        else:
            frame, library = native(table), library_of(table)
            if library == "pandas" and pandas_names(frame) is None:
                library = ENGINE
        if frame is None:
            names = column_names(schema.table_file(table))
            return cls("pandas", {name: None for name in names if name in named})
        found = _types(frame, library)
        if library == "pandas":
            truth = {column.name for column in schema.described if isinstance(column, Boolean)}
            found |= {name: None for name, kind in found.items() if name in truth and kind in TRUTH_OR_GAPS}
        kept = {name: _public(kind, described.get(name)) for name, kind in found.items() if name in named}
        return cls(library, kept)

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


def _read(node: SchemaNode) -> ColumnType | None:
    if not isinstance(node.value, dict):
        return None if node.value is None else ColumnType(node.text())
    fields = node.fields(("type", "levels", "ordered", "of"), ("type",))
    levels = tuple(item.text() for item in fields["levels"].items()) if "levels" in fields else ()
    ordered = "ordered" in fields and fields["ordered"].flag()
    return ColumnType(fields["type"].text(), levels, ordered, fields["of"].text() if "of" in fields else "")


def _public(kind: ColumnType | None, column: Categorical | None) -> ColumnType | None:
    """Return a type with those of its levels that the schema lists, if these are all of the schema's; else with none.

    Levels may have been read from the records, such as those of `frame[name].astype("category")`.
    """
    if kind is None or not kind.levels:
        return kind
    labels = set() if column is None else set(column.labels())
    levels = tuple(level for level in kind.levels if level in labels)
    complete = column is not None and {written(value) for value in column.values} <= set(levels)
    return ColumnType(kind.name, levels if complete else (), kind.ordered, kind.of)


def _frame_of_file(file: TableFile) -> Any:
    """Return an empty frame of pandas with the types of a Parquet file; None for other files, which hold texts."""
    if file.format != ".parquet":
        return None
    from pgmest.data.chunked_reader import empty_frame

    return empty_frame(file)


def _types(frame: Any, library: str) -> dict[str, ColumnType | None]:
    if library == "polars":
        return {name: _polars_type(kind) for name, kind in frame.lazy().collect_schema().items()}
    if library == "pyarrow":
        return {field.name: ColumnType(str(field.type)) for field in frame.schema}
    if library == ENGINE:
        return {name: ColumnType(kind) for name, kind in table_types(frame).items()}
    frame = with_text_names(frame)
    return {name: _pandas_type(kind) for name, kind in zip(frame.columns, frame.dtypes, strict=True)}


def _pandas_type(kind: Any) -> ColumnType | None:
    if hasattr(kind, "categories"):
        texts = _texts(kind.categories) if kind.ordered else ()
        of = _pandas_type(kind.categories.dtype)
        return ColumnType("category", texts, bool(kind.ordered), "" if of is None else of.name)
    if hasattr(kind, "pyarrow_dtype"):
        return ColumnType(f"arrow[{kind.pyarrow_dtype}]")
    if getattr(kind, "storage", None) and str(kind) == "string":
        return ColumnType(f"string[{kind.storage}]")
    name = str(kind)
    return ColumnType(NUMBER if name in ("int64", "float64") else name)


def _polars_type(kind: Any) -> ColumnType:
    name = str(kind)
    if name.startswith("Enum"):
        return ColumnType("Enum", _texts(kind.categories), True)
    return ColumnType("Categorical" if name.startswith("Categorical") else name)


def _texts(levels: Any) -> tuple[str, ...]:
    if len(levels) > MOST_LEVELS:
        return ()
    return tuple(text for text in map(text_of, levels) if text is not None)
