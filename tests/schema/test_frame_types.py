"""Synthetic tables have the types of the private table, in pandas, polars and pyarrow, if these hold the values."""

from __future__ import annotations

import datetime
import decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import pgmest as pg
from pgmest.schema import Schema, draft
from tests.every_check import EVERY_CHECK
from tests.schema.strategies import schemas_with_data

INTEGER = {"type": "integer", "min": 0, "max": 4}
LABELS = {"type": "categorical", "values": ["a", "b", "c"], "outside": "error"}
NUMBERS = {"type": "categorical", "values": [0, 1, 2, 3, 4], "outside": "error"}
DIGITS = {"type": "categorical", "values": ["0", "1", "2", "3", "4"], "outside": "error"}
REAL = {"type": "real", "min": 0, "max": 10, "bins": 13}
PRICE = {"type": "real", "min": 0, "max": 10, "bins": 7, "decimals": 2}
DATE = {"type": "date", "min": "2020-01-01", "max": "2020-12-31", "unit": "month"}
LATE = DATE | {"max": "2999-12-31", "unit": "year"}
FLAG = {"type": "boolean"}
WORDS = {"type": "boolean", "labels": ["no", "yes"]}
HOURS = {"type": "date", "min": "2020-03-28", "max": "2020-03-31", "unit": "hour", "width": 6}
CLOCK = {"type": "time", "unit": "minute", "bins": 7}
LENGTH = {"type": "duration", "min": -5, "max": 50, "unit": "hour", "width": 10}

RNG = np.random.default_rng(0)
INTS, TEXTS = RNG.integers(0, 5, 40), RNG.choice(["a", "b", "c"], 40)
FLOATS, FLAGS = np.round(RNG.random(40) * 10, 2), RNG.random(40) < 0.5
DAYS = pd.Series(pd.date_range("2020-01-01", periods=40))
DECIMALS = pa.array([decimal.Decimal(f"{value:.2f}") for value in FLOATS])
DICTIONARY = pa.dictionary(pa.int32(), pa.string())
ORDERED = pd.CategoricalDtype(["c", "a", "b"], ordered=True)


def zoned(kind: str, zone: str) -> pd.Series:
    return DAYS.dt.tz_localize(zone).astype(kind)


def gaps(description):
    return description | {"missing": True}


def other(description, label="z"):
    return {key: value for key, value in description.items() if key != "outside"} | {"other": label}


