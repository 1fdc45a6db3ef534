"""Tests of weeks in formats of dates, which every engine reads alike."""

import datetime

import duckdb
import pandas as pd
import polars as pl
import pytest

from pgmest.errors import SchemaError
from pgmest.schema import Schema
from pgmest.schema.guess_dates import WEEKS
from pgmest.schema.periods import date_text, moment_of

DAYS = [datetime.date(2008, 12, 1) + datetime.timedelta(days=number) for number in range(3000)]
READ = ["2020-W01", "2020-w53", "2021-W1"]
UNREAD = ["2021-W53", "2020-W00", "2020-W54", "2020-W01-2", "W01", "", "2020"]
WEEK = {"type": "date", "min": "2019-12-30", "max": "2021-12-26", "unit": "day", "width": 7, "format": "%G-W%V"}
SCHEMA = Schema.from_dict({"columns": {"week": {**WEEK, "missing": True}}})


@pytest.mark.parametrize("form", WEEKS)
def test_a_week_is_read_as_its_monday_and_written_back(form):
    for day in DAYS:
        text = date_text(day, form)
        monday = moment_of(text, form).date()
        assert date_text(monday, form) == text
        assert 0 <= (day - monday).days < 7
        assert monday.weekday() == 0


@pytest.mark.parametrize("engine", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, duckdb.from_arrow])
def test_every_engine_reads_weeks_alike(engine):
    texts = {"week": READ + UNREAD}
    table = pl.DataFrame(texts).to_arrow() if engine is duckdb.from_arrow else texts
    found = SCHEMA.encode(engine(table)).collect()
    assert found.column("week").tolist() == [0, 52, 53] + [found.domain["week"] - 1] * len(UNREAD)


def test_weeks_are_written_as_they_are_read():
    codes = SCHEMA.encode(pd.DataFrame({"week": READ}))
    written = SCHEMA.decode(codes, seed=0, written=True)
    assert written["week"].tolist() == ["2020-W01", "2020-W53", "2021-W01"]


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


@pytest.mark.parametrize("sign", ["-", "−"])
def test_a_sign_that_marks_negative_numbers_is_not_ignored(sign):
    with pytest.raises(SchemaError, match="ignore"):
        Schema.from_dict({"columns": {"c": {"type": "integer", "min": -9, "max": 9, "ignore": [sign]}}})
