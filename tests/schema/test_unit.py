"""One person, many rows: at most so many are counted, and a person's rows change nothing for anybody else."""

from __future__ import annotations

import warnings
from collections import Counter

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest import Dataset
from pgmest.data.frames import ReadingWarning
from pgmest.errors import ArgumentError, DataError, SchemaError
from pgmest.schema import Schema

pytestmark = pytest.mark.filterwarnings("ignore:rows are left out")
KEY = bytes(range(16))
COLUMNS = {"x": {"type": "integer", "min": 0, "max": 9}, "s": {"type": "categorical", "values": ["a"], "other": "b"}}


def schema(at_most: int) -> Schema:
    return Schema.from_dict({"columns": COLUMNS, "unit": {"column": "id", "at_most": at_most}})


def frame(rows: list[tuple]) -> pl.DataFrame:
    kinds = {"id": pl.String, "x": pl.Int64, "s": pl.String}
    return pl.DataFrame(rows, schema=kinds, orient="row")


def in_duckdb(table: pl.DataFrame):
    return duckdb.connect().from_arrow(table.to_arrow())


ENGINES = {
    "pandas": lambda table: table.to_pandas(),
    "polars": lambda table: table,
    "polars lazy": lambda table: table.lazy(),
    "duckdb": in_duckdb,
}


@pytest.mark.parametrize("engine", [*ENGINES, "file"])
def test_a_warning_says_which_rows_are_left_out(engine, tmp_path):
    rows = frame([("a", 1, "a")] * 6 + [("b", 1, "a")] * 3 + [(None, 1, "a")])
    table = ENGINES[engine](rows) if engine in ENGINES else tmp_path / "rows.csv"
    if engine == "file":
        rows.write_csv(table)
    with pytest.warns(ReadingWarning, match="left out: beyond at_most: 2 for a value of 'id', without a"):
        schema(2).encode(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schema(6).encode(frame([("a", 1, "a")] * 6))


def counted(table, at_most: int = 2, key: bytes = KEY) -> Counter:
    """The codes that are counted, each with how often."""
    data = schema(at_most).encode(table, key=key)
    assert data.records_per_person == at_most
    data = data if type(data) is Dataset else data.collect()
    return Counter(map(tuple, data.codes.tolist()))


def difference(one: Counter, other: Counter) -> int:
    return sum(abs(one[cell] - other[cell]) for cell in {*one, *other})


ROWS = st.lists(
    st.tuples(st.sampled_from(["p", "q", "r", "", None]), st.integers(0, 9), st.sampled_from("ab")), max_size=25
)


@pytest.mark.parametrize("engine", ENGINES)
def test_persons_are_bounded_and_independent_of_one_another(engine):
    @settings(max_examples=8 if "duckdb" in engine or "lazy" in engine else 60, deadline=None)
    @given(ROWS, ROWS, st.integers(1, 4), st.randoms())
    def bounded(rows, others, at_most, random):
        others = [("t", *row[1:]) for row in others]  # one person more, with any number of rows
        mixed = [*rows, *others]
        random.shuffle(mixed)
        before, after = (counted(ENGINES[engine](frame(some)), at_most) for some in (rows, mixed))
        persons = Counter(row[0] for row in mixed if row[0])
        assert after.total() == sum(min(rows, at_most) for rows in persons.values())
        assert before - after == Counter()  # nobody else's rows are lost
        assert difference(before, after) == min(len(others), at_most)

    bounded()


@settings(max_examples=60, deadline=None)
@given(ROWS, st.tuples(st.integers(0, 9), st.sampled_from("ab")), st.integers(1, 4))
def test_one_row_more_of_a_person_moves_rows_of_that_person_alone(rows, row, at_most):
    before, after = (counted(frame(some), at_most) for some in (rows, [("p", *row), *rows]))
    others = counted(frame([some for some in rows if some[0] != "p"]), at_most)
    assert others - before == Counter()
    assert others - after == Counter()
    assert difference(before, after) <= 2  # a row that comes in, and one that it replaces


@pytest.mark.parametrize("engine", ENGINES)
def test_which_rows_stay_depends_on_the_key_alone_and_is_fair(engine):
    table = frame([(f"p{i}", x, "a") for i in range(400) for x in range(4)])
    one, again, other = (counted(ENGINES[engine](table), 1, key) for key in (KEY, KEY, b"another key 1234"))
    assert one == again != other
    expected, spread = 100, 5 * np.sqrt(400 * 0.25 * 0.75)
    assert all(abs(one[(x, 0)] - expected) < spread for x in range(4))
    assert counted(ENGINES[engine](table.reverse()), 1) == one


def test_equal_rows_are_not_kept_or_lost_together():
    table = frame([(f"p{i}", x, "a") for i in range(300) for x in (0, 0, 0, 1)])
    found = counted(table, 2)
    assert found.total() == 600
    assert abs(found[(1, 0)] - 150) < 5 * np.sqrt(300 * 0.25)


def test_a_new_key_each_time():
    table = frame([(f"p{i}", x, "a") for i in range(40) for x in range(10)])
    assert schema(1).encode(table) != schema(1).encode(table)
    with pytest.raises(ArgumentError, match="16 secret bytes"):
        schema(1).encode(table, key=b"short")


def test_a_person_is_one_however_the_number_is_written(tmp_path):
    rows = {"x": [1, 2, 3, 4], "s": list("aaaa")}
    mixed = pd.DataFrame({"id": pd.Series([17, 17.0, "17", " 17 "], dtype=object), **rows})
    assert counted(mixed, 3).total() == 3
    floats = pd.DataFrame({"id": [17.0, 17.0, None, 8.0], **rows})
    floats.to_csv(tmp_path / "t.csv", index=False)
    found = [counted(table, 1) for table in (floats, pl.from_pandas(floats), pl.from_pandas(floats).lazy())]
    assert found[0] == found[1]
    assert {some.total() for some in found} == {2}
    assert counted(tmp_path / "t.csv", 1).total() == 2
    whole = floats.assign(id=pd.array([17, 17, None, 8], dtype="Int64"))
    assert counted(whole, 1) == found[0]
    assert counted(pl.from_pandas(whole).lazy(), 1) == found[2]


def test_files_are_bounded_across_their_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("pgmest.data.chunked_reader.read_pieces.__defaults__", (None, 2))
    table = frame([(f"p{i % 3}", i % 10, "a") for i in range(30)])
    table.write_csv(tmp_path / "t.csv")
    table.write_parquet(tmp_path / "t.parquet")
    expected = counted(table, 4)
    assert expected.total() == 12
    assert counted(tmp_path / "t.csv", 4) == counted(tmp_path / "t.parquet", 4) == expected


@pytest.mark.parametrize("table", [frame([]), frame([(None, 1, "a")])])
@pytest.mark.parametrize("engine", ENGINES)
def test_nobody(engine, table):
    assert counted(ENGINES[engine](table)).total() == 0


def test_the_column_of_persons_is_no_attribute():
    assert list(schema(2).domain) == ["x", "s"]
    assert list(schema(2).encode(frame([("p", 1, "a")])).domain) == ["x", "s"]


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ({"column": "x", "at_most": 2}, "must not be among the columns"),
        ({"column": "id"}, "needs 'at_most:'"),
        ("id", "must be the column of persons and their most rows, such as {column: person_id, at_most: 8}, not 'id'"),
        (["id", 2], "such as {column: person_id, at_most: 8}"),
        ({"column": "id", "at_most": 0}, "whole number of at least 1"),
        ({"column": 3, "at_most": 1}, "must be text"),
        ({"column": "id", "most": 1, "at_most": 1}, "unknown key 'most'"),
    ],
)
def test_units_that_are_none(unit, text):
    with pytest.raises(SchemaError, match=text):
        Schema.from_dict({"columns": COLUMNS, "unit": unit})


