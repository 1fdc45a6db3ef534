"""Linked tables on the command line: from files to a schema, a check, synthetic files and a comparison."""

import json

import numpy as np
import pandas as pd
import pytest

import pgmest as pg
from pgmest import HowMany
from pgmest.cli.main import main

from ..synthesizer.test_linked import SURVEY, SURVEY_SCHEMA, survey_of


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
    files = ["--report", "report.html", "--owner-report", "PRIVATE.html", "--spent", "spent.json"]
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
    code, out, _ = run(capsys, "check", "new", "survey.yaml")
    assert "All rows join, and no rule is broken." in out
    code, _, err = run(capsys, *synthesize(folder, *TRIAL, "--out", "new"))
    assert code == 5
    assert "exists already: name another folder, or add --overwrite" in err
    code, _, err = run(capsys, *synthesize(folder, *TRIAL, "--out", "new", "--overwrite", "--model", "new"))
    assert code == 1
    assert "--model: new is a folder: name a file." in err
    (folder / "new" / "households.csv").unlink()
    (folder / "new" / "persons.csv").unlink()
    code, _, err = run(capsys, *synthesize(folder, *TRIAL, "--out", "new"))
    assert code == 5
    assert "new/model.npz exists already" in err


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The file of noisy answers of a survey."""
    path = tmp_path_factory.mktemp("made") / "model.npz"
    pg.Synthesizer(epsilon=3.0, backend="simulation").fit(survey_of(100), SURVEY_SCHEMA, seed=0).save(path)
    return path


def asked(capsys, model, *arguments):
    """Return the table that `pgmest query` writes, with all digits; on the terminal it has no more characters."""
    path = model.parent / "asked.csv"
    said = f"pgmest: {pg.load(model).rows_counted}\n"
    assert run(capsys, "query", model, *arguments, "--out", path, "--overwrite") == (0, "", said)
    code, out, err = run(capsys, "query", model, *arguments)
    assert (code, err) == (0, said)
    assert len(out) < len(path.read_text())
    return pd.read_csv(path)


CHILDREN = ["--how-many", "persons", "role=child"]


@pytest.mark.parametrize(
    ("arguments", "attributes", "options"),
    [
        (["persons:role,age"], ["role", "age"], {"table": "persons"}),
        (["persons:region", "--given", "age=30.."], "region", {"table": "persons", "given": {"age": (30, None)}}),
        (["households:region,persons"], ["region", "persons"], {}),
        (["region", "--given", "persons=2.."], "region", {"given": {"persons": (2, None)}}),
        (["region", "--given", "number of persons=2,3"], "region", {"given": {"persons": [2, 3]}}),
        (["persons"], (), {"table": "persons"}),
        (["households"], (), {}),
        (["persons.role,another of persons.role"], ["persons.role", "another of persons.role"], {}),
        (["households", *CHILDREN, "--most", "2"], HowMany("persons", {"role": "child"}, 2), {}),
        (["region", *CHILDREN], ["region", HowMany("persons", {"role": "child"})], {}),
        (
            ["region", *CHILDREN, "--measure", "mean"],
            [HowMany("persons", {"role": "child"}), "region"],
            {"measure": "mean"},
        ),
        (
            ["region", "--having", "persons", "age=..50", "role=child", "--measure", "share", "--level", "0.5"],
            "region",
            {
                "given": {HowMany("persons", {"age": (None, 50), "role": "child"}): (1, None)},
                "measure": "share",
                "level": 0.5,
            },
        ),
    ],
)
def test_questions_have_the_answers_of_the_synthesizer(model, capsys, arguments, attributes, options):
    printed = asked(capsys, model, *arguments)
    expected = pg.Synthesizer.load(model).interval(attributes, **options)
    numbers = list(expected.columns[-3:])
    assert [*printed.columns[-4:]] == [numbers[0], "+-", "low", "high"]
    assert np.allclose(printed[numbers], expected[numbers].astype(float), rtol=1e-4, equal_nan=True)
    for one, other in zip(printed.columns[:-4], expected.columns[:-3], strict=True):
        assert printed[one].astype(str).tolist() == expected[other].astype(str).tolist()
    value, reach, low, high = printed[[numbers[0], "+-", "low", "high"]].dropna().to_numpy().T
    assert np.all(value + 1.0001 * reach + 1e-4 >= high)
    assert np.all(value - 1.0001 * reach - 1e-4 <= low)


def test_json_and_answers_without_intervals(model, capsys):
    code, out, _ = run(capsys, "query", model, "region", "households", *CHILDREN, "--most", "1", "--json")
    assert code == 0
    both, alone = json.loads(out)
    name = "number of persons with role=child"
    assert both["labels"] == {"region": ["N", "S"], name: ["0", "1+"]}
    assert np.allclose(np.sum(both["counts"], axis=0), alone["counts"])
    assert np.shape(both["margin"]) == np.shape(both["low"]) == np.shape(both["high"]) == (2, 2)
    code, out, _ = run(capsys, "query", model, "persons:role", "--interval", "none")
    assert (code, out.splitlines()[0]) == (0, "role,count")
    code, out, _ = run(capsys, "query", model, "persons,region", "--given", "region=N", "--measure", "mean", "--json")
    assert json.loads(out)[0]["means"][1] is None  # a mean over no household


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["person:role"], "one of households, persons, pairs of persons"),
        (["person"], "'persons' is a table"),
        (["persons:rol"], "'rol' is not an attribute"),
        (["households:role"], "'role' is not an attribute"),
        (["role", "--measure", "share"], "this question is about rows of 'households'"),
        (["persons:region", *CHILDREN], "about its rows"),
        (["households", "--how-many", "role=child"], "a table first, such as --how-many persons"),
        (["households", "--how-many", "pets"], "table='pets' is not valid"),
        (["households", "--how-many", "persons", "role=chil"], "Did you mean 'child'?"),
        (["households", "--how-many", "persons", "child"], "NAME=VALUE"),
        (["households", "--how-many", "persons", "age=200.."], "but values are"),
        (["households", *CHILDREN, "--most", "0"], "most=0 is not valid"),
        (["households", *CHILDREN, "--most", "1", "--most", "2"], "one for each --how-many"),
        (["region", "--most", "2"], "one for each --how-many"),
        (["region", *CHILDREN, *CHILDREN], "the question names number of persons with role=child more than once"),
        (["households", "--having", "persons", "role=x"], "not one of its values"),
        (["region", "--given", "persons=many"], "a whole number, several, or a range"),
        (["region", "--given", "persons=9"], "leaves"),
        (["region", *CHILDREN, "--interval", "bounds"], "one of auto, errors, none for linked tables"),
        (["households", "--having", *CHILDREN[1:], "--measure", "share"], "so its share is 1"),
        (["per:son"], "TABLE='per' is not valid"),
        (["region", "--codes"], "--codes is for the model of a single table"),
        (["region", "--weighted"], "--weighted is for the model of a single table"),
        (["region", "--about", "population"], "must be table for linked tables"),
        (["region", "--level", "2"], "a number between 0 and 1"),
        (['["region"'], "a JSON list of names"),
        ([""], "attributes, or a table whose rows are counted"),
        (["region", "--measure", "mean"], "has no numbers to take the mean of"),
    ],
)
def test_questions_that_have_no_answer(model, capsys, arguments, match):
    code, out, err = run(capsys, "query", model, *arguments)
    assert (code, out) == (1, "") or code == 2
    assert match in " ".join(err.split())


def test_a_single_table_has_no_such_questions(tmp_path, capsys):
    path = tmp_path / "flat.npz"
    pg.Model(pg.CliqueVector.zeros(pg.Domain({"a": 2}), [("a",)]), 4.0).save(path)
    code, _, err = run(capsys, "query", path, "a", *CHILDREN)
    assert code == 1
    assert "--how-many is for linked tables" in " ".join(err.split())
    code, _, err = run(capsys, "sample", path, "--out", f"{tmp_path}/new/")
    assert code == 1
    assert "a folder is for linked tables" in " ".join(err.split())


def test_names_with_the_signs_of_the_notation(tmp_path, capsys):
    homes = pd.DataFrame({"hid": range(40), "x:y": ["N,1", "S=2"] * 20})
    people = pd.DataFrame({"hid": list(range(40)) * 2, "ro,le": ["a:b", "c"] * 40})
    schema = pg.Schema.from_dict(
        {
            "tables": {
                "a:b": {"key": "hid", "columns": {"x:y": {"type": "categorical", "values": ["N,1"], "other": "S=2"}}},
                "persons": {
                    "parent": "a:b",
                    "key": "hid",
                    "at_most": 3,
                    "columns": {"ro,le": {"type": "categorical", "values": ["a:b", "c"], "outside": "clip"}},
                },
            }
        }
    )
    made = pg.Synthesizer(epsilon=9.0, backend="simulation").fit({"a:b": homes, "persons": people}, schema, seed=0)
    made.save(tmp_path / "signs.npz")
    loaded = tmp_path / "signs.npz"
    regions = asked(capsys, loaded, "x:y")["count"].tolist()
    assert regions == asked(capsys, loaded, "a:b:x:y")["count"].tolist()
    assert regions == asked(capsys, loaded, '["x:y"]')["count"].tolist()
    assert regions[0] == asked(capsys, loaded, "a:b", "--given", 'x:y=["N,1"]')["count"][0]
    assert asked(capsys, loaded, 'persons:["ro,le"]')["ro,le"].tolist() == ["a:b", "c"]
    assert next(iter(asked(capsys, loaded, "a:b", "--how-many", "persons", "ro,le=a:b"))).endswith("with ro,le=a:b")


def test_a_file_of_linked_tables_can_be_sampled_and_described(model, tmp_path, capsys):
    out = tmp_path / "more"
    code, _, err = run(capsys, "sample", model, "--rows", "30", "--seed", "1", "--out", f"{out}/")
    assert code == 0
    assert "30 households, " in err
    homes, persons = (pd.read_csv(out / f"{name}.csv") for name in ("households", "persons"))
    assert persons.groupby("hid").size().tolist() == homes["persons"].tolist()
    code, _, err = run(capsys, "sample", model, "--out", f"{out}/")
    assert "exists already" in err
    code, _, err = run(capsys, "sample", model, "--out", tmp_path / "one.csv")
    assert "a folder, such as synthetic/" in err
    asked = ("--rows", "20", "--given", "region=N", "persons=2..")
    code, _, err = run(capsys, "sample", model, "--out", f"{tmp_path}/given/", *asked)
    assert code == 0, err
    homes = pd.read_csv(tmp_path / "given" / "households.csv")
    assert len(homes) == 20
    assert set(homes["region"]) == {"N"}
    assert min(homes["persons"]) >= 2
    (tmp_path / "flat.yaml").write_text("columns: {a: {type: boolean}}")
    (tmp_path / "other.yaml").write_text(SURVEY.replace("[head, child, other]", "[head, child]"))
    code, _, err = run(capsys, "sample", model, "--out", f"{out}2/", "--schema", tmp_path / "flat.yaml")
    assert "--schema is for the model of a single table" in err
    code, _, err = run(capsys, "query", model, "region", "--schema", tmp_path / "other.yaml")
    assert "other.yaml is not the schema of " in err
    code, text, _ = run(capsys, "info", model)
    assert "pairs of persons: " in text
    assert "households.region (2)" in text
    code, text, _ = run(capsys, "info", model, "--json")
    assert json.loads(text)["counted"]["persons"]["domain"]["persons.role"] == 3
    code, _, err = run(capsys, "compare", out / "persons.csv", model, "--schema", tmp_path / "no.yaml")
    assert code == 1


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
        "tables: {a/homes: {key: hid}, persons: {parent: a/homes, key: hid, at_most: 4, columns: "
        "{age: {type: integer, min: 0, max: 99}}}}"
    )
    arguments = ["--schema", "other.yaml", "--epsilon", "1", "--out", "out/"]
    code, _, err = run(capsys, "synthesize", "persons=persons.csv", *arguments)
    assert code == 1
    assert "the name of table 'a/homes' cannot be that of a file" in err
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


def test_a_checkpoint_belongs_to_its_tables(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    arguments = ["synthesize", *given(folder), "--schema", "survey.yaml", "--epsilon", "1", "--checkpoint", "night"]
    assert run(capsys, *arguments, "--out", "monday")[0] == 0
    code, _, err = run(capsys, *arguments, "--out", "again")
    assert (code, "night: this run ended on 20" in err) == (0, True)
    for name in ("households", "persons"):
        assert (folder / "again" / f"{name}.csv").read_text() == (folder / "monday" / f"{name}.csv").read_text()
    survey_of(60)["persons"].assign(age=50).to_csv("persons.csv", index=False)
    code, _, err = run(capsys, *arguments, "--out", "tuesday")
    assert (code, "run on other records" in err) == (1, True)
    assert not (folder / "tuesday").exists()
