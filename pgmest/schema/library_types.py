"""The types of pandas, polars and pyarrow: how columns of them are made of arrays."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from pgmest.schema.categorical import Boolean
from pgmest.schema.column import SchemaColumn
from pgmest.schema.frame_types import NUMBER, ColumnType, form_of
from pgmest.schema.grid import Grid
from pgmest.schema.readings import real_of, whole_of

Form = tuple[str, Callable[..., Any]]
"""The form of the values, as `casting.as_form` makes it, and a function of them that makes a column.

The function of the form "category" takes the places of levels, the missing records, and the texts of the levels.
"""

NULLABLE = {
    "bool": "boolean",
    **{f"{sign}int{bits}": f"{sign.upper()}Int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""The types of pandas that hold missing values, for those of NumPy that do not."""


ZONE = re.compile(r"(?:UTC)?[+-][0-9]{2}:[0-9]{2}|[A-Z][A-Za-z0-9_+-]*(?:/[A-Z][A-Za-z0-9_+-]*)*")
"""The names of time zones that are used; others could be paths, which pandas would open ("dateutil//etc/zone")."""

LONGEST_NAME = 200
"""The most characters of the name of a type that is read."""


class Library(Protocol):
    """A library of dataframes."""

    def table(self, columns: Mapping[str, Any]) -> Any:
        """Return a dataframe of named columns."""
        ...

    def plain(self, column: SchemaColumn) -> Callable[[np.ndarray, np.ndarray], Any]:
        """Return a function that makes columns of the type that follows from the schema."""
        ...

    def forms(self, column: SchemaColumn, kind: ColumnType) -> Iterator[Form]:
        """Yield ways to make a column of a type, the best first."""
        ...