UNITS = ("s", "ms", "ns")
SAME = "the same type"
PANDAS = [
    *((pd.Series(INTS).astype(kind), INTEGER, SAME) for kind in ("int64", "Int64", "UInt8", "float32")),
    *((pd.Series(INTS).astype(kind), INTEGER, "int64") for kind in ("int8", "uint16", "float64")),
    *((pd.Series(INTS).astype(kind), gaps(INTEGER), SAME) for kind in ("Int64", "UInt8", "int32[pyarrow]")),
    *((pd.Series(INTS).astype(kind), gaps(INTEGER), "Int64") for kind in ("int8", "uint32", "int64", "float64")),
    (pd.Series(INTS).astype("Float64"), gaps(INTEGER), "Int64"),
    (pd.Series(INTS).astype("Int8"), INTEGER | {"max": 300}, "Int64"),
    (pd.Series(INTS).astype("category"), INTEGER, SAME),
    *((pd.Series(FLOATS).astype(kind), REAL, SAME) for kind in ("float16", "float32", "float64", "Float32")),
    *((pd.Series(FLOATS).astype(kind), gaps(PRICE), SAME) for kind in ("float32", "Float64", "float[pyarrow]")),
    (pd.Series(INTS).astype("int64"), REAL, "float64"),
    (pd.Series(INTS).astype("Int64"), REAL, "Float64"),
    *((pd.Series(TEXTS).astype(kind), LABELS, SAME) for kind in ("str", "string[python]", "string[pyarrow]")),
    (pd.Series(TEXTS).astype("object"), LABELS, "str"),
    (pd.Series(TEXTS).astype(pd.ArrowDtype(pa.large_string())), gaps(LABELS), pd.ArrowDtype(pa.string())),
    (pd.Series(TEXTS).astype("category"), gaps(LABELS), SAME),
    (pd.Series(TEXTS).astype(ORDERED), LABELS, pd.CategoricalDtype(["a", "b", "c"], ordered=True)),
    (pd.Series(TEXTS).astype(ORDERED), other(LABELS), pd.CategoricalDtype(["a", "b", "c", "z"], ordered=True)),
    (pd.Series(TEXTS[TEXTS != "b"]).astype("category"), LABELS, pd.CategoricalDtype(["a", "b", "c"])),
    (pd.Series(TEXTS).astype(pd.CategoricalDtype([*"abcd"])), LABELS, pd.CategoricalDtype(["a", "b", "c"])),
    (pd.Series(INTS).astype("category"), NUMBERS, SAME),
    (pd.Series(INTS).astype("category"), DIGITS, SAME),
    (pd.Series(INTS).astype("category"), other(DIGITS), pd.CategoricalDtype([*"01234z"])),
    (pd.Series(INTS), DIGITS, SAME),
    (pd.Series(INTS).astype("Int16"), gaps(DIGITS), SAME),
    (pd.Series(INTS), gaps(DIGITS), "Int64"),
    (pd.Series(INTS), other(DIGITS), "str"),
    (pd.Series(INTS).astype("string[python]"), NUMBERS, SAME),
    *((pd.Series(FLAGS).astype(kind), FLAG, SAME) for kind in ("bool", "boolean", "int64", "category")),
    *((pd.Series(FLAGS).astype(kind), gaps(WORDS), SAME) for kind in ("boolean", "Int8")),
    (pd.Series(FLAGS), gaps(FLAG), "boolean"),
    (pd.Series(FLAGS), {"type": "categorical", "values": ["True", "False"], "outside": "error"}, "str"),
    *((DAYS.astype(f"datetime64[{unit}]"), gaps(DATE), "datetime64[us]") for unit in ("s", "ms", "us", "ns")),
    *((zoned(f"datetime64[us, {zone}]", zone), DATE, SAME) for zone in ("UTC", "America/Havana", "UTC+02:00")),
    (
        zoned("datetime64[ns, America/Sao_Paulo]", "America/Sao_Paulo"),
        DATE | {"min": "2010-01-01"},
        "datetime64[us, America/Sao_Paulo]",
    ),
    (
        zoned("timestamp[ms, tz=Europe/Berlin][pyarrow]", "Europe/Berlin"),
        gaps(DATE),
        pd.ArrowDtype(pa.timestamp("us", "Europe/Berlin")),
    ),
    (DAYS.astype("date32[day][pyarrow]"), DATE, SAME),
    (zoned("datetime64[us, Asia/Tokyo]", "Asia/Tokyo"), gaps(HOURS), SAME),
    (DAYS.astype("datetime64[ns]"), HOURS, "datetime64[us]"),
    (DAYS.astype("date32[day][pyarrow]"), HOURS, pd.ArrowDtype(pa.timestamp("us"))),
    *(
        (pd.Series(pd.to_timedelta(INTS, unit="h")).astype(f"timedelta64[{unit}]"), gaps(LENGTH), "timedelta64[us]")
        for unit in UNITS
    ),
    (pd.Series(INTS), gaps(LENGTH), "Int64"),
    (pd.Series(INTS).astype("Int16"), LENGTH, SAME),
    (DAYS.astype("datetime64[ns]"), LATE, "datetime64[us]"),
    (zoned("datetime64[ns, UTC]", "UTC"), LATE, "datetime64[us, UTC]"),
    (pd.Series([day.date() for day in DAYS], dtype=object), DATE, "datetime64[us]"),
]

