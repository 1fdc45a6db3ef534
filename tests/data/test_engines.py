"""Datasets whose records an engine holds: the same counts and the same errors as with the records in memory."""

import datetime
import gc
import itertools
import os
import re
import shutil
import signal
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.data import batches, dataset, lazy_dataset
from pgmest.data.dataset import Dataset
from pgmest.data.frames import ReadingWarning
from pgmest.data.lazy_dataset import LazyDataset, blocks
from pgmest.errors import ArgumentError, CodeRangeError, DataError, ModelTooLarge, UnknownAttributeError
from pgmest.schema import Schema

DOMAIN = pg.Domain({"age": 4, "records": 2, "income>50K": 3, "one": 1})


def random_table(rows: int = 500) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.integers(0, size, rows) for name, size in DOMAIN.items()})
    return table.assign(weight=rng.integers(0, 8, rows) / 4, extra="x")


TABLE = random_table()


def in_polars(table: pd.DataFrame):
    return pl.from_pandas(table).lazy()


def in_duckdb(table: pd.DataFrame):
    duckdb = pytest.importorskip("duckdb")
    return duckdb.connect().from_df(table)


def in_dask(table: pd.DataFrame):
    return pytest.importorskip("dask.dataframe").from_pandas(table, npartitions=3)


@pytest.fixture(scope="session")
def spark():
    """A session of Spark; PGMEST_SPARK_MASTER='local-cluster[2,1,1024]' has it start workers, which takes longer."""
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("PySpark needs Java")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # few queries: compile little
    }
    builder = sql.SparkSession.builder.master(os.environ.get("PGMEST_SPARK_MASTER", "local[1]"))
    for name, value in settings.items():
        builder = builder.config(name, value)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers encode the rows with pgmest
    interrupt = signal.getsignal(signal.SIGINT)
    session = builder.getOrCreate()
    signal.signal(signal.SIGINT, interrupt)  # Spark takes Ctrl-C for itself, in the whole process
    yield session
    session.stop()


ENGINES = [in_polars, in_duckdb, in_dask]
every_engine = pytest.mark.parametrize("engine", ENGINES)


def assert_counts_like(counted: Dataset, data: Dataset) -> None:
    cliques = [c for k in (0, 1, 2, 3) for c in itertools.permutations(DOMAIN, k)]
    for expected, table in zip(data.project_many(cliques), counted.project_many(cliques), strict=True):
        assert table.domain == expected.domain
        np.testing.assert_array_equal(table.values, expected.values)


@every_engine
def test_every_marginal_is_that_of_the_records(engine):
    counted = Dataset.from_frame(engine(TABLE), DOMAIN)
    assert isinstance(counted, LazyDataset)
    assert (counted.records, counted.total, len(counted), counted.weights) == (500, 500.0, 500, None)
    assert_counts_like(counted, Dataset.from_frame(TABLE, DOMAIN))


SCHEMA = Schema.parse(
    """
columns:
  sex: {type: categorical, values: [F, M], missing: true}
  age: {type: integer, min: 10, max: 99, width: 7, missing: true}
  rooms: {type: integer, edges: [0, 1, 3, 10]}
  income: {type: real, min: 0, max: 1000, bins: 7, missing: true}
  born: {type: date, min: 1950-03-05, max: 2001-07-09, unit: month, width: 50, missing: true}
  day: {type: date, min: 1899-12-31, max: 2004-02-29, width: 30, missing: true}
  employed: {type: boolean, missing: true}
"""
)
DATES = [datetime.date(*day) for day in ((1900, 2, 28), (1950, 3, 5), (2000, 2, 29), (2004, 2, 29))]
RAW = pl.DataFrame(
    {
        "sex": ["F", " M ", "?", None],
        "age": [0, 99, 17, None],
        "rooms": [0, 1, 5, 77],
        "income": [0.0, 1000.0, 999.9, -5.5],
        "born": DATES,
        "day": [*DATES[::-1][:3], None],
        "employed": [True, False, None, True],
    }
)
RAW_TYPES = "sex string, age long, rooms long, income double, born date, day date, employed boolean"


