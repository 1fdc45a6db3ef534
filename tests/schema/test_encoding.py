"""Values to codes: clipping, others, gaps; nothing private makes it fail unless the schema asks for errors."""

import datetime
import decimal
import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from pgmest.errors import ArgumentError, DataError, FileFormatError
from pgmest.schema import Schema


def codes(column: dict, values, **options) -> list[int]:
    schema = Schema.from_dict({"columns": {"c": column}})
    return schema.encode(pd.DataFrame({"c": pd.Series(values, **options)})).column("c").tolist()


AGE = {"type": "integer", "min": 0, "max": 9, "width": 5}
REAL = {"type": "real", "edges": [0, 1, 10]}
DAY = {"type": "date", "min": "2020-01-30", "max": "2020-02-02"}
SEX = {"type": "categorical", "values": ["F", "M"], "other": "X"}
GAPS = {"missing": True}


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        (AGE, [0, 4, 5, 9, -1, 10, 10**18], [0, 0, 1, 1, 0, 1, 1]),
        (AGE, ["0", " 5 ", "4.9", "1e1", "", "x", "inf"], [0, 1, 0, 1, 0, 0, 1]),
        (AGE | GAPS, [0, None, float("nan"), 9.0], [0, 2, 2, 1]),
        (AGE | GAPS, ["", "NA", "7", "9" * 400], [2, 2, 1, 1]),
        (AGE | {"missing": True, "outside": "missing"}, [0, -1, 10], [0, 2, 2]),
        (AGE, [True, False], [0, 0]),
        (AGE, [decimal.Decimal(7), decimal.Decimal("4.99")], [1, 0]),
        (REAL, [0, 0.999, 1, 10, 11, -1, None], [0, 0, 1, 1, 1, 0, 0]),
        (DAY, ["2020-01-30", "2020-02-01T23:59:59", "2019-01-01", "2030-01-01"], [0, 2, 0, 3]),
        (DAY | GAPS, [datetime.date(2020, 2, 2), None, "soon"], [3, 4, 4]),
        (DAY, [pd.Timestamp("2020-01-31 23:59"), pd.Timestamp("2020-02-02")], [1, 3]),
        (DAY | GAPS, [20200131, 1], [4, 4]),
        (DAY | {"format": "%d.%m.%Y"}, ["31.01.2020", "2.2.2020"], [1, 3]),
        (SEX, ["F", " M", "m", "", None, "X"], [0, 1, 2, 2, 2, 2]),
        (SEX | GAPS, ["F", "", None, "?"], [0, 3, 3, 2]),
        (SEX | {"missing": ["?"]}, ["F", "", None, "?"], [0, 3, 3, 3]),
        (SEX | GAPS | {"outside": "missing"}, ["F", "d"], [0, 3]),
        ({"type": "categorical", "values": ["F"], "missing": True}, ["F", "d"], [0, 1]),
        ({"type": "categorical", "values": ["NA", ""], "missing": True}, ["NA", "", None], [0, 1, 2]),
        ({"type": "categorical", "values": [1, 2], "other": 9}, [1, 2.0, "2", "02", 9, 5], [0, 1, 1, 2, 2, 2]),
        ({"type": "categorical", "values": [1.5], "other": 0}, np.array([1.5, 1.0], np.float32), [0, 1]),
        ({"type": "boolean", "missing": True}, ["true", "No", "1", "0", "T", "f", "?"], [1, 0, 1, 0, 1, 0, 2]),
        ({"type": "boolean"}, [True, False, 1, 0, 1.0, None], [1, 0, 1, 0, 1, 0]),
    ],
)
def test_codes(column, values, expected):
    assert codes(column, values, dtype=object if not isinstance(values, np.ndarray) else None) == expected


@pytest.mark.parametrize("kind", ["Int64", "float64", "string", "category"])
def test_types_of_pandas(kind):
    values = pd.Series([3, None, 7], dtype="Int64").astype(kind if kind != "category" else "string")
    assert codes(AGE | GAPS, values.astype(kind)) == [0, 2, 1]


def test_unlisted_values_are_errors_only_where_asked_for():
    column = SEX | {"outside": "error"}
    with pytest.raises(DataError) as caught:
        codes(column, ["F", "d", "e"])
    assert str(caught.value) == (
        "column 'c', row 1 has the value 'd', but values are those listed: F, M (schema). "
        "Correct the table, or let the schema say what becomes of such values."
    )