POLARS = [
    (pl.Series(INTS * 60 * 10**9).cast(pl.Time), gaps(CLOCK), SAME),
    *((pl.Series(INTS).cast(pl.Duration(unit)), gaps(LENGTH), pl.Duration("us")) for unit in ("ms", "us", "ns")),
    *((pl.Series(DAYS).cast(pl.Datetime(unit)), gaps(HOURS), pl.Datetime("us")) for unit in ("ms", "us", "ns")),
    *((pl.Series(INTS).cast(kind), gaps(INTEGER), SAME) for kind in (pl.Int8, pl.UInt32, pl.Float32)),
    *((pl.Series(INTS).cast(kind), gaps(INTEGER), pl.Int64()) for kind in (pl.Int128, pl.UInt64, pl.Float64)),
    *((pl.Series(FLOATS).cast(kind), gaps(PRICE), SAME) for kind in (pl.Float32, pl.Float64, pl.Decimal(38, 2))),
    (pl.Series(FLOATS).cast(pl.Decimal(10, 2)), gaps(PRICE), pl.Decimal(38, 2)),
    (pl.Series(FLOATS).cast(pl.Float32), REAL, SAME),
    *((pl.Series(TEXTS).cast(kind), gaps(LABELS), SAME) for kind in (pl.String, pl.Categorical)),
    (pl.Series(TEXTS).cast(pl.Enum(["c", "a", "b"])), gaps(LABELS), pl.Enum(["a", "b", "c"])),
    (pl.Series(TEXTS).cast(pl.Enum(["c", "a", "b"])), other(LABELS), pl.Enum(["a", "b", "c", "z"])),
    (pl.Series(INTS), DIGITS, SAME),
    (pl.Series(FLAGS), gaps(FLAG), SAME),
    (pl.Series(FLAGS), gaps(WORDS), pl.String()),
    (pl.Series(INTS % 2), FLAG, SAME),
    (pl.Series(DAYS).cast(pl.Date), gaps(DATE), SAME),
    (pl.Series(DAYS).cast(pl.Datetime("us")), gaps(DATE), pl.Date()),
    (
        pl.Series(DAYS).dt.replace_time_zone("America/Havana").cast(pl.Datetime("ms", "America/Havana")),
        gaps(DATE),
        pl.Datetime("us", "America/Havana"),
    ),
    (pl.Series(INTS), REAL, pl.Float64()),
    (pl.Series(INTS).cast(pl.Int8), INTEGER | {"max": 300}, pl.Int64()),
]

ARROW = [
    (pa.array(INTS.astype("int32"), pa.time32("s")), gaps(CLOCK), pa.time64("us")),
    (pa.array(INTS, pa.time64("us")), gaps(CLOCK), SAME),
    (pa.array(INTS, pa.duration("s")), gaps(LENGTH), pa.duration("us")),
    (pa.array(DAYS).cast(pa.timestamp("ms", "Asia/Tokyo")), HOURS, pa.timestamp("us", "Asia/Tokyo")),
    *((pa.array(INTS, kind), gaps(INTEGER), SAME) for kind in (pa.int8(), pa.uint32(), pa.int64())),
    (pa.array(INTS, pa.uint64()), gaps(INTEGER), pa.int64()),
    *((pa.array(FLOATS).cast(kind), REAL, SAME) for kind in (pa.float32(), pa.float16(), pa.float64())),
    (DECIMALS.cast(pa.decimal128(8, 2)), gaps(PRICE), pa.decimal128(38, 2)),
    (DECIMALS, REAL, pa.float64()),
    *((pa.array(TEXTS, kind), gaps(LABELS), pa.string()) for kind in (pa.string(), pa.large_string())),
    (pa.array(TEXTS).dictionary_encode(), gaps(LABELS), SAME),
    (pa.array(TEXTS).cast(pa.dictionary(pa.int8(), pa.large_string())), gaps(LABELS), DICTIONARY),
    (pa.array(INTS).dictionary_encode(), NUMBERS, SAME),
    (pa.array(INTS), gaps(DIGITS), SAME),
    (pa.array(FLAGS), gaps(FLAG), SAME),
    *((pa.array(DAYS).cast(kind), gaps(DATE), pa.date32()) for kind in (pa.date32(), pa.date64(), pa.timestamp("us"))),
    (pa.array(DAYS).cast(pa.timestamp("ms", "Asia/Tokyo")), gaps(DATE), pa.timestamp("us", "Asia/Tokyo")),
    (pa.array(INTS), REAL, pa.float64()),
]

CASES = [(pd.DataFrame({"c": column}), *rest) for column, *rest in PANDAS]
CASES += [(pl.DataFrame({"c": column}), *rest) for column, *rest in POLARS]
CASES += [(pa.table({"c": column}), *rest) for column, *rest in ARROW]


def type_of(table):
    return table.schema.field("c").type if isinstance(table, pa.Table) else table["c"].dtype


