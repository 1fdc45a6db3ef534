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

from pgmest.data.dates import chunked, clipped, durations, local_times, times_of_day
from pgmest.data.frames import narrowed
from pgmest.data.plain_objects import Unread, plain_objects
from pgmest.data.table_file import UNDECODED

HASHED = (str, int, float, bool)
"""The types whose equal objects are read once for all rows."""


@dataclass(frozen=True, eq=False)
class Values:
    """One column.

    Attributes:
        array: shape (rows,): booleans, 64-bit integers, 64-bit floats, dates and times as on the clock of their zone,
            durations, or objects. Where there is no value, it means nothing.
        gaps: shape (rows,): the rows without a value (null, NaN, NaT).
        unread: the name of the column's type if values of that type are never read, else None.
    """

    array: np.ndarray
    gaps: np.ndarray
    unread: str | None = None

    @classmethod
    def of(cls, array: np.ndarray) -> Values:
        """Return the values of an array in which nulls are None, NaN or NaT; objects are plain ones from then on."""
        array = plain_objects(array) if array.dtype.kind == "O" else array
        return cls(_widened(array), _nulls(array))

    @classmethod
    def of_items(cls, items: Sequence[Any]) -> Values:
        """Return the values of objects without gaps."""
        array = np.empty(len(items), dtype=object)
        for row, item in enumerate(items):  # all at once, NumPy would look into lists
            array[row] = item
        return cls(array, np.zeros(len(items), dtype=bool))

    def __len__(self) -> int:
        return len(self.array)

    def with_nulls(self) -> np.ndarray:
        """Return one array with NaN, NaT or None in the gaps; integers and booleans with gaps become objects."""
        if not self.gaps.any():
            return self.array
        array = self.array.astype(object if self.array.dtype.kind in "biuO" else self.array.dtype)
        array[self.gaps] = {"f": np.nan, "M": np.datetime64("NaT"), "m": np.timedelta64("NaT")}.get(array.dtype.kind)
        return array

    def where(self, rows: np.ndarray) -> Values:
        """Return the values at a boolean mask of rows."""
        return Values(self.array[rows], self.gaps[rows])

    def distinct(self) -> tuple[np.ndarray, list[Any]]:
        """Return the position of each value in a list of distinct values, and that list; there must be no gaps.

        True, 1 and 1.0 are three values. Objects that are not of plain types may be in the list several times.
        """
        if self.array.dtype.kind in "Mm":
            found, positions = np.unique(self.array, return_inverse=True)
            return positions.reshape(-1), list(found)
        if self.array.dtype.kind != "O":
            return _distinct_numbers(self.array)
        if set(map(type, self.array)) <= {str}:
            return _distinct_texts(self.array)
        return _distinct_objects(self.array)

    def condensed(self) -> tuple[np.ndarray, Values]:
        """Return the position of each value among fewer values, without gaps; numbers and dates stay as they are."""
        if self.array.dtype.kind != "O":
            return np.arange(len(self)), self
        positions, items = self.distinct()
        return positions, Values.of_items(items)


def read_values(frame: Any, names: Iterable[str] | None = None, rows: int | None = None) -> dict[str, Values]:
    """Return the named columns of a dataframe of any library (all by default), cut after `rows` rows.

    Raises:
        ArgumentError: `frame` is not a dataframe.
        DataError: it lacks some of the columns, or has one of them twice.
    """
    table = narrowed(frame, names, rows)
    return {name: _values(table[name]) for name in table.columns}


def _values(series: Any) -> Values:
    """Return the values of a column of narwhals; their type follows from the column's type alone."""
    import narwhals as nw

    native = series.to_native()
    if series.implementation.is_pandas_like() and hasattr(native.dtype, "pyarrow_dtype"):
        return _values(nw.from_native(chunked(native.array), series_only=True))
    if series.implementation.is_pandas_like() and native.dtype == object:
        return Values.of(native.to_numpy())  # narwhals would ask the first values for their type
    if series.implementation.is_pandas_like() and hasattr(native.dtype, "tz"):  # narwhals does not know all zones
        return Values(local_times(series), _missing(series))
    kind = series.dtype
    if kind.is_integer() or kind == nw.Boolean:
        return _filled(series, False if kind == nw.Boolean else 0)
    if kind.is_float():
        values = _filled(series, 0.0)
        return Values(values.array, values.gaps | np.isnan(values.array))
    if kind == nw.Categorical or kind == nw.Enum:
        return _categories(series)
    if kind == nw.Date or kind == nw.Datetime:
        return Values(local_times(series), _missing(series))
    if kind == nw.String:
        return Values.of(_texts(series).astype(object))
    if kind == nw.Time:
        return _times(series)
    if kind == nw.Duration:
        return Values(durations(series), _missing(series))
    if kind == nw.Decimal or kind == nw.Object:
        return Values.of(series.to_numpy().astype(object))
    if kind == nw.Unknown:
        return _unknown(series)
    return _unread(series)


