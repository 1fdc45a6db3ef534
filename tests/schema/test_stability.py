"""The code of a value depends on that value and the schema alone: not on the engine, its column's type, or other rows.

Tables are encoded with and without one more odd record, in every engine; the oracle is each value encoded alone.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import itertools
import math
import uuid
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from pgmest.data.chunked_reader import read_pieces
from pgmest.data.frames import write_frame
from pgmest.data.plain_objects import Unread
from pgmest.data.values import Values
from pgmest.schema import Schema
from tests.every_check import EVERY_CHECK

BIG = 2**53

DAYS_2019_TO_2021 = {"type": "date", "min": "2019-01-01", "max": "2021-02-02", "width": 40, "missing": True}
DECLARED = {
    "ages": {"type": "integer", "min": 0, "max": 99, "width": 7},
    "edges": {"type": "integer", "edges": [-5, 0, 1, 2, 1000], "missing": [-9, "NA"]},
    "ids": {"type": "integer", "min": BIG, "max": BIG + 9, "missing": True},
    "huge": {"type": "integer", "min": 1 - 10**18, "max": 10**18 - 1, "bins": 9, "missing": True, "outside": "missing"},
    "real": {"type": "real", "min": -1, "max": 10, "bins": 11},
    "gaps": {"type": "real", "edges": [0, 0.1, 1, 2.5], "missing": True, "outside": "missing"},
    "codebook": {"type": "categorical", "values": [0, 1, 2, -9], "missing": True},
    "long_codes": {"type": "categorical", "values": [BIG, BIG + 1, BIG + 2, 10**30], "other": 0},
    "flags": {"type": "categorical", "values": [True, False], "missing": ["?"]},
    "words": {"type": "categorical", "values": ["a", "True", "1.0", "2.5", "2020-01-31", "01:02:03"], "other": "x"},
    "boolean": {"type": "boolean", "missing": True},
    "boolean_clipped": {"type": "boolean"},
    "day": {"type": "date", "min": "1999-12-30", "max": "2021-02-02", "bins": 7, "missing": True},
    "month": {"type": "date", "min": "1900-01-01", "max": "2020-12-31", "unit": "month", "missing": ["2020-01-31"]},
    "written_day": {**DAYS_2019_TO_2021, "format": "%d/%m/%Y"},
    "digits_day": {**DAYS_2019_TO_2021, "format": "%Y%m%d"},
    "zoned": {**DAYS_2019_TO_2021, "format": "%Y-%m-%d %H:%M%z"},
    "around": {"type": "real", "min": -9, "max": 9, "bins": 9, "ignore": ["$"]},
    "named": {**DAYS_2019_TO_2021, "format": "%d %b %Y", "outside": "missing"},
}
DECLARED["month"]["bins"] = 9
SCHEMA = Schema.from_dict({"columns": DECLARED})
NAMES = list(DECLARED)
COLUMNS = [SCHEMA.column(name) for name in NAMES]

WORDS = [
    *("", " ", "a", " a ", "NA", "?", "true", "TRUE", "False", "t", "No", "x", "'", "-", "nan", "Infinity", "-inf"),
    *("0", "1", "1.0", "2.5", "2.50", ".5", "5.", "+7", "-9", "-9.0", "007", "1e1", "1E+3", "1e400", "-1e-400", "0x1"),
    *(str(BIG), str(BIG + 1), f"{BIG + 1}.0", "9" * 18, "9" * 19, "0" * 40 + "5", "9" * 5000, "1" * 40 + ".5"),
    *("1_0", "٣", "2020-01-31", "2020-02-30", "2019-12-31T23:59", "2020-01-31 ", "2020-01-31x", "0000-01-01"),
    *("20200131", "31/01/2020", "1/2/2020", "30/02/2020", "2020-01-31 23:30-0500", "2020-02-01 04:30+0100"),
    *("31 Jan 2020", "31 jan 2020", "\u00a0 5", "5\u00a0", "\u2003", "a\x00", "\u212a", "İ", "01:02:03", "[1]"),
]
INTS = [0, 1, 2, -9, 7, 99, 100, BIG, BIG + 1, -BIG - 1, 20200131, 10**18, -(10**18)]
FLOATS = [0.0, -0.0, 1.0, 0.1, 2.5, -9.0, 6.999999, 99.5, float(BIG), 20200131.0, 1e30, -1e300, 5e-324, math.nan]
FLOATS += [math.inf, -math.inf]
MIDNIGHT = datetime.datetime(2020, 1, 31)
NAIVE = [MIDNIGHT, MIDNIGHT.replace(hour=23, minute=30), datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)]
TIMES_OF_ANY_YEAR = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))
DATES = [MIDNIGHT.date(), datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1969, 12, 31)]
TIMES = [datetime.time(1, 2, 3), datetime.time(0), datetime.time(1, 2, 3, 500)]
DECIMALS = [decimal.Decimal(text) for text in ("0.00", "1.00", "2.50", "-9.00", "99.99", f"{BIG + 1}.00", "0.10")]

PHYSICAL: dict[str, tuple[pa.DataType, list[Any], st.SearchStrategy[Any]]] = {
    "bool": (pa.bool_(), [True, False], st.booleans()),
    "int8": (pa.int8(), [0, 1, 2, -9, 99, -128, 127], st.integers(-128, 127)),
    "int64": (pa.int64(), [*INTS, 2**63 - 1, -(2**63)], st.integers(-(2**63), 2**63 - 1)),
    "uint64": (pa.uint64(), [0, 1, 7, BIG + 1, 10**18, 2**64 - 1], st.integers(0, 2**64 - 1)),
    "float32": (pa.float32(), [1.0, 2.5, math.nan, math.inf], st.floats(width=32)),
    "float64": (pa.float64(), FLOATS, st.floats()),
    "decimal": (pa.decimal128(20, 2), DECIMALS, st.decimals(-100, 100, places=2)),
    "text": (pa.string(), WORDS, st.text(st.characters(exclude_categories=["Cs"]), max_size=6)),
    "long text": (pa.large_string(), WORDS, st.text("0123456789.eE+-", max_size=6)),
    "categories": (pa.dictionary(pa.int32(), pa.string()), WORDS, st.text("0123456789-/: T", max_size=12)),
    "date": (pa.date32(), DATES, st.dates()),
    "timestamp": (pa.timestamp("us"), NAIVE, TIMES_OF_ANY_YEAR),
    "nanoseconds": (pa.timestamp("ns"), NAIVE, TIMES_OF_ANY_YEAR),
    "zoned": (
        pa.timestamp("us", "America/New_York"),
        [time.replace(tzinfo=datetime.UTC) for time in NAIVE],
        TIMES_OF_ANY_YEAR.map(lambda time: time.replace(tzinfo=datetime.UTC)),
    ),
    "time": (pa.time64("us"), TIMES, st.times()),
    "bytes": (pa.binary(), [b"1", b"a"], st.binary(max_size=3)),
    "list": (pa.list_(pa.int64()), [[], [1]], st.lists(st.integers(0, 9), max_size=2)),
    "duration": (
        pa.duration("us"),
        [datetime.timedelta(1)],
        st.just(datetime.timedelta(-9)),
    ),
    "null": (pa.null(), [None], st.none()),
}
NEVER_READ = ("bytes", "list", "duration")


def table_of(values: list[Any], kind: pa.DataType) -> pa.Table:
    text = pa.string() if pa.types.is_dictionary(kind) else kind
    column = pa.array(values, text)
    return pa.table({name: column.cast(kind) if text != kind else column for name in NAMES})


def numpy_pandas(table: pa.Table) -> Any:
    return table.to_pandas()


def nullable_numbers(table: pa.Table) -> Any:
    kinds = {
        pa.int8(): "Int8",
        pa.int64(): "Int64",
        pa.uint64(): "UInt64",
        pa.bool_(): "boolean",
        pa.float64(): "Float64",
    }
    return table.to_pandas(types_mapper=lambda kind: pd.api.types.pandas_dtype(kinds[kind]) if kind in kinds else None)


def object_pandas(table: pa.Table) -> Any:
    return pd.DataFrame(
        {name: pd.Series(column.to_pylist(), dtype=object) for name, column in zip(NAMES, table.columns, strict=True)}
    )


def duckdb_relation(table: pa.Table) -> Any:
    connection = duckdb.connect()
    connection.execute("set timezone = 'America/New_York'")
    return connection.from_arrow(table)


ENGINES: dict[str, Callable[[pa.Table], Any]] = {
    "pandas": numpy_pandas,
    "pandas object": object_pandas,
    "pandas nullable": nullable_numbers,
    "pandas of Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_arrow,
    "pyarrow": lambda table: table,
    "polars lazy": lambda table: pl.from_arrow(table).lazy(),  # type: ignore[union-attr]
    "duckdb": duckdb_relation,
}


LAZY = ("polars lazy", "duckdb")

CASES = [
    (engine, physical)
    for engine, physical in itertools.product(ENGINES, PHYSICAL)
    if (engine, physical) not in (("duckdb", "long text"), ("duckdb", "categories"))  # text to DuckDB, and slow
]


def encoded(table: Any) -> np.ndarray:
    return SCHEMA.encode(table).collect().codes.astype(int)


def alone(value: Any) -> list[int]:
    """The codes of one value, under each declared type: the oracle."""
    values = Values.of(Values.of_items([value]).array)
    return [int(column.encode(values)[0]) for column in COLUMNS]


KNOWN: dict[tuple[type, str], list[int]] = {}


def known_alone(value: Any) -> list[int]:
    """`alone`, computed once for each value: every engine is given the same ones."""
    key = type(value), repr(value)  # as 1, 1.0 and True are equal
    if key not in KNOWN:
        KNOWN[key] = alone(value)
    return KNOWN[key]


def rows_for(engine: str, physical: str, values: list[Any]) -> list[Any]:
    """Without the integers of which pandas itself makes floats where there is a null, before anything is read."""
    if engine == "pandas" and physical in ("int64", "uint64"):
        return [value for value in values if value is None or abs(value) <= BIG]
    return values


@pytest.mark.parametrize(("engine", "physical"), CASES)
def test_each_code_is_that_of_the_value_alone(engine, physical):
    """Therefore no record changes the code of another, which is tested by itself for values that are never read."""
    kind, common, others = PHYSICAL[physical]

    def holds(values):
        rows = rows_for(engine, physical, values) or [None]
        found = encoded(ENGINES[engine](table_of(rows, kind)))
        if physical not in NEVER_READ:
            np.testing.assert_array_equal(found, [known_alone(of_engine(value, physical)) for value in rows])
        elif rows[1:]:
            np.testing.assert_array_equal(found[:-1], encoded(ENGINES[engine](table_of(rows[:-1], kind))))
        assert (found < np.array(SCHEMA.domain.shape)).all()

    holds([*common, None])
    if engine not in LAZY or physical == "int64":  # whose type without a gap is the same
        holds(common[:9])
    if engine != "duckdb":  # plans each query on so many columns for 0.3 s
        least, most, tables = (8, 16, 1) if engine in LAZY else (1, 6, 4)
        row = st.none() | st.sampled_from(common) | others
        drawn = given(st.lists(row, min_size=least, max_size=most))(holds)
        settings(max_examples=tables, deadline=None)(drawn)()


def of_engine(value: Any, physical: str) -> Any:
    """The value as it stands in a table: on the clock of its zone, and in 32 bits."""
    if physical == "zoned" and value is not None:
        return pd.Timestamp(value).tz_convert("America/New_York")
    return np.float32(value) if physical == "float32" and value is not None else value


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
@pytest.mark.parametrize("physical", ["bool", "int64", "float64", "decimal", "text", "categories", "date", "timestamp"])
@settings(max_examples=4, deadline=None, suppress_health_check=EVERY_CHECK)
@given(data=st.data())
def test_files_read_in_pieces(tmp_path_factory, ending, physical, data):
    kind, common, others = PHYSICAL[physical]
    strategy = st.none() | st.sampled_from(common) | others
    values, odd = data.draw(st.lists(strategy, min_size=1, max_size=5)), data.draw(strategy)
    path = tmp_path_factory.getbasetemp() / f"table{ending}"
    found = []
    for rows in (values, [*values, odd]):
        table = table_of(rows, kind)
        if ending == ".parquet":
            parquet.write_table(table, path, row_group_size=2)
        else:
            texts = [None if value is None else str(value) for value in rows]
            write_frame(pd.DataFrame(dict.fromkeys(NAMES, texts)), path)
        original = read_pieces.__defaults__
        read_pieces.__defaults__ = (None, 2)
        try:
            found.append(encoded(path))
        finally:
            read_pieces.__defaults__ = original
    np.testing.assert_array_equal(found[1][:-1], found[0])


class Hostile:
    """An object that fails at whatever is asked of it."""

    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        raise ValueError(name)

    def __str__(self) -> str:
        raise ValueError

    __repr__ = __eq__ = __float__ = __int__ = __bool__ = __len__ = __iter__ = __str__  # type: ignore[assignment]


class Text(str):
    """Text that does not compare like text."""

    def strip(self, chars: str | None = None) -> str:
        raise ValueError

    __hash__ = None  # type: ignore[assignment]


ZONES = [datetime.timezone(datetime.timedelta(hours=hours)) for hours in (-11, 0, 14)]
ODD = st.one_of(
    st.sampled_from([None, True, False, *INTS, *FLOATS, *WORDS, *NAIVE, *DATES, *TIMES, *DECIMALS]),
    st.floats() | st.decimals() | st.binary(max_size=3) | st.complex_numbers() | st.text(max_size=4),
    st.builds(lambda zone, time: time.replace(tzinfo=zone), st.sampled_from(ZONES), TIMES_OF_ANY_YEAR),
    st.sampled_from(
        [
            *(10**5000, -(10**5000), 10**4299, 2**64, 2**63, bytearray(b"1"), memoryview(b"1"), [1], (1,), {1: 2}, {1}),
            *(np.array([1, 2]), range(3), object(), Hostile(), Text("a"), np.int8(1), np.uint64(2**64 - 1)),
            *(np.float16(0.1), np.longdouble(1), np.bool_(True), np.str_("a"), np.bytes_(b"a"), "\ud800", int, 1j),
            *(np.datetime64("2020-01-31"), np.datetime64("NaT"), np.timedelta64(1, "s"), pd.NA, pd.NaT),
            *(pd.Timestamp("2020-01-31 23:00-05:00"), pd.Period("2020-01-31"), pd.Interval(0, 1), pd.Timedelta(1)),
            *(fractions.Fraction(1, 2), *map(decimal.Decimal, ("sNaN", "1e999999", "-Infinity", "1e-999999"))),
        ]
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ODD, min_size=1, max_size=6), ODD)
def test_objects_of_any_kind_in_one_column(values, odd):
    def frame(rows: list[Any]) -> pd.DataFrame:
        column = np.empty(len(rows), dtype=object)
        for row, value in enumerate(rows):
            column[row] = value
        return pd.DataFrame({name: pd.Series(column, dtype=object) for name in NAMES})

    before, after = encoded(frame(values)), encoded(frame([*values, odd]))
    np.testing.assert_array_equal(after[:-1], before)
    np.testing.assert_array_equal(after, [alone(value) for value in [*values, odd]])


# -- the cases by which this was found ------------------------------------------------------------------------------


def codes(column: dict, table: Any) -> list[int]:
    return schema_of(column).encode(table).column("c").tolist()


def schema_of(column: dict) -> Schema:
    return Schema.from_dict({"columns": {"c": column}})


@pytest.mark.parametrize("declared", ["integer", "real"])
def test_booleans_with_a_null_in_a_file_of_parquet(tmp_path, declared):
    column = {"type": declared, "min": 0, "max": 1, "missing": True, **({"bins": 2} if declared == "real" else {})}
    values = [True, False] * 500
    parquet.write_table(pa.table({"c": pa.array([*values, None])}), tmp_path / "t.parquet")
    assert codes(column, tmp_path / "t.parquet") == [*([1, 0] * 500), 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda values: pd.DataFrame({"c": pd.Series(values, dtype=object)}),
        lambda values: pd.DataFrame({"c": pd.Series(values, dtype="boolean")}),
        lambda values: pl.DataFrame({"c": values}),
        lambda values: pa.table({"c": values}),
    ],
)
def test_booleans_with_a_null_in_frames(make):
    column = {"type": "integer", "min": 0, "max": 1, "missing": True}
    assert codes(column, make([True, False, None])) == [1, 0, 2]


def test_true_and_one_are_two_categories():
    column = {"type": "categorical", "values": [True, 1], "other": "x"}
    assert codes(column, pd.DataFrame({"c": pd.Series([True] + [1] * 1000, dtype=object)})) == [0] + [1] * 1000
    assert codes(column, pd.DataFrame({"c": pd.Series([1] * 1000 + [True], dtype=object)})) == [1] * 1000 + [0]


@pytest.mark.parametrize("make", [lambda c: pl.DataFrame({"c": c}), lambda c: pa.table({"c": pa.array(c)})])
def test_integer_categories_above_the_floats_with_a_null(make):
    column = {"type": "categorical", "values": [BIG, BIG + 1, BIG + 2], "missing": True}
    assert codes(column, make([BIG, BIG + 1, BIG + 2, None])) == [0, 1, 2, 3]


def test_dates_in_a_format_with_one_bad_text_and_another_zone(tmp_path):
    column = {"type": "date", "min": "2020-01-01", "max": "2020-12-31", "format": "%Y-%m-%d %H:%M%z", "missing": True}
    rows = ["2020-01-01 10:00+0100", "2020-01-02 23:59-0800", "soon"]
    (tmp_path / "t.csv").write_text("c\n" + "\n".join(rows) + "\n")
    assert codes(column, tmp_path / "t.csv") == [0, 1, 366]
    assert codes(column, pd.DataFrame({"c": rows[:2]})) == [0, 1]
    times = [datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 2), "soon"]
    assert codes(column, pd.DataFrame({"c": pd.Series(times, dtype=object)})) == [0, 1, 366]


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "duckdb"])
def test_a_text_does_not_end_before_its_last_character(engine):
    """Arrays of texts of one width drop NUL characters at the end."""
    texts = ["", "a\x00", "a"]
    codes = encoded(ENGINES[engine](table_of(texts, pa.string())))
    np.testing.assert_array_equal(codes, [alone(of_engine(value, "text")) for value in texts])


# -- objects with methods of their own --------------------------------------------------------------------------------

METHODS = [
    *(
        "__eq__",
        "__ne__",
        "__lt__",
        "__gt__",
        "__hash__",
        "__bool__",
        "__len__",
        "__iter__",
        "__getitem__",
        "__index__",
    ),
    *(
        "__int__",
        "__float__",
        "__str__",
        "__repr__",
        "__format__",
        "__array__",
        "__contains__",
        "__trunc__",
        "__floor__",
    ),
    *("is_nan", "is_finite", "adjusted", "strip", "lower", "isascii", "encode", "isoformat", "utcoffset", "item"),
    *("to_datetime64", "to_timedelta64", "bit_length", "is_integer", "timetz", "replace"),
]


def refusing(*_args: Any, **_options: Any) -> Any:
    raise RuntimeError("this object answers nothing")


class Meta(type):
    """The class of a class without a hash, a name and a comparison."""

    __hash__ = __eq__ = __instancecheck__ = refusing
    __name__ = property(refusing)  # pyright: ignore[reportAssignmentType]


def hostile(base: type, answer: Callable[..., Any], *arguments: Any) -> Any:
    """Return an object of a class derived from another one, each of whose methods gives this answer."""
    methods = {name: answer for name in METHODS}
    kind = type("Hostile", (base,), {**methods, "__class__": property(refusing)})
    return kind(*arguments)


BASES: list[tuple[type, tuple[Any, ...]]] = [
    (object, ()),
    (str, ("a",)),
    (int, (7,)),
    (float, (2.5,)),
    (float, (math.nan,)),
    (complex, (1.0,)),
    (decimal.Decimal, ("2.5",)),
    (decimal.Decimal, ("sNaN",)),
    (fractions.Fraction, (1, 2)),
    (datetime.date, (2020, 1, 31)),
    (datetime.datetime, (2020, 1, 31, 4)),
    (datetime.time, (4, 5)),
    (datetime.timedelta, (1,)),
    (np.float32, (2.5,)),
    (np.float64, (math.nan,)),
    (np.int64, (3,)),
    (uuid.UUID, ("00000000-0000-0000-0000-000000000001",)),
    (list, ([1],)),
    (dict, ()),
    (bytes, (b"1",)),
]
ANSWERS: list[Callable[..., Any]] = [refusing, lambda *_: True, lambda *_: NotImplemented, lambda *_: np.array([1, 2])]
ODD_OBJECTS = [hostile(base, answer, *arguments) for base, arguments in BASES for answer in ANSWERS]
ODD_OBJECTS += [Meta("Odd", (object,), {})(), np.array([1, 2]), np.array(["a"]), [[1]], {}, pd.Series([1, 2]), pd.NA]


@pytest.mark.parametrize("place", range(len(ODD_OBJECTS)))
def test_no_object_changes_the_code_of_another_record(place: int) -> None:
    odd = Values.of_items([ODD_OBJECTS[place]]).array
    plain = Values.of_items(["a", 1, 2.5, None, "2020-01-31", True, MIDNIGHT, decimal.Decimal("1.0")]).array
    for column in COLUMNS:
        others = column.encode(Values.of(plain))
        for values in (np.concatenate([odd, plain]), np.concatenate([plain, odd, plain])):
            made = SCHEMA.select([column.name]).encode(pd.DataFrame({column.name: pd.Series(values, dtype=object)}))
            codes = made.codes[:, 0].tolist()
            assert codes[-len(plain) :] == others.tolist()
            assert 0 <= codes[-len(plain) - 1] < column.size


def test_a_value_of_a_derived_class_is_that_of_its_base() -> None:
    for odd, plain in (
        (hostile(str, refusing, "a"), "a"),
        (hostile(int, lambda *_: 99, 7), 7),
        (hostile(float, lambda *_: True, 2.5), 2.5),
        (hostile(decimal.Decimal, refusing, "2.5"), decimal.Decimal("2.5")),
        (hostile(datetime.date, refusing, 2020, 1, 31), datetime.date(2020, 1, 31)),
        (hostile(datetime.datetime, refusing, 2020, 1, 31, 4), datetime.datetime(2020, 1, 31, 4)),
        (hostile(datetime.time, refusing, 4, 5), datetime.time(4, 5)),
        (hostile(object, lambda *_: True), Unread("Hostile")),
    ):
        made = Values.of(Values.of_items([odd]).array).array[0]
        assert type(made) is type(plain)
        assert made == plain


def test_no_object_decides_whose_rows_others_are() -> None:
    schema = Schema.from_dict(
        {"columns": {"a": {"type": "integer", "min": 0, "max": 99}}, "unit": {"column": "p", "at_most": 2}}
    )
    key = bytes(16)

    def kept(persons: list[Any]) -> list[int]:
        column = pd.Series(Values.of_items(persons).array, dtype=object)
        data = schema.encode(pd.DataFrame({"a": range(len(persons)), "p": column}), key=key)
        return sorted(data.codes[:, 0].tolist())

    persons: list[Any] = [1, "1", "x", 2.0, 2, "2", "y", "y", "y"]
    before = kept(persons)
    for odd in ODD_OBJECTS:
        assert [row for row in kept([*persons, odd]) if row < len(persons)] == before