@pytest.mark.parametrize(("table", "described", "expected"), CASES, ids=[f"{type_of(one[0])}" for one in CASES])
def test_types_in_are_types_out(table, described, expected):
    schema = Schema.from_dict({"columns": {"c": described}})
    rows = np.arange(schema.domain["c"]).repeat(9)[:, None]
    data = pg.Dataset.from_codes(rows, schema.domain)
    wanted = type_of(table) if expected is SAME else expected
    kept = Schema.from_dict(schema.typed(table).description)  # as a file keeps it
    for records in (data, data.take([0]), data.take([])):
        for made in (schema.decode(records, 0, table), kept.decode(records, 0, kept.library)):
            assert type(made) is type(table)
            assert type_of(made) == wanted
            if isinstance(wanted, pd.CategoricalDtype) and wanted.ordered:
                assert list(type_of(made).categories) == list(wanted.categories)
            assert schema.encode(made) == records
    assert schema.encode(kept.decode(data, 0, kept.library, written=True)) == data


few = settings(max_examples=40, deadline=None, suppress_health_check=EVERY_CHECK)


@few
@given(
    schemas_with_data(),
    st.sampled_from(("float32", "Int64", "int8", "category", "string[pyarrow]", "boolean", "datetime64[ns, UTC]")),
    st.sampled_from(("pandas", "polars", "pyarrow")),
)
def test_codes_survive_in_any_type_that_a_file_claims(case, kind, library):
    schema, data = case
    names = {
        "pandas": kind,
        "polars": {"float32": "Float32", "category": "Categorical", "int8": "Int8"}.get(kind, "Date"),
    }
    names["pyarrow"] = {"category": "dictionary<values=string, indices=int8, ordered=0>"}.get(kind, kind.lower())
    frame = {"library": library, "columns": dict.fromkeys(schema.domain, names[library])}
    typed = Schema.from_dict({**schema.description, "frame": frame})
    assert schema.encode(typed.decode(data, seed=0, like=library)) == data


@pytest.mark.parametrize("kind", ["int8", "uint8", "Int8", "UInt16"])
def test_numbers_too_large_for_a_type_do_not_wrap_around_in_it(kind):
    """257 would be 1 in eight bits, and -1 would be 65,535 in sixteen without a sign: both in the bin of the value."""
    low, high = (-1, 65_535) if kind == "UInt16" else (0, 257)
    described = {"columns": {"n": {"type": "integer", "min": low, "max": high, "bins": 1, "points": [0]}}}
    schema = Schema.from_dict({**described, "frame": {"library": "pandas", "columns": {"n": kind}}})
    made = schema.decode(pg.Dataset.from_codes([np.arange(400) % schema.domain["n"]], schema.domain), seed=0)
    assert made["n"].between(low, high).all()
    assert made["n"].dtype == "int64"


def test_a_category_of_polars_may_begin_with_a_missing_value():
    described = {"columns": {"n": {"type": "categorical", "values": [1], "other": 0, "missing": True}}}
    schema = Schema.from_dict({**described, "frame": {"library": "polars", "columns": {"n": "Categorical"}}})
    made = schema.decode(pg.Dataset.from_codes([np.array([2, 1, 0])], schema.domain), seed=0, like="polars")
    assert made["n"].to_list() == [None, "0", "1"]


def test_types_that_are_none_leave_it_to_the_schema():
    columns = {"c": INTEGER, "d": LABELS}
    kinds = [
        "nonsense",
        "Datetime(time_unit=__import__('os'))",
        "dictionary<values=x, indices=y, ordered=0>",
        "arrow[x]",
    ]
    data = pg.Dataset.from_codes(np.zeros((2, 2), dtype=int), {"c": 5, "d": 3})
    for library in ("pandas", "polars", "pyarrow"):
        plain = Schema.from_dict({"columns": columns}).decode(data, 0, library)
        for kind in kinds:
            frame = {"library": library, "columns": {"c": kind, "d": {"type": kind, "ordered": True}}}
            made = Schema.from_dict({"columns": columns, "frame": frame}).decode(data, 0, library)
            assert str(getattr(made, "dtypes", None)) == str(getattr(plain, "dtypes", None))


