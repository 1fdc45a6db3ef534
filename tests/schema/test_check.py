"""`Schema.check`: a schema that crushes its table must look alarming, in files, frames and engines alike."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from pgmest.cli.main import main
from pgmest.errors import DataError
from pgmest.schema import Schema
from pgmest.schema.column import FORESEEN

SCHEMA = """\
columns:
  income: {type: real, min: 0, max: 1000000000, bins: 20}
  age: {type: integer, min: 0, max: 99, width: 10, missing: [-99]}
  born: {type: date, min: 1940-01-01, max: 1999-12-31, unit: year, missing: true}
  member: {type: boolean}
  city: {type: categorical, values: [Köln, Bonn], other: elsewhere, missing: true}
  score: {type: categorical, values: [17.5, 22], other: 0}
"""
TABLE = pd.DataFrame(
    {
        "income": ["1000.5", "52000.0", "9e4", "31000"] * 5,
        "age": ["40", "unknown", "-99", "200"] * 5,
        "born": ["03.05.1970", "31.12.1981", "", "01.01.1950"] * 5,
        "member": ["Yes", "NO", "maybe", "true"] * 5,
        "city": ["Köln", "Bonn", "", "東京"] * 5,
        "score": ["17.50", "22.0", "22", "x"] * 5,
        "id": [f"p{row}" for row in range(20)],
    }
)


@pytest.fixture
def files(tmp_path):
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "t.yaml").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


def checked(table: Any = TABLE, schema=SCHEMA):
    found = Schema.parse(schema).check(table)
    return found, {column.name: column for column in found.columns}


def test_each_value_has_one_fate():
    found, columns = checked()
    shown = {
        name: (column.missing, column.unreadable, column.clipped, column.other) for name, column in columns.items()
    }
    assert shown == {
        "income": (0, 0, 0, 0),
        "age": (5, 5, 5, 0),
        "born": (5, 15, 0, 0),
        "member": (0, 5, 0, 0),
        "city": (5, 0, 0, 5),
        "score": (0, 0, 0, 5),
    }
    assert found.rows == 20
    assert found.left_out == ("id",)
    assert all(column.rows == 20 for column in found.columns)


def test_what_crushes_the_table_is_alarming():
    found, columns = checked()
    assert found.alarming == ("income", "age", "born", "member")
    assert "income" in found.verdict
    assert "DOES NOT FIT" in found.verdict
    assert "100 % are in one of 20 bins, [0, 5e+07)" in columns["income"].remarks[0]
    assert "'unknown'" in columns["age"].remarks[0]
    assert columns["born"].remarks[0].startswith("100 % cannot be read as dates")
    assert "become missing" in columns["born"].remarks[0]


def test_a_schema_that_fits_has_no_remarks():
    schema = "columns:\n  age: {type: integer, min: 0, max: 99, width: 25}\n"
    found, columns = checked(pd.DataFrame({"age": np.arange(100)}), schema)
    assert found.verdict == "The schema fits the table."
    assert found.kept == 1
    assert (columns["age"].used, columns["age"].codes) == (4, 4)


@pytest.mark.parametrize("error", [False, True])
def test_frames_files_and_engines_agree(files, error):
    schema = SCHEMA.replace("bins: 20", "bins: 20, outside: error") if error else SCHEMA
    expected, _ = checked(schema=schema)
    TABLE.to_parquet(files / "t.parquet")
    engines = [pl.from_pandas(TABLE).lazy(), duckdb.from_df(TABLE)]
    for table in (files / "t.csv", files / "t.parquet", pl.from_pandas(TABLE), *engines):
        found, _ = checked(table, schema)
        assert found.left_out == expected.left_out
        for mine, theirs in zip(expected.columns, found.columns, strict=True):
            assert np.array_equal(mine.counts, theirs.counts), mine.name
            assert {k: set(v) for k, v in mine.examples.items() if v} == {
                k: set(v) for k, v in theirs.examples.items() if v
            }


def test_the_check_agrees_with_the_codes():
    schema = Schema.parse(SCHEMA)
    data, found = schema.encode(TABLE), schema.check(TABLE)
    for column in found.columns:
        assert np.array_equal(column.counts.sum(axis=0), data.project((column.name,)).values)
        assert column.counts[FORESEEN].sum() <= column.rows


def test_a_table_without_rows_is_an_error(files):
    TABLE.head(0).to_csv(files / "empty.csv", index=False)
    with pytest.raises(DataError, match="no rows"):
        Schema.parse(SCHEMA).check(files / "empty.csv")


def test_the_command_prints_it_and_is_strict_on_demand(files, capsys):
    arguments = ["check", str(files / "t.csv"), str(files / "t.yaml")]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert out.startswith("PRIVATE")
    assert "!! born" in out
    assert "not in the schema, so left out: id" in out
    assert main([*arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["alarming"] == ["income", "age", "born", "member"]
    assert "do NOT publish" in captured.err
    assert main([*arguments, "--strict"]) == 1
    assert "does not fit" in capsys.readouterr().err


def test_a_wrong_column_in_csv_lists_the_columns_and_the_nearest(files, capsys):
    (files / "wrong.yaml").write_text(SCHEMA.replace("income:", "incom:"), encoding="utf-8")
    assert main(["check", str(files / "t.csv"), str(files / "wrong.yaml")]) == 1
    text = capsys.readouterr().err
    assert "did you mean 'income'" in text
    assert "member" in text


# -- how listed values are met ----------------------------------------------------------------------------------------


LISTED = """\
columns:
  score: {type: categorical, values: [17.5, 22, high], other: none, missing: [-99]}
  version: {type: categorical, values: ["1.1", "1.10"], other: none}
  sex: {type: categorical, values: [Female, Male], other: none, aliases: {Female: [f, w], Male: [m]}, ignore_case: true}
  member: {type: boolean, labels: [nein, ja], aliases: {ja: [jo]}}
