"""Dates with times, times of day and durations: read alike everywhere, drawn within their bins, and drafted."""

import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.data.values import read_values
from pgmest.errors import SchemaError
from pgmest.schema import Schema, draft
from pgmest.schema.readings import clock_of, length_of, step_of

CALLS = """
columns:
  call: {type: date, min: 2024-01-01, max: 2024-01-03, unit: hour, missing: true}
  begun: {type: date, min: 2024-01-01 06:30, max: 2024-01-01 09:10, unit: minute, width: 15}
  exact: {type: date, min: 2024-01-01, max: 2024-01-02, unit: second, bins: 7, format: "%d.%m.%Y %H:%M:%S"}
  at: {type: time, unit: hour, missing: true}
  half: {type: time, min: "06:00", max: "22:30", unit: minute, width: 30, format: "%I:%M %p"}
  second: {type: time, unit: second, bins: 5, points: ["12:00"]}
  wait: {type: duration, min: 0, max: 119, unit: minute, width: 10, missing: true}
  stay: {type: duration, edges: [0, 1, 7, 30], unit: day}
  digits: {type: date, min: 2020-01-01, max: 2020-12-31, unit: month, format: "%Y%m%d"}
"""


def one(described, name="c") -> Schema:
    return Schema.from_dict({"columns": {name: described}})


def grid(schema) -> Any:
    """Return the only column of a schema."""
    return schema.columns[0]


def calls(rows=200, seed=0):
    rng = np.random.default_rng(seed)

    def seconds(most):
        return pd.to_timedelta(rng.integers(0, most, rows), unit="s")

    start: Any = pd.Timestamp("2024-01-01")
    frame = pd.DataFrame({"call": start + seconds(3 * 86400), "begun": (start + seconds(86400)).astype(str)})
    frame["exact"] = (start + seconds(2 * 86400)).strftime("%d.%m.%Y %H:%M:%S")
    frame["at"] = [datetime.time(hour, 5) for hour in rng.integers(0, 24, rows)]
    hours, minutes = rng.integers(1, 13, rows), rng.integers(0, 60, rows)
    frame["half"] = [
        f"{h:02}:{m:02} {p}" for h, m, p in zip(hours, minutes, rng.choice(["AM", "PM"], rows), strict=True)
    ]
    frame["second"] = [f"{h}:{m:02}:01" for h, m in zip(hours, minutes, strict=True)]
    frame["wait"], frame["stay"] = seconds(7100), seconds(30 * 86400)
    frame["digits"] = 20200100 + 100 * rng.integers(0, 12, rows) + rng.integers(1, 29, rows)
    frame.loc[3, ["call", "at", "wait"]] = None
    return frame


@pytest.mark.parametrize("like", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("written", [False, True])
def test_codes_become_values_of_their_bins_and_codes_again(tmp_path, like, written):
    schema, frame = Schema.parse(CALLS), calls()
    data = schema.encode(frame)
    table = schema.decode(data, seed=0, like=like, written=written)
    assert schema.encode(table) == data
    if written and like == "pandas":
        table.to_csv(tmp_path / "table.csv", index=False)
        assert schema.encode(tmp_path / "table.csv") == data


def test_every_way_to_hold_the_values_gives_the_same_codes(tmp_path):
    schema, frame = Schema.parse(CALLS), calls()
    data = schema.encode(frame)
    frame.to_csv(tmp_path / "calls.csv", index=False)
    assert schema.encode(tmp_path / "calls.csv") == data
    assert schema.encode(pl.from_pandas(frame)) == data
    objects = frame.astype(object)
    assert schema.encode(objects) == data
    lazy = schema.encode(pl.from_pandas(frame).lazy())
    assert all((lazy.project((name,)).values == data.project((name,)).values).all() for name in schema.domain)
    duckdb = pytest.importorskip("duckdb")
    kept = frame.drop(columns=["wait", "stay"])  # intervals of DuckDB are not read
    part = Schema.from_dict({"columns": {name: schema.description["columns"][name] for name in kept}})
    relation = part.encode(duckdb.sql("from kept"))
    assert all((relation.project((name,)).values == data.project((name,)).values).all() for name in part.domain)


def test_hours_are_kept():
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 30, 1000), unit="D")
    frame = pd.DataFrame({"call": days + pd.to_timedelta(rng.choice([8, 20], 1000), unit="h")})
    frame["at"] = frame["call"].dt.time
    schema = Schema.parse(draft(frame))
    assert dict(schema.domain) == {"call": 30 * 24, "at": 24}
    made = pg.Synthesizer("independent", epsilon=1e4, backend="simulation").fit(frame, schema, seed=0, allow_draft=True)
    synthetic = made.sample(500, seed=0)
    assert set(synthetic["call"].dt.hour) == {8, 20}
    assert set(synthetic["at"].map(str).str[:2]) == {"08", "20"}


