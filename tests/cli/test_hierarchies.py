"""A hierarchy from the file of a schema through synthesis, files and commands to answers with labels."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pgmest as pg
from pgmest.cli.main import main
from pgmest.errors import QueryError, UnknownAttributeError
from pgmest.schema import Schema

SCHEMA = """\
columns:
  dx: {type: categorical, values: {file: codes.csv, column: code, levels: [chapter, block]}, other: other}
  sex: {type: categorical, values: [F, M], missing: true}
  seen: {type: date, min: 2020-01-01, max: 2021-12-31, unit: month, hierarchy: [year, quarter]}
"""
BLOCKS = {"I": ["A0", "A1"], "II": ["C0", "C1", "C2"]}
CODES = [(f"{block}{last}", chapter, block) for chapter, some in BLOCKS.items() for block in some for last in range(4)]
TRIAL = ["--insecure-simulation", "--seed", "0", "--epsilon", "20"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("areas")
    rng = np.random.default_rng(0)
    codes = [code for code, *_ in CODES]
    frame = pd.DataFrame({"dx": rng.choice(codes, size=2000, p=rng.dirichlet(np.ones(len(codes))))})
    frame["sex"] = np.where(frame["dx"].str[0] == "A", rng.choice(["F", "M"], 2000), "F")
    frame["seen"] = pd.Timestamp("2020-01-05") + pd.to_timedelta(rng.integers(0, 700, 2000), unit="D")
    frame.loc[:9, ["dx", "sex"]] = ["Z99", None]
    frame.to_csv(folder / "people.csv", index=False)
    pd.DataFrame(CODES, columns=["code", "chapter", "block"]).to_csv(folder / "codes.csv", index=False)
    (folder / "people.yaml").write_text(SCHEMA)
    paths = [str(folder / "people.csv"), "--schema", str(folder / "people.yaml")]
    named = ["--workload", "dx@chapter,sex", "dx@block,sex", "dx,sex", "seen@quarter,dx@chapter"]
    made = ["--out", str(folder / "synthetic.csv"), "--model", str(folder / "model.npz")]
    assert main(["synthesize", *paths, *TRIAL, *named, *made]) == 0
    (folder / "codes.csv").unlink()  # neither the model nor its schema needs it
    return folder


def printed(arguments: list[str], capsys) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(arguments) == 0
    return list(csv.DictReader(capsys.readouterr().out.splitlines()))


def test_commands_answer_by_level_with_labels(folder, capsys):
    model = str(folder / "model.npz")
    rows = printed(["query", model, "dx@chapter,sex"], capsys)
    assert [(row["dx@chapter"], row["sex"]) for row in rows[:4]] == [
        ("I", "F"),
        ("I", "M"),
        ("I", "missing"),
        ("II", "F"),
    ]
    assert {row["dx@chapter"] for row in rows} == {"I", "II", "other"}
    frame = pd.read_csv(folder / "people.csv").assign(chapter=lambda t: t["dx"].str[0].map({"A": "I", "C": "II"}))
    for row in rows:
        sex = frame["sex"].isna() if row["sex"] == "missing" else frame["sex"] == row["sex"]
        chapter = frame["chapter"].fillna("other") == row["dx@chapter"]
        assert abs(float(row["count"]) - (sex & chapter).sum()) < 15
        assert float(row["low"]) <= float(row["count"]) <= float(row["high"])
    by_code = printed(["query", model, "sex", "--given", "dx=A00,A01,A02,A03"], capsys)
    by_block = printed(["query", model, "sex", "--given", "dx@block=A0"], capsys)
    assert [row["count"] for row in by_code] == [row["count"] for row in by_block]
    within = printed(["query", model, "dx@block", "--given", "dx@chapter=II"], capsys)
    assert [row["dx@block"] for row in within if float(row["count"]) > 1e-6] == BLOCKS["II"]
    plain = printed(["query", model, "dx@chapter,sex", "--codes"], capsys)
    assert [(row["dx@chapter"], row["sex"]) for row in plain[:2]] == [("0", "0"), ("0", "1")]
    assert [row["count"] for row in plain] == [row["count"] for row in rows]


def test_a_model_without_levels_takes_those_of_a_schema(folder, tmp_path, capsys):
    model = pg.load(folder / "model.npz")
    described = {**model.about["schema"], "columns": {**model.about["schema"]["columns"]}}
    described["columns"]["dx"] = {k: v for k, v in described["columns"]["dx"].items() if k != "hierarchy"}
    (tmp_path / "people.json").write_text(json.dumps(model.about["schema"]))
    noisy = [pg.LinearMeasurement(model.project(("dx", "sex")).values, ("dx", "sex"), 1.0)]
    pg.estimate(noisy, dict(model.domain)).save(tmp_path / "old.npz")
    rows = printed(
        ["query", str(tmp_path / "old.npz"), "dx@chapter", "--schema", str(tmp_path / "people.json")], capsys
    )
    assert [row["dx@chapter"] for row in rows] == ["I", "II", "other"]
    assert main(["query", str(tmp_path / "old.npz"), "dx@chapter"]) == 1
    assert "hierarchy" in capsys.readouterr().err


def test_a_model_of_codes_shows_the_labels_of_its_own_levels(tmp_path, capsys):
    tree = pg.Hierarchy("code", {"chapter": ["x", "x", "y"]})
    domain = pg.Domain({"code": 3, "sex": 2}).with_hierarchies(tree)
    noisy = [pg.LinearMeasurement(np.full((3, 2), 10.0), ("code", "sex"), 1.0)]
    pg.estimate(noisy, domain).save(tmp_path / "model.npz")
    rows = printed(["query", str(tmp_path / "model.npz"), "code@chapter", "--given", "sex=1"], capsys)
    assert [row["code@chapter"] for row in rows] == ["x", "y"]
    rows = printed(["query", str(tmp_path / "model.npz"), "sex", "--given", "code@chapter=y"], capsys)
    assert [float(row["count"]) for row in rows] == pytest.approx([10.0, 10.0])


def test_compare_info_and_plan_know_levels(folder, capsys):
    model, schema = str(folder / "model.npz"), folder / "people.json"
    schema.write_text(json.dumps(pg.load(model).about["schema"]))
    tables = [str(folder / "people.csv"), str(folder / "synthetic.csv"), "--schema", str(schema)]
    assert main(["compare", *tables]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} (" in text for name in ("dx@chapter", "dx@block", "dx", "seen@year", "seen@quarter"))
    assert main(["compare", *tables, "--workload", "dx@chapter,sex", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["marginals"][0]["attributes"] == ["dx@chapter", "sex"]
    errors = {one["name"]: one["error"] for one in found["levels"]}
    assert errors["dx@chapter"] <= errors["dx@block"] <= errors["dx"] < 0.1
    assert main(["compare", tables[0], model, "--schema", str(schema), "--workload", "dx@chapter"]) == 0
    assert "dx@chapter" in capsys.readouterr().out
    assert main(["info", model]) == 0
    assert "3 dx@chapter > 6 dx@block > 21 dx; chapter: I | II | other" in capsys.readouterr().out
    assert main(["info", model, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hierarchies"]["dx"]["chapter"] == ["I", "II", "other"]
    (folder / "people2.yaml").write_text(schema.read_text())
    assert main(["info", str(folder / "people2.yaml")]) == 0
    assert "8 seen@quarter" in capsys.readouterr().out
    plan = ["plan", str(folder / "people2.yaml"), "--quick", "--epsilon", "1", "--workload", "dx@chapter,sex"]
    assert main(plan) == 0
    assert "dx@chapter x sex" in capsys.readouterr().out
    assert main([*plan, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tables"]


def test_a_synthesizer_answers_by_level_after_saving_and_loading(folder, tmp_path):
    schema = Schema.from_dict(pg.load(folder / "model.npz").about["schema"])
    fitted = pg.Synthesizer(epsilon=20.0, backend="simulation").fit(
        pd.read_csv(folder / "people.csv"), schema, [("dx@chapter", "sex"), ("dx", "sex")], seed=0, progress=False
    )
    fitted.save(tmp_path / "model.npz")
    again = pg.Synthesizer.load(tmp_path / "model.npz")
    assert again.schema_.domain.hierarchies == fitted.schema_.domain.hierarchies
    assert again.model_.domain.hierarchies == fitted.model_.domain.hierarchies != {}
    for one in (fitted, again):
        table = one.interval(("dx@chapter", "sex"), given={"seen@year": 2020})
        assert list(table.columns) == ["dx@chapter", "sex", "count", "low", "high"]
        assert table["dx@chapter"].tolist() == [c for c in ("I", "II", "other") for _ in range(3)]
        assert ((table["low"] <= table["count"]) & (table["count"] <= table["high"])).all()
        alone = one.project(("dx@chapter", "sex"), given={"seen@year": 2020})
        assert alone.equals(table[["dx@chapter", "sex", "count"]])
        drawn = one.sample(300, seed=0, given={"dx@chapter": ["I"], "seen@year": "2021"})
        assert set(drawn["dx"].str[0]) == {"A"}
        assert set(drawn["seen"].dt.year) == {2021}
    encoded = schema.encode(fitted.sample(seed=0))
    assert encoded.project("dx@chapter").values.sum() == encoded.records
    evidence = schema.evidence({"dx@chapter": "II"})
    assert evidence == {"dx@chapter": 1}
    chapter = fitted.model_.project("sex", given=evidence)
    assert np.allclose(chapter.values, fitted.model_.project(("dx@chapter", "sex")).values[1])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"dx@chapter": "III"}, QueryError, r"not one of its groups \(I, II, other\)"),
        ({"dx@chapter": "OTHER"}, QueryError, "Did you mean 'other'"),
        ({"dx@chapter": ("I", "II")}, QueryError, "not a range"),
        ({"dx@chapter": None}, QueryError, "asks for missing values of 'dx'"),
        ({"dx@chapter": []}, QueryError, "no group"),
        ({"dx@chapter": "I", "dx": "A00"}, QueryError, "give one of them"),
        ({"dx@chapter": "I", "dx@block": "A0"}, QueryError, "give one of them"),
        ({"dx@chapters": "I"}, UnknownAttributeError, "dx@chapter"),
        ({"sex@chapter": "I"}, UnknownAttributeError, "no hierarchy of 'sex' is known"),
    ],
)
def test_conditions_on_levels_that_cannot_be_are_refused(folder, given, error, message):
    loaded = pg.Synthesizer.load(folder / "model.npz")
    for use in (loaded.schema_.evidence, lambda found: loaded.sample(5, seed=0, given=found)):
        with pytest.raises(error, match=message):
            use(given)


@pytest.mark.parametrize("mechanism", ["lamp", "aim"])
def test_a_level_may_matter_in_plans_and_runs(folder, mechanism, capsys):
    (folder / "codes.csv").write_text("\n".join([*map(",".join, [("code", "chapter", "block"), *CODES])]))
    schema = str(folder / "people.yaml")
    wanted = ["--matters", "sex,dx@chapter", "--mechanism", mechanism, "--epsilon", "5"]
    assert main(["plan", schema, "--records-expected", "2000", "--quick", "--json", *wanted]) == 0
    ((matters, measured),) = [
        (tuple(one["clique"]), one["measured"]) for one in json.loads(capsys.readouterr().out)["matters"]
    ]
    assert matters in {("dx@chapter", "sex"), ("dx", "sex")}
    assert measured
    run = [
        "synthesize",
        str(folder / "people.csv"),
        "--schema",
        schema,
        "--out",
        str(folder / "out.csv"),
        "--overwrite",
    ]
    assert main([*run, *wanted, "--insecure-simulation", "--seed", "0"]) == 0
    assert "dx@chapter x sex: measured" in capsys.readouterr().out
    assert main(["plan", schema, "--epsilon", "5", "--matters", "sex,dx@chapters"]) != 0
    assert "chapters" in capsys.readouterr().err
