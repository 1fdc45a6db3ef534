"""Rows with given values: values, sets and ranges, in every kind of model, and errors that name the nearest value."""

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pgmest as pg
from pgmest.cli.given import read_conditions
from pgmest.errors import ImpossibleModelError, QueryError, UnknownAttributeError
from pgmest.schema.given import read_given
from pgmest.synthesizer.completion import drawn

SCHEMA = pg.Schema.parse(
    """
columns:
  sex: {type: categorical, values: [F, M], outside: error}
  age: {type: integer, min: 0, max: 89, width: 10}
  city: {type: categorical, values: [Rome, Oslo], other: elsewhere, aliases: {Rome: [Roma]}}
  income: {type: real, min: 0, max: 100, bins: 7, decimals: 2, missing: true}
  weight: {type: real, min: 0, max: 10, bins: 4}
  born: {type: date, min: 1950-01-01, max: 1959-12-31, unit: year}
  job: {type: boolean, missing: ["?"]}
constraints:
  - impossible: {age: {max: 9}, job: true}
"""
)


@pytest.fixture(scope="module")
def frame():
    rng, n = np.random.default_rng(0), 1500
    age = rng.integers(0, 90, n)
    income = pd.Series(np.round(rng.random(n) * 100, 2)).mask(rng.random(n) < 0.2)
    return pd.DataFrame(
        {
            "sex": rng.choice(["F", "M"], n),
            "age": age,
            "city": rng.choice(["Rome", "Oslo", "Bonn"], n),
            "income": income,
            "weight": rng.random(n) * 10,
            "born": pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 3650, n), unit="D"),
            "job": (rng.random(n) < 0.5) & (age > 9),
        }
    )


@pytest.fixture(scope="module", params=["mst", "lamp", "priview"])
def fitted(request, frame):
    options: dict[str, Any] = {"estimator": "original"} if request.param == "priview" else {}
    return pg.Synthesizer(request.param, epsilon=10.0, backend="simulation", **options).fit(frame, SCHEMA, seed=0)


CONDITIONS = [
    ({"age": (33, 47)}, lambda t: t["age"].between(33, 47)),
    ({"age": (None, 12)}, lambda t: t["age"] <= 12),
    ({"age": {"min": 84.5}}, lambda t: t["age"] >= 85),
    ({"age": 35}, lambda t: t["age"] == 35),
    ({"age": range(35, 40)}, lambda t: t["age"].between(35, 39)),
    ({"age": {5, 77}}, lambda t: t["age"].isin([5, 77])),
    ({"sex": "F", "city": {"Roma", "elsewhere"}}, lambda t: (t["sex"] == "F") & t["city"].isin(["Rome", "elsewhere"])),
    ({"income": None}, lambda t: t["income"].isna()),
    ({"income": (10.005, 40.004), "sex": ["M"]}, lambda t: t["income"].between(10.01, 40) & (t["sex"] == "M")),
    ({"income": [None, 3.25]}, lambda t: t["income"].isna() | (t["income"] == 3.25)),
    ({"weight": (2.4, 2.6)}, lambda t: t["weight"].between(2.4, 2.6)),
    ({"weight": 2.5}, lambda t: t["weight"] == 2.5),
    ({"born": ("1951-03-05", "1951-03-07")}, lambda t: t["born"].between("1951-03-05", "1951-03-07")),
    ({"born": datetime.date(1955, 5, 5)}, lambda t: t["born"] == "1955-05-05"),
    ({"born": (pd.Timestamp("1959-12-31"), None)}, lambda t: t["born"] == "1959-12-31"),
    ({"job": "yes"}, lambda t: t["job"] == True),  # noqa: E712  pandas' NA
    ({"job": {True, None}}, lambda t: t["job"].isna() | t["job"]),
]


def _name(given: dict[str, object]) -> str:
    """Return a name of the condition in which sets are sorted: workers collect the same names in each process."""
    return str({name: sorted(value, key=str) if isinstance(value, set) else value for name, value in given.items()})


@pytest.mark.parametrize(("given", "holds"), CONDITIONS, ids=[_name(given) for given, _ in CONDITIONS])
def test_all_rows_have_the_given_values(fitted, given, holds):
    table = fitted.sample(60, seed=0, given=given)
    assert list(table) == list(SCHEMA.domain)
    assert len(table) == 60
    assert holds(table).all()
    assert not ((table["age"] < 10) & table["job"].fillna(False)).any() or "priview" in repr(fitted)


