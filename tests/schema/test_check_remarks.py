"""The remarks of `Schema.check` on what a schema keeps but its codes lose, on constraints, and on rows left out."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest.schema import Schema
from pgmest.schema.detail import KEPT, Detail, unused_between

ENGINES = [lambda frame: frame, lambda frame: pl.from_pandas(frame).lazy(), duckdb.from_df]


def remarks_of(schema: str, frame: pd.DataFrame, engine=ENGINES[0]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, remark, _ in Schema.parse(schema).check(engine(frame)).remarks():
        found.setdefault(name, []).append(remark)
    return found


def one_column(described: str, values, engine=ENGINES[0]) -> list[str]:
    frame = pd.DataFrame({"x": values})
    return remarks_of(f"columns:\n  x: {described}\n", frame, engine).get("x", [])


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_that_break_a_constraint_are_counted(engine):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"ward": rng.choice(["ICU", "Day"], 1000), "age": rng.integers(0, 100, 1000)})
    schema = """\
columns:
  ward: {type: categorical, values: [ICU, Day], other: x}
  age: {type: integer, min: 0, max: 99, width: 20, outside: error}
constraints:
  - impossible: {ward: ICU, age: {min: 0, max: 39}}
"""
    broken = int(((frame.ward == "ICU") & (frame.age < 40)).sum())
    bins = frame[(frame.ward == "ICU") & (frame.age < 40)].age // 20
    found = Schema.parse(schema).check(engine(frame))
    (name, remark, alarm) = found.remarks()[0]
    assert name == "constraint on ward, age"
    assert remark.startswith(
        f"{broken} of 1,000 rows ({broken / 10:.3g} %) have an impossible combination, most often ward = ICU, age = "
    )
    assert f"({bins.value_counts().max()})" in remark
    assert alarm == (broken >= 200)
    assert "fits the table." not in found.verdict
    assert found.to_json()["constraints"][0]["broken"] == broken


def test_many_rows_that_break_a_constraint_are_alarming():
    frame = pd.DataFrame({"a": [0, 0, 1, 1], "b": [0, 1, 0, 1]})
    columns = "columns:\n  a: {type: integer, min: 0, max: 1}\n  b: {type: integer, min: 0, max: 1}\nconstraints:\n"
    found = Schema.parse(columns + "  - determines: {from: a, to: b, table: {0: 0, 1: 1}}\n").check(frame)
    assert found.alarming == ("constraint on a, b",)
    assert "DOES NOT FIT" in found.verdict


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("at_most", [1, 3])
def test_rows_that_the_unit_drops_are_counted_as_they_are_dropped(engine, at_most):
    rng = np.random.default_rng(1)
    persons = rng.integers(0, 200, 700).astype(str)
    persons[:9] = ""
    frame = pd.DataFrame({"pid": persons, "age": rng.integers(0, 10, 700)})
    schema = Schema.parse(
        f"columns:\n  age: {{type: integer, min: 0, max: 9}}\nunit: {{column: pid, at_most: {at_most}}}\n"
    )
    found = schema.check(engine(frame))
    each = frame[frame.pid != ""].pid.value_counts()
    assert found.dropped is not None
    assert found.dropped.nobody == 9
    assert found.dropped.beyond == int((each - at_most).clip(lower=0).sum())
    assert (found.dropped.persons, found.dropped.crowded) == (len(each), int((each > at_most).sum()))
    assert found.dropped.most == each.max()
    assert 700 - found.dropped.left_out == schema.encode(frame).records
    (remark,) = [remark for name, remark, _ in found.remarks() if name == "unit pid"]
    assert remark.startswith(f"{found.dropped.left_out} of 700 rows")
    assert "pid" not in found.left_out


def test_a_unit_that_drops_nothing_is_not_remarked():
    schema = Schema.parse("columns:\n  age: {type: integer, min: 0, max: 3}\nunit: {column: pid, at_most: 2}\n")
    found = schema.check(pd.DataFrame({"pid": [1, 1, 2, 3], "age": [0, 1, 2, 3]}))
    assert (found.dropped.left_out, found.remarks()) == (0, [])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_number_that_a_wide_bin_swallows(engine):
    amounts = [0] * 70 + list(range(1000, 31000, 1000))
    (remark,) = one_column("{type: real, min: 0, max: 31000, bins: 62}", amounts, engine)
    assert remark.startswith("70 % are 0, in the bin [0, 500), of which values are drawn evenly")
    own_bin = one_column("{type: integer, edges: [0, 1, 10000, 20000, 31000]}", amounts, engine)
    assert own_bin == []
    assert one_column("{type: real, min: 0, max: 31000, bins: 62, points: [0]}", amounts, engine) == []


def test_evenly_spread_numbers_are_not_remarked():
    assert one_column("{type: integer, min: 0, max: 99, width: 10}", np.arange(100)) == []
    assert one_column("{type: integer, min: 0, max: 9, width: 2}", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] * 3) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_columns_in_one_code(engine):
    (all_in_one,) = one_column("{type: integer, min: 0, max: 999, bins: 3}", range(20), engine)
    assert all_in_one.startswith("100 % are in one of 3 bins, 0..332, although they differ")
    (only,) = one_column("{type: integer, min: 0, max: 19, bins: 1}", range(20), engine)
    assert only.startswith("100 % are in the only bin, 0..19, although they differ")
    (same,) = one_column("{type: categorical, values: [a, b], other: c}", ["a"] * 5, engine)
    assert same == "all values are a, one of 2 codes: the column says nothing"
    assert one_column("{type: integer, min: 0, max: 2}", [0, 1, 2], engine) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_times_of_day_decimals_and_leading_zeros_are_lost(engine):
    at = ["2020-01-01T00:00:00", "2020-01-02 08:30", "2020-01-03", "2020-01-04 00:00:01"]
    described = "{type: date, min: 2020-01-01, max: 2020-01-04}"
    assert one_column(described, at, engine) == ["50 % have a time of day, which is lost: say unit: hour"]
    assert one_column(described, pd.to_datetime(at, format="ISO8601"), engine) == [
        "50 % have a time of day, which is lost: say unit: hour"
    ]
    assert one_column(described, pd.to_datetime([text[:10] for text in at]), engine) == []
    (decimals,) = one_column("{type: integer, min: 0, max: 3}", [0.0, 1.5, 2.0, 3.0], engine)
    assert decimals.startswith("25 % have decimals, which whole numbers lose")
    described = "{type: real, min: 0, max: 3, bins: 3, decimals: 1}"
    assert one_column(described, ["0.1", "1.25", "2.2", "2.9", "7.77"], engine)[1:] == [
        "20 % have more decimals than decimals: 1 keeps"
    ]
    assert one_column(described, [0.1, 0.3, 1.1, 0.1 + 0.2, 2.9, 1.7, 2.3, 2.2, 1.9, 0.7, 0.6], engine) == []
    (padded,) = one_column("{type: integer, min: 0, max: 3}", ["00", "1", "2", "003"], engine)
    assert padded.startswith("50 % are written with leading zeros")
    assert one_column("{type: integer, min: 0, max: 3}", ["0", "1", "2", "3"], engine) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_other_values_and_capitals(engine):
    described = "{type: categorical, values: [ICU, Day], other: x}"
    (remark,) = one_column(described, ["ICU"] * 50 + ["icu"] * 2 + ["Day"] * 48, engine)
    assert remark.startswith("2 % are not listed (such as 'icu'), and become x; some differ from listed values in")
    (remark,) = one_column(described, ["ICU"] * 50 + ["Night"] * 2 + ["Day"] * 48, engine)
    assert "capitals" not in remark


def test_values_that_become_missing_are_alarming():
    described = "{type: categorical, values: [a, b], missing: true}"
    found = Schema.parse(f"columns:\n  x: {described}\n").check(pd.DataFrame({"x": ["a"] * 53 + ["c"] * 47}))
    assert found.alarming == ("x",)
    assert found.columns[0].remarks == ("47 % are not listed (such as 'c'), and become missing",)


@pytest.mark.parametrize("engine", ENGINES)
def test_gaps_and_markers_are_said(engine):
    described = "{type: integer, min: 0, max: 9, missing: [-1]}"
    values = ["-1"] * 40 + [""] * 7 + [str(i % 10) for i in range(53)]
    assert one_column(described, values, engine) == [
        "47 % of the rows have no value, 40 % by a marker of missing values"
    ]


def test_gaps_without_a_code_are_said():
    values = [None, *range(1, 50)]
    assert one_column("{type: integer, min: 0, max: 49, width: 10}", values) == [
        "2 % have no value, and count as 0..9: say missing: true"
    ]
    assert one_column("{type: integer, min: 0, max: 49, width: 10, outside: error}", values) == [
        "2 % have no value, and stop the run: say missing: true"
    ]
    assert one_column("{type: categorical, values: [a, b], other: x}", ["a", None, "b"]) == [
        "33.3 % have no value, and count as x: say missing: true",
        "33.3 % of the rows have no value",
    ]


def test_codes_that_nobody_has():
    ages = [*range(0, 100), *[999] * 5]
    found = one_column("{type: integer, min: 0, max: 999, missing: true}", ages)
    assert found[0].startswith("4.76 % are in 999, far from all others")
    assert found[1].startswith("only 101 of its 1,000 numbers occur")
    assert one_column("{type: integer, min: 0, max: 99}", range(100)) == []
    assert unused_between([], 10) is None
    assert unused_between([3], 10) is None
    assert unused_between([0, 1, 2], 3) is None


def test_long_names_are_short_in_the_table_and_whole_in_the_key():
    names = [f"How satisfied are you with the {'very ' * 20}good food in canteen {number}?" for number in (1, 2)]
    columns = "".join(f'  "{name}": {{type: integer, min: 0, max: 3}}\n' for name in names)
    found = Schema.parse(f"columns:\n{columns}").check(pd.DataFrame({name: [0, 1, 2, 9] for name in names}))
    lines = str(found).splitlines()
    key = [line for line in lines if " = " in line]
    assert [line.split(" = ")[1] for line in key] == names
    assert all(
        len(line) < 140 for line in lines if line not in key and "PRIVATE" not in line and "THE SCHEMA" not in line
    )


@given(st.lists(st.sampled_from(["0", "7", "07", "7.5", "-1", "", "x", "12", "120"]), min_size=1, max_size=30))
@settings(max_examples=15)
def test_engines_count_the_same_detail(values):
    schema = Schema.parse("columns:\n  x: {type: integer, min: 0, max: 99, width: 10, missing: [-1]}\n")
    frame = pd.DataFrame({"x": values})
    expected, found = (vars(schema.check(table).columns[0].detail) for table in (frame, duckdb.from_df(frame)))
    assert {**expected, "column": None} == {**found, "column": None}


def test_frequent_numbers_are_kept_among_many():
    rng = np.random.default_rng(0)
    column = Schema.parse("columns:\n  x: {type: real, min: 0, max: 1}\n".replace("max: 1", "max: 1, bins: 2")).columns[
        0
    ]
    detail = Detail(column)
    for _ in range(20):
        values = np.where(rng.random(2000) < 0.2, 0.25, rng.random(2000))
        detail._add(*np.unique(values, return_counts=True))
    assert len(detail.common) <= KEPT
    assert detail.common[0.25] == pytest.approx(0.2 * 40_000, rel=0.1)


def test_equal_values_in_a_bin_of_their_own_are_no_alarm():
    table = pd.DataFrame({"wage": [0.0] * 970 + list(range(100, 130))})
    column = {"type": "real", "min": 0, "max": 200, "bins": 10}
    crowded, alone = (
        Schema.from_dict({"columns": {"wage": {**column, **points}}}).check(table) for points in ({}, {"points": [0]})
    )
    assert "97 % are in one of 10 bins" in str(crowded)
    assert crowded.alarming
    assert "make bins where the values are" not in str(alone)
    assert not alone.alarming


@pytest.mark.parametrize("engine", ENGINES)
def test_the_label_of_others_is_foreseen(engine):
    described = "{type: categorical, values: [a, b], other: other}"
    frame = pd.DataFrame({"x": ["a", "b", "other", "other"]})
    found = Schema.parse(f"columns:\n  x: {described}\n").check(engine(frame))
    assert not found.remarks()
    assert (found.columns[0].kept, found.columns[0].used, found.columns[0].other) == (1, 2, 0)
    assert not one_column(described, ["a", "other"], engine)
    assert "capitals only" in one_column(described, ["a", "B"], engine)[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_midnight_of_a_clock_of_twelve_hours_is_no_time_of_day(engine):
    described = '{type: date, min: 2020-01-01, max: 2020-12-31, format: "%m/%d/%Y %I:%M:%S %p"}'
    midnights = ["01/02/2020 12:00:00 AM", "01/03/2020 12:00:00 AM"]
    assert not one_column(described, midnights * 20, engine)
    for time in ("12:00:00 PM", "12:30:00 AM", "01:00:00 AM"):
        assert "time of day" in one_column(described, [*midnights, f"01/02/2020 {time}"], engine)[0]