def assert_encodes_alike(engine, stays: bool) -> None:
    counted, data = SCHEMA.encode(engine(RAW)), SCHEMA.encode(RAW)
    assert isinstance(counted, LazyDataset) == stays
    cliques = [(name,) for name in SCHEMA.domain] + [("sex", "age", "born")]
    for expected, table in zip(data.project_many(cliques), counted.project_many(cliques), strict=True):
        np.testing.assert_array_equal(table.values, expected.values)


@every_engine
def test_schemas_are_applied_by_the_engine(engine):
    assert_encodes_alike(lambda table: engine(table.to_pandas().convert_dtypes()), stays=engine is in_dask)


VISITS = pl.DataFrame({"id": ["p", "q", None, "r\ud7ff\u00e9", "p "] * 8, "x": [row % 9 for row in range(40)]})
VISIT_COLUMNS = {"x": {"type": "integer", "min": 0, "max": 5}}
UNIT = Schema.from_dict({"columns": VISIT_COLUMNS, "unit": {"column": "id", "at_most": 3}})
STRICT = Schema.from_dict({"columns": {"x": {**VISIT_COLUMNS["x"], "outside": "error"}}})
KEY = bytes(range(16))


def assert_cuts_alike(engine) -> None:
    """The rows of one person lie in several partitions, with and without one more person, who changes nothing else."""
    for dropped in ("p", None):
        rows = [row for row, (person, _) in enumerate(VISITS.rows()) if person is None or person.strip() != dropped]
        with pytest.warns(ReadingWarning, match="rows are left out"):
            expected = UNIT.encode(VISITS[rows], key=KEY)
        with pytest.warns(ReadingWarning, match="rows are left out"):
            found = UNIT.encode(engine(rows), key=KEY)
        assert found.records_per_person == 3
        assert found.project("x").values.tolist() == expected.project("x").values.tolist()
        known, checked = UNIT.check(VISITS[rows]), UNIT.check(engine(rows))
        assert checked.dropped == known.dropped
        assert [one.detail for one in checked.columns] == [one.detail for one in known.columns]
        np.testing.assert_array_equal(checked.columns[0].counts, known.columns[0].counts)


@pytest.mark.parametrize("engine", [in_polars, in_duckdb, in_dask])
def test_a_unit_is_cut_alike_wherever_its_rows_lie(engine, monkeypatch):
    monkeypatch.setattr(batches, "ROWS_AT_ONCE", 7)
    assert_cuts_alike(lambda rows: engine(VISITS[rows].to_pandas()))


def test_partitions_report_what_is_asked_for():
    with pytest.raises(DataError, match=r"^column 'x' has the value 7, but values are whole"):
        STRICT.encode(in_dask(pd.DataFrame({"x": [1, 7, 2, 3]})))


@every_engine
def test_weights_are_summed(engine):
    counted, data = (Dataset.from_frame(frame, DOMAIN, "weight") for frame in (engine(TABLE), TABLE))
    assert counted.total == data.total
    assert_counts_like(counted, data)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.spark
def test_spark_in_local_mode(spark, tmp_path):
    path = tmp_path / "table.parquet"
    TABLE.to_parquet(path)
    counted = Dataset.from_frame(spark.read.parquet(str(path)), DOMAIN)
    assert_counts_like(counted, Dataset.from_frame(TABLE, DOMAIN))
    assert "pyspark" in repr(counted)
    assert_encodes_alike(lambda table: spark.createDataFrame(table.rows(), RAW_TYPES), stays=True)
    gc.collect()
    assert not spark.sparkContext._jsc.getPersistentRDDs()  # the codes were given back
    visits = VISITS.to_pandas()
    assert_cuts_alike(lambda rows: spark.createDataFrame(visits.iloc[rows], "id string, x long").repartition(2))
    with pytest.raises(DataError, match=r"^column 'x' has the value 7, but values are whole"):
        STRICT.encode(spark.createDataFrame([("p", 7)], "id string, x long"))
    for named, other in (("a.b", "x"), ("a`b", "x"), ("X", "x")):
        schema = Schema.from_dict({"columns": {named: VISIT_COLUMNS["x"]}})
        with pytest.raises(DataError, match=f"Spark cannot tell column '{re.escape(named)}' from others"):
            schema.encode(spark.createDataFrame([(1, 2)], "p int, q int").toDF(named, other))
    gc.collect()
    assert not spark.sparkContext._jsc.getPersistentRDDs()  # nor are those of a table that was refused kept
    with pytest.raises(CodeRangeError, match=r"column 'age': value 3 is not a code in 0\.\.2"):
        Dataset.from_frame(spark.read.parquet(str(path)), {"age": 3})


