"""Values: the columns of a raw table as arrays whose type follows from the type of the column, never from its values.

Between a table of any library and the schema's codes. A library's own conversion to NumPy looks at the values: one null
turns integers into floats, and booleans into objects. Here nulls are a mask beside the values, so that no value is ever
changed by another one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import NoneType
from typing import Any

import numpy as np

from pgmest.data.frames import narrowed

HASHED = (str, int, float, bool)
"""The types of objects that are looked at once for all rows that hold the same one."""

PANDAS_NULLS = ("NaTType", "NAType")
"""The types of pandas' own nulls, by name: nothing here loads pandas for a frame of another library."""


@dataclass(frozen=True)
class Unread:
    """Stands for each value of a column whose type is never read, such as lists or bytes."""

    kind: str

    def __repr__(self) -> str:
        return f"of type {self.kind}"


@dataclass(frozen=True, eq=False)
class Values:
    """One column.

    Attributes:
        array: shape (rows,): booleans, 64-bit integers, 64-bit floats, dates and times as on the clock of their zone,
            or objects. Where there is no value, it means nothing.
        gaps: shape (rows,): where there is none (null, NaN, NaT).
    """

    array: np.ndarray
    gaps: np.ndarray

    @classmethod
    def of(cls, array: np.ndarray) -> Values:
        """The values of an array as it is, null as None, NaN or NaT."""
        return cls(_widened(array), _nulls(array))

    @classmethod
    def of_items(cls, items: Sequence[Any]) -> Values:
        """Objects none of which is missing."""
        array = np.empty(len(items), dtype=object)
        for row, item in enumerate(items):  # all at once, NumPy would look into lists
            array[row] = item
        return cls(array, np.zeros(len(items), dtype=bool))

    def __len__(self) -> int:
        return len(self.array)

    def with_nulls(self) -> np.ndarray:
        """As one array, with NaN, NaT or None where there is no value; only then do integers become objects."""
        if not self.gaps.any():
            return self.array
        array = self.array.astype(object if self.array.dtype.kind in "biuO" else self.array.dtype)
        array[self.gaps] = {"f": np.nan, "M": np.datetime64("NaT")}.get(array.dtype.kind)
        return array

    def where(self, rows: np.ndarray) -> Values:
        """Those at a boolean mask of rows."""
        return Values(self.array[rows], self.gaps[rows])

    def distinct(self) -> tuple[np.ndarray, list[Any]]:
        """For values without gaps: the position of each in a list of distinct ones, and that list.

        True, 1 and 1.0 are three values. Objects of other than plain types may be in the list several times.
        """
        if self.array.dtype.kind == "M":
            found, positions = np.unique(self.array, return_inverse=True)
            return positions.reshape(-1), list(found)
        if self.array.dtype.kind != "O":
            return _distinct_numbers(self.array)
        if set(map(type, self.array)) <= {str}:
            return _distinct_texts(self.array)
        return _distinct_objects(self.array)

    def condensed(self) -> tuple[np.ndarray, Values]:
        """For values without gaps: the position of each among fewer ones; numbers and dates stay as they are."""
        if self.array.dtype.kind != "O":
            return np.arange(len(self)), self
        positions, items = self.distinct()
        return positions, Values.of_items(items)


def read_values(frame: Any, names: Iterable[str] | None = None, rows: int | None = None) -> dict[str, Values]:
    """The named columns of a dataframe of any library; all by default; cut after `rows` rows.

    Raises:
        ArgumentError: `frame` is not a dataframe.
        DataError: it lacks some of the columns, or has one of them twice.
    """
    table = narrowed(frame, names, rows)
    return {name: _values(table[name]) for name in table.columns}