@pytest.mark.parametrize(
    ("column", "values", "text"),
    [
        (AGE, [0, 10], "row 1 has the value 10, but values are whole numbers within 0..9"),
        (AGE, [0, 2.5], "row 1 has the value 2.5"),
        (AGE, [0, None], "row 1 has no value"),
        (AGE | GAPS, [None, -1], "row 1 has the value -1"),
        (REAL, ["1", "x"], "row 1 has the value 'x', but values are numbers within 0..10"),
        (DAY, ["2020-01-29"], "row 0 has the value '2020-01-29', but values are dates within 2020-01-30..2020-02-02"),
        ({"type": "boolean"}, ["maybe"], "row 0 has the value 'maybe', but values are true or false"),
    ],
)
def test_errors_name_the_row_and_the_value(column, values, text):
    with pytest.raises(DataError) as caught:
        codes(column | {"outside": "error"}, values, dtype=object)
    assert text in str(caught.value)


def test_errors_name_file_row_and_line_of_the_schema(tmp_path, monkeypatch):
    monkeypatch.setattr("pgmest.data.chunked_reader.read_pieces.__defaults__", (None, 2))
    (tmp_path / "s.yaml").write_text("columns:\n  a: {type: integer, min: 0, max: 9, outside: error}\n")
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,x\n3,x\n77,x\n")
    with pytest.raises(DataError) as caught:
        Schema.load(tmp_path / "s.yaml").encode(tmp_path / "t.csv")
    assert str(caught.value).startswith(f"{tmp_path / 't.csv'}: column 'a', row 3 has the value '77'")
    assert f"({tmp_path / 's.yaml'}, line 2)" in str(caught.value)


@pytest.mark.parametrize("engine", [lambda table: table.lazy(), lambda table: duckdb.from_arrow(table.to_arrow())])
def test_engines_report_what_is_asked_for(engine):
    schema = Schema.from_dict({"columns": {"c": AGE | {"outside": "error"}}})
    table = pl.DataFrame({"c": [1, 2]})
    assert schema.encode(engine(table)).collect().column("c").tolist() == [0, 0]
    with pytest.raises(DataError, match="column 'c' has the value 12, but values are whole"):
        schema.encode(engine(pl.DataFrame({"c": [1, 12]})))
    with pytest.raises(DataError, match="column 'c' has no value"):
        schema.encode(engine(pl.DataFrame({"c": [1, None]})))
    assert schema.encode(engine(pl.DataFrame({"c": ["1", " 7"]}))).collect().column("c").tolist() == [0, 1]
    with pytest.raises(DataError, match="column 'c' has the value 'x', but values are whole"):
        schema.encode(engine(pl.DataFrame({"c": ["1", "x"]})))
    with pytest.raises(DataError, match=r"column 'c' has the value 2\.5, but values are whole"):
        schema.encode(engine(pl.DataFrame({"c": [1.0, 2.5]})))


COLUMNS = {
    "integer": AGE,
    "integer_gaps": AGE | GAPS,
    "real": REAL,
    "date": DAY,
    "date_format": DAY | {"format": "%d/%m/%Y"},
    "sex": SEX,
    "boolean": {"type": "boolean"},
    "boolean_gaps": {"type": "boolean", "missing": True},
}
ANY_VALUE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
    st.binary(max_size=3),
    st.decimals(),
    st.complex_numbers(),
    st.lists(st.integers(), max_size=2),
    st.just(pd.NA),
    st.just(pd.NaT),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(ANY_VALUE, min_size=1, max_size=6))
def test_no_value_makes_encoding_fail(values):
    schema = Schema.from_dict({"columns": COLUMNS})
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name in COLUMNS})
    data = schema.encode(frame)
    assert data.records == len(values)
    assert all((data.column(name) < size).all() for name, size in schema.domain.items())


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\x00"), max_size=8),
        min_size=1,
        max_size=6,
    )
)
def test_no_text_in_a_file_makes_encoding_fail(tmp_path_factory, values):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    pd.DataFrame({name: values for name in COLUMNS}).to_csv(path, index=False)
    schema = Schema.from_dict({"columns": COLUMNS})
    assert schema.encode(path) == schema.encode(pd.DataFrame({name: values for name in COLUMNS}))


