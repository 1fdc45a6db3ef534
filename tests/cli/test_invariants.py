"""Tables held exactly by law: from the option and the schema to rows, statements, reports and ledgers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pgmest.cli.main import main
from pgmest.errors import SchemaError, UnknownAttributeError
from pgmest.privacy import DatasetLedger
from pgmest.schema import Schema

SCHEMA = """\
columns:
  region: {type: categorical, values: [R10, R11, R20, R21, R30], outside: clip,
           hierarchy: {prefixes: [2], names: [province]}}
  sex: {type: categorical, values: [F, M], outside: clip}
  age: {type: integer, min: 0, max: 99, width: 20}
invariants: [region@province, [sex, age]]
"""
TRIAL = ["--insecure-simulation", "--seed", "0", "--epsilon", "1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("decreed")
    rng = np.random.default_rng(0)
    people = {"region": rng.choice(["R10", "R11", "R20", "R21"], 900), "sex": rng.choice(["F", "M"], 900)}
    pd.DataFrame({**people, "age": rng.integers(0, 99, 900)}).to_csv(folder / "people.csv", index=False)
    (folder / "people.yaml").write_text(SCHEMA)
    return folder


def provinces(frame: pd.DataFrame) -> dict[str, int]:
    return frame["region"].str[:2].value_counts().sort_index().to_dict()


@pytest.mark.parametrize("mechanism", ["lamp", "mst"])
def test_rows_have_the_tables_of_the_schema_and_the_option(folder, capsys, mechanism):
    paths = [str(folder / "people.csv"), "--schema", str(folder / "people.yaml"), "--mechanism", mechanism]
    out, page = folder / f"{mechanism}.csv", folder / f"{mechanism}.html"
    more = ["--invariant", "region,sex", "--out", str(out), "--report", str(page), "--json"]
    assert main(["synthesize", *paths, *TRIAL, *more]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["table"] for one in told["unprotected"]] == [["region@province"], ["sex", "age"], ["region", "sex"]]
    assert told["neighbors"] == "replace"
    true, made = pd.read_csv(folder / "people.csv"), pd.read_csv(out)
    assert provinces(made) == provinces(true)
    for frame in (true, made):
        frame["age"] //= 20
    for names in (["sex", "age"], ["region", "sex"]):
        assert made.value_counts(names).sort_index().to_dict() == true.value_counts(names).sort_index().to_dict()
    text = page.read_text()
    assert "not protected" in text
    assert "region x sex: read exactly from the records" in text
    assert "Nothing is promised about the tables that are not protected" in text


def test_a_ledger_is_created_for_runs_with_invariants(folder, capsys):
    path = str(folder / "people.ledger")
    assert main(["ledger", "create", path, "--epsilon", "3", "--invariant", "region"]) == 0
    assert "one row replaced, with the same region" in capsys.readouterr().out
    assert DatasetLedger(path).relation.invariants == (("region",),)
    paths = [str(folder / "people.csv"), "--schema", str(folder / "people.yaml"), "--ledger", path]
    assert main(["synthesize", *paths, "--epsilon", "1", "--out", str(folder / "refused.csv")]) != 0
    assert "publishes tables exactly that the ledger protects" in capsys.readouterr().err


@pytest.mark.parametrize("mechanism", ["lamp", "mst"])
def test_a_plan_refuses_what_the_run_would_refuse(folder, capsys, mechanism):
    path = folder / "unit.yaml"
    path.write_text(SCHEMA + "unit: {column: person, at_most: 3}\n")
    assert main(["plan", str(path), "--records-expected", "900", "--epsilon", "1", "--mechanism", mechanism]) != 0
    assert "cannot be combined with a unit of several rows a person" in capsys.readouterr().err


@pytest.mark.parametrize("named", ["[regoin]", "[[region, region]]", "[region@state]", "region", "[3]"])
def test_a_schema_names_tables_that_it_has(named):
    with pytest.raises((SchemaError, UnknownAttributeError)):
        Schema.parse(SCHEMA.replace("[region@province, [sex, age]]", named))


def test_a_part_of_a_schema_has_the_tables_of_its_columns(folder):
    schema = Schema.load(folder / "people.yaml")
    assert schema.invariants == (("region@province",), ("sex", "age"))
    assert schema.select(["region", "sex"]).invariants == (("region@province",),)
    assert schema.select(["age"]).invariants == ()