def test_levels_that_only_the_records_show_are_not_kept():
    frame = pd.DataFrame({"c": pd.Categorical(["a", "secret", "b"], ordered=True)})
    schema = Schema.from_dict({"columns": {"c": other(LABELS)}})
    typed = schema.typed(frame)
    assert "secret" not in str(typed.description)
    assert "secret" not in str(typed.decode(schema.encode(frame), 0)["c"].dtype.categories)
    polars = pl.DataFrame({"c": pl.Series(["a", "b"], dtype=pl.Enum(["secret", "b", "a"]))})
    assert "secret" not in str(schema.typed(polars).description)


def _tables(library, columns):
    """Return a table as a library reads it from values, by each of its usual ways."""
    plain = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
    if library == "pandas":
        return [plain.infer_objects(), plain.convert_dtypes(), plain.convert_dtypes(dtype_backend="pyarrow")]
    if library == "polars":
        return [pl.DataFrame(columns, strict=False, infer_schema_length=None)]
    return [pa.table(columns)]


NIGHT = datetime.datetime(2020, 1, 1, 12, 30, 0, 1)
SECRETS = [
    ({"type": "integer", "min": 0, "max": 9}, [1, 2], [None, 1.5, 2**40, 2**63]),
    (gaps(REAL), [1.5, 2.0], [None]),
    (gaps(REAL), [1, 2], [None, 0.5, 2**63]),
    (gaps(PRICE), [decimal.Decimal("1.5")], [None, decimal.Decimal("1234567.25")]),
    (other(LABELS), ["a", "b"], [None, "new"]),
    (gaps(FLAG), [True, False], [None]),
    (gaps(DATE), [datetime.date(2020, 1, 1)], [None, datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    (gaps(HOURS), [datetime.datetime(2020, 3, 28)], [None, NIGHT]),
    (gaps(LENGTH), [datetime.timedelta(hours=1)], [None, datetime.timedelta(microseconds=1)]),
]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize(("described", "values", "secrets"), SECRETS)
def test_no_record_decides_a_type(library, described, values, secrets):
    schema = Schema.from_dict({"columns": {"c": described}})
    before = [schema.typed(table).description for table in _tables(library, {"c": values * 9})]
    for secret in secrets:
        try:
            tables = _tables(library, {"c": [*values * 9, secret]})
        except (OverflowError, pa.ArrowException):
            continue  # the library reads no such table
        assert [schema.typed(table).description for table in tables] == before, secret


@pytest.mark.parametrize(
    "convert",
    [
        lambda column: pd.Series(column).astype("category"),
        lambda column: pd.Series(pd.Categorical(column, ordered=True)),
        lambda column: pl.Series(column).cast(pl.Categorical),
        lambda column: pl.Series(column, dtype=pl.Enum(sorted(set(column)))),
        lambda column: pa.array(column).dictionary_encode(),
        lambda column: pa.array(pd.Categorical(column)),
        lambda column: (
            pd.Series(column).astype("category").astype(pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string())))
        ),
    ],
)
def test_levels_and_indices_depend_on_no_record(convert):
    schema = Schema.from_dict({"columns": {"c": other(LABELS)}})
    few, many = ["a", "c"], ["b", "a", "c", *(f"z{number}" for number in range(125))]
    library = type(convert(few)).__module__.partition(".")[0]
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[library]
    first, second = (schema.typed(make({"c": convert(column)})) for column in (few, many))
    assert first.description == second.description
    data = schema.encode(pd.DataFrame({"c": few}))
    assert type_of(first.decode(data, 0, library)) == type_of(second.decode(data, 0, library))


def test_a_category_of_numbers_has_levels_of_the_schema():
    schema = Schema.from_dict({"columns": {"c": other(DIGITS)}})
    columns = [pd.Categorical(column) for column in ([0, 1], [0, 1, 2.5])]
    first, second = (schema.typed(pd.DataFrame({"c": column})).description for column in columns)
    assert first == second
    first, second = (schema.typed(pa.table({"c": pa.array(column)})).description for column in columns)
    assert first == second