def test_bins_and_labels():
    schema = Schema.parse(CALLS)
    assert schema.labels("call")[:2] == ["2024-01-01 00:00..00:59", "2024-01-01 01:00..01:59"]
    assert schema.labels("call")[-2:] == ["2024-01-03 23:00..23:59", "missing"]
    assert schema.labels("begun")[-1] == "2024-01-01 09:00..09:10"
    assert schema.labels("exact")[3] == "2024-01-01 20:34:17..2024-01-02 03:25:41"
    assert schema.labels("at")[-2:] == ["23:00..23:59", "missing"]
    assert schema.labels("half")[-1] == "22:30"
    assert "12:00:00" in schema.labels("second")
    assert schema.labels("wait")[1] == "10..19 minutes"
    assert schema.labels("stay") == ["0 days", "1..6 days", "7..29 days"]


# -- readings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "form", "minutes"),
    [
        ("1970-01-02", None, 1440),
        ("1970-01-01T01:30", None, 90),
        ("1970-01-01 01:30:59.999", None, 90),
        ("1970-01-01 1:30 PM", None, 810),
        ("1970-01-01 12:00:00 AM", None, 0),
        ("1970-01-01T01:30:00Z", None, 90),
        ("1970-01-01T01:30:00-05:00", None, 90),  # the clock of its place
        ("1970-01-01 25:00", None, None),
        ("1970-01-01 13:00 PM", None, None),
        ("1970-01-01 noon", None, None),
        ("1/1/70 4:01", "%m/%d/%y %H:%M", 241),
        (datetime.datetime(1970, 1, 1, 1, 30), None, 90),
        (datetime.date(1970, 1, 2), None, 1440),
        (pd.Timestamp("1970-01-01 01:30", tz="Asia/Tokyo"), None, 90),
        (np.datetime64("NaT"), None, None),
        (b"1970-01-01", None, None),
    ],
)
def test_times_of_dates(value, form, minutes):
    assert step_of(value, form, 60) == minutes


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("14:35", 52500),
        ("0:00:01.9", 1),
        ("2:05 pm", 50700),
        ("12:00 AM", 0),
        (datetime.time(1, 2, 3, 4), 3723),
        (datetime.datetime(2020, 1, 1, 1, 0), 3600),
        ("2020-01-01T01:00:00", 3600),
        ("2020-01-01", None),
        ("24:00", None),
        ("1:60", None),
        ("13:00 AM", None),
        ("", None),
        (13.5, None),
        (datetime.timedelta(hours=1), None),
    ],
)
def test_times_of_day(value, seconds):
    assert clock_of(value, None) == seconds