def _values(series: Any) -> Values:
    """A column of narwhals, by its type alone."""
    import narwhals as nw

    kind = series.dtype
    if kind.is_integer() or kind == nw.Boolean:
        return _filled(series, False if kind == nw.Boolean else 0)
    if kind.is_float():
        values = _filled(series, 0.0)
        return Values(values.array, values.gaps | np.isnan(values.array))
    if kind == nw.Categorical or kind == nw.Enum:
        return _categories(series)
    if kind == nw.Date or kind == nw.Datetime:
        return _dates(series)
    if kind == nw.String:
        return _objects(_texts(series), series)
    if kind == nw.Time:
        return _times(series)
    if kind == nw.Decimal or kind == nw.Object:
        return Values.of(series.to_numpy().astype(object))
    if kind == nw.Unknown:
        return _unknown(series)
    return _unread(series)


def _filled(series: Any, fill: object) -> Values:
    """Numbers and booleans, with nulls set to one of them before the library makes an array."""
    import narwhals as nw

    gaps = series.is_null().to_numpy().astype(bool)
    full = series.fill_null(fill) if gaps.any() else series
    if series.dtype == nw.Int128:
        return Values(np.array([*full.to_list(), None], dtype=object)[:-1], gaps)
    return Values(_widened(full.to_numpy()), gaps)


def _widened(array: np.ndarray) -> np.ndarray:
    """Numbers with 64 bits; objects for what is neither numbers, booleans nor dates."""
    if array.dtype.kind in "iuf":
        return array.astype({"i": np.int64, "u": np.uint64, "f": np.float64}[array.dtype.kind])
    return array if array.dtype.kind in "bM" else array.astype(object)


def _dates(series: Any) -> Values:
    import narwhals as nw

    if series.dtype == nw.Datetime and series.dtype.time_zone is not None:
        native = series.to_native()
        if series.implementation.is_pandas_like() and hasattr(native.dtype, "pyarrow_dtype"):
            series = nw.from_native(_chunked(native.array), series_only=True)  # pandas 2.1 gives the clock of UTC
        series = series.dt.replace_time_zone(None)  # the day is the one on the wall where the value is from
    array = series.to_numpy()
    if array.dtype.kind != "M":
        return _objects(array, series)
    return Values(array, np.isnat(array) | series.is_null().to_numpy().astype(bool))


def _times(series: Any) -> Values:
    """Times of day as text; Python's own have no nanoseconds, and Arrow fails for those that do."""
    import narwhals as nw

    native = series.to_native()
    if series.implementation.is_polars():
        numbers = native.to_physical()
    else:
        import pyarrow as pa

        chunked = native if series.implementation.is_pyarrow() else _chunked(native.array)
        numbers = chunked.cast(pa.time64("ns")).cast(pa.int64())
    found = _filled(nw.from_native(numbers, series_only=True), 0)
    distinct, positions = np.unique(found.array, return_inverse=True)
    return Values(Values.of_items([time_text(int(time)) for time in distinct]).array[positions], found.gaps)


def time_text(nanoseconds: int) -> str:
    """A time of day as it is written.

    >>> time_text(3_723_000_500_000)
    '01:02:03.0005'
    """
    seconds, fraction = divmod(nanoseconds, 10**9)
    minutes, hours = seconds // 60 % 60, seconds // 3600
    text = f"{hours:02}:{minutes:02}:{seconds % 60:02}"
    return f"{text}.{fraction:09}".rstrip("0") if fraction else text


def _categories(series: Any) -> Values:
    """Of categories the values that they stand for: text, mostly; in pandas and Arrow of any type."""
    import narwhals as nw

    native = series.to_native()
    if series.implementation.is_pandas_like() and not hasattr(native.dtype, "categories"):  # Arrow's own, in pandas
        return _categories(nw.from_native(_chunked(native.array), series_only=True))
    if series.implementation.is_pandas_like():
        kinds = _values(nw.from_native(native.cat.categories.to_series(), series_only=True))
        codes = native.cat.codes.to_numpy()
        if not len(kinds):
            return _objects(np.full(len(codes), None, dtype=object), series)
        return Values(kinds.array[codes], (codes < 0) | kinds.gaps[codes])
    if series.implementation.is_pyarrow():
        return _values(nw.from_native(native.cast(native.type.value_type), series_only=True))
    return _objects(_texts(series.cast(nw.String)), series)


