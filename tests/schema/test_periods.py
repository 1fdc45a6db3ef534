"""Tests of weeks, minus signs and dashes for 0, which every engine reads alike."""

import datetime

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from pgmest.errors import SchemaError
from pgmest.schema import Schema
from pgmest.schema.guess_dates import WEEKS
from pgmest.schema.periods import date_text, moment_of

DAYS = [datetime.date(2008, 12, 1) + datetime.timedelta(days=number) for number in range(3000)]
VALUES = {
    "week": ["2020-W01", "2020-w53", "2021-W1", *["2021-W53", "2020-W00", "2020-W54", "2020-W01-2", "W01", "", "2020"]],
    "zero": ["-", " $ - ", "$–", "0", "5", "-5", *["--", "- -", "$", "x-", ""]],
    "dash": ["−5", "–5", "− 5", "-5", "−0", "5", "−1e0", "−$5", "$−5", *["−", "5−", "−−5", "−-5", "- 5", ""]],
}
READ = {"week": 3, "zero": 6, "dash": 9}
"""The number of values, at the start, that can be read."""
COLUMNS = {
    "week": {"type": "date", "min": "2019-12-30", "max": "2021-12-26", "unit": "day", "width": 7, "format": "%G-W%V"},
    "zero": {"type": "integer", "min": -9, "max": 9, "ignore": ["$"], "zeros": ["-", "–"]},
    "dash": {"type": "integer", "min": -9, "max": 9, "negative": "typographic", "ignore": ["$"]},
}
SCHEMA = Schema.from_dict({"columns": {name: {**column, "missing": True} for name, column in COLUMNS.items()}})
CODES = {"week": [0, 52, 53], "zero": [9, 9, 9, 9, 14, 4], "dash": [4, 4, 4, 4, 9, 14, 8, 4, 4]}


@pytest.mark.parametrize("form", WEEKS)
def test_a_week_is_read_as_its_monday_and_written_back(form):
    for day in DAYS:
        text = date_text(day, form)
        monday = moment_of(text, form).date()
        assert date_text(monday, form) == text
        assert 0 <= (day - monday).days < 7
        assert monday.weekday() == 0


@pytest.mark.parametrize("engine", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, duckdb.from_arrow])
def test_every_engine_reads_weeks_and_minus_signs_alike(engine):
    rows = max(map(len, VALUES.values()))
    texts = {name: values + [""] * (rows - len(values)) for name, values in VALUES.items()}
    table = pl.DataFrame(texts).to_arrow() if engine is duckdb.from_arrow else texts
    found = SCHEMA.encode(engine(table)).collect()
    for name, codes in CODES.items():
        missing = found.domain[name] - 1
        assert found.column(name).tolist() == codes + [missing] * (rows - READ[name])


def test_texts_are_written_as_they_are_read():
    read = pd.DataFrame({name: np.resize(values[: READ[name]], 9) for name, values in VALUES.items()})
    codes = SCHEMA.encode(read)
    written = SCHEMA.decode(codes, seed=0, written=True)
    assert (SCHEMA.encode(written).codes == codes.codes).all()
    assert written["week"].str.fullmatch(r"202\d-W\d\d").all()
    assert set(written["zero"]) == {"-", "5", "-5"}
    assert written["dash"].str.contains("−").sum() == 7


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ({"format": "%YQ%q"}, "format of dates"),
        ({"format": "%YH%h"}, "format of dates"),
        ({"format": "%Y%Q"}, "format of dates"),
        ({"format": "W%V"}, "%V goes with %G alone"),
        ({"format": "%Y-W%V"}, "%V goes with %G alone"),
    ],
)
def test_formats_that_say_no_day_or_week_of_a_year_are_refused(column, reason):
    with pytest.raises(SchemaError, match=reason):
        Schema.from_dict({"columns": {"c": {"type": "date", "min": "2020-01-01", "max": "2021-12-31", **column}}})


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"zeros": ["0"]}, "zeros"),
        ({"zeros": ["$-"], "ignore": ["$"]}, "zeros"),
        ({"zeros": ["-"], "missing": ["-"]}, "means 0 or a missing value"),
    ],
)
def test_texts_that_cannot_mean_zero_are_refused(keys, reason):
    with pytest.raises(SchemaError, match=reason):
        Schema.from_dict({"columns": {"c": {"type": "real", "min": -9, "max": 9, "bins": 2, **keys}}})


@pytest.mark.parametrize("keys", [{"ignore": ["−"]}, {"ignore": ["–"], "negative": "typographic"}])
def test_a_sign_that_marks_negative_numbers_is_not_ignored(keys):
    with pytest.raises(SchemaError, match="ignore"):
        Schema.from_dict({"columns": {"c": {"type": "integer", "min": -9, "max": 9, **keys}}})