@pytest.mark.parametrize("engine", ["polars", "polars lazy", "duckdb", "pandas"])
def test_columns_that_tell_nobody_apart(engine):
    table = frame([("p", 1, "a")]).with_columns(id=pl.lit([1]))
    if engine == "pandas":
        table = pl.DataFrame(table)
        assert counted(table.to_pandas()).total() == 0  # values of objects are never an error
        return
    with pytest.raises(DataError, match="tells persons apart, is of type List"):
        schema(1).encode(ENGINES[engine](table))
    with pytest.raises(DataError, match="tells persons apart, is of type List"):  # whether or not there are rows
        schema(1).encode(ENGINES[engine](table.head(0)))
    with pytest.raises(DataError, match="has no column 'id'"):
        schema(1).encode(ENGINES[engine](table.drop("id")))


def test_parts_of_bounded_records_are_bounded():
    data = schema(2).encode(frame([("p", 1, "a"), ("p", 2, "b"), ("q", 3, "a")]))
    assert data.select("x").records_per_person == 2
    assert data.take([0, 1]).records_per_person == 2
    assert data.take([0, 0, 1]).records_per_person == 4
    assert Dataset.concat([data, data]).records_per_person == 4
    assert Dataset.concat([data, Dataset.from_codes(data.codes, data.domain)]).records_per_person == 3
    lazy = schema(2).encode(frame([("p", 1, "a")]).lazy())
    assert lazy.select("x").records_per_person == lazy.collect().records_per_person == 2


def test_one_person_is_one_key_of_linked_tables():
    schema = Schema.from_dict(
        {"columns": {"x": {"type": "integer", "min": 0, "max": 9}}, "unit": {"column": "id", "at_most": 1}}
    )
    table = pd.DataFrame({"id": np.array([17, 17.0, "17", "17.0", "017", None], dtype=object), "x": range(6)})
    found = schema.check(table).dropped
    assert found is not None
    assert (found.persons, found.beyond, found.nobody, found.most) == (2, 3, 1, 4)


@pytest.mark.parametrize("engine", ENGINES)
def test_texts_that_would_be_equal_numbers_are_two_persons(engine):
    persons = ["12.1", "12.10", "100000", "1e5", "10e4"]
    rows = [(person, x, "a") for person in persons for x in range(4)]
    everybody = counted(ENGINES[engine](frame(rows)))
    for person in persons:
        others = counted(ENGINES[engine](frame([row for row in rows if row[0] != person])))
        assert others - everybody == Counter()
        assert (everybody - others).total() == 2


def test_one_person_in_tables_of_floats_and_of_r_is_one():
    table = pd.DataFrame({"id": ["100000", "100000.0", "1e+05"], "x": [1, 2, 3], "s": list("aaa")})
    assert counted(table, 1).total() == 1