@pytest.mark.parametrize(
    ("value", "minutes"),
    [
        ("1:30", 90),
        ("-1:30", -90),
        ("49:00:00", 2940),
        ("1 day", 1440),
        ("1 days 00:00:59", 1440),
        ("1 day, 2:00:00", 1560),
        ("-1 days +23:59:00", -1),
        ("0 days 00:00:00.000001", 0),
        (datetime.timedelta(seconds=-1), -1),
        (np.timedelta64(2, "h"), 120),
        (pd.Timedelta("90min"), 90),
        (np.timedelta64("NaT"), None),
        (datetime.time(1, 30), 90),
        (90, 90),
        ("90", 90),
        (True, None),
        ("1 week", None),
        ("days", None),
        ("", None),
        ("-", None),
        ("1:30:", None),
    ],
)
def test_durations(value, minutes):
    assert length_of(value, 60) == minutes


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1), st.sampled_from(["ns", "us", "ms", "s"]))
def test_any_duration_has_a_code_and_the_same_as_an_object(numbers, unit):
    array = np.array(numbers).astype(f"m8[{unit}]")
    schema = one({"type": "duration", "min": -10, "max": 1000, "unit": "hour", "bins": 7})
    held = pl.DataFrame({"c": pl.Series(numbers).cast(pl.Duration("us"))}) if unit == "us" else None
    table = pd.DataFrame({"c": array})
    codes = schema.encode(table).codes
    assert (codes == schema.encode(pd.DataFrame({"c": pd.Series(list(array), dtype=object)})).codes).all()
    if held is not None:
        assert (codes == schema.encode(held).codes).all()
        lazy = schema.encode(held.lazy())
        assert (lazy.project(("c",)).values == schema.encode(held).project(("c",)).values).all()
    hours = [number // (3600 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]) for number in numbers]
    bins = np.searchsorted(grid(schema).starts, np.clip(hours, -10, 1000), side="right") - 1
    assert (codes[:, 0] == bins).all()


@given(st.lists(st.datetimes(datetime.datetime(2023, 12, 30), datetime.datetime(2024, 1, 5)), min_size=1), st.data())
def test_a_time_has_the_code_of_its_step(times, data):
    unit = data.draw(st.sampled_from(["hour", "minute", "second"]))
    bins = {"bins": data.draw(st.integers(1, 50))} if unit != "hour" else {}
    schema = one({"type": "date", "min": "2024-01-01", "max": "2024-01-02 11:30", "unit": unit, **bins})
    codes = schema.encode(pd.DataFrame({"c": times})).codes[:, 0]
    low, high = datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2, 11, 30)
    for time, code in zip(times, codes, strict=True):
        seconds = (min(max(time, low), high) - datetime.datetime(1970, 1, 1)).total_seconds()
        number = seconds // grid(schema).notation.step
        assert grid(schema).starts[code] <= number <= grid(schema).points[1][code]
    texts = pd.DataFrame({"c": [str(time) for time in times]})
    assert (schema.encode(texts).codes[:, 0] == codes).all()
    decoded = schema.decode(schema.encode(texts), seed=0)["c"]
    assert decoded.between(low, high).all()


def test_gaps_of_every_kind_are_missing():
    schema = one({"type": "duration", "min": 0, "max": 9, "unit": "hour", "missing": True})
    values = pd.Series([None, pd.NaT, np.timedelta64("NaT"), pd.Timedelta("2h")], dtype=object)
    assert schema.encode(pd.DataFrame({"c": values})).codes[:, 0].tolist() == [10, 10, 10, 2]
    assert schema.encode(pd.DataFrame({"c": pd.to_timedelta(values)})).codes[:, 0].tolist() == [10, 10, 10, 2]
    frame = pd.DataFrame({"c": pd.to_timedelta(["1h", None])})
    assert read_values(frame)["c"].gaps.tolist() == [False, True]
    labeled = one({"type": "categorical", "values": ["a"], "other": "b"})
    assert labeled.encode(frame).codes[:, 0].tolist() == [1, 1]
    numbers = one({"type": "integer", "min": 0, "max": 3, "missing": True})
    assert numbers.encode(frame).codes[:, 0].tolist() == [4, 4]


# -- schemas --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({"type": "date", "min": "2024-01-01 08:00", "max": "2024-01-02"}, "must be a date such as 2020-12-31, not"),
        ({"type": "date", "min": "2024-01-01 25:00", "max": "2024-01-02", "unit": "hour"}, "or a time such as"),
        ({"type": "date", "min": "2024-01-02", "max": "2024-01-01", "unit": "hour"}, "must be at least min"),
        ({"type": "time", "min": "8", "max": "9:00"}, 'a time of day such as "08:00"'),
        ({"type": "time", "min": "22:00", "max": "06:00"}, "must be at least min"),
        ({"type": "time", "unit": "day"}, "must be one of second, minute, hour"),
        ({"type": "time", "format": "%d"}, "does not say hour and minute"),
        ({"type": "duration", "min": 0, "max": 9}, "needs 'unit:'"),
        ({"type": "duration", "min": 0, "max": 10**12, "bins": 3, "unit": "day"}, "more than 100,000 years"),
        ({"type": "date", "bounds": "bought", "unit": "hour"}, "does not go with bounds that are bought"),
    ],
)
def test_errors_of_schemas(described, message):
    with pytest.raises(SchemaError, match=message):
        one(described)


def test_constraints_name_days_of_times():
    schema = Schema.parse("""
columns:
  call: {type: date, min: 2024-01-01, max: 2024-01-03, unit: hour}
  ill: {type: boolean}
constraints:
  - impossible: {call: 2024-01-02, ill: true}
  - impossible: {call: {min: 2024-01-03, max: 2024-01-03}, ill: false}
  - impossible: {call: 2024-01-01 05:10, ill: false}
""")
    (zeros,) = schema.structural_zeros.values()
    assert zeros[:, 1].nonzero()[0].tolist() == list(range(24, 48))
    assert zeros[:, 0].nonzero()[0].tolist() == [5, *range(48, 72)]