def test_a_part_of_a_bin_counts_by_its_share(fitted, frame):
    rows = len(fitted.sample(seed=0, given={"age": (35, 44)}))
    whole = fitted.model_.project("age").values
    assert rows == pytest.approx((whole[3] + whole[4]) / 2, abs=2)
    weights = read_given(SCHEMA, {"age": {31, 32, 47}, "weight": (0, 3.75)}).weights
    assert weights["age"].tolist() == pytest.approx([0, 0, 0, 0.2, 0.1, 0, 0, 0, 0])
    assert weights["weight"].tolist() == pytest.approx([1, 0.5, 0, 0])


ERRORS = [
    ({"agee": 3}, UnknownAttributeError, "Did you mean 'age'"),
    ({"city": "Romee"}, QueryError, "'city' is Romee, .*Did you mean 'Rome'"),
    ({"city": {"Rome", "oslo"}}, QueryError, "Did you mean 'Oslo'"),
    ({"age": 200}, QueryError, r"'age' is 200, but values are whole numbers within 0\.\.89"),
    ({"age": (40, 30)}, QueryError, "ends before it begins"),
    ({"age": (90, 99)}, QueryError, r"90\.\.99, but values"),
    ({"age": "x"}, QueryError, "'age' is x"),
    ({"age": 35.5}, QueryError, "35.5"),
    ({"age": ()}, QueryError, "a range is"),
    ({"age": (1, 2, 3)}, QueryError, "a range is"),
    ({"age": (None, None)}, QueryError, "a range is"),
    ({"age": set()}, QueryError, "no value"),
    ({"age": {"from": 3}}, QueryError, "min and max"),
    ({"age": 1j}, QueryError, "'age' is"),
    ({"city": {"min": "Rome"}}, QueryError, "not a mapping"),
    ({"sex": None}, QueryError, "missing values of 'sex'"),
    ({"born": "1949-12-31"}, QueryError, r"within 1950-01-01\.\.1959-12-31"),
    ({"born": "31.12.1955"}, QueryError, "dates"),
    ({"income": float("inf")}, QueryError, "inf"),
    ({"city": b"Rome"}, QueryError, "not one of its values"),
]


@pytest.mark.parametrize(("given", "error", "said"), ERRORS, ids=[_name(given) for given, _, _ in ERRORS])
def test_unknown_columns_and_values_are_refused(given, error, said):
    with pytest.raises(error, match=said):
        read_given(SCHEMA, given)


def test_markers_of_missing_values_are_never_drawn():
    column = {"type": "integer", "min": 0, "max": 99, "bins": 5, "missing": [13]}
    schema = pg.Schema.from_dict({"columns": {"x": column}})
    data = pg.Dataset.from_codes(np.zeros((50, 1), dtype=np.int64), schema.domain)
    drawn = read_given(schema, {"x": {13, 14}}).values(data, np.random.default_rng(0))
    assert set(drawn["x"]) == {14}
    with pytest.raises(QueryError, match="no value"):
        read_given(schema, {"x": 13})


def test_impossible_values_are_named_not_their_codes(frame):
    fitted = pg.Synthesizer("mst", epsilon=10.0, backend="simulation").fit(frame, SCHEMA, seed=0)
    with pytest.raises(ImpossibleModelError, match=r"no row with age=0\.\.5, job=True is possible"):
        fitted.sample(5, given={"age": (0, 5), "job": True})
    with pytest.raises(ImpossibleModelError, match=r"row 1 of given= .*: age=0\.\.9, job=true"):
        fitted.sample(given=pd.DataFrame({"age": [30, 5], "job": [True, True]}))


def test_conditioned_models_are_decoded_to_whole_rows(frame, tmp_path):
    fitted = pg.Synthesizer("mst", epsilon=10.0, backend="simulation").fit(frame, SCHEMA, seed=0)
    evidence = SCHEMA.evidence({"sex": "M", "age": (30, 39)})
    assert evidence == {"sex": 1, "age": 3}
    model = fitted.model_.condition(evidence)
    table = SCHEMA.decode(model.sample(50, seed=0), seed=0)
    assert list(table) == list(SCHEMA.domain)
    assert set(table["sex"]) == {"M"}
    assert table["age"].between(30, 39).all()
    model.save(tmp_path / "m.npz")
    loaded = pg.Synthesizer.load(tmp_path / "m.npz")
    assert set(loaded.sample(20, seed=0)["sex"]) == {"M"}
    completed = loaded.sample(seed=0, given=pd.DataFrame({"city": ["Rome", "Oslo"]}))
    assert completed["sex"].tolist() == ["M", "M"]
    with pytest.raises(QueryError, match="'age' has 2 codes"):
        SCHEMA.evidence({"age": (30, 40)})


