"""Rivals by their authors' code: what they hand back is judged like a model, and the report is made of rows."""

import numpy as np
import pandas as pd
import pytest

import pgmest as pg
from experiments.flagship import neural
from experiments.flagship.neural import Run, found


@pytest.fixture
def data():
    codes = np.random.default_rng(0).integers(0, [2, 3, 4], (500, 3))
    return pg.Dataset.from_codes(codes, {"a": 2, "b": 3, "c": 4})


def test_true_answers_and_true_records_have_no_error(data):
    answers = np.concatenate([data.project(pair).values.ravel() / 500 for pair in (("a", "b"), ("a", "c"), ("b", "c"))])
    assert found(data, data.codes, answers) == pytest.approx({"error": 0, "records": 0, "number": 500, "drawn": 0})


def test_fewer_records_are_judged_by_their_shares(data):
    row = found(data, data.codes[:100], np.empty(0))
    assert row["error"] == row["records"]
    assert 0 < row["records"] < 0.3
    assert 0 < row["drawn"] < 0.3
    assert row["number"] == 100


def test_the_report_is_made_of_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(neural, "RESULTS", tmp_path)
    columns = {"table": ["adult"] * 2, "epsilon": [1.0, 10.0], "workload": ["pairs"] * 2, "error": [0.02, 0.006]}
    pd.DataFrame(columns).to_csv(tmp_path / "flagship.csv", index=False)
    pd.DataFrame({**columns, "mechanism": "AIM"}).to_csv(tmp_path / "compare.csv", index=False)
    common = {"records": 0.05, "drawn": 0.1, "number": 1000, "seconds": 5.0, "spent": 0.9}
    rows = [
        {**vars(Run("MargNet", "adult", 1.0, 0)), "error": 0.04, **common},
        {**vars(Run("MargNet", "adult", 1.0, 1)), "error": 0.04, **common},
        {**vars(Run("MargNet", "adult", 10.0, 0)), "error": 0.005, **common},
        {**vars(Run("Tab-PE", "adult", 1.0, 0)), "error": 0.2, **common},
    ]
    neural.write(pd.DataFrame(rows))
    text = (tmp_path / "flagship_neural.md").read_text()
    assert "| adult | 1 | 0.0400 | 0.0500 | 0.0200 | 0.0200 | 0.50 | 0.90 | 5 | 2 |" in text
    assert "LAMP has 0.77 times its error (geometric mean; 0.50 at 1, 1.20 at 10), at most 1.20 times" in text
    assert "It is more accurate than LAMP on: adult at 10 (1.20)." in text
    assert "| adult | 1 | 0.2000 | 0.1000 | 0.0200 | 0.0200 | 0.10 | 5 | 1 |" in text
    assert len(pd.read_csv(tmp_path / "flagship_neural.csv")) == 4
