"""Synthetic tables are written in the notation of their schema, and are read back as the same codes."""

from __future__ import annotations

import re

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.csv
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pgmest.data.dataset import Dataset
from pgmest.data.frames import write_frame
from pgmest.data.table_file import TableFile
from pgmest.errors import ArgumentError, SchemaError
from pgmest.schema import Schema, draft
from pgmest.schema.grid import Grid
from pgmest.schema.numerals import Writing, number_text
from pgmest.schema.writing import check_writable
from tests.every_check import EVERY_CHECK
from tests.schema import strategies

few = settings(max_examples=60, deadline=None, suppress_health_check=EVERY_CHECK)

NOTATIONS = (
    {"ignore": ["€", "."], "decimal": ","},
    {"decimal": ","},
    {"ignore": ["$", ","]},
    {"ignore": ["e", " "]},
    {"ignore": ["E", "'"], "decimal": ","},
)
TIME_FORMATS = ("%d.%m.%Y %H:%M", "%Y-%m-%dT%H:%M:%S", "%m/%d/%Y %I:%M:%S %p")
CLOCK_FORMATS = ("%H:%M:%S", "%I:%M:%S %p", "%H%M%S")
FORMATS = ("%d.%m.%Y", "%Y%m%d", "%m/%d/%Y", "%d %b %Y", "%Y-%m-%dT%H:%M:%S", "%j/%Y")
FILES = (
    {},
    {"delimiter": ";"},
    {"delimiter": "tab", "encoding": "utf-16"},
    {"delimiter": "|", "encoding": "cp1252"},
    {"encoding": "utf-8-sig"},
    {"delimiter": ";", "encoding": "latin-1"},
    {"delimiter": ",", "encoding": "utf-16-le"},
)


@st.composite
def columns(draw):
    """Columns in a notation of their own."""
    kind = draw(st.sampled_from(("number", "date", "time", "clock", "duration", "boolean", "labels")))
    if kind == "number":
        described = draw(st.one_of(strategies.integer(), strategies.real(), strategies.price()))
        described |= draw(st.sampled_from(NOTATIONS))
    elif kind == "date":
        described = draw(strategies.date()) | {"format": draw(st.sampled_from(FORMATS))}
    elif kind == "time":
        unit, form = draw(st.sampled_from(("hour", "minute"))), draw(st.sampled_from((None, *TIME_FORMATS)))
        described = {
            "type": "date",
            "min": "2019-12-30",
            "max": "2020-03-02",
            "unit": unit,
            "bins": draw(st.integers(1, 6)),
        }
        described |= {} if form is None else {"format": form}
    elif kind == "clock":
        unit, form = draw(st.sampled_from(("hour", "minute", "second"))), draw(st.sampled_from((None, *CLOCK_FORMATS)))
        described = {"type": "time", "unit": unit, "bins": draw(st.integers(1, 8))}
        described |= {} if form is None else {"format": form}
    elif kind == "duration":
        unit = draw(st.sampled_from(("day", "hour", "minute", "second")))
        described = {"type": "duration", "min": draw(st.integers(-50, 0)), "max": 50, "unit": unit, "bins": 7}
    elif kind == "boolean":
        described = {"type": "boolean"} | draw(st.sampled_from(({}, {"labels": ["no", "yes"]}, {"labels": ["0", "1"]})))
    else:
        described = draw(st.one_of(strategies.categorical(), strategies.codebook()))
    missing = draw(st.sampled_from((False, True, ["N/A", "?"], ["-"], [99], [0, -1], ["", "NA"], ["True", "none"])))
    return described if missing is False else described | {"missing": missing}


@st.composite
def cases(draw):
    listed = draw(st.lists(columns(), min_size=1, max_size=4))
    description = {"columns": {f"c {i}": one for i, one in enumerate(listed)}, "file": draw(st.sampled_from(FILES))}
    try:
        schema = Schema.from_dict(description)
    except SchemaError:  # "-" or 99 is both a value and a marker
        assume(False)
        raise
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = np.stack([rng.integers(0, size, 60) for size in schema.domain.shape], axis=1)
    return schema, codes


def representable(schema, data):
    """Return which records have no value that the schema itself reads as missing, such as 99 in a bin of 99 alone."""
    again = schema.encode(schema.decode(data, seed=0))
    same = np.ones(data.records, dtype=bool)
    for column, mine, read in zip(schema.columns, data.columns, again.columns, strict=True):
        alone = column.markers & {"99", "0", "-1"}
        same &= (mine == read) | bool(alone)
    assert same.all()
    return data.take(np.all([m == r for m, r in zip(data.columns, again.columns, strict=True)], axis=0))