LEVELS = ["low", "mid", "high", "very high"]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["low", "high"] * 50).astype(pd.CategoricalDtype(LEVELS, ordered=True)),
        pd.Series(["low", "high", None, "low"] * 25).astype(pd.CategoricalDtype(LEVELS)),
        pl.Series(["low", "high"] * 50, dtype=pl.Enum(LEVELS)),
    ],
)
def test_a_draft_lists_the_levels_without_rows(column):
    frame = pl.DataFrame({"level": column}) if isinstance(column, pl.Series) else pd.DataFrame({"level": column})
    schema = Schema.parse(draft(frame))
    assert schema.column("level").labels() == LEVELS
    fitted = pg.Synthesizer("independent", epsilon=1.0, backend="simulation").fit(
        frame, schema, seed=0, allow_draft=True
    )
    assert fitted.sample(5, seed=0)["level"].dtype == column.dtype


def test_levels_of_numbers_and_of_many_values_are_guessed_as_ever():
    numbers = pd.DataFrame({"n": pd.Series([1, 2] * 50).astype("category")})
    plain = pd.DataFrame({"n": [1, 2] * 50})
    assert draft(numbers) == draft(plain)
    many = pd.CategoricalDtype([f"level {number}" for number in range(500)])
    frame = pd.DataFrame({"c": pd.Series(["level 1", "level 2"] * 50).astype(many)})
    assert Schema.parse(draft(frame)).column("c").labels() == ["level 1", "level 2"]


def test_gaps_of_pandas_are_not_shown():
    schema = Schema.from_dict({"columns": {"c": gaps(INTEGER), "d": gaps(DIGITS), "e": gaps(FLAG)}})
    full = pd.DataFrame({name: [0, 1] for name in "cde"})
    assert schema.typed(full).description == schema.typed(full.astype("float64")).description
    truth = Schema.from_dict({"columns": {"a": {"type": "boolean", "missing": True}}})
    full, with_gap = (pd.DataFrame({"a": pd.Series(values)}) for values in ([True, False], [True, None]))
    assert with_gap["a"].dtype == object
    assert truth.typed(full).description == truth.typed(with_gap).description


def test_rounding_breaks_no_order_and_no_sum():
    columns = {name: {"type": "real", "min": 0, "max": 1, "bins": 3, "decimals": 1} for name in "abt"}
    columns["t"]["max"] = 2
    columns["x"] = columns["y"] = {"type": "real", "min": 0, "max": 1, "bins": 3}
    constraints = [{"sum": {"t": ["a", "b"]}}, {"ordered": ["x", "y"]}]
    schema = Schema.from_dict({"columns": columns, "constraints": constraints})
    frame = pd.DataFrame({name: np.zeros(1, dtype="float32") for name in columns})
    model = pg.estimate([], schema.domain, total=300, structural_zeros=schema.structural_zeros)
    made = schema.decode(model.sample(300, seed=0), 0, frame)
    assert (made["a"] + made["b"] - made["t"]).abs().max() < 1e-12
    assert (made["x"] <= made["y"]).all()


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_columns_have_the_order_of_the_table(library):
    schema = Schema.from_dict({"columns": {"a": INTEGER, "b": LABELS, "c": FLAG}})
    frame = pd.DataFrame({"c": FLAGS, "id": INTS, "b": TEXTS, "a": INTS})
    table = {"pandas": frame, "polars": pl.from_pandas(frame), "pyarrow": pa.Table.from_pandas(frame)}[library]
    fitted = pg.Synthesizer("independent", epsilon=5.0, backend="simulation").fit(table, schema, seed=0)
    made = fitted.sample(5, seed=0)
    assert list(made.column_names if library == "pyarrow" else made.columns) == ["c", "b", "a"]


def test_a_synthesizer_keeps_the_types_through_a_file(tmp_path):
    frame = pd.DataFrame(
        {
            "level": pd.Categorical(TEXTS, categories=["a", "b", "c"], ordered=True),
            "n": pd.array(INTS, dtype="Int8"),
            "x": FLOATS.astype("float32"),
            "d": zoned("datetime64[us, Europe/Berlin]", "Europe/Berlin"),
        }
    )
    schema = Schema.from_dict({"columns": {"d": DATE, "x": PRICE, "n": gaps(INTEGER), "level": LABELS}})
    fitted = pg.Synthesizer("mst", epsilon=5.0, backend="simulation").fit(frame, schema, seed=0)
    fitted.save(tmp_path / "m.npz")
    loaded = pg.Synthesizer.load(tmp_path / "m.npz")
    for one in (fitted, loaded):
        made = one.sample(20, seed=0)
        assert made.dtypes.equals(frame.dtypes)
        assert list(made["level"].cat.categories) == ["a", "b", "c"]
        given = one.sample(5, seed=0, given={"n": 3})
        assert given.dtypes.equals(frame.dtypes)
    rows = frame.loc[[7, 3], ["level", "d"]]
    completed = fitted.sample(seed=0, given=rows)
    pd.testing.assert_frame_equal(completed[["level", "d"]], rows)
    assert completed.dtypes.equals(frame.dtypes)
    assert completed.index.tolist() == [7, 3]


