"""Linked tables on the command line: from files to a schema, a check, synthetic files and a comparison."""

import json

import pandas as pd
import pytest

from pgmest.cli.main import main

from ..synthesizer.test_linked import SURVEY, survey_of


@pytest.fixture
def folder(tmp_path):
    for name, frame in survey_of(60).items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "survey.yaml").write_text(SURVEY)
    return tmp_path


def given(folder):
    return [f"{name}={folder / name}.csv" for name in ("households", "persons")]


def run(capsys, *arguments):
    code = main([str(one) for one in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_draft_is_a_schema_of_both_tables(folder, capsys):
    code, out, err = run(capsys, "schema", *given(folder))
    assert code == 0
    assert "parent: households" in out
    assert "at_most: 4" in out
    assert "READ FROM THE PRIVATE DATA" in err
    code, whole, _ = run(capsys, "schema", folder)  # a folder, of which the schema is no table
    assert (code, whole) == (0, out)


def test_a_check_counts_what_does_not_join(folder, capsys):
    code, out, _ = run(capsys, "check", *given(folder), folder / "survey.yaml")
    assert code == 0
    assert "how the tables join" in out
    assert "persons is the number of persons: 60 of 60 rows (100 %) break it" in out
    code, out, err = run(capsys, "check", *given(folder), folder / "survey.yaml", "--json", "--strict")
    assert code == 1
    assert json.loads(out)["joins"]["persons"]["parents_by_size"] == [0, 15, 15, 15, 15]
    assert "does not fit" in err


def test_info_says_how_the_tables_hang_together(folder, capsys):
    _, out, _ = run(capsys, "info", folder / "survey.yaml")
    for text in (
        "protected: one row of 'households'",
        "table persons, at most 6 for a row of households; key: hid",
        "older: {role: head",
    ):
        assert text in out
    _, out, _ = run(capsys, "info", folder / "survey.yaml", "--json")
    assert json.loads(out)["tables"]["persons"]["within"][0] == "exactly: {role: head, count: 1}"


@pytest.mark.usefixtures("blank_pictures")
def test_tables_are_compared_with_a_folder_of_others(folder, capsys):
    (folder / "other").mkdir()
    frames = survey_of(60)
    frames["households"].to_parquet(folder / "other" / "households.parquet")
    frames["persons"].assign(age=50).to_csv(folder / "other" / "persons.csv", index=False)
    arguments = ["compare", *given(folder), folder / "other", "--schema", folder / "survey.yaml"]
    code, out, _ = run(capsys, *arguments, "--worst", "3")
    assert code == 0
    assert "households: 60 and 60 rows" in out
    assert "within_alike" in out
    assert "broken by 0 of the first and 45 of the second: older" in out
    code, out, _ = run(capsys, *arguments, "--json")
    held = json.loads(out)
    assert held["rows"] == {"households": [60, 60], "persons": [150, 150]}
    assert held["errors"]["persons"]["size"] == 0
    assert held["errors"]["persons"]["within"] > 0.1
    code, _, err = run(capsys, *arguments, "--report", folder / "PRIVATE.html")
    assert code == 0
    assert "as private as" in err
    assert "persons: one attribute at a time" in (folder / "PRIVATE.html").read_text()


def synthesize(folder, *further):
    return ["synthesize", *given(folder), "--schema", folder / "survey.yaml", "--epsilon", "1", *further]


TRIAL = ["--insecure-simulation", "--seed", "0"]


@pytest.mark.usefixtures("blank_pictures")
def test_synthetic_files_join_and_fit_the_schema(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    files = ["--report", "report.html", "--owner-report", "PRIVATE.html", "--spent", "spent.json", "--model", "models"]
    code, out, err = run(capsys, *synthesize(folder, *TRIAL, "--out", "new", "--rows", "50", *files))
    assert code == 0
    assert "50 households, " in out
    assert "one row of 'households' and all that hangs on it" in out
    assert "NOT private" in err
    households, persons = (pd.read_csv(folder / "new" / f"{name}.csv") for name in ("households", "persons"))
    assert set(persons["hid"]) == set(households["hid"])
    assert persons.groupby("hid").size().tolist() == households["persons"].tolist()
    assert persons.loc[persons["role"] == "head", "hid"].tolist() == households["hid"].tolist()
    assert json.loads((folder / "spent.json").read_text())
    assert "The promise of privacy" in (folder / "report.html").read_text()
    assert "within" in (folder / "PRIVATE.html").read_text()
    code, out, _ = run(capsys, "query", "models/pairs_of_persons.npz", "persons.role,another of persons.role")
    assert code == 0
    assert out.splitlines()[0].startswith("persons.role,another of persons.role,count")
    assert "head,child," in out
    code, _, err = run(capsys, "query", "models/persons.npz", "persons.role,another of persons.role")
    assert code == 1
    assert "models/pairs_of_persons.npz has the counts: query that file" in " ".join(err.split())
    code, out, _ = run(capsys, "check", "new", "survey.yaml")
    assert "All rows join, and no rule is broken." in out
    code, _, err = run(capsys, *synthesize(folder, *TRIAL, "--out", "new"))
    assert code == 1
    assert "exists already: name another folder, or add --overwrite" in err
    code, _, err = run(capsys, *synthesize(folder, *TRIAL, "--out", "new", "--overwrite", "--model", "report.html"))
    assert code == 1
    assert "a folder, for a model of each table" in err


def test_parquet_stays_parquet_and_json_has_the_facts(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    for name, frame in survey_of(60).items():
        (folder / "in").mkdir(exist_ok=True)
        frame.to_parquet(folder / "in" / f"{name}.parquet")
    budget = ["--schema", "survey.yaml", "--rho", "0.1", "--out", "new/", "--json"]
    code, out, _ = run(capsys, "synthesize", "in", *budget, *TRIAL)
    assert code == 0
    facts = json.loads(out)
    assert facts["rows"]["households"] == len(pd.read_parquet(folder / "new" / "households.parquet"))
    assert facts["protected"].startswith("one row of 'households'")
    assert facts["rho"] == 0.1
    assert not facts["private"]
    assert pd.read_parquet(folder / "new" / "persons.parquet").columns.tolist() == ["age", "role", "hid"]


def test_a_plan_needs_no_tables(folder, capsys):
    arguments = ["plan", folder / "survey.yaml", "--epsilon", "1", "--records-expected", "200"]
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "rehearsed on 200 made-up units" in out
    assert "within_alike" in out
    code, out, _ = run(capsys, *arguments, "--json")
    plan = json.loads(out)
    assert plan["units_rehearsed"] == 200
    assert 0 < plan["errors"]["persons"]["marginals"] < 1
    code, _, err = run(capsys, *arguments[:2], "--epsilon", "1", "--matters", "age,role")
    assert code == 1
    assert "--matters is for a single table" in err


@pytest.mark.parametrize(
    ("further", "match"),
    [
        (["--out", "new/", "--workload", "age"], "--workload is for a single table"),
        (["--out", "new/", "--matters", "age,role"], "--matters is for a single table"),
        (["--out", "new/", "--mechanism", "mst"], "lamp, the mechanism for linked tables"),
        (["--out", "new.csv"], "a folder, such as synthetic/"),
        (["--out", "-"], "a folder, such as synthetic/"),
        (["--out", "deep/new/"], "create it first"),
        (["--out", "."], "is the private table 'households' itself"),
    ],
)
def test_arguments_that_linked_tables_do_not_have_are_refused(folder, capsys, monkeypatch, further, match):
    monkeypatch.chdir(folder)
    code, _, err = run(capsys, *synthesize(folder, *further))
    assert code == 1
    assert match in err
    assert not (folder / "new").exists()


@pytest.mark.parametrize(
    ("tables", "match"),
    [
        (["households.csv", "persons.csv"], "say which, NAME=FILE, such as households="),
        (["nowhere"], "'nowhere' does not exist"),
        (["households=households.csv"], "there is no table persons"),
        (["households=households.csv", "people=persons.csv"], "there is no table persons"),
        (
            ["households=households.csv", "persons=persons.csv", "pets=persons.csv"],
            "pets, which the schema does not have",
        ),
        (["households=households.csv", "persons=persons.csv", "persons=persons.csv"], "was given twice"),
        (["persons=missing.csv", "households=households.csv"], "missing.csv"),
    ],
)
def test_tables_without_names_are_refused(folder, capsys, monkeypatch, tables, match):
    monkeypatch.chdir(folder)
    code, _, err = run(capsys, "check", *tables, "survey.yaml")
    assert code == 1
    assert match in err


def test_a_table_is_not_written_outside_of_its_folder(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "other.yaml").write_text(
        "tables: {../homes: {key: hid}, persons: {parent: ../homes, key: hid, at_most: 4, columns: "
        "{age: {type: integer, min: 0, max: 99}}}}"
    )
    arguments = ["--schema", "other.yaml", "--epsilon", "1", "--out", "out/"]
    code, _, err = run(capsys, "synthesize", "persons=persons.csv", *arguments)
    assert code == 1
    assert "the name of table '../homes' cannot be that of a file" in err
    assert not (folder / "out").exists()


def test_a_schema_of_one_table_takes_one_file(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "flat.yaml").write_text("columns: {region: {type: categorical, values: [N, S], outside: clip}}")
    for tables in (["households.csv", "persons.csv"], ["households=households.csv"]):
        code, _, err = run(capsys, "check", *tables, "flat.yaml")
        assert code == 1
        assert "give one file, without NAME=" in err
    flat = ["synthesize", "households.csv", "--schema", "flat.yaml", "--epsilon", "1", "--out", "new/"]
    code, _, err = run(capsys, *flat)
    assert code == 1
    assert "a folder is for linked tables" in err
    (folder / "a=b.csv").write_text((folder / "households.csv").read_text())
    assert run(capsys, "check", "a=b.csv", "flat.yaml")[0] == 0