def test_related_columns():
    schema = pg.Schema.parse("""
columns:
  start: {type: date, min: 2020-01-01, max: 2020-12-31, unit: month}
  end: {type: date, min: 2020-01-01, max: 2020-12-31, unit: month}
  low: {type: integer, min: 0, max: 99, width: 20}
  high: {type: integer, min: 0, max: 99, width: 20}
  a: {type: integer, min: 0, max: 9, width: 5}
  b: {type: integer, min: 0, max: 9, width: 5}
  t: {type: integer, min: 0, max: 18, width: 3}
constraints:
  - ordered: [start, end]
  - ordered: [low, high]
  - sum: {t: [a, b]}
""")
    rng, n = np.random.default_rng(0), 400
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 180, n), unit="D")
    low, a, b = rng.integers(0, 50, n), rng.integers(0, 10, n), rng.integers(0, 10, n)
    frame = pd.DataFrame(
        {"start": days, "end": days + pd.Timedelta("9D"), "low": low, "high": low + 30, "a": a, "b": b}
    )
    fitted = pg.Synthesizer("mst", epsilon=10.0, backend="simulation").fit(frame, schema, seed=0)
    for given, holds in (
        ({"start": ("2020-03-10", "2020-04-10")}, lambda t: t["start"].between("2020-03-10", "2020-04-10")),
        ({"high": (45, 50)}, lambda t: t["high"].between(45, 50)),
        ({"low": {41, 42}}, lambda t: t["low"].isin([41, 42])),
        ({"a": 7}, lambda t: t["a"] == 7),
        ({"end": ("2020-05-05", "2020-05-09")}, lambda t: t["end"].between("2020-05-05", "2020-05-09")),
    ):
        table = fitted.sample(80, seed=0, given=given)
        assert holds(table).all(), given
        assert (table["start"] <= table["end"]).all()
        assert (table["low"] <= table["high"]).all()
        assert (table["a"] + table["b"] == table["t"]).all()
    with pytest.raises(QueryError, match="'t', which is computed from a, b: give these instead"):
        fitted.sample(5, given={"t": (10, 11)})
    with pytest.raises(QueryError, match="high, low, whose values are drawn together"):
        fitted.sample(5, given={"low": 5, "high": 50})


def test_times_and_durations():
    schema = pg.Schema.parse("""
columns:
  at: {type: date, min: 2020-01-01, max: 2020-01-31, unit: hour, width: 12}
  clock: {type: time, unit: hour}
  wait: {type: duration, min: 0, max: 120, unit: minute, width: 30}
""")
    model = pg.Model(pg.CliqueVector.zeros(schema.domain, []), 100.0)
    rng = np.random.default_rng(0)
    for given, holds in (
        (
            {"at": ("2020-01-03 05:30", "2020-01-03 14:00")},
            lambda t: t["at"].between("2020-01-03 05:30", "2020-01-03 14:00"),
        ),
        ({"clock": ("08:15", "10:45")}, lambda t: t["clock"].between("08:15", "10:45")),
        ({"wait": ("0:20", "1:10")}, lambda t: t["wait"].between(pd.Timedelta("20min"), pd.Timedelta("70min"))),
        ({"wait": 45}, lambda t: t["wait"] == pd.Timedelta("45min")),
    ):
        assert holds(drawn(model, schema, given, 50, rng)).all(), given


@pytest.mark.parametrize(
    "column",
    [
        "age: {type: integer, min: 0, max: 89, width: 10, points: [20]}",
        "income: {type: real, min: 0, max: 100, bins: 5, points: [20]}",
        "born: {type: date, min: 1950-01-01, max: 1959-12-31, unit: year, width: 2}",
        "month: {type: date, min: 2024-01-01, max: 2024-12-31, unit: month}",
        'month: {type: date, min: 2024-01-01, max: 2024-12-31, unit: month, format: "%Y-%m"}',
        "at: {type: time, unit: hour}",
    ],
)
def test_a_label_that_tables_show_is_a_condition(column):
    """The label of a bin, as tables and queries show it, asks for the whole bin, also on the command line."""
    schema = pg.Schema.parse(f"columns:\n  {column}\n")
    (name,) = schema.domain
    for code, label in enumerate(schema.labels(name)):
        read = {} if "," in label else read_conditions("--given", [f"{name}={label}"])  # of real numbers: 20..30
        for value in (label, *read.values()):
            assert schema.evidence({name: value}) == {name: code}