"""
WRITTEN = pd.DataFrame(
    {
        "score": ["17.50", "22.0", "22.", "022", "-99.0", "2.2e1"],
        "version": ["1.1", "1.10", "1.100", "1.1", "1.1", "1.1"],
        "sex": ["FEMALE", "W", "m", "male", "x", "F"],
        "member": ["JA", "Nein", "jo", "yes", "0", "NO"],
    }
)
CODES = [[0, 1, 1, 3, 4, 1], [0, 1, 2, 0, 0, 0], [0, 0, 1, 1, 2, 0], [1, 0, 1, 1, 0, 0]]


@pytest.mark.parametrize("engine", [lambda t: t, lambda t: pl.from_pandas(t).lazy(), duckdb.from_df])
def test_listed_values_are_met_as_they_may_be_written(engine):
    data = Schema.parse(LISTED).encode(engine(WRITTEN))
    found = [data.project((name,)).values for name in data.domain]
    assert [list(map(int, counts)) for counts in found] == [
        np.bincount(codes, minlength=size).tolist() for codes, size in zip(CODES, data.domain.shape, strict=True)
    ]


def test_codes_and_labels_of_them():
    schema = Schema.parse(LISTED)
    data = schema.encode(WRITTEN)
    assert data.codes.T.tolist() == CODES
    decoded = schema.decode(data, seed=0)
    assert decoded["member"].tolist() == ["ja", "nein", "ja", "ja", "nein", "nein"]
    assert schema.encode(decoded).codes.T.tolist() == CODES


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        ("{type: categorical, values: [a, A], other: x, ignore_case: true}", "makes one value of two"),
        ("{type: categorical, values: [a, b], other: x, aliases: {c: [d]}}", "names 'c'"),
        ("{type: categorical, values: [a, b], other: x, aliases: {a: [b]}}", "already means another value"),
        ("{type: boolean, labels: [yes, no]}", "means true"),
        ("{type: boolean, labels: [ja]}", "must be two texts"),
    ],
)
def test_contradictions_are_refused(column, problem):
    from pgmest.errors import SchemaError

    with pytest.raises(SchemaError, match=problem):
        Schema.parse(f"columns:\n  x: {column}\n")


@pytest.mark.parametrize("like", ["pandas", "polars", "pyarrow"])
def test_dates_are_written_in_their_own_format_where_that_is_asked(like):
    import narwhals as nw

    schema = Schema.parse(
        'columns:\n  born: {type: date, min: 0950-01-01, max: 1999-12-31, format: "%d.%m.%Y", missing: true}'
    )
    data = schema.encode(pd.DataFrame({"born": ["03.05.1970", "", "31.12.0950"]}))
    texts = nw.from_native(schema.decode(data, seed=0, like=like, written=True), eager_only=True)["born"].to_list()
    assert texts[1] is None or texts[1] != texts[1]
    assert texts[0].endswith(".1970")
    assert texts[2].endswith(".0950")
    again = schema.encode(schema.decode(data, seed=0, like=like, written=True))
    assert again.codes.tolist() == data.codes.tolist()
    typed = nw.from_native(schema.decode(data, seed=0, like=like), eager_only=True)["born"].to_list()
    assert str(typed[0]).startswith("1970")