@every_engine
def test_the_model_of_engine_counts_is_that_of_the_records(engine):
    cliques = [("age", "records"), ("records", "income>50K")]
    models = []
    for data in (Dataset.from_frame(engine(TABLE), DOMAIN), Dataset.from_frame(TABLE, DOMAIN)):
        measurements = [
            pg.LinearMeasurement(table.values, table.domain.attributes) for table in data.project_many(cliques)
        ]
        models.append(pg.estimate(measurements, DOMAIN).project(("age", "income>50K")).values)
    np.testing.assert_array_equal(*models)


@every_engine
@pytest.mark.parametrize("kind", [bool, float, "uint8", "int64"])
def test_types_that_hold_codes(engine, kind):
    frame = engine(TABLE.astype({"records": kind}))
    expected = Dataset.from_frame(TABLE, DOMAIN).project("records")
    np.testing.assert_array_equal(Dataset.from_frame(frame, DOMAIN).project("records").values, expected.values)


WRONG = [
    ([0, 7, 1], CodeRangeError, "column 'age': value 7 is not a code in 0..3"),
    ([0, -1, 1], CodeRangeError, "column 'age': value -1 is not a code in 0..3"),
    ([0.0, 1.5, 1.0], DataError, "column 'age': 1.5 is not an integer code"),
    ([0.0, float("inf"), 1.0], DataError, "column 'age': inf is not an integer code"),
    (["0", "1", "x"], DataError, "column 'age': '0' is not an integer code"),
    (pd.array([0, None, 1], dtype="Int64"), DataError, "column 'age': None is not an integer code"),
    (pd.to_datetime(["2020-01-01"] * 3), DataError, "is not an integer code"),
]


@every_engine
@pytest.mark.parametrize(("values", "error", "text"), WRONG)
def test_what_is_no_code_is_named(engine, values, error, text):
    frame = engine(pd.DataFrame({"age": values, "sex": [0, 1, 0]}))
    with pytest.raises(error) as caught:
        Dataset.from_frame(frame, {"sex": 2, "age": 4})
    assert text in str(caught.value)


def test_not_a_number_is_no_code():
    for frame in (pl.LazyFrame({"a": [0.0, float("nan")]}), pl.LazyFrame({"a": [float("nan")]})):
        with pytest.raises(DataError, match="column 'a': nan is not an integer code"):
            Dataset.from_frame(frame, {"a": 2})
    duckdb = pytest.importorskip("duckdb")
    with pytest.raises(DataError, match="column 'a': nan is not an integer code"):
        Dataset.from_frame(duckdb.sql("select 'nan'::double as a"), {"a": 2})


@every_engine
@pytest.mark.parametrize(
    ("weights", "text"),
    [([1.0, -2.0], "is -2.0"), ([1.0, float("inf")], "is inf"), ([1.0, None], "without"), (["a", "b"], "not numbers")],
)
def test_weights_that_are_none(engine, weights, text):
    if engine is in_dask and weights[1] is None:
        pytest.skip("no null in a float column of pandas")
    frame = engine(pd.DataFrame({"a": [0, 1], "w": weights}))
    if engine is in_duckdb and weights[1] is None:
        frame = engine(pd.DataFrame({"a": [0, 1], "w": pd.array(weights, dtype="Float64")}))
    with pytest.raises(DataError, match=text):
        Dataset.from_frame(frame, {"a": 2}, "w")


