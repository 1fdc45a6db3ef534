"""Codes survive: decoded to a table of any library, and through a file, they are encoded as the same codes."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest.data.frames import write_frame
from pgmest.schema import Schema
from tests.every_check import EVERY_CHECK
from tests.schema.strategies import schemas_with_data

few = settings(max_examples=60, deadline=None, suppress_health_check=EVERY_CHECK)


@few
@given(schemas_with_data(), st.sampled_from(("pandas", "polars", "pyarrow")))
def test_decoded_codes_encode_to_themselves(case, like):
    schema, data = case
    assert schema.encode(schema.decode(data, seed=0, like=like)) == data


@few
@given(schemas_with_data(), st.sampled_from(("pandas", "polars")), st.sampled_from((".csv", ".csv.gz", ".parquet")))
def test_so_they_do_through_files(tmp_path_factory, case, like, ending):
    schema, data = case
    path = tmp_path_factory.getbasetemp() / f"table{ending}"
    write_frame(schema.decode(data, seed=1, like=like), path)
    assert schema.encode(path) == data


@settings(few, max_examples=25)
@given(schemas_with_data())
def test_engines_encode_alike(case):
    schema, data = case
    table = schema.decode(data, seed=2, like="polars")
    assert schema.encode(table.lazy()).collect() == data


def test_duckdb_encodes_alike():
    schema = Schema.from_dict(
        {
            "columns": {
                "sex": {"type": "categorical", "values": ["F", "M"], "other": "X", "missing": True},
                "code": {"type": "categorical", "values": [10, 20], "other": 99},
                "age": {"type": "integer", "min": 0, "max": 99, "width": 7, "missing": True},
                "income": {"type": "real", "min": 0, "max": 1000, "bins": 7, "missing": True},
                "born": {"type": "date", "min": "1950-03-05", "max": "2001-07-09", "unit": "month", "width": 50},
                "employed": {"type": "boolean"},
            }
        }
    )
    table = pl.DataFrame(
        {
            "sex": ["F", " M ", "?", None, ""],
            "code": [10, 20, 30, None, 10],
            "age": [0, 99, -5, 200, None],
            "income": [0.0, 1000.0, 999.9, float("nan"), None],
            "born": pl.Series(["1900-01-01", "1950-03-05", "2001-07-09", "2100-01-01", None]).str.to_date(),
            "employed": [True, False, None, True, False],
        }
    )
    expected = [[0, 0, 0, 0, 0, 1], [1, 1, 14, 6, 0, 0], [2, 2, 0, 6, 12, 0], [3, 2, 14, 7, 12, 1], [3, 0, 15, 7, 0, 0]]
    assert schema.encode(table).codes.tolist() == expected
    assert schema.encode(duckdb.from_arrow(table.to_arrow())).codes.tolist() == expected


TYPED = Schema.parse(
    """
columns:
  n: {type: integer, min: 0, max: 9}
  n_gaps: {type: integer, min: 0, max: 9, missing: true}
  x: {type: real, min: 0, max: 1, bins: 2, missing: true}
  b: {type: boolean}
  b_gaps: {type: boolean, missing: true}
  d: {type: date, min: 2020-01-01, max: 2020-12-31, missing: true}
  s: {type: categorical, values: [a, b], other: c, missing: true}
  k: {type: categorical, values: [1, 2], other: 9}
"""
)


def test_types_of_decoded_columns_are_those_of_the_schema():
    from pgmest.data.dataset import Dataset

    rows = [[0] * 8, [size - 1 for size in TYPED.domain.shape]]
    data = Dataset.from_codes(np.array(rows), TYPED.domain)
    table = TYPED.decode(data, seed=0)
    text = str(pd.Series(["a"]).astype("str").dtype)  # pandas 3 has a type for text
    kinds = ["int64", "Int64", "float64", "bool", "boolean", "datetime64[us]", text, "int64"]
    assert [str(kind) for kind in table.dtypes] == kinds
    assert table.isna().to_numpy().tolist() == [[False] * 8, [False, True, True, False, True, True, True, False]]
    assert TYPED.decode(data.take([0]), seed=0).dtypes.equals(table.dtypes)
    polars = TYPED.decode(data, seed=0, like="polars")
    assert polars.dtypes == [pl.Int64, pl.Int64, pl.Float64, pl.Boolean, pl.Boolean, pl.Date, pl.String, pl.Int64]
    assert polars["n_gaps"].to_list()[1] is None
    arrow = TYPED.decode(data, seed=0, like="pyarrow").schema
    assert (arrow.field("d").type, arrow.field("s").type) == (pa.date32(), pa.string())


def test_no_records_have_types_too():
    from pgmest.data.dataset import Dataset

    empty = Dataset.from_codes(np.empty((0, 8), dtype=int), TYPED.domain)
    for like in ("pandas", "polars", "pyarrow"):
        assert len(TYPED.decode(empty, like=like)) == 0


def test_values_are_uniform_within_their_bin_and_seeded():
    schema = Schema.from_dict(
        {
            "columns": {
                "n": {"type": "integer", "min": 0, "max": 9, "width": 5},
                "x": {"type": "real", "min": 0, "max": 1, "bins": 2},
                "d": {"type": "date", "min": "2020-01-01", "max": "2021-12-31", "unit": "month"},
            }
        }
    )
    from pgmest.data.dataset import Dataset

    data = Dataset.from_codes(np.full((20_000, 3), 1), schema.domain)
    table = schema.decode(data, seed=0)
    shares = table["n"].value_counts(normalize=True)
    assert sorted(shares.index) == [5, 6, 7, 8, 9]
    assert shares.between(0.18, 0.22).all()
    assert np.histogram(table["x"], bins=4, range=(0.5, 1))[0].min() > 4700
    assert table["d"].nunique() == 29
    assert (table["d"].min(), table["d"].max()) == (pd.Timestamp("2020-02-01"), pd.Timestamp("2020-02-29"))
    pd.testing.assert_frame_equal(table, schema.decode(data, seed=0))
    assert not table.equals(schema.decode(data, seed=1))


@pytest.mark.parametrize("like", ["dask", None])
def test_other_libraries_are_refused(like):
    with pytest.raises(ValueError, match="like"):
        TYPED.decode(None if False else TYPED.encode(TYPED.decode(_one(), seed=0)), like=like)


def _one():
    from pgmest.data.dataset import Dataset

    return Dataset.from_codes(np.zeros((1, 8), dtype=int), TYPED.domain)