def _chunked(array: Any) -> Any:
    import pyarrow as pa

    return pa.chunked_array([pa.array(array)])


def _texts(series: Any) -> np.ndarray:
    """Texts; bytes in them that are no UTF-8, as Arrow can hold, become replacement characters."""
    try:
        if series.implementation.is_polars():  # narwhals would make texts of one width, which end before a last NUL
            return series.to_native().to_numpy()
        return series.to_numpy()
    except Exception:  # pyarrow has several kinds for it
        native = series.to_native()
        arrow = native if series.implementation.is_pyarrow() else _chunked(native.array)
        items = arrow.cast("binary").to_pylist()
        texts = [None if item is None else item.decode("utf-8", "replace") for item in items]
        return np.array([*texts, None], dtype=object)[:-1]


def _objects(array: np.ndarray, series: Any) -> Values:
    values = array.astype(object)
    return Values(values, series.is_null().to_numpy().astype(bool) | _nulls(values))


def _nulls(array: np.ndarray) -> np.ndarray:
    """Where there is None, NaN, NaT or pandas' NA; whatever else stands there, it is not asked."""
    if array.dtype.kind in "fcMm":
        return np.isnat(array) if array.dtype.kind in "Mm" else np.isnan(array)
    kinds = set(map(type, array)) if array.dtype.kind == "O" else {str}
    if kinds <= {str}:
        return np.zeros(len(array), dtype=bool)
    if kinds <= {str, NoneType}:
        return np.fromiter((value is None for value in array), dtype=bool, count=len(array))
    return np.fromiter(map(_is_null, array), dtype=bool, count=len(array))


def _is_null(value: Any) -> bool:
    if isinstance(value, float | complex | np.inexact):
        return bool(value != value)
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    if isinstance(value, Decimal):
        return value.is_nan()
    return value is None or type(value).__name__ in PANDAS_NULLS


def _unknown(series: Any) -> Values:
    """Types that narwhals does not name: sparse columns, periods, time zones of pandas, complex numbers, ..."""
    array = series.to_numpy()
    if array.dtype.kind in "iufbM":
        return Values.of(array)
    return _objects(array, series) if array.dtype.kind == "O" else _unread(series)


def _unread(series: Any) -> Values:
    gaps = series.is_null().to_numpy().astype(bool)
    array = np.empty(len(gaps), dtype=object)
    array[:] = Unread(str(series.dtype))
    return Values(array, gaps)


def _distinct_numbers(array: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    pandas = sys.modules.get("pandas")  # hashes rather than sorts, but is not loaded for this
    if pandas is None:
        found, positions = np.unique(array, return_inverse=True)
        return positions.reshape(-1), found.tolist()
    positions, found = pandas.factorize(array)
    return positions, found.tolist()


def _distinct_texts(array: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    pandas = sys.modules.get("pandas")
    if pandas is None:
        known = {text: place for place, text in enumerate(dict.fromkeys(array))}
        return np.fromiter(map(known.__getitem__, array), np.intp, len(array)), list(known)
    # Before pandas 3 arrays of nothing but text are compared up to their first NUL; with a None they are not.
    early = int(pandas.__version__.split(".")[0]) < 3
    gap = np.array([None], dtype=object)
    positions, found = pandas.factorize(np.concatenate([array, gap]) if early else array)
    return positions[: len(array)], found.tolist()


def _distinct_objects(array: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    positions = np.empty(len(array), dtype=np.intp)
    known: dict[Any, int] = {}
    items: list[Any] = []
    for row, value in enumerate(array):
        kind = type(value)
        key = (kind, value) if kind in HASHED else len(items)
        place = known.setdefault(key, len(items))
        if place == len(items):
            items.append(value)
        positions[row] = place
    return positions, items