def test_completed_rows_are_of_the_library_of_the_given_ones():
    schema = Schema.from_dict({"columns": {"a": INTEGER, "b": LABELS}})
    table = pl.DataFrame({"a": pl.Series(INTS, dtype=pl.Int8), "b": pl.Series(TEXTS, dtype=pl.Categorical)})
    fitted = pg.Synthesizer("mst", epsilon=5.0, backend="simulation").fit(table, schema, seed=0)
    made = fitted.sample(seed=0, given=table.select("b").head(3))
    assert made.schema == table.schema
    assert made["b"].to_list() == table["b"].head(3).to_list()
    arrow = fitted.sample(seed=0, given=pa.table({"b": ["a", "c"]}))
    assert arrow.column("b").to_pylist() == ["a", "c"]
    assert arrow.column_names == ["a", "b"]


def test_a_parquet_file_keeps_its_types(tmp_path):
    from pgmest.cli.main import main

    frame = pd.DataFrame(
        {
            "x": FLOATS.astype("float32"),
            "n": pd.array(INTS, dtype="Int16"),
            "t": DAYS.dt.tz_localize("UTC"),
            "d": [day.date() for day in DAYS],
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    columns = {"n": gaps(INTEGER), "x": REAL, "t": DATE, "d": DATE}
    import json

    (tmp_path / "s.json").write_text(json.dumps({"columns": columns}))
    arguments = [
        str(tmp_path / "t.parquet"),
        "--schema",
        str(tmp_path / "s.json"),
        "--out",
        str(tmp_path / "o.parquet"),
    ]
    assert main(["synthesize", *arguments, "--epsilon", "5", "--mechanism", "mst", "--insecure-simulation"]) == 0
    made = pd.read_parquet(tmp_path / "o.parquet")
    assert made.drop(columns="d").dtypes.equals(frame.drop(columns="d").dtypes)
    schemas = [parquet.read_schema(tmp_path / name).remove_metadata() for name in ("t.parquet", "o.parquet")]
    assert schemas[0] == schemas[1]


# -- types that cannot be what the schema lists ----------------------------------------------------------------------

DAY_LABELS = {"type": "categorical", "values": ["2020-01-01", "2020-01-02"], "outside": "error"}
GERMAN = {"type": "categorical", "values": ["01.01.2020"], "other": "?"}
ZIP = {"type": "categorical", "values": ["02139", "00501", "94105"], "other": "?"}
LOST = [
    (pd.Series(INTS), other(LABELS), "whole numbers|numbers"),
    (pd.Series(FLOATS), {"type": "categorical", "values": ["1.50", "x"], "other": "?"}, "numbers"),
    (pd.Series(FLAGS), {"type": "categorical", "values": ["yes", "no"], "other": "?"}, "booleans"),
    (pd.Series(FLAGS), {"type": "categorical", "values": [0, 1], "other": 2}, "booleans"),
    (pd.Series(INTS), {"type": "categorical", "values": ["yes", "no"], "missing": True}, "numbers"),
    (DAYS, GERMAN, "dates"),
    (DAYS, INTEGER, "dates"),
    (DAYS, FLAG, "dates"),
    (pd.Series(INTS), DATE, "numbers"),
    (pd.Series(FLAGS), DATE, "booleans"),
    (pd.Series(INTS).astype("category"), other(LABELS), "numbers"),
    (pd.Series(INTS).astype("Int8"), INTEGER | {"type": "real", "min": 0.2, "max": 0.8, "bins": 2}, "whole numbers"),
    (pd.Series(FLAGS), INTEGER | {"min": 3}, "booleans"),
]
FOUND = [
    (pd.Series([2139, 501, 94105, 2]), ZIP, [0, 1, 2, 3]),
    (pd.Series([2139.0, None, 94105.0]), ZIP | {"missing": True}, [0, 4, 2]),
    (pd.Series(["02139", "2139", "2139.0", "2139.5"]), ZIP, [0, 0, 0, 3]),
    (pd.Series([1, 2]), {"type": "categorical", "values": ["1.0", "2.0"], "other": "?"}, [0, 1]),
    (pd.Series([1, 2]), {"type": "categorical", "values": ["01", "1", "001", "02", "002"], "other": "?"}, [1, 5]),
    (pd.Series([True, False]), {"type": "categorical", "values": ["True", "False"], "other": "?"}, [0, 1]),
    (pd.Series([1, 0]), WORDS, [1, 0]),
    (pd.Series(pd.to_datetime(["2020-01-02", "2020-01-01"])), DAY_LABELS, [1, 0]),
    (pd.Series([20200131]), DATE | {"format": "%Y%m%d"}, [0]),
    (pd.Series([1]), {"type": "categorical", "values": ["a"], "aliases": {"a": [1]}, "other": "?"}, [0]),
]


@pytest.mark.parametrize(("column", "described", "said"), LOST)
def test_a_column_that_would_be_lost_is_refused_before_anything_is_paid(column, described, said, tmp_path):
    schema = {"columns": {"ok": INTEGER, "zip": described}}
    frame = pd.DataFrame({"zip": column, "ok": 1})
    journal = tmp_path / "journal"
    for table in (frame, frame.head(0)):
        with pytest.raises(pg.errors.SchemaError, match=f"column 'zip' of the table holds ({said}) "):
            pg.Synthesizer("mst", epsilon=1.0).fit(table, schema, seed=0, checkpoint=journal)
    assert not journal.exists()


@pytest.mark.parametrize(("column", "described", "codes"), FOUND)
def test_a_value_and_its_label_meet(column, described, codes):
    schema = Schema.from_dict({"columns": {"c": described}})
    frame = pd.DataFrame({"c": column})
    tables = [frame, pl.from_pandas(frame), pl.from_pandas(frame).lazy(), pa.Table.from_pandas(frame)]
    for table in tables:
        assert schema.encode(table).collect().column("c").tolist() == codes
    pg.Synthesizer("independent", epsilon=1.0, backend="simulation").fit(frame, schema, seed=0)


def test_types_of_an_engine_are_checked_too():
    frame = pd.DataFrame({"zip": INTS, "day": DAYS, "flag": FLAGS, "word": TEXTS})
    relation = duckdb.from_df(frame)
    for described in ({"zip": other(LABELS)}, {"day": other(LABELS)}, {"flag": DATE}, {"flag": other(NUMBERS, "z")}):
        with pytest.raises(pg.errors.SchemaError, match="of the table holds"):
            pg.Synthesizer("mst", epsilon=1.0).fit(relation, {"columns": described}, seed=0)
    described = {"word": LABELS, "day": DATE, "zip": DIGITS, "flag": FLAG}
    fitted = pg.Synthesizer("independent", epsilon=1.0, backend="simulation").fit(
        relation, {"columns": described}, seed=0
    )
    made = fitted.sample(3, seed=0)
    assert isinstance(made, pd.DataFrame)
    assert list(made) == list(frame)


def test_lists_and_bytes_are_never_read():
    for table in (pl.DataFrame({"c": [[1]]}), pa.table({"c": [b"1"]}), pl.DataFrame({"c": [{"a": 1}]})):
        with pytest.raises(pg.errors.SchemaError, match="lists or bytes"):
            pg.Synthesizer("mst", epsilon=1.0).fit(table, {"columns": {"c": INTEGER}})


@pytest.mark.parametrize(
    "column", [pd.Series([None, None]), pd.Series(["a", 1]), pd.Series([datetime.date(2020, 1, 1)])]
)
def test_columns_of_objects_may_hold_anything(column):
    schema = {"columns": {"c": gaps(INTEGER)}}
    pg.Synthesizer("independent", epsilon=1.0, backend="simulation").fit(pd.DataFrame({"c": column}), schema, seed=0)