@few
@given(cases(), st.sampled_from(("pandas", "polars", "pyarrow")), st.sampled_from((".csv", ".tsv", ".csv.gz")))
def test_what_is_written_is_read_as_the_same_codes(tmp_path_factory, case, like, ending):
    schema, codes = case
    data = representable(schema, Dataset.from_codes(codes, schema.domain))
    file = schema.table_file(tmp_path_factory.getbasetemp() / f"written{ending}")
    try:
        check_writable(schema, file)
    except ArgumentError:
        assume(False)
    write_frame(schema.decode(data, seed=0, like=like, written=True), file)
    assert schema.encode(file.path) == data


def _read_by(engine, path, separator):
    if engine == "pandas":
        return pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False, skip_blank_lines=False)
    if engine == "polars":
        return pl.read_csv(path, separator=separator, infer_schema_length=0).lazy()
    if engine == "duckdb":
        return duckdb.read_csv(str(path), sep=separator, all_varchar=True, header=True, quotechar='"', escapechar='"')
    header = path.read_text(encoding="utf-8").split("\n", 1)[0]
    names = [name.strip('"') for name in header.split(separator)]
    convert = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pyarrow.string()))
    return pyarrow.csv.read_csv(
        path, parse_options=pyarrow.csv.ParseOptions(delimiter=separator), convert_options=convert
    )


@settings(few, max_examples=12)
@given(cases(), st.sampled_from(("pandas", "polars", "pyarrow", "duckdb")))
def test_engines_read_it_as_the_same_codes(tmp_path_factory, case, engine):
    schema, codes = case
    schema = Schema.from_dict({**schema.description, "file": {"delimiter": ";"}})
    assume(len(schema.domain) > 1)
    data = representable(schema, Dataset.from_codes(codes, schema.domain))
    assume(data.records > 0)
    path = tmp_path_factory.getbasetemp() / "engine.csv"
    write_frame(schema.decode(data, seed=0, written=True), schema.table_file(path))
    encoded = schema.encode(_read_by(engine, path, ";"))
    assert (encoded.collect() if engine in ("polars", "duckdb") else encoded) == data


PRICES = Schema.from_dict(
    {
        "columns": {
            "price": {
                "type": "real",
                "min": 0,
                "max": 1000,
                "bins": 10,
                "decimals": 2,
                "ignore": ["€", "."],
                "decimal": ",",
                "missing": ["k. A."],
            },
            "day": {"type": "date", "min": "2020-01-01", "max": "2020-12-31", "format": "%d.%m.%Y", "missing": True},
            "paid": {"type": "boolean", "labels": ["nein", "ja"]},
            "height": {"type": "categorical", "values": ["größer", "kleiner"], "other": "?"},
        },
        "file": {"delimiter": ";", "encoding": "cp1252"},
    }
)


def test_a_german_table_stays_a_german_table(tmp_path):
    data = Dataset.from_codes(np.array([[9, 3, 1, 0], [10, 366, 0, 1]]), PRICES.domain)
    file = PRICES.table_file(tmp_path / "t.csv")
    write_frame(PRICES.decode(data, seed=0, written=True), file)
    lines = (tmp_path / "t.csv").read_bytes().decode("cp1252").splitlines()
    assert lines[0] == "price;day;paid;height"
    price, day, paid, height = lines[1].split(";")
    assert (price[0], price[-3], day, paid, height) == ("9", ",", "04.01.2020", "ja", "größer")
    assert lines[2] == "k. A.;;nein;kleiner"
    assert PRICES.check(file).kept == 1
    typed = PRICES.decode(data, seed=0)
    assert typed["price"].dtype == float
    assert np.isnan(typed["price"][1])


def test_values_are_never_markers_of_missing_values():
    described = {"type": "integer", "min": 90, "max": 109, "width": 10, "missing": [99, 98, 100]}
    schema = Schema.from_dict({"columns": {"n": described}})
    data = Dataset.from_codes(np.repeat([0, 1], 500)[:, None], schema.domain)
    for like in ("pandas", "polars"):
        table = schema.decode(data, seed=0, like=like)
        assert not {98, 99, 100} & set(table["n"])
        assert len(set(table["n"])) == 17
        assert schema.encode(table) == data


def test_days_are_never_markers_either():
    described = {"type": "date", "min": "1900-01-01", "max": "1900-01-02", "unit": "day", "width": 2}
    schema = Schema.from_dict({"columns": {"d": described | {"format": "%d.%m.%Y", "missing": ["01.01.1900"]}}})
    data = Dataset.from_codes(np.zeros((50, 1), dtype=int), schema.domain)
    assert set(schema.decode(data, seed=0, written=True)["d"]) == {"02.01.1900"}


