"""Columns as arrays: what is missing, and which values are one, with pandas at hand and without."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmest.data import values
from pgmest.data.values import Values

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=3),
    st.decimals().filter(lambda value: not value.is_snan()),
    st.dates(),
    st.sampled_from([pd.NaT, pd.NA, pd.Timestamp("2020-01-01"), np.datetime64("NaT"), np.timedelta64("NaT")]),
    st.sampled_from([np.float32("nan"), np.float64(1), [1, None], (None,), object(), b"", datetime.time(1)]),
)


def objects(items: list) -> np.ndarray:
    return Values.of_items(items).array


@given(st.lists(SCALARS, max_size=8))
def test_nulls_are_those_of_pandas(items):
    gaps = Values.of(objects(items)).gaps
    np.testing.assert_array_equal(gaps, [pd.isna(objects([item]))[0] for item in items])


def test_a_signaling_nan_is_missing():
    assert values._nulls(objects([decimal.Decimal("sNaN"), decimal.Decimal(1)])).tolist() == [True, False]


@pytest.mark.parametrize(
    "array", [np.array([1.0, np.nan]), np.array(["2020-01-01", "NaT"], "M8[s]"), np.array([0, 1]), np.array([True])]
)
def test_nulls_of_plain_arrays(array):
    np.testing.assert_array_equal(values._nulls(array), pd.isna(array))


TEXTS = st.lists(st.text(st.sampled_from("a\0\udc80"), max_size=3))
ARRAYS = st.one_of(
    TEXTS.map(objects),
    st.lists(st.floats(allow_nan=False)).map(np.array),
    st.lists(st.integers(-(2**63), 2**63 - 1)).map(lambda items: np.array(items, dtype=np.int64)),
    st.lists(st.booleans()).map(lambda items: np.array(items, dtype=bool)),
    st.lists(st.one_of(st.integers(0, 1), st.booleans(), st.sampled_from([0.0, "0"]))).map(objects),
)


@given(ARRAYS, st.booleans())
def test_distinct_values_with_pandas_loaded_and_without(array, loaded):
    with pytest.MonkeyPatch.context() as patch:
        if not loaded:
            patch.delitem(sys.modules, "pandas")
        positions, found = Values(array, np.zeros(len(array), dtype=bool)).distinct()
    same = [(type(a), a) == (type(b), b) for a, b in zip(array.tolist(), (found[p] for p in positions), strict=True)]
    assert all(same)
    assert len({(type(value), value) for value in found}) == len(found)


def test_a_frame_of_another_library_loads_no_pandas():
    pytest.importorskip("polars")
    program = """
import sys, datetime, polars, pgmest as pg
frame = polars.DataFrame({"age": [5, 70, None], "sex": ["F", None, "M"], "day": [datetime.date(2020, 1, 2)] * 3})
columns = {"age": {"type": "integer", "min": 0, "max": 99, "width": 10, "missing": True},
           "sex": {"type": "categorical", "values": ["F", "M"], "missing": True},
           "day": {"type": "date", "min": "2020-01-01", "max": "2020-12-31", "unit": "month"}}
schema = pg.Schema.from_dict({"columns": columns})
data = schema.encode(frame)
pg.Dataset.from_frame(polars.DataFrame({"a": [0, 1, 1]}), {"a": 2}).project("a")
model = pg.estimate([pg.LinearMeasurement(data.project("sex").values, "sex")], data.domain)
assert type(schema.decode(model.sample(5, seed=0), like="polars")).__module__.startswith("polars")
assert "pandas" not in sys.modules, "pandas was loaded"
"""
    subprocess.run([sys.executable, "-c", program], check=True)


SIGNALING = np.array([0x7FA00000, 0x40A00000], dtype=np.uint32).view(np.float32)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(SIGNALING),
        pl.Series(SIGNALING),
        pd.Series(pd.arrays.FloatingArray(SIGNALING, np.zeros(2, dtype=bool))),
        pd.Series(np.array([np.nan, 5], dtype=np.longdouble)),
        pd.Series(np.array([np.longdouble("1e4000"), 5], dtype=np.longdouble)),
    ],
    ids=["pyarrow", "polars", "pandas nullable", "pandas long", "pandas beyond 64 bits"],
)
@pytest.mark.filterwarnings("error")
def test_no_float_causes_a_warning(column):
    library = pa.table if isinstance(column, pa.Array) else pl.DataFrame if isinstance(column, pl.Series) else None
    found = values.read_values((library or pd.DataFrame)({"x": column}))["x"]
    assert found.gaps[0] or np.isinf(found.array[0])
    assert found.array[1] == 5.0


def test_texts_of_polars_that_are_not_utf8_stay_different():
    offsets = np.array([0, 1, 3, 4], dtype=np.int32).tobytes()
    bad = pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(b"a\xff\xfe\xfe")])
    found = values.read_values(pl.from_arrow(pa.table({"x": bad})))["x"]
    assert found.array.tolist() == ["a", "\udcff\udcfe", "\udcfe"]


@pytest.mark.skipif(not hasattr(pl, "UInt128"), reason="polars without such integers")
def test_unsigned_integers_of_128_bits():
    found = values.read_values(pl.DataFrame({"x": pl.Series([5, 2**100, None], dtype=pl.UInt128)}))["x"]
    assert found.array[:2].tolist() == [5, 2**100]
    assert found.gaps.tolist() == [False, False, True]
