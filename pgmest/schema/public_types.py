"""The types of a table's columns that a release may have: what was declared, never what a library read from the values.

A reader makes a column int64 or float64, bool or object, of seconds or of nanoseconds, by the values that it meets; it
chooses the digits of decimals, the width of the indices of a dictionary and the levels of a category by them. So:

- numbers of 64 bits are one type, with the integers of NumPy, which a gap turns into floats; the schema decides;
- decimals have the decimal places of the schema and 38 digits, indices 32 bits, times and time zones microseconds;
- the levels of a category are the values of the schema, in its order;
- texts, truth values, dates and durations have the type that follows from the schema;
- all others were declared: narrow numbers, nullable types, categories, time zones, columns of pandas in Arrow's types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.schema.casting import extremes, holding, levels_of
from pgmest.schema.categorical import Boolean
from pgmest.schema.column import SchemaColumn
from pgmest.schema.frame_types import ENGINE, NUMBER, TEXT, ColumnType, FrameTypes, form_of, types_of
from pgmest.schema.library_types import LIBRARIES
from pgmest.schema.readings import real_of, whole_of

if TYPE_CHECKING:
    from pgmest.schema.schema import Schema

NAMES = {
    "pandas": {"wide": "int64 float64", "zone": "datetime64[us, {}]"},
    "nullable": {"wide": "Int64 Float64", "zone": "datetime64[us, {}]"},
    "polars": {
        "wide": "Int64 Float64",
        "zone": "Datetime(time_unit='us', time_zone='{}')",
        "decimal": "Decimal(precision=38, scale={})",
        "clock": "Time",
    },
    "pyarrow": {
        "wide": "int64 double",
        "zone": "timestamp[us, tz={}]",
        "decimal": "decimal128(38, {})",
        "clock": "time64[us]",
    },
}
"""The types of a release by library: numbers of 64 bits, times with a zone, and others by their form."""

ZONED = re.compile(r"(?:datetime64\[\w+, |Datetime\(time_unit='\w+', time_zone='|timestamp\[\w+, tz=)(.+?)'?[\])]")
"""The types of times with a zone."""

TEXT_TYPES = ("object", "str", "string[python]", "string[pyarrow]", "String", "string", "large_string", "string_view")
"""The types of texts of pandas, polars and pyarrow."""

WIDE = re.compile(r"u?int(64|128)|float64|double")
"""The types of numbers of 64 bits, between which libraries choose by the values, in small letters."""

NARROW = re.compile(r"u?int(8|16|32)|float(16|32)?|halffloat")
"""The types of narrower numbers, in small letters."""


def public_types(table: Any, schema: Schema, keys: tuple[str, ...] = ()) -> FrameTypes:
    """Return the types that synthetic tables have; no record is read, and none decides them.

    Args:
        table: a dataframe or a file.
        schema: its description; columns that it does not name are left out.
        keys: columns that identify rows: they are texts or whole numbers.

    Raises:
        FileFormatError, ArgumentError: if the table cannot be read.
    """
    library, types = types_of(table, schema)
    described = {column.name: column for column in schema.described}
    public: dict[str, ColumnType | None] = {}
    for name, kind in types.items():
        column = described.get(name)
        if kind is None or column is None or library == ENGINE:
            public[name] = None
        elif name in keys:
            public[name] = ColumnType(TEXT) if kind.name in TEXT_TYPES else next(_declared(library, column, kind), None)
        else:
            public[name] = public_type(library, column, kind)
    return FrameTypes(library, public)


def public_type(library: str, column: SchemaColumn, kind: ColumnType) -> ColumnType | None:
    """Return the type that synthetic columns have for a private one; None if it follows from the schema."""
    plain = LIBRARIES[library].plain(column)(*extremes(column))
    for wanted in _declared(library, column, kind):
        made = holding(library, column, wanted)
        if made is not None:
            return None if _type(made(*extremes(column))) == _type(plain) else wanted
    return None


def _type(made: Any) -> Any:
    return made.dtype if hasattr(made, "dtype") else made.type


def _declared(library: str, column: SchemaColumn, kind: ColumnType) -> Iterator[ColumnType]:
    """Yield the types that were declared by a private type, the best first."""
    if kind.name in ("category", "Categorical", "Enum"):
        yield ColumnType(kind.name, kind.ordered, _of(column, kind.of))
    elif kind.name.startswith("arrow["):
        yield from (ColumnType(f"arrow[{inner}]") for inner in _names("pyarrow", column, kind.name[6:-1]))
        yield ColumnType(f"arrow[{_type(LIBRARIES['pyarrow'].plain(column)(*extremes(column)))}]")
    else:
        yield from map(ColumnType, _names(library, column, kind.name))


def _names(library: str, column: SchemaColumn, name: str) -> Iterator[str]:
    """Yield the names of the types that a type of a library declares."""
    form, names = form_of(name), NAMES["nullable" if library == "pandas" and name[0].isupper() else library]
    narrow = NARROW.fullmatch(name.lower())
    if dictionary := re.fullmatch(r"dictionary<values=(.+), indices=\w+, ordered=(\d)>", name):
        of = _of(column, dictionary[1])
        values = "int64" if of == NUMBER and _whole(column) else {"bool": "bool", NUMBER: "double"}.get(of, "string")
        yield f"dictionary<values={values}, indices=int32, ordered={dictionary[2]}>"
    elif zoned := ZONED.fullmatch(name):
        yield names["zone"].format(zoned[1])
    elif form in names and (form != "decimal" or column.decimals is not None):
        yield names[form].format(column.decimals)
    elif (narrow and (form != "int" or names is not NAMES["pandas"])) or (
        library == "pandas" and (name == "boolean" or name.startswith("string["))
    ):
        yield name
    if narrow or WIDE.fullmatch(name.lower()) or form in names:
        yield from names["wide"].split() if form != "clock" else ()


def _of(column: SchemaColumn, name: str) -> str:
    """Return the type of a category's levels that are truth values or numbers; none if a label of the schema is not."""
    if isinstance(column, Boolean) and name.lower().startswith("bool"):
        return "bool"
    if not (WIDE.fullmatch(name.lower()) or NARROW.fullmatch(name.lower())):
        return ""
    numbers = [real_of(text) for text in levels_of(column) or ()]
    return NUMBER if isinstance(column, Boolean) or np.isfinite(numbers).all() else ""


def _whole(column: SchemaColumn) -> bool:
    if isinstance(column, Boolean):
        return True
    read = [whole_of(text) for text in levels_of(column) or ()]
    return all(number is not None and number[1] for number in read)
