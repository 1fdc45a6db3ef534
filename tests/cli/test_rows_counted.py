"""Rows that a limit of the schema leaves out: the owner is warned, and every answer says which rows it counts."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import pgmest as pg
from pgmest.cli.main import main

WARD = "columns: {ward: {type: categorical, values: [A, B], outside: clip}}"
FLAT = f"unit: {{column: pid, at_most: 2}}\n{WARD}\n"
LINKED = f"tables:\n  patients: {{key: pid}}\n  visits: {{parent: patients, key: pid, at_most: 2, {WARD}}}\n"
LIMITS = {FLAT: "at most 2 rows with one value of 'pid'", LINKED: "at most 2 of 'visits' for each of 'patients'"}
TRIAL = ["--epsilon", "5", "--insecure-simulation", "--seed", "0"]


@pytest.fixture(params=[FLAT, LINKED], ids=["flat", "linked"])
def schema(request, tmp_path) -> str:
    """The text of a schema, in a folder with it and visits of 100 patients, of which 60 % are left out."""
    visits = pd.DataFrame({"pid": np.repeat(np.arange(100), 5), "ward": ["A", "B", "B", "A", "B"] * 100})
    visits.to_csv(tmp_path / "visits.csv", index=False)
    (tmp_path / "schema.yaml").write_text(request.param)
    return request.param


@pytest.mark.usefixtures("blank_pictures")
def test_the_owner_is_warned_and_the_release_says_what_is_counted(schema, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    table = str(tmp_path / "visits.csv")
    out = [table, "--out", str(tmp_path / "out.csv"), "--model", str(tmp_path / "model.npz")]
    if schema == LINKED:
        out = [f"visits={table}", "--out", str(tmp_path / "out"), "--model", str(tmp_path / "model.npz")]
    page = ["--report", str(tmp_path / "report.html")]
    assert main(["synthesize", *out, "--schema", str(tmp_path / "schema.yaml"), *TRIAL, *page]) == 0
    shown = capsys.readouterr()
    assert "are left out: beyond at_most" in shown.err
    assert "for the owner of the table" in shown.err
    sentence = f"of the rows that are counted: {LIMITS[schema]}. Rows beyond that"
    assert sentence in shown.out

    written = (tmp_path / "report.html").read_text().replace("&#x27;", "'")
    assert written.count(sentence) >= 2  # in the promise, and beside the errors of counts
    model = str(tmp_path / "model.npz")
    for command in (["query", model, "ward"], ["query", model, "ward", "--json"], ["info", model]):
        assert main(command) == 0
        shown = capsys.readouterr()
        assert sentence in shown.out + shown.err
        assert sentence not in (shown.out if command[-1] == "ward" else shown.err)  # stays out of CSV
        if command[0] == "info":
            promise = next(line for line in shown.out.splitlines() if line.startswith("promise "))
            assert promise.endswith(" none: NOT PRIVATE ((5, 1e-09)-differential privacy was asked for)")
    assert main(["info", model, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert sentence in facts["rows_counted"]
    assert facts["privacy"]["private"] is False
    assert sentence in str(pg.load(model).interval("ward"))
    released = written + json.dumps(dict(pg.load(model).about))  # how many were left out is private
    assert not [private for private in ("60 %", "500 rows", "300 rows", "300 of") if private in released]


def test_a_table_that_is_read_several_times_is_warned_of_once(tmp_path, capsys):
    visits = pd.DataFrame({"pid": np.repeat(np.arange(100), 5), "age": np.arange(500) % 90})
    visits.to_csv(tmp_path / "visits.csv", index=False)
    (tmp_path / "schema.yaml").write_text(
        "unit: {column: pid, at_most: 2}\ncolumns: {age: {type: integer, bounds: bought}}\n"
    )
    files = [str(tmp_path / name) for name in ("visits.csv", "schema.yaml", "out.csv")]
    assert main(["synthesize", files[0], "--schema", files[1], "--out", files[2], *TRIAL]) == 0
    assert capsys.readouterr().err.count("beyond at_most") == 1


def test_answers_of_tables_without_limits_say_nothing_more():
    data = pg.Dataset.from_codes(np.zeros((50, 1), dtype=np.int64), pg.Domain({"a": 2}))
    result = pg.mechanisms.Independent(epsilon=1.0, backend="simulation").fit(data, seed=0)
    assert result.interval("a").rows_counted == ""