@every_engine
def test_missing_columns_and_no_rows(engine):
    with pytest.raises(DataError, match="did you mean 'age'"):
        Dataset.from_frame(engine(TABLE), {"agee": 4})
    assert Dataset.from_frame(engine(TABLE.iloc[:0]), DOMAIN, "weight").project("age").values.tolist() == [0] * 4
    with pytest.raises(ArgumentError, match="name of a column"):
        Dataset.from_frame(engine(TABLE), DOMAIN, TABLE["weight"].to_numpy())


def test_rows_stay_where_they_are_until_collected():
    counted = Dataset.from_frame(in_polars(TABLE), DOMAIN, "weight")
    for rows in (
        lambda: counted.columns,
        lambda: counted.codes,
        lambda: counted.weights,
        lambda: counted.take([0]),
        lambda: counted.to_frame(),
        lambda: Dataset.concat([counted, counted]),
    ):
        with pytest.raises(DataError, match="the records are in polars"):
            rows()
    assert (
        Dataset.from_frame(TABLE, DOMAIN, "weight").collect()
        == counted.collect()
        == Dataset.from_frame(TABLE, DOMAIN, "weight")
    )
    assert counted == counted
    assert counted != counted.collect()


def test_a_selection_counts_the_same_records():
    counted = Dataset.from_frame(in_polars(TABLE), DOMAIN)
    smaller = counted.select(("records", "age"))
    assert smaller.domain.attributes == ("records", "age")
    np.testing.assert_array_equal(smaller.project("age").values, counted.project("age").values)
    with pytest.raises(UnknownAttributeError):
        smaller.project("one")


def test_what_was_counted_is_not_counted_again(monkeypatch):
    counted = Dataset.from_frame(in_polars(TABLE), DOMAIN)
    first = counted.project(("age", "records"))
    monkeypatch.setattr(LazyDataset, "_groups", lambda *_: pytest.fail("scanned again"))
    np.testing.assert_array_equal(counted.project(("records", "age")).values, first.values.T)


def test_old_tables_are_forgotten(monkeypatch):
    monkeypatch.setattr(dataset, "REMEMBERED_CELLS", 5)
    counted = Dataset.from_frame(in_polars(TABLE), DOMAIN)
    for name in ("age", "records", "income>50K"):
        counted.project(name)
    assert list(counted._kept or ()) == [frozenset({"records"}), frozenset({"income>50K"})]


def test_too_large_a_table_is_refused_before_counting(monkeypatch):
    frame = pl.LazyFrame({name: [0] for name in "abc"})
    counted = Dataset.from_frame(frame, {"a": 2000, "b": 2000, "c": 2000})
    monkeypatch.setattr(LazyDataset, "_groups", lambda *_: pytest.fail("scanned"))
    with pytest.raises(ModelTooLarge, match="a, b, c"):
        counted.project_many([("a",), ("a", "b", "c")])


@settings(max_examples=100)
@given(st.lists(st.frozensets(st.sampled_from("abcdefg"), min_size=1, max_size=4)), st.integers(1, 500))
def test_blocks_hold_every_clique_once(cliques, cells):
    domain = pg.Domain(dict(zip("abcdefg", (2, 3, 4, 5, 6, 7, 50), strict=True)))
    distinct = [tuple(sorted(clique)) for clique in dict.fromkeys(cliques)]
    found = blocks(distinct, domain, cells)
    assert sorted(clique for _, inside in found for clique in inside) == sorted(distinct)
    for block, inside in found:
        assert all(set(clique) <= set(block) for clique in inside)
        assert domain.size(block) <= cells or block in [inside[0]]


@pytest.mark.parametrize("kind", ["uint8", "int32", "uint32", "float32"])
@pytest.mark.parametrize("engine", [in_polars, in_duckdb])
def test_weights_of_small_types_do_not_overflow(engine, kind):
    largest = 2**24 + 1 if kind == "float32" else np.iinfo(kind).max  # 2**24 + 1 is no float32, but 2**24 - 1 is
    weight = np.array([largest if kind != "float32" else 2**24 - 1] * 5, dtype=kind)
    counted = Dataset.from_frame(engine(pd.DataFrame({"a": [0] * 5, "w": weight})), {"a": 2}, "w")
    assert counted.total == 5 * int(weight[0])
    assert counted.project("a").values.tolist() == [5 * int(weight[0]), 0]