def test_columns_of_other_steps_are_not_compared():
    columns = {
        "day": {"type": "date", "min": "2024-01-01", "max": "2024-01-02"},
        "hour": {"type": "date", "min": "2024-01-01", "max": "2024-01-02", "unit": "hour"},
        "end": {"type": "date", "min": "2024-01-01", "max": "2024-01-02", "unit": "minute", "width": 90},
        "wait": {"type": "duration", "min": 0, "max": 9, "unit": "hour"},
        "more": {"type": "duration", "min": 0, "max": 9, "unit": "hour"},
    }
    with pytest.raises(SchemaError, match="'day' of type date with 'hour' of type date in minutes"):
        Schema.from_dict({"columns": columns, "constraints": [{"ordered": ["day", "hour"]}]})
    with pytest.raises(SchemaError, match="of type duration, but only numbers have a sum"):
        Schema.from_dict({"columns": columns, "constraints": [{"sum": {"wait": ["more", "wait"]}}]})
    schema = Schema.from_dict(
        {"columns": columns, "constraints": [{"ordered": ["hour", "end"]}, {"ordered": ["wait", "more"]}]}
    )
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 300) for size in schema.domain.shape], axis=1)
    table = schema.decode(pg.Dataset.from_codes(codes, schema.domain), seed=0)
    assert (table["hour"] <= table["end"]).all()


@pytest.mark.parametrize("library", ["pandas", "arrow in pandas", "polars", "pyarrow"])
def test_synthetic_tables_have_the_types_of_the_private_one(library):
    frame = calls()[["call", "at", "wait", "stay"]]
    table = {
        "pandas": lambda: frame,
        "arrow in pandas": lambda: pl.from_pandas(frame).to_pandas(use_pyarrow_extension_array=True),
        "polars": lambda: pl.from_pandas(frame),
        "pyarrow": lambda: pl.from_pandas(frame).to_arrow(),
    }[library]()
    columns = Schema.parse(CALLS).description["columns"]
    fitted = pg.Synthesizer("independent", epsilon=9.0, backend="simulation")
    made = fitted.fit(table, {"columns": {name: columns[name] for name in frame}}, seed=0).sample(40, seed=0)
    if library == "pyarrow":
        microseconds = table.set_column(1, "at", table["at"].cast(pa.time64("us")))
        assert made.schema.types == microseconds.schema.types
        return
    kept = [name for name in frame if name != "at" or library == "polars"]  # pandas has no type of times of day
    assert list(made[kept].dtypes) == list(table[kept].dtypes)


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({"call": {"type": "duration", "unit": "hour", "min": 0, "max": 3}}, "holds dates .* values are durations"),
        ({"wait": {"type": "integer", "min": 0, "max": 3}}, "holds durations .* values are whole numbers"),
        ({"digits": {"type": "time"}}, "holds numbers .* but values are times of day"),
        ({"call": {"type": "time"}}, None),
        ({"digits": {"type": "duration", "unit": "day", "min": 0, "max": 3}}, None),
    ],
)
def test_types_that_cannot_be_are_refused_before_anything_is_paid(described, message):
    synthesizer = pg.Synthesizer("independent", epsilon=9.0, backend="simulation")
    if message is None:
        assert synthesizer.fit(calls(), {"columns": described}, seed=0)
        return
    with pytest.raises(SchemaError, match=message):
        synthesizer.fit(calls(), {"columns": described}, seed=0)


