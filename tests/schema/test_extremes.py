"""No value of a table raises an error: physical types at their extremes, in every engine.

An error that one record causes would reveal that record. Some libraries raise errors that are no `Exception`, so
every `BaseException` is a failure.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest.data.dates import DAY as SECONDS
from pgmest.data.dates import PER_DAY, steps_of
from pgmest.data.values import read_values
from pgmest.schema import Schema
from pgmest.schema.readings import day_of
from pgmest.synthesizer.raw_table import RawTable
from tests.schema.test_stability import nullable_numbers

DAY = 12_908  # 2005-05-05
DECLARED: dict[str, dict[str, Any]] = {
    "day": {"type": "date", "min": "2000-01-01", "max": "2030-12-31", "unit": "year", "missing": True},
    "every_day": {
        "type": "date",
        "min": "0101-01-01",
        "max": "9990-12-31",
        "unit": "year",
        "width": 400,
        "outside": "missing",
    },
    "written_day": {"type": "date", "min": "2005-01-01", "max": "2005-12-31", "format": "%d.%m.%Y", "missing": True},
    "label": {"type": "categorical", "values": ["2005-05-05", "a", 5], "other": "o", "missing": ["9999-12-31"]},
    "whole": {"type": "integer", "min": 0, "max": 9, "missing": ["2005-05-05"]},
    "real": {"type": "real", "min": 0, "max": 9, "bins": 3, "missing": True, "outside": "missing"},
    "flag": {"type": "boolean", "missing": True},
}
DECLARED["every_day"]["missing"] = True
SCHEMA = Schema.from_dict({"columns": DECLARED})
DATES = Schema.from_dict({"columns": {name: DECLARED[name] for name in ("day", "every_day")}})
BOUGHT = Schema.from_dict(
    {
        "columns": {
            "day": {"type": "date", "bounds": "bought"},
            "label": {"type": "categorical", "values": "bought", "among": ["a", "b"]},
            "real": {"type": "real", "bounds": "bought", "missing": True},
        }
    }
)
UNITS = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
ZONES = (None, "UTC", "Europe/Berlin", "+05:30", "Pacific/Kiritimati", "America/New_York")
EACH_UNIT = (None, "UTC", "Pacific/Kiritimati", "America/New_York")  # the others with microseconds only


def ends(bits: int) -> list[int]:
    """Return the extremes of signed integers, and numbers about half of them."""
    most = 2 ** (bits - 1) - 1
    return [-most - 1, -most, most, most // 2, -most // 2]


PHYSICAL: dict[str, tuple[pa.DataType, pa.DataType, int, list[int]]] = {
    "date32": (pa.date32(), pa.int32(), DAY, ends(32)),
    "date64": (pa.date64(), pa.int64(), DAY * UNITS["ms"], ends(64)),
    "time32": (pa.time32("s"), pa.int32(), 5, ends(32)),
    "time64[us]": (pa.time64("us"), pa.int64(), 5, ends(64)),
    "time64[ns]": (pa.time64("ns"), pa.int64(), 5, ends(64)),
    "duration[s]": (pa.duration("s"), pa.int64(), 5, ends(64)),
    "duration[ns]": (pa.duration("ns"), pa.int64(), 5, ends(64)),
    "int8": (pa.int8(), pa.int8(), 5, ends(8)),
    "int64": (pa.int64(), pa.int64(), 5, ends(64)),
    "uint64": (pa.uint64(), pa.uint64(), 5, [2**64 - 1, 2**63, 0]),
    "float16": (pa.float16(), pa.uint16(), 0, [0x7C00, 0xFC00, 0x7E00, 0xFFFF, 0x7BFF, 1]),
    "float32": (pa.float32(), pa.uint32(), 0, [0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF, 0x7F7FFFFF, 1]),
    "float64": (pa.float64(), pa.uint64(), 0, [0x7FF << 52, 0xFFF << 52, (0x7FF << 52) + 1, 2**64 - 1, 1]),
} | {
    f"timestamp[{unit}, {zone}]": (pa.timestamp(unit, zone), pa.int64(), DAY * day, ends(64))
    for (unit, day), zone in itertools.product(UNITS.items(), ZONES)
    if unit == "us" or zone in EACH_UNIT
}
ENGINES = {
    "pandas": lambda table: table.to_pandas(),
    "pandas nullable": nullable_numbers,
    "pandas of Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pyarrow": lambda table: table,
    "polars": pl.from_arrow,
    "polars lazy": lambda table: pl.from_arrow(table).lazy(),  # type: ignore[union-attr]
    "duckdb": lambda table: duckdb.connect().from_arrow(table),
}


def table_of(physical: str, numbers: Sequence[int | None]) -> pa.Table:
    kind, stored, _, _ = PHYSICAL[physical]
    column = pa.array(numbers, stored)
    return pa.table(dict.fromkeys(DECLARED, column if kind == stored else column.view(kind)))


def built(engine: str, physical: str, numbers: Sequence[int | None]) -> Any:
    """Return the table of an engine, or None where the library itself cannot hold the values."""
    try:
        return ENGINES[engine](table_of(physical, numbers))
    except (ValueError, pl.exceptions.ComputeError):
        return None


def never_read(engine: str, physical: str) -> bool:
    """Return whether DuckDB itself fails to read the values.

    It has no half precision, and its only intervals and times with a zone are microseconds.
    """
    zoned = physical.startswith(("timestamp[s,", "timestamp[ms,")) and "None" not in physical
    return engine == "duckdb" and (zoned or physical in ("duration[s]", "float16"))


def uses(table: Any) -> list[np.ndarray]:
    """Encode a table, check it, and code it for purchases; return the codes."""
    str(SCHEMA.check(table))
    found = [SCHEMA.encode(table), RawTable.of(table, BOUGHT).coded(BOUGHT.stand_in().columns)]
    return [data.collect().codes for data in found]


@cache
def usual_codes(physical: str) -> list[np.ndarray]:
    """Return the codes of a table without extremes, which are the same in every engine."""
    usual = PHYSICAL[physical][2]
    return uses(table_of(physical, [usual, None, usual]))


def repeats(engine: str, physical: str) -> bool:
    """Return whether the values are those of another case: DuckDB keeps no zone, and polars no seconds.

    Both are slow to plan a query. Of the zones to the east one is left to each.
    """
    if engine == "duckdb":
        return physical.startswith("timestamp[") and not physical.endswith((" None]", " UTC]"))
    return engine == "polars lazy" and (physical.startswith("timestamp[s,") or "Berlin" in physical)


CASES = [case for case in itertools.product(ENGINES, PHYSICAL) if not never_read(*case) and not repeats(*case)]


@pytest.mark.parametrize(("engine", "physical"), CASES)
def test_extremes_raise_no_error_and_change_no_other_code(engine, physical):
    _, _, usual, extremes = PHYSICAL[physical]
    table = built(engine, physical, [usual, None, usual, *extremes])
    if table is None:
        pytest.skip("the library cannot hold these values")
    try:
        found = uses(table)
    except BaseException as error:
        raise AssertionError(f"{type(error).__name__}: {error}") from None
    for codes, others in zip(usual_codes(physical), found, strict=True):
        np.testing.assert_array_equal(codes, others[:3])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_stored_number_raises_no_error(data):
    engine, physical = data.draw(st.sampled_from([case for case in CASES if case[0] != "duckdb"]))
    stored = PHYSICAL[physical][1]
    least = 0 if pa.types.is_unsigned_integer(stored) else -(2 ** (stored.bit_width - 1))
    numbers = st.integers(least, least + 2**stored.bit_width - 1)
    usual, more = PHYSICAL[physical][2], data.draw(st.lists(numbers, min_size=1, max_size=4))
    table = built(engine, physical, [usual, None, *more])
    try:
        if table is not None:
            uses(table)
    except BaseException as error:
        raise AssertionError(f"{engine}, {physical}, {more}: {type(error).__name__}: {error}") from None


@pytest.mark.parametrize("physical", [name for name in PHYSICAL if name.startswith(("date", "timestamp"))])
def test_dates_are_clipped_to_the_same_codes_in_every_engine(physical):
    extremes = [number for number in PHYSICAL[physical][3] if abs(number) < 2**63 - 1]
    if physical.startswith("timestamp[s,"):  # polars multiplies seconds by 1,000, and lets the product overflow
        extremes = [number // 1000 for number in extremes]
    found = {}
    for engine in ENGINES:
        table = None if never_read(engine, physical) else built(engine, physical, extremes)
        if table is not None:
            found[engine] = DATES.encode(table).collect().codes.tolist()
    assert len(set(map(str, found.values()))) == 1, found


@given(st.sampled_from(["s", "ms", "us", "ns"]), st.integers(1 - 2**63, 2**63 - 1))
def test_the_day_of_a_time_is_that_of_whole_numbers(unit, number):
    assert steps_of(np.array([number]).astype(f"M8[{unit}]"), SECONDS)[0] == number // PER_DAY[unit]


@pytest.mark.parametrize(
    ("end", "zone"),  # pandas makes no single timestamps beyond its limits, only columns of them
    [
        (pd.Timestamp.max, "UTC"),
        (pd.Timestamp.max, "America/New_York"),
        (pd.Timestamp.min, "UTC"),
        (pd.Timestamp.min, "Europe/Berlin"),
    ],
)
def test_a_timestamp_has_the_day_of_its_column(end, zone):
    time = end.tz_localize("UTC").tz_convert(zone)
    column = pd.DataFrame({"c": pd.Series([time])})
    assert day_of(time, None) == steps_of(read_values(column)["c"].array, SECONDS)[0]
    objects = read_values(column.astype(object))["c"].array
    assert day_of(objects[0], None) == day_of(time, None)


class Hostile(Exception):
    """An error that nobody expects."""


class Failing(Decimal):
    """A number that fails at whatever is asked of it."""

    def is_nan(self) -> bool:
        return False

    def is_finite(self) -> bool:
        raise Hostile


@pytest.mark.parametrize(
    "odd",
    [Decimal("sNaN"), Decimal("-sNaN123"), Failing(1), float("nan"), 10**5000],
    ids=lambda odd: type(odd).__name__,
)
@pytest.mark.parametrize("first", ["a", 1, 1.5, None, Decimal(1), True])
def test_no_object_after_many_others_raises_an_error(first, odd):
    """Libraries guess the type of a column of objects by its first values, and then test all of them for nulls."""
    usual = [first] * 200
    tables = [
        pd.DataFrame({name: pd.Series(rows, dtype=object) for name in DECLARED}) for rows in (usual, [*usual, odd])
    ]
    before, after = map(uses, tables)
    for codes, others in zip(before, after, strict=True):
        np.testing.assert_array_equal(codes, others[: len(usual)])