@every_engine
def test_weights_beyond_exact_counts_are_refused(engine):
    table = pd.DataFrame({"a": [0, 1], "w": [2.0**53, 1.0]})
    for frame in (engine(table), table):
        with pytest.raises(DataError, match=r"counts are exact only below 2\*\*53"):
            Dataset.from_frame(frame, {"a": 2}, "w")


CHANGES = [
    "insert into people values (0, 0)",
    "delete from people where rowid = 0",
    "update people set age = 1 where rowid = 0",
    "update people set age = 3 - age",  # the same number of rows, and for this table the same sum of codes
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_table_that_changes_during_a_run_is_noticed(change):
    connection = pytest.importorskip("duckdb").connect()
    connection.execute("create table people as select i % 4 as age, i % 2 as sex from range(7, 17) as rows(i)")
    connection.execute("update people set age = 0 where rowid = 1")
    connection.execute("update people set age = 3 where rowid = 2")
    data = Dataset.from_frame(connection.table("people"), {"age": 4, "sex": 2})
    data.project("age")
    connection.execute(change)
    with pytest.raises(DataError, match="changed while it was being counted"):
        data.project(("age", "sex"))
    with pytest.raises(DataError, match="changed while it was being counted"):
        data.select(("sex", "age")).project(("sex", "age"))


def test_the_last_of_equal_bins_may_be_wider():
    schema = Schema.from_dict({"columns": {"a": {"type": "integer", "min": 0, "max": 9, "bins": 3}}})
    ages = pl.DataFrame({"a": range(10)})
    assert schema.encode(ages.lazy()).collect() == schema.encode(ages)


# -- records that DuckDB hands over -----------------------------------------------------------------------------------


@pytest.fixture
def few_at_once(monkeypatch):
    """Tables of more than 10 cells are left to the engine, which hands over few records at a time."""
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(lazy_dataset, "RECORDS_AT_ONCE", 10)


def test_records_handed_over_are_counted_with_those_that_duckdb_groups(few_at_once, monkeypatch):
    streamed, grouped = [], []
    stream, group = lazy_dataset._batches, LazyDataset._groups
    monkeypatch.setattr(lazy_dataset, "_batches", lambda f, part: streamed.append(set(part)) or stream(f, part))
    monkeypatch.setattr(LazyDataset, "_groups", lambda self, block: grouped.append(set(block)) or group(self, block))
    counted = Dataset.from_frame(in_duckdb(TABLE), DOMAIN)
    assert_counts_like(counted, Dataset.from_frame(TABLE, DOMAIN))
    assert streamed
    assert grouped
    assert all(DOMAIN.size(tuple(block)) > 10 for block in grouped)


def test_duckdb_groups_where_records_have_weights():
    table = TABLE.assign(weight=np.arange(len(TABLE)) % 3)
    counted = Dataset.from_frame(in_duckdb(table), DOMAIN, "weight")
    np.testing.assert_array_equal(
        counted.project(tuple(DOMAIN)).values, Dataset.from_frame(table, DOMAIN, "weight").project(tuple(DOMAIN)).values
    )


def test_duckdb_counts_the_same_without_pyarrow(monkeypatch):
    monkeypatch.setattr(lazy_dataset.importlib.util, "find_spec", lambda name: None)
    assert_counts_like(Dataset.from_frame(in_duckdb(TABLE), DOMAIN), Dataset.from_frame(TABLE, DOMAIN))


@pytest.mark.parametrize("change", ["delete from t where a = 1", "update t set a = 0", "insert into t values (5, 0)"])
def test_a_table_that_changed_is_not_counted_as_it_is_handed_over(change):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute("create table t as select i % 3 as a, i % 2 as b from range(60) as r(i)")
    data = Dataset.from_frame(connection.table("t"), {"a": 3, "b": 2})
    connection.execute(change)
    with pytest.raises((DataError, CodeRangeError)):
        data.project(("a", "b"))