def _filled(series: Any, fill: object) -> Values:
    """Return numbers or booleans; nulls become `fill` before the library makes an array."""
    import narwhals as nw

    gaps = _missing(series)
    full = series.fill_null(fill) if gaps.any() else series
    if series.dtype in (nw.Int128, nw.UInt128):  # NumPy has no such integers
        return Values(np.array([*full.to_list(), None], dtype=object)[:-1], gaps)
    return Values(_widened(full.to_numpy()), gaps)


def _widened(array: np.ndarray) -> np.ndarray:
    """Return numbers with 64 bits, booleans and clipped dates as they are, and everything else as objects."""
    if array.dtype.kind in "iuf":
        with np.errstate(all="ignore"):  # NumPy would warn of a signaling NaN, or of a float beyond 64 bits
            return array.astype({"i": np.int64, "u": np.uint64, "f": np.float64}[array.dtype.kind])
    if array.dtype.kind == "M":
        return clipped(array)
    return array if array.dtype.kind in "bm" else array.astype(object)


def _missing(series: Any) -> np.ndarray:
    """Return where a column of a typed library has a null; columns of objects have their own test, `_nulls`."""
    return series.is_null().to_numpy().astype(bool)


def _times(series: Any) -> Values:
    """Return times of day as texts: Python's own have no nanoseconds."""
    distinct, positions = np.unique(times_of_day(series), return_inverse=True)
    return Values(Values.of_items([time_text(int(time)) for time in distinct]).array[positions], _missing(series))


def time_text(nanoseconds: int) -> str:
    """Return a time of day as it is written.

    >>> time_text(3_723_000_500_000)
    '01:02:03.0005'
    """
    seconds, fraction = divmod(nanoseconds, 10**9)
    minutes, hours = seconds // 60 % 60, seconds // 3600
    text = f"{hours:02}:{minutes:02}:{seconds % 60:02}"
    return f"{text}.{fraction:09}".rstrip("0") if fraction else text


def _categories(series: Any) -> Values:
    """Return the values of categories: mostly texts, in pandas and Arrow of any type."""
    import narwhals as nw

    native = series.to_native()
    if series.implementation.is_pandas_like():
        kinds = _values(nw.from_native(native.cat.categories.to_series(), series_only=True))
        codes = native.cat.codes.to_numpy()
        if not len(kinds):
            return Values(np.full(len(codes), None, dtype=object), codes < 0, kinds.unread)
        return Values(kinds.array[codes], (codes < 0) | kinds.gaps[codes], kinds.unread)
    if series.implementation.is_pyarrow():
        return _values(nw.from_native(native.cast(native.type.value_type), series_only=True))
    return Values.of(_texts(series.cast(nw.String)).astype(object))


def _texts(series: Any) -> np.ndarray:
    """Return texts; bytes that are not UTF-8, which Arrow and polars can hold, become lone surrogates."""
    import narwhals as nw

    if series.implementation.is_polars():  # which panics at such bytes
        return _decoded(series.cast(nw.Binary).to_list())
    try:
        return series.to_numpy()
    except Exception:  # pyarrow has several kinds for it
        native = series.to_native()
        arrow = native if series.implementation.is_pyarrow() else chunked(native.array)
        return _decoded(arrow.cast("binary").to_pylist())


def _decoded(items: list[bytes | None]) -> np.ndarray:
    texts = [None if item is None else item.decode("utf-8", UNDECODED) for item in items]
    return np.array([*texts, None], dtype=object)[:-1]


def _nulls(array: np.ndarray) -> np.ndarray:
    """Return where there is None, NaN or NaT; objects are `plain_objects`, so that none answers for itself."""
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
    return value is None or (isinstance(value, Decimal) and value.is_nan())


def _unknown(series: Any) -> Values:
    """Return columns of types that narwhals does not name: sparse columns, periods, complex numbers, ..."""
    array = series.to_numpy()
    return Values.of(array) if array.dtype.kind in "iufbMO" else _unread(series)


def _unread(series: Any) -> Values:
    gaps = _missing(series)
    array = np.empty(len(gaps), dtype=object)
    kind = str(series.dtype)
    array[:] = Unread(kind)
    return Values(array, gaps, kind)


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
