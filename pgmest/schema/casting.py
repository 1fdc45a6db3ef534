"""Columns of a synthetic table in the types that the private table has (`FrameTypes`).

A type is used if it holds every value that the column can have: the first and the last one of each bin, every label,
and a missing value if the schema allows one. Types of pandas without missing values become their nullable counterparts.
Otherwise the column has the type that follows from the schema. The records decide nothing of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.values import Values, read_values
from pgmest.schema.categorical import Boolean, Categorical
from pgmest.schema.column import SchemaColumn
from pgmest.schema.frame_types import ColumnType
from pgmest.schema.grid import Grid
from pgmest.schema.library_types import LIBRARIES
from pgmest.schema.readings import real_of, whole_of

if TYPE_CHECKING:
    from pgmest.schema.schema import Schema

Make = Callable[[np.ndarray, np.ndarray], Any]
"""A function of values and of the records without a value that returns a column of a library."""

DTYPES = {"text": "O", "day": "M", "duration": "m"}
"""The kinds of arrays that have a form already."""

MOST_NUMBERS = 1000
"""The most whole numbers of a column that become levels of a category."""


def made_columns(
    library: str,
    schema: Schema,
    columns: Mapping[str, tuple[SchemaColumn, np.ndarray, np.ndarray]],
    typed: bool,
    ready: Mapping[str, Any],
) -> Any:
    """Return a table of a library, its columns in the order of the private table.

    Args:
        library: "pandas", "polars" or "pyarrow".
        schema: the schema, with the types of the private table, if any.
        columns: the description, the values and the missing records of each column.
        typed: whether the columns have the types of the private table.
        ready: columns that are made already; those that the private table does not have come first.
    """
    types = {} if schema.frame is None else schema.frame.columns
    names = [*ready, *columns]
    order = [name for name in names if name in ready and name not in types]
    order += [name for name in types if name in names]
    made: dict[str, Any] = {}
    for name in dict.fromkeys([*order, *names]):
        if name in ready:
            made[name] = ready[name]
            continue
        column, values, missing = columns[name]
        make = _maker(library, schema, column) if typed else None
        made[name] = (make or LIBRARIES[library].plain(column))(values, missing)
    return LIBRARIES[library].table(made)


def _maker(library: str, schema: Schema, column: SchemaColumn) -> Make | None:
    """Return a function that makes columns of the private table's type; None if the schema decides."""
    frame = schema.frame
    kind = None if frame is None or frame.library != library else frame.columns.get(column.name)
    if kind is None:
        return None
    related = column.name in {*schema.order.columns, *schema.summed}
    if column.kind == "real" and related and kind.name not in ("float64", "Float64", "double", "arrow[double]"):
        return None  # rounding could break the order or the sum
    return holding(library, column, kind)


def holding(library: str, column: SchemaColumn, kind: ColumnType) -> Make | None:
    """Return a function that makes columns of a type; None if the type cannot hold every value of the column."""
    return next((make for make in makers(library, column, kind) if _holds(library, column, make)), None)


def makers(library: str, column: SchemaColumn, kind: ColumnType) -> Iterator[Make]:
    """Yield functions that make columns of a type, the best first; they raise any error for values it cannot hold."""
    for form, make in LIBRARIES[library].forms(column, kind):
        if form == "category":
            labels = levels_of(column)
            if labels is not None:
                yield _categorized(column, labels, make)
        else:
            yield _converted(column, form, make)


def _converted(column: SchemaColumn, form: str, make: Any) -> Make:
    return lambda values, missing: make(as_form(column, values, form), missing)


def _categorized(column: SchemaColumn, labels: list[str], make: Any) -> Make:
    places = {label: place for place, label in enumerate(labels)}

    def made(values: np.ndarray, missing: np.ndarray) -> Any:
        texts = [str(text) for text in column_texts(column, values)]
        return make(np.array([places[text] for text in texts], dtype=np.int64), missing, labels)

    return made


def _holds(library: str, column: SchemaColumn, make: Make) -> bool:
    values, missing = extremes(column)
    try:
        read = read_values(LIBRARIES[library].table({column.name: make(values, missing)}), [column.name])[column.name]
        found, _ = column.judged(read)
    except Exception:  # each library has errors of its own for values that a type cannot hold
        return False
    plain, _ = column.judged(Values(values, missing))
    return bool((found == plain).all() and (read.gaps == missing).all())