def test_files_are_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("pgmest.data.chunked_reader.read_pieces.__defaults__", (None, 2))
    schema = Schema.from_dict({"columns": {"a": AGE, "s": SEX}})
    frame = pd.DataFrame({"s": list("FMFMF"), "extra": 0, "a": [0, 9, 9, 0, 9]})
    expected = schema.encode(frame)
    for ending in (".csv", ".parquet"):
        path = tmp_path / f"t{ending}"
        frame.to_csv(path, index=False) if ending == ".csv" else frame.to_parquet(path)
        assert schema.encode(path) == expected
        assert schema.encode(str(path)) == expected


def test_windows_line_ends_and_byte_order_mark(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes('\ufeffs,a\r\nM,7\r\n\r\n"F",1\r\n'.encode())
    assert Schema.from_dict({"columns": {"a": AGE, "s": SEX}}).encode(path).codes.tolist() == [[1, 1], [0, 0]]


@pytest.mark.parametrize(
    ("content", "error", "text"),
    [
        ("a,b\n1,2\n", DataError, "has no column 's'"),
        ("", FileFormatError, "empty"),
        ("a,s\n1,F\n1\n", FileFormatError, "line 3 has 1 field where the header has 2"),
        ("a,s\n1,F,9\n", FileFormatError, "line 2 has 3 fields where the header has 2"),
        ("a,a,s\n1,1,F\n", FileFormatError, "several columns are named a"),
        ("1,2\n1,2\n", FileFormatError, "holds numbers"),
        (b"a,\xff\n1,F\n", FileFormatError, "UTF-8"),
        ("a,s\n".encode("utf-16"), FileFormatError, "UTF-8"),
    ],
)
def test_files_that_are_no_such_table(tmp_path, content, error, text):
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(error, match=text) as caught:
        Schema.from_dict({"columns": {"a": AGE, "s": SEX}}).encode(path)
    assert str(path) in str(caught.value)


def test_what_is_no_table():
    schema = Schema.from_dict({"columns": {"a": AGE}})
    with pytest.raises(ArgumentError, match="frame"):
        schema.encode([1, 2])
    with pytest.raises(DataError, match="did you mean 'A'"):
        schema.encode(pd.DataFrame({"A": [1]}))


def test_a_table_without_rows_is_a_table(tmp_path):
    schema = Schema.from_dict({"columns": {"a": AGE, "s": SEX}})
    (tmp_path / "t.csv").write_text("a,s\n")
    empty = pl.DataFrame({"a": [], "s": []}, schema={"a": pl.Int64, "s": pl.String})
    empty.write_parquet(tmp_path / "t.parquet")
    tables = (tmp_path / "t.csv", tmp_path / "t.parquet", empty, empty.to_pandas(), empty.to_arrow(), empty.lazy())
    for table in (*tables, duckdb.from_arrow(empty.to_arrow())):
        data = schema.encode(table)
        assert (data.records, data.total) == (0, 0)
        assert not data.project(("a", "s")).values.any()


def test_no_field_of_a_file_is_an_error(tmp_path):
    path = tmp_path / "t.csv"
    long = "7" * 200_000
    path.write_bytes(b'a,s\n7, "F,M"\n1,\xff\n' + long.encode() + b",M\n\xe9,\x00\n3,\n")
    schema = Schema.from_dict({"columns": {"a": AGE | GAPS, "s": SEX}})
    assert schema.encode(path).codes.tolist() == [[1, 2], [0, 2], [1, 1], [2, 2], [0, 2]]


def test_texts_in_parquet_that_are_none(tmp_path):
    broken = pa.array([b"F", b"\xff", None], pa.binary()).view(pa.string())
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"c": broken}), path)
    schema = Schema.from_dict({"columns": {"c": SEX | GAPS}})
    assert schema.encode(path).column("c").tolist() == [0, 2, 3]
    frame = pa.table({"c": broken}).to_pandas(types_mapper=pd.ArrowDtype)
    assert schema.encode(frame).column("c").tolist() == [0, 2, 3]


def test_a_warning_says_that_missing_values_count_as_another_value():
    table = pd.DataFrame({"a": [1.0, None, 70.0], "b": ["x", None, "y"], "c": [1, 2, 3]})
    columns = {"a": {"type": "integer", "min": 0, "max": 99, "width": 50}, "c": {"type": "boolean"}}
    columns["b"] = {"type": "categorical", "values": ["x", "y"], "other": "z"}
    with pytest.warns(UserWarning, match="column 'a' has rows without a value, which count as 0..49, since") as warned:
        Schema.from_dict({"columns": columns}).encode(table)
    assert len(warned) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Schema.from_dict({"columns": columns | {"a": columns["a"] | {"missing": True}}}).encode(table)
