"""Dates and times of day as integers, read from the memory of each library.

The libraries' own conversions fail for extreme dates: pandas raises an error near the limits of a time zone, polars
panics, and pyarrow overflows. Such an error would depend on a single record and reveal it. So dates are read as the
integers by which the libraries store them, and clipped to the years from 0 to 10000, which is more than any schema has.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

PER_DAY: dict[str, int] = {
    "D": 1,
    "h": 24,
    "m": 1440,
    **{unit: 86_400 * 1000**power for power, unit in enumerate(("s", "ms", "us", "ns"))},
}
"""The units that divide a day, each with its number per day."""

FIRST_DAY, LAST_DAY = -719_528, 2_932_897
"""The days 0000-01-01 and 10000-01-01, counted from 1970-01-01, to which dates are clipped."""

ZONED_DAYS = FIRST_DAY + 368, LAST_DAY - 3
"""The first and the last day for which all libraries find the offset of a time zone, within the years 1..9999."""


def limits(unit: str, first: int = FIRST_DAY, last: int = LAST_DAY, spare: int = 1) -> tuple[int, int]:
    """Return the numbers in a unit at which two days begin, but at least `spare` within the limits of 64 bits."""
    per_day = PER_DAY[unit]
    return max(first * per_day, spare - 2**63), min(last * per_day, 2**63 - spare)


def clipped(times: Any) -> Any:
    """Return an array of numpy.datetime64, or one of them, clipped to the years 0..10000; NaT becomes the first one."""
    unit, step = np.datetime_data(times.dtype)
    if unit not in PER_DAY or step != 1:  # no library has such columns
        return times
    return np.clip(times.astype(np.int64), *limits(unit)).astype(times.dtype)


DAY = 86_400
"""The seconds of a day."""


def steps_of(times: np.ndarray, seconds: int) -> np.ndarray:
    """Return the number of whole steps since 1970-01-01 of each time, each of a number of seconds that divides a day.

    NumPy's own conversion overflows for the first days of nanoseconds.

    >>> steps_of(np.array(["1970-01-01T01:59:59", "1969-12-31T23:59:59"], dtype="M8[s]"), 60)
    array([119,  -1])
    """
    unit, step = np.datetime_data(times.dtype)
    if unit not in PER_DAY or step != 1:
        times, unit = times.astype("M8[s]" if seconds < DAY else "M8[D]"), "s" if seconds < DAY else "D"
    per_day = DAY // seconds
    numbers = times.astype(np.int64)
    return numbers // (PER_DAY[unit] // per_day) if PER_DAY[unit] >= per_day else numbers * (per_day // PER_DAY[unit])


def moved(times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return times plus offsets, both integers in one unit of at most nanoseconds, clipped where 64 bits overflow."""
    low, high = limits("ns")
    return np.clip(times, low - np.minimum(offsets, 0), high - np.maximum(offsets, 0)) + offsets


def local_times(series: Any) -> np.ndarray:
    """Return a column of dates or times as numpy.datetime64 on the clock of its zone; gaps become any time.

    Args:
        series: a series of narwhals, of type Date or Datetime.
    """
    native, library = _held(series)
    numbers, unit = _stored(native, library)
    numbers = np.clip(numbers, *limits(unit))
    kind = native.type if library == "pyarrow" else native.dtype
    if getattr(kind, "tz", getattr(kind, "time_zone", None)) is not None:
        inside = np.clip(numbers, *limits(unit, *ZONED_DAYS, PER_DAY["ns"]))
        numbers = np.clip(moved(numbers, _on_the_clock(native, library, inside, unit) - inside), *limits(unit))
    return numbers.astype(f"M8[{unit}]")


def times_of_day(series: Any) -> np.ndarray:
    """Return a column of times of day as nanoseconds since midnight, clipped to a day; gaps become any time."""
    native, library = _held(series)
    numbers, unit = _stored(native, library)
    return np.clip(numbers, 0, PER_DAY[unit]) * (PER_DAY["ns"] // PER_DAY[unit])


def durations(series: Any) -> np.ndarray:
    """Return a column of durations as numpy.timedelta64; gaps become any duration.

    Args:
        series: a series of narwhals, of type Duration.
    """
    native, library = _held(series)
    numbers, unit = _stored(native, library)
    return np.maximum(numbers, 1 - 2**63).astype(f"m8[{unit}]")  # the least integer would be NaT


def steps_in(durations: np.ndarray, seconds: int) -> np.ndarray:
    """Return the number of whole steps, each of a number of seconds, at or below each duration.

    >>> steps_in(np.array([90, -30]).astype("m8[m]"), 3600), steps_in(np.array([1500]).astype("m8[ms]"), 1)
    (array([ 1, -1]), array([1]))
    """
    unit, step = np.datetime_data(durations.dtype)
    if unit not in PER_DAY or step != 1:
        durations, unit = durations.astype("m8[s]"), "s"
    per_second = PER_DAY[unit] / DAY
    numbers = durations.astype(np.int64)
    return numbers // int(per_second * seconds) if per_second >= 1 else numbers * int(1 / per_second) // seconds


def _held(series: Any) -> tuple[Any, str]:
    """Return the data of a series and the library that stores them: polars, pyarrow or pandas."""
    native = series.to_native()
    if series.implementation.is_polars():
        return native, "polars"
    if series.implementation.is_pyarrow():
        return native, "pyarrow"
    return series.to_pandas().array, "pandas"


def chunked(array: Any) -> Any:
    """Return an array of pandas that stores its values by pyarrow as pyarrow's own."""
    import pyarrow as pa

    return pa.chunked_array([pa.array(array)])


def _stored(native: Any, library: str) -> tuple[np.ndarray, str]:
    """Return the integers that a library stores, in universal time, and their unit."""
    if library == "pandas":
        return native.asi8, native.unit
    if library == "polars":
        unit = {"Date": "D", "Time": "ns"}.get(str(native.dtype)) or native.dtype.time_unit
        return native.to_physical().fill_null(0).to_numpy().astype(np.int64), unit
    import pyarrow as pa

    kind = native.type
    unit = "D" if pa.types.is_date32(kind) else "ms" if pa.types.is_date64(kind) else kind.unit
    return native.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).fill_null(0).to_numpy().astype(
        np.int64
    ), unit


def _on_the_clock(native: Any, library: str, numbers: np.ndarray, unit: str) -> np.ndarray:
    """Return times in universal time as the clock of the column's zone shows them."""
    if library == "polars":
        made = importlib.import_module("polars").Series(numbers).cast(native.dtype)
        return made.dt.replace_time_zone(None).to_physical().to_numpy()
    if library == "pandas":
        import pandas as pd

        universal = pd.DatetimeIndex(numbers.astype(f"M8[{unit}]")).tz_localize("UTC")
        return universal.tz_convert(native.dtype.tz).tz_localize(None).asi8
    import pyarrow as pa
    from pyarrow import compute

    local = compute.local_timestamp(  # type: ignore[attr-defined]
        pa.array(numbers).cast(native.type)
    )
    return local.cast(pa.int64()).to_numpy(zero_copy_only=False)