def extremes(column: SchemaColumn) -> tuple[np.ndarray, np.ndarray]:
    """Return values that show whether a type holds all values of a column, and which of them are missing."""
    values = column.extremes()
    missing = np.zeros(len(values), dtype=bool)
    if column.missing:
        values, missing = np.concatenate([values, values[:1]]), np.append(missing, True)
    return values, missing


def as_form(column: SchemaColumn, values: np.ndarray, form: str) -> np.ndarray:
    """Return values as numbers, booleans, texts or dates of a type of NumPy.

    Args:
        column: the description of the column.
        values: as `SchemaColumn.draw` returns them.
        form: "int", "bool", "text", "day", "duration", "clock" (seconds since midnight), "decimal", or a type of
            floats, such as "float32".

    Raises:
        ValueError: a value cannot have this form.
    """
    if isinstance(column, Grid):
        values = column.notation.in_form(values, form)
    if isinstance(column, Boolean) and form not in DTYPES:
        values = column.find(Values.of(values)).codes == 1
    if form == "text" and isinstance(column, Categorical) and column.kind != "boolean":
        return np.array([*column_texts(column, values), None], dtype=object)[:-1]
    if form in DTYPES:
        if values.dtype.kind != DTYPES[form]:
            raise ValueError(form)
        return values
    if form == "clock":
        if column.kind.partition(" ")[0] != "time":
            raise ValueError(form)
        return values
    if form == "decimal":
        return _decimals(column, values)
    if values.dtype.kind == "O":
        values = _by_label(values, real_of if form.startswith("float") else _whole)
    if values.dtype.kind == "M" or np.isnan(values.astype(float)).any():
        raise ValueError(form)
    if form.startswith("float"):
        return _narrowed(column, values.astype(np.float64), np.dtype(form))
    if values.dtype.kind == "f" and not (np.floor(values) == values).all():
        raise ValueError(form)
    if form == "bool" and not np.isin(values, (0, 1)).all():
        raise ValueError(form)
    return values.astype(np.int64 if form == "int" else bool)


def _by_label(values: np.ndarray, read: Callable[[str], float]) -> np.ndarray:
    distinct, positions = np.unique(values.astype(str), return_inverse=True)
    return np.array([read(text) for text in distinct.tolist()])[positions.reshape(-1)]


def _whole(text: str) -> float:
    found = whole_of(text)
    return np.nan if found is None or not found[1] else found[0]


def _narrowed(column: SchemaColumn, values: np.ndarray, kind: Any) -> np.ndarray:
    """Return floats of a narrower type, each in the bin of its value."""
    with np.errstate(over="ignore"):
        narrow = values.astype(kind)
    if kind == np.float64 or not isinstance(column, Grid):
        return narrow
    read = narrow.astype(np.float64)
    left = (column.bins_of(read) != column.bins_of(values)) | (read < column.low) | (read > column.high)
    back = np.where(read > values, -np.inf, np.inf).astype(kind)
    return np.where(left, np.nextafter(narrow, back), narrow)


def _decimals(column: SchemaColumn, values: np.ndarray) -> np.ndarray:
    """Return numbers with a fixed number of decimal places as objects."""
    if column.decimals is None:
        raise ValueError("decimal")
    made = np.empty(len(values), dtype=object)
    made[:] = [Decimal(f"{value:.{column.decimals}f}") for value in values.tolist()]
    return made


def levels_of(column: SchemaColumn) -> list[str] | None:
    """Return the texts of a column's levels, in the order of the schema; None if it is no category."""
    if isinstance(column, Grid) and column.kind == "integer" and column.high - column.low < MOST_NUMBERS:
        return [str(number) for number in range(int(column.low), int(column.high) + 1)]
    return column.labels() if isinstance(column, Categorical) else None


def column_texts(column: SchemaColumn, values: np.ndarray) -> list[str]:
    """Return the text of each value, as `levels_of` lists it."""
    if isinstance(column, Categorical):
        labels = column.labels()
        drawn = column.draw(np.arange(column.regular), np.random.default_rng(0)).tolist()
        texts = dict(zip(drawn, labels, strict=True))
        return [texts[value] for value in values.tolist()]
    return [str(value) for value in values.tolist()]