# -- drafts and checks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "lines"),
    [
        ([f"5/{1 + i % 28}/18 {i % 24}:{i % 60:02d}" for i in range(100)], ["unit: hour", '"%m/%d/%y %H:%M"']),
        ([f"3/{1 + i % 28:02}/2023 {1 + i % 12}:{i % 60:02}:11 PM" for i in range(100)], ['"%m/%d/%Y %I:%M:%S %p"']),
        ([f"2024-03-{1 + i % 28:02} {1 + i % 12}:{i % 60:02}:11 PM" for i in range(100)], ["unit: hour"]),
        ([f"2024-03-{1 + i % 28:02}T00:00:00" for i in range(100)], ["unit: day"]),
        ([f"{i % 24}:{i % 60:02}" for i in range(100)], ["type: time", "unit: hour"]),
        ([f"{i % 12 + 1}:{i % 60:02} PM" for i in range(100)], ["type: time", '"%I:%M %p"']),
        ([f"{i}:{i % 60:02}:00" for i in range(100)], ["type: duration", "max: 5999", "unit: minute", "width: 60"]),
        ([f"0 days 00:{i % 60:02}:00" for i in range(100)], ["type: duration", "max: 59", "unit: minute"]),
        ([f"2024/03/{1 + i % 28:02} 1:{i % 60:02}:22 PM GMT+1" for i in range(100)], ['"%Y/%m/%d %I:%M:%S %p GMT+1"']),
        (
            [f"{13 + i % 15}/03/2024, {i % 24:02}:{i % 60:02}:22" for i in range(100)],
            ['"%d/%m/%Y, %H:%M:%S"', "unit: hour"],
        ),
        ([f"2024-03-{1 + i % 28:02} {i % 24:02}:00:00 UTC" for i in range(100)], ["unit: hour"]),
        ([f"2024-03-{1 + i % 28:02} 12:00 AM" for i in range(100)], ["unit: day"]),
        ([f"2024-03-{1 + i % 28:02} 12:00:00" for i in range(100)], ["unit: hour"]),
        ([*(f"{i % 24}:{i % 60:02}" for i in range(100)), "unknown"], ["type: time", "missing: [unknown]"]),
    ],
)
def test_drafts_recognize_times(values, lines):
    text = draft(pd.DataFrame({"c": values}))
    described = text[text.index("  c:") :]
    assert all(line in described for line in lines)
    assert Schema.parse(text).check(pd.DataFrame({"c": values})).kept == 1.0


def test_drafts_and_checks_say_what_is_lost():
    times = pd.date_range("2023-01-01 08:00", periods=300, freq="25h")
    text = draft(pd.DataFrame({"c": times}))
    assert ": THE TIMES OF DAY ARE LOST: unit: hour WOULD KEEP THEM, IN 7," in text
    assert "have a time of day, which is lost: say unit: hour" in str(
        Schema.parse(text).check(pd.DataFrame({"c": times}))
    )
    kept = one({"type": "date", "min": "2023-01-01", "max": "2023-12-31", "unit": "hour", "bins": 100})
    assert "time of day" not in str(kept.check(pd.DataFrame({"c": times})))


def test_a_draft_to_buy_keeps_times():
    frame = calls()
    schema = Schema.parse(draft(frame, bought=True))
    assert set(schema.bought) == {"call", "begun", "exact", "digits"}
    assert schema.columns


@pytest.mark.parametrize(
    ("texts", "kind", "form"),
    [
        ([f"{i % 31}:{i * 7 % 60:02}" for i in range(200)], "duration", r"\d{1,2}:\d\d"),
        ([f"{i % 31:02}:{i * 7 % 60:02}:00" for i in range(200)], "duration", r"\d\d:\d\d:00"),
        ([f"0:{i % 60:02}:{i * 7 % 60:02}" for i in range(200)], "duration", r"0:\d\d:\d\d"),
        ([f"{i % 24:02}:{i * 7 % 60:02}:00" for i in range(200)], "time", r"\d\d:\d\d:00"),
        ([f"{i % 24:02}:{i % 60:02}:{i * 7 % 60:02}" for i in range(200)], "time", r"\d\d:\d\d:\d\d"),
        ([f"{i % 24:02}:{i * 7 % 60:02}" for i in range(200)], "time", r"\d\d:\d\d"),
        ([f"{i % 24}:{i % 60:02}:{i * 7 % 60:02}" for i in range(200)], "time", r"\d\d:\d\d:\d\d"),
    ],
)
def test_times_are_written_as_the_table_writes_them_with_all_their_parts(tmp_path, texts, kind, form):
    (tmp_path / "t.csv").write_text("\n".join(["c", *texts]) + "\n")
    text = draft(tmp_path / "t.csv")
    assert f"type: {kind}" in text
    schema = Schema.parse(text)
    data = schema.encode(tmp_path / "t.csv")
    table = schema.decode(data, seed=0, written=True)
    assert table["c"].str.fullmatch(form).all()
    for part in range(len(texts[0].split(":"))):  # all parts vary that vary in the table
        assert (table["c"].str.split(":").str[part].nunique() > 5) == (len({one.split(":")[part] for one in texts}) > 5)
    table.to_csv(tmp_path / "s.csv", index=False)
    assert schema.encode(tmp_path / "s.csv") == data