@pytest.mark.parametrize(
    ("described", "left"),
    [
        (
            {"type": "integer", "min": 1, "max": 2, "width": 2, "ignore": ["$"], "written": "${}", "missing": ["$1"]},
            "$2",
        ),
        ({"type": "date", "min": "2020-01-31", "max": "2020-02-01", "width": 2, "format": "%B %Y"}, "February 2020"),
        ({"type": "time", "min": "14:05", "max": "14:06", "width": 2, "unit": "minute", "format": "%Hh%M"}, "14h06"),
    ],
    ids=["dollars", "months", "times"],
)
def test_markers_in_the_notation_of_the_column_are_never_drawn(described, left):
    schema = Schema.from_dict({"columns": {"x": {"missing": ["January 2020", "14h05"]} | described}})
    data = Dataset.from_codes(np.zeros((50, 1), dtype=int), schema.domain)
    assert set(schema.decode(data, seed=0, written=True)["x"]) == {left}


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"größe": {"type": "boolean"}}, "the name"),
        ({"a": {"type": "categorical", "values": ["Łódź"], "other": "x"}}, "the value of 'a'"),
        ({"a": {"type": "integer", "min": 0, "max": 1, "missing": ["–"]}}, "the missing value of 'a'"),
    ],
)
def test_what_an_encoding_lacks_is_said_beforehand(columns, named):
    schema = Schema.from_dict({"columns": columns, "file": {"encoding": "ascii"}})
    with pytest.raises(ArgumentError, match=named):
        check_writable(schema, schema.table_file("t.csv"))
    check_writable(schema, TableFile("t.parquet"))


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("type: integer, min: 0, max: 9, decimal: x", "must be one of"),
    ],
)
def test_wrong_notations(column, text):
    with pytest.raises(SchemaError, match=text):
        Schema.parse(f"columns:\n  a: {{{column}}}\n")


@pytest.mark.parametrize(
    ("texts", "form"),
    [
        ([f"{i / 10:.1f} kg".replace(".", ",") for i in range(400, 900)], "{} kg"),
        ([f"${1234.25 + 777 * i:,}" for i in range(60)], "${,}"),
        ([f"€ {1234.25 + 777 * i:,.2f}".translate(str.maketrans(",.", ".,")) for i in range(60)], "€ {.}"),
        ([f"${1234.3 + 777 * i:,.2f}" for i in range(60)], "${,0.00}"),
        ([f"€ {1234.1 + 777 * i:,.2f}".translate(str.maketrans(",.", ".,")) for i in range(60)], "€ {.0,00}"),
        ([f"{i / 100:.2f}" for i in range(400, 1900, 5)], "{0.00}"),
        ([f"{i}.000" for i in range(-200, 700, 3)], "{0.000}"),
        ([str(i / 100) for i in range(400, 900)], "{}"),  # as Python writes them
        ([f"{7 * i} %" for i in range(200)], "{} %"),
        ([f"{1234 + 777 * i:,} zł".replace(",", " ") for i in range(90)], "{ } zł"),
        ([f"{i}'250" for i in range(10, 300)], "{'}"),
        ([f"${i}.50" if i % 2 else f"{i}.50" for i in range(200)], "{0.00}"),  # the sign before half of them only
        ([f"{i},250" if i % 2 else f"{i}250" for i in range(10, 300)], "{}"),
    ],
)
def test_numbers_are_written_as_the_table_writes_them(tmp_path, texts, form):
    """A unit, a sign of currency and separators of thousands of a table are in the synthetic one, too."""
    (tmp_path / "t.csv").write_text("\n".join(["x", *(f'"{text}"' for text in texts)]) + "\n", encoding="utf-8")
    schema = Schema.parse(draft(tmp_path / "t.csv"))
    (column,) = schema.described
    assert isinstance(column, Grid)
    assert column.notation.template == form
    data = schema.encode(tmp_path / "t.csv")
    table = schema.decode(data, seed=0, written=True)
    table.to_csv(tmp_path / "s.csv", index=False)
    assert schema.encode(tmp_path / "s.csv") == data
    before, behind = re.split(r"\{.*\}", form)
    assert all(str(text).startswith(before) and str(text).endswith(behind) for text in table["x"])
    if len(form) == 3:
        assert any(form[1] in str(text) for text in table["x"])
    if places := re.search(r"0([.,])(0+)\}", form):
        written = [str(text).removesuffix(behind).partition(places[1])[2] for text in table["x"]]
        assert {len(decimals) for decimals in written} == {len(places[2])}


def test_decimals_are_filled_up_and_never_cut():
    writing = Writing(("€", "."), ",", written="{.0,00} €")
    texts = [number_text(number, writing) for number in (1234.5, 7, -0.125, 1e-7)]
    assert texts == ["1.234,50 €", "7,00 €", "-0,125 €", "0,0000001 €"]
    assert number_text(12, Writing(written="{0.0}")) == "12.0"


@pytest.mark.parametrize("form", ["kg", "{} lb", "{.} kg", "{}{}", "", "{0,00}", "{0.}", "{,0.00}"])
def test_what_numbers_are_written_with_must_be_read_again(form):
    with pytest.raises(SchemaError, match="written"):
        Schema.parse(f'columns:\n  x: {{type: real, min: 0, max: 9, bins: 3, ignore: [kg], written: "{form}"}}')