class Pandas:
    """pandas, whose nullable types are used where the schema allows missing values."""

    def __init__(self) -> None:
        self._pd: Any = importlib.import_module("pandas")

    def table(self, columns: Mapping[str, Any]) -> Any:
        return self._pd.DataFrame(dict(columns))

    def plain(self, column: SchemaColumn) -> Callable[[np.ndarray, np.ndarray], Any]:
        nullable = {"integer": "Int64", "boolean": "boolean"}.get(column.kind) if column.missing else None

        def made(values: np.ndarray, missing: np.ndarray) -> Any:
            text = values.dtype.kind == "O"
            series = self._pd.Series(_microseconds(values, days=True), dtype=None if text else nullable)
            series = series.astype("str") if text else series
            return series.mask(missing) if column.missing else series

        return made

    def forms(self, column: SchemaColumn, kind: ColumnType) -> Iterator[Form]:
        name, form = kind.name, form_of(kind.name)
        if name == "category":
            yield form, self._category(column, kind)
        elif name.startswith("arrow["):
            for inner, make in Arrow().forms(column, ColumnType(name[6:-1])):
                yield inner, self._arrow(make)
        elif (times := re.fullmatch(r"datetime64\[(s|ms|us|ns)(?:, (.+))?\]", name)) and _known_zone(times[2]):
            yield form, self._times(times[1], times[2])
            yield form, self._times("s", times[2])
        elif form in ("int", "bool"):
            yield form, self._of(NULLABLE.get(name, name) if column.missing else name)
        elif (
            form.startswith(("float", "duration"))
            or name in ("str", "string[python]", "string[pyarrow]")
            or (name == "object" and _holds_texts(column))
        ):
            yield form, self._of(name)

    def _of(self, name: str) -> Callable[[np.ndarray, np.ndarray], Any]:
        def made(values: np.ndarray, missing: np.ndarray) -> Any:
            series = self._pd.Series(values).astype(name)
            if values.dtype.kind == "i" and not (series == values).all():  # NumPy takes 257 for 1
                raise ValueError(name)
            return series.mask(missing) if missing.any() else series

        return made

    def _times(self, unit: str, zone: Any) -> Callable[[np.ndarray, np.ndarray], Any]:
        def made(days: np.ndarray, missing: np.ndarray) -> Any:
            times = self._pd.Series(days.astype("M8[s]"))
            if zone is not None:
                early = np.ones(len(days), dtype=bool)
                times = times.dt.tz_localize(zone, ambiguous=early, nonexistent="shift_forward")
            times = times.dt.as_unit(unit)
            return times.mask(missing) if missing.any() else times

        return made

    def _arrow(self, make: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: self._pd.Series(self._pd.arrays.ArrowExtensionArray(make(*arguments)))

    def _category(self, column: SchemaColumn, kind: ColumnType) -> Callable[..., Any]:
        def made(places: np.ndarray, missing: np.ndarray, labels: list[str]) -> Any:
            levels = [_level(column, label, kind.of) for label in labels]
            codes = np.where(missing, -1, places)
            return self._pd.Series(self._pd.Categorical.from_codes(codes, levels, ordered=kind.ordered))

        return made


class Polars:
    """polars, all of whose types hold missing values."""

    def __init__(self) -> None:
        self._pl: Any = importlib.import_module("polars")

    def table(self, columns: Mapping[str, Any]) -> Any:
        return self._pl.DataFrame([column.alias(name) for name, column in columns.items()])

    def plain(self, column: SchemaColumn) -> Callable[[np.ndarray, np.ndarray], Any]:
        def made(values: np.ndarray, missing: np.ndarray) -> Any:
            kind = self._pl.String if values.dtype.kind == "O" else None
            return self._without(self._pl.Series(_microseconds(values), dtype=kind), missing)

        return made

    def forms(self, column: SchemaColumn, kind: ColumnType) -> Iterator[Form]:
        form, dtype = form_of(kind.name), _polars_type(self._pl, kind.name)
        if kind.name in ("Categorical", "Enum"):
            yield form, self._category(kind)
        elif dtype is None:
            return
        elif dtype == self._pl.Datetime:
            yield form, self._times(dtype)
        elif form == "clock":
            yield form, lambda clocks, gaps: self._without(self._pl.Series(clocks * 10**9).cast(dtype), gaps)
        elif form == "decimal":
            yield form, lambda values, gaps: self._without(self._pl.Series(values.tolist(), dtype=dtype), gaps)
        else:
            yield form, lambda values, gaps: self._without(self._pl.Series(values), gaps).cast(dtype)

    def _without(self, series: Any, missing: np.ndarray) -> Any:
        """Return a series with null in the missing records."""
        if not missing.any():
            return series
        gaps = self._pl.Series(missing, dtype=self._pl.Boolean)
        return self._pl.select(self._pl.when(gaps).then(None).otherwise(series)).to_series()

    def _times(self, dtype: Any) -> Callable[[np.ndarray, np.ndarray], Any]:
        def made(days: np.ndarray, missing: np.ndarray) -> Any:
            naive = self._pl.Series(days).cast(self._pl.Datetime(dtype.time_unit))
            if dtype.time_zone is None:
                return self._without(naive, missing)
            options = {"ambiguous": "earliest", "non_existent": "null"}
            zoned = naive.dt.replace_time_zone(dtype.time_zone, **options)
            later = naive.dt.offset_by("1h").dt.replace_time_zone(dtype.time_zone, **options)
            return self._without(self._pl.select(self._pl.coalesce(zoned, later)).to_series(), missing)

        return made

    def _category(self, kind: ColumnType) -> Callable[..., Any]:
        def made(places: np.ndarray, missing: np.ndarray, labels: list[str]) -> Any:
            texts = np.array([*labels, None], dtype=object)[np.where(missing, len(labels), places)]
            texts = self._pl.Series(texts.tolist(), dtype=self._pl.String)
            return texts.cast(self._pl.Enum(labels) if kind.name == "Enum" else self._pl.Categorical)

        return made


class Arrow:
    """pyarrow, all of whose types hold missing values."""

    def __init__(self) -> None:
        self._pa: Any = importlib.import_module("pyarrow")

    def table(self, columns: Mapping[str, Any]) -> Any:
        return self._pa.table(dict(columns))

    def plain(self, column: SchemaColumn) -> Callable[[np.ndarray, np.ndarray], Any]:
        def made(values: np.ndarray, missing: np.ndarray) -> Any:
            kind = self._pa.string() if values.dtype.kind == "O" else None
            return self._pa.array(_microseconds(values), kind, mask=missing)

        return made

    def forms(self, column: SchemaColumn, kind: ColumnType) -> Iterator[Form]:
        pa, dtype = self._pa, arrow_type(kind.name)
        form = form_of(str(dtype))
        if form == "category":
            yield form, self._category(column, dtype)
        elif form == "clock":
            yield form, lambda clocks, gaps: pa.array(clocks.astype(np.int32), pa.time32("s"), mask=gaps).cast(dtype)
        elif getattr(dtype, "tz", None) is not None:
            yield form, self._times(dtype)
        elif dtype is not None:
            yield form, lambda values, gaps: pa.array(values, mask=gaps).cast(dtype)

    def _times(self, dtype: Any) -> Callable[[np.ndarray, np.ndarray], Any]:
        def made(days: np.ndarray, missing: np.ndarray) -> Any:
            from pyarrow import compute

            naive = self._pa.array(days, mask=missing).cast(self._pa.timestamp(dtype.unit))
            options = {"ambiguous": "earliest", "nonexistent": "latest"}
            return compute.assume_timezone(naive, dtype.tz, **options)  # type: ignore[attr-defined]

        return made

    def _category(self, column: SchemaColumn, dtype: Any) -> Callable[..., Any]:
        def made(places: np.ndarray, missing: np.ndarray, labels: list[str]) -> Any:
            of = {"bool": "bool", "int64": NUMBER, "double": NUMBER}.get(str(dtype.value_type), "")
            levels = self._pa.array([_level(column, label, of) for label in labels], dtype.value_type)
            indices = self._pa.array(places, mask=missing).cast(dtype.index_type)
            return self._pa.DictionaryArray.from_arrays(indices, levels, ordered=dtype.ordered)

        return made


def _microseconds(values: np.ndarray, days: bool = False) -> np.ndarray:
    """Return times as the libraries hold them by default, in microseconds, also `days`; other values as they are."""
    kind = values.dtype.kind
    changed = kind in "mM" and (days or np.datetime_data(values.dtype)[0] != "D")
    return values.astype(f"{kind}8[us]") if changed else values


def _known_zone(name: str | None) -> bool:
    return name is None or ZONE.fullmatch(name) is not None


def _level(column: SchemaColumn, text: str, of: str) -> Any:
    """Return a level of a category, of the type that the levels of the private table have where it can be one."""
    if of == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if isinstance(column, Boolean) and of in ("bool", NUMBER):
        return column.labels().index(text)
    if of != NUMBER:
        return text
    whole = whole_of(text)
    if whole is not None and whole[1]:
        return whole[0]
    number = real_of(text)
    return text if np.isnan(number) else number


def _holds_texts(column: SchemaColumn) -> bool:
    """Return whether values that are objects are texts: labels, times of day, or dates in digits alone."""
    values = column.extremes()
    return (column.notation.in_form(values, "text") if isinstance(column, Grid) else values).dtype.kind == "O"


def _polars_type(pl: Any, name: str) -> Any:
    """Return a type of polars by its text, such as "Datetime(time_unit='us', time_zone='UTC')"; None for others."""
    kind, _, arguments = name[:LONGEST_NAME].partition("(")
    known = ("Int", "UInt", "Float", "Boolean", "String", "Date", "Datetime", "Time", "Duration", "Decimal")
    if kind.rstrip("0123456789") not in known or not hasattr(pl, kind):
        return None
    found = getattr(pl, kind)
    if not arguments:
        return found()
    try:
        call: Any = ast.parse(name[:LONGEST_NAME], mode="eval").body
        given = {one.arg: ast.literal_eval(one.value) for one in call.keywords}
        return found(**given) if _known_zone(given.get("time_zone")) else None
    except (SyntaxError, ValueError, TypeError, AttributeError, OverflowError):
        return None


def arrow_type(name: str) -> Any:
    """Return a type of pyarrow by its text, such as "timestamp[us, tz=UTC]"; None for those that are not kept."""
    pa: Any = importlib.import_module("pyarrow")
    zoned = re.fullmatch(r"timestamp\[(s|ms|us|ns), tz=(.+)\]", name)
    if zoned:
        return pa.timestamp(zoned[1], zoned[2]) if _known_zone(zoned[2]) else None
    decimal = re.fullmatch(r"decimal(32|64|128|256)\((\d+), (-?\d+)\)", name)
    if decimal:
        return getattr(pa, f"decimal{decimal[1]}")(int(decimal[2]), int(decimal[3]))
    dictionary = re.fullmatch(r"dictionary<values=(\w+), indices=(\w+), ordered=(\d)>", name)
    try:
        if dictionary:
            values, indices = (pa.type_for_alias(dictionary[place]) for place in (1, 2))
            return pa.dictionary(indices, values, dictionary[3] == "1")
        return pa.type_for_alias(name)
    except ValueError:
        return None


class _Libraries(dict[str, Any]):
    """The libraries by name, each loaded when it is first used."""

    def __missing__(self, name: str) -> Library:
        self[name] = {"pandas": Pandas, "polars": Polars, "pyarrow": Arrow}[name]()
        return self[name]


LIBRARIES: dict[str, Any] = _Libraries()
"""The libraries of dataframes."""
