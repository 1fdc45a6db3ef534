"""Rows completed by a Synthesizer keep the orders and sums of its schema, together with the values that are given."""

import numpy as np
import pandas as pd
import pytest

import pgmest as pg
from pgmest.errors import DataError

DATE = {"type": "date", "min": "2020-01-01", "max": "2021-12-31", "unit": "month"}
PART = {"type": "integer", "min": 0, "max": 49, "width": 10}
SCHEMA = {
    "columns": {
        "start": DATE,
        "end": {**DATE, "missing": True},
        "a": PART,
        "b": PART,
        "total": {**PART, "max": 98},
        "income": {"type": "real", "bounds": "bought", "bins": 4},
    },
    "constraints": [{"ordered": ["start", "end"]}, {"sum": {"total": ["a", "b"]}}],
}


def people(rows: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    start = np.datetime64("2020-01-01") + rng.integers(0, 650, rows)
    table = pd.DataFrame({"start": start, "end": start + rng.integers(0, 60, rows)})
    table[["a", "b"]] = rng.integers(0, 50, (rows, 2))
    table["end"] = table.end.mask(rng.random(rows) < 0.2)
    return table.assign(total=table.a + table.b, income=rng.gamma(2, 1000, rows))


@pytest.fixture(scope="module")
def fitted() -> pg.Synthesizer:
    return pg.Synthesizer("mst", epsilon=5.0, backend="simulation").fit(people(), SCHEMA, seed=0)


def assert_kept(table: pd.DataFrame) -> None:
    assert ((table.start <= table.end) | table.end.isna()).all()
    assert (table.total == table.a + table.b).all()


@pytest.mark.parametrize("columns", [["start"], ["end"], ["start", "end"], ["a"], ["a", "b"]])
def test_completed_rows_keep_what_is_given_and_what_must_hold(fitted, columns):
    given = people()[columns].head(200)
    table = fitted.sample(given=given, seed=0)
    assert_kept(table)
    for name in columns:
        assert table[name].astype(given[name].dtype).equals(given[name])


def test_a_loaded_synthesizer_keeps_orders_and_sums(fitted, tmp_path):
    fitted.save(tmp_path / "model.npz")
    loaded = pg.Synthesizer.load(tmp_path / "model.npz")
    assert_kept(loaded.sample(500, seed=1))
    assert loaded.sample(500, seed=1).equals(fitted.sample(500, seed=1))


def test_totals_cannot_be_given(fitted):
    assert "total" not in fitted.schema_.domain
    with pytest.raises(DataError, match=r"'total', a total .*: give its parts instead"):
        fitted.sample(given=people()[["total"]])
