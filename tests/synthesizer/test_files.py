"""Synthesizers in files, rows that are completed, and errors that do not print a private table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import pgmest as pg
from pgmest.cli.main import main
from pgmest.errors import ArgumentError, DataError, FileFormatError

SCHEMA = {
    "columns": {
        "age": {"type": "integer", "min": 0, "max": 99, "width": 10},
        "sex": {"type": "categorical", "values": ["F", "M"], "missing": True},
        "smokes": {"type": "boolean"},
    }
}


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, 2000)
    table = pd.DataFrame({"age": age, "sex": rng.choice(["F", "M"], 2000), "smokes": age > 50})
    return pg.Synthesizer("mst", rho=1.0, backend="simulation").fit(table, SCHEMA, seed=0)


def test_a_synthesizer_comes_back_with_schema_promise_and_error_bars(fitted, tmp_path):
    fitted.save(tmp_path / "s.npz")
    loaded = pg.Synthesizer.load(tmp_path / "s.npz")
    pd.testing.assert_frame_equal(loaded.sample(50, seed=1), fitted.sample(50, seed=1))
    assert loaded.schema_.domain == fitted.schema_.domain
    assert loaded.privacy_ == fitted.privacy_
    assert loaded.privacy_["mechanism"] == "MST"
    assert loaded.privacy_["private"] is False
    kept, found = (one.model_.uncertainty("sex", replicates=4) for one in (fitted, loaded))
    np.testing.assert_allclose(kept.stddev.values, found.stddev.values)
    np.testing.assert_allclose(kept.stddev.values, fitted.result_.uncertainty("sex", replicates=4).stddev.values)
    with pytest.raises(ArgumentError, match="no ledger"):
        loaded.ledger_  # noqa: B018


def test_query_of_such_a_file_needs_no_schema_and_has_error_bars(fitted, tmp_path, capsys):
    fitted.save(tmp_path / "s.npz")
    assert main(["query", str(tmp_path / "s.npz"), "sex"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "sex,count,+-,low,high"
    assert [line.split(",")[0] for line in lines[1:]] == ["F", "M", "missing"]
    assert main(["query", str(tmp_path / "s.npz"), "sex", "--codes", "--interval", "none"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("0,")
    assert main(["sample", str(tmp_path / "s.npz"), "--rows", "3", "--out", "-"]) == 0
    assert capsys.readouterr().out.startswith("age,sex,smokes\n")


def test_a_model_without_a_schema_is_no_synthesizer(fitted, tmp_path):
    pg.Model(fitted.model_.potentials, 5.0).save(tmp_path / "m.npz")
    with pytest.raises(FileFormatError, match="without a schema"):
        pg.Synthesizer.load(tmp_path / "m.npz")


def test_rows_are_completed_given_what_they_say(fitted):
    given = pd.DataFrame({"age": [5, 95] * 300})
    table = fitted.sample(given=given, seed=0)
    assert table["age"].tolist() == given["age"].tolist()
    assert table.columns.tolist() == ["age", "sex", "smokes"]
    assert table["smokes"][given["age"] == 5].mean() < 0.1
    assert table["smokes"][given["age"] == 95].mean() > 0.9
    whole = pd.DataFrame({"age": [1], "sex": ["F"], "smokes": [True]})
    assert fitted.sample(given=whole, seed=0).values.tolist() == whole.values.tolist()


@pytest.mark.parametrize("given", [pd.DataFrame({"agee": [1]}), pd.DataFrame()])
def test_what_cannot_be_completed(fitted, given):
    with pytest.raises(DataError, match="the schema has age, sex, smokes"):
        fitted.sample(given=given)
    with pytest.raises(ArgumentError, match="which rows"):
        fitted.sample(5, given=pd.DataFrame({"age": [1]}))


@pytest.mark.parametrize("name", ["table.csv", "table.yaml", "table.json", "table"])
def test_a_table_in_the_place_of_a_schema_is_not_printed(tmp_path, capsys, name):
    path = tmp_path / name
    path.write_text("name,illness\n" + "Jane Doe secret,flu\n" * 2000)
    arguments = ["synthesize", str(path), "--schema", str(path), "--epsilon", "1", "--out", str(tmp_path / "o.csv")]
    assert main(arguments) == 1
    text = capsys.readouterr().err
    assert "Jane" not in text
    assert len(text) < 500


def test_notebooks_show_tables_and_escape_them(fitted):
    domain = pg.Domain({"<b>": 2})
    factor = pg.Factor(domain, [1, 2])
    for shown in (domain, factor, fitted.model_, fitted.ledger_, fitted.result_.model):
        assert shown._repr_html_().startswith(("<table>", "<pre>"))
    assert "&lt;b&gt;" in factor._repr_html_()
    assert "<b>" not in factor._repr_html_()
    assert factor.to_frame({"<b>": ["x", "y"]})["<b>"].tolist() == ["x", "y"]
    assert fitted.model_.project("sex").to_frame(fitted.schema_)["sex"].tolist() == ["F", "M", "missing"]
