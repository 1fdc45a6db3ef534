"""The commands about raw tables: schema, synthesize, compare, audit, and values instead of codes."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pgmest as pg
from pgmest.cli.main import main

SCHEMA = """\
columns:
  Sex: {type: categorical, values: [F, M], other: x, missing: true}
  age: {type: integer, min: 0, max: 99, width: 10, missing: [unknown]}
  "Income (EUR)": {type: real, min: 0, max: 100000, bins: 5, decimals: 2, missing: true}
  born: {type: date, min: 1920-01-01, max: 2029-12-31, unit: year, width: 10}
  "city, state": {type: categorical, values: ["Berlin, BE", "Köln, NW"], other: elsewhere}
constraints:
  - impossible: {age: {max: 9}, "Income (EUR)": {min: 20000}}
"""
TRIAL = ["--insecure-simulation", "--seed", "0", "--rho", "0.5", "--mechanism", "mst"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a messy table (gaps, strings, dates, commas, Windows line ends, a byte order mark) and a schema."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    with (folder / "people.csv").open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, lineterminator="\r\n")
        writer.writerow(["id", "Sex", "age", "Income (EUR)", "born", "city, state"])
        for row in range(2000):
            age = int(rng.integers(0, 100))
            income = "" if rng.random() < 0.1 or age < 10 else f"{rng.uniform(200, 900) * (20 + age):.2f}"
            writer.writerow(
                [
                    f"P{row:05d}",
                    rng.choice(["F", "M", "?", ""], p=[0.48, 0.48, 0.02, 0.02]),
                    "unknown" if rng.random() < 0.02 else age,
                    income,
                    f"{2023 - age}-{rng.integers(1, 13):02d}-11",
                    rng.choice(["Berlin, BE", "Köln, NW", "Bonn, NW"]),
                ]
            )
    (folder / "people.yaml").write_text(SCHEMA, encoding="utf-8")
    assert main(["synthesize", *paths(folder), *TRIAL, "--out", str(folder / "synthetic.csv"), *outputs(folder)]) == 0
    return folder


def paths(folder: Path) -> list[str]:
    return [str(folder / "people.csv"), "--schema", str(folder / "people.yaml")]


def outputs(folder: Path) -> list[str]:
    names = {"--model": "model.npz", "--spent": "spent.json"}
    return [text for option, name in names.items() for text in (option, str(folder / name))]


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def failure(arguments: list[str], capsys, code: int = 1) -> str:
    capsys.readouterr()
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert captured.out == "" or ("--json" in arguments and list(json.loads(captured.out)) == ["error"])
    assert captured.err.startswith("pgmest: error: ")
    return captured.err.removeprefix("pgmest: error: ").rstrip("\n")


def wrong_usage(arguments: list[str], capsys) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    return capsys.readouterr().err


# -- schema ---------------------------------------------------------------------------------------------------------


def test_schema_drafts_to_standard_output_and_warns(folder, capsys):
    assert main(["schema", str(folder / "people.csv")]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("# A DRAFT, GUESSED FROM THE RECORDS.")
    assert pg.Schema.parse(captured.out).drafted
    assert captured.err.startswith("pgmest: this draft was READ FROM THE PRIVATE DATA.")


def test_schema_does_not_overwrite_what_may_have_been_edited(folder, capsys):
    target = folder / "drafted.yaml"
    assert main(["schema", str(folder / "people.csv"), "--out", str(target)]) == 0
    target.write_text("edited")
    assert "drafted.yaml exists already: name another file, or add --overwrite." in failure(
        ["schema", str(folder / "people.csv"), "--out", str(target)], capsys, code=5
    )
    assert target.read_text() == "edited"
    assert main(["schema", str(folder / "people.csv"), "--out", str(target), "--overwrite"]) == 0
    assert pg.Schema.load(target).drafted


def test_a_draft_must_be_edited_before_it_is_used(folder, tmp_path, capsys):
    draft = tmp_path / "draft.yaml"
    draft.write_text("drafted_from_private_data: true\n" + SCHEMA)
    arguments = ["synthesize", str(folder / "people.csv"), "--schema", str(draft), *TRIAL]
    arguments += ["--out", str(tmp_path / "x.csv")]
    message = failure(arguments, capsys)
    assert message.startswith(f"{draft} still says drafted_from_private_data: true.")
    assert not (tmp_path / "x.csv").exists()
    assert main([*arguments, "--allow-draft"]) == 0
    assert "NOT private" in capsys.readouterr().err


def test_a_summary_of_the_ledger_names_the_option_that_prints_all(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("pgmest.privacy.ledger.MOST_LISTED", 1)
    run = ["synthesize", *paths(folder), "--mechanism", "independent", "--rho", "0.5", "--rows", "10", "--out"]
    for options, told in (([], True), (["--all"], False)):
        assert main([*run, str(tmp_path / f"{told}.csv"), *options]) == 0
        out = capsys.readouterr().out
        assert ("--all prints each of the " in out) is told
        assert "details()" not in out


def test_info_shows_a_schema(folder, capsys):
    assert main(["info", str(folder / "people.yaml")]) == 0
    text = capsys.readouterr().out
    assert "Sex                4 codes  F | M | x | missing" in text
    assert "age               11 codes  0..9 | 10..19 | 20..29 | ... | 90..99 | missing" in text
    assert "4 of 66 combinations of age, Income (EUR) cannot occur" in text
    assert main(["info", str(folder / "people.yaml"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["domain"] == {"Sex": 4, "age": 11, "Income (EUR)": 6, "born": 11, "city, state": 3}
    assert facts["impossible"] == [{"attributes": ["age", "Income (EUR)"], "combinations": 4}]


# -- synthesize -----------------------------------------------------------------------------------------------------


def test_values_have_their_original_types(folder):
    rows = rows_of(folder / "synthetic.csv")
    assert list(rows[0]) == ["Sex", "age", "Income (EUR)", "born", "city, state"]
    assert {row["Sex"] for row in rows} == {"F", "M", "x", ""}
    assert {row["city, state"] for row in rows} == {"Berlin, BE", "Köln, NW", "elsewhere"}
    assert all(row["age"] == "unknown" or 0 <= int(row["age"]) < 100 for row in rows)  # as the schema writes gaps
    assert all(row["Income (EUR)"] == "" or 0 <= float(row["Income (EUR)"]) <= 100000 for row in rows)
    assert all(1920 <= int(row["born"][:4]) <= 2029 and len(row["born"]) == 10 for row in rows)
    assert len(rows) == pytest.approx(2000, abs=50)


def test_what_cannot_occur_does_not(folder):
    rows = rows_of(folder / "synthetic.csv")
    assert not [row for row in rows if row["age"] in set("0123456789") and float(row["Income (EUR)"] or 0) > 20000]


def test_a_mechanism_that_cannot_exclude_the_impossible_says_so(folder, tmp_path, capsys):
    options = ["--insecure-simulation", "--rho", "1", "--mechanism", "privbayes", "--out", str(tmp_path / "x.csv")]
    options += ["--parameter", "estimator=original"]
    assert main(["synthesize", *paths(folder), *options]) == 0
    assert "impossible may occur in the table (not honored: " in capsys.readouterr().err


def test_the_budget_spent_and_the_model_are_written(folder):
    ledger = json.loads((folder / "spent.json").read_text())
    assert ledger["budget"] == {"type": "Rho", "rho": 0.5}
    assert ledger["insecure"] is True
    assert pg.load(folder / "model.npz").domain == pg.Schema.load(folder / "people.yaml").domain


def test_secure_noise_is_the_default_and_no_seed_fixes_it(folder, tmp_path, capsys):
    budget = ["--epsilon", "1", "--delta", "0"]
    arguments = ["synthesize", *paths(folder), *budget, "--mechanism", "independent", "--seed", "0"]
    made = []
    for name in ("one.csv", "two.csv"):
        assert main([*arguments, "--out", str(tmp_path / name), "--json"]) == 0
        captured = capsys.readouterr()
        facts = json.loads(captured.out)
        assert facts["private"] is True
        assert facts["ledger"]["budget"] == {"type": "Epsilon", "epsilon": 1.0}
        assert (facts["promise"], facts["delta"]) == ("1-differential privacy", 0.0)
        assert "NOT private" not in captured.err
        made.append((tmp_path / name).read_text())
    assert made[0] != made[1]


def test_a_simulation_is_repeatable_and_says_what_it_is(folder, tmp_path, capsys):
    assert main(["synthesize", *paths(folder), *TRIAL, "--out", str(tmp_path / "again.csv")]) == 0
    captured = capsys.readouterr()
    assert (tmp_path / "again.csv").read_text() == (folder / "synthetic.csv").read_text()
    assert "INSECURE" in captured.out
    assert captured.err.endswith("pgmest: the result is NOT private: simulated noise.\n")


def test_rows_and_workload_and_parameters(folder, tmp_path, capsys):
    options = ["--rows", "7", "--workload", "Sex,age", "--parameter", "threshold=0", "--out", str(tmp_path / "x.csv")]
    assert main(["synthesize", *paths(folder), *TRIAL, *options]) == 0
    assert len(rows_of(tmp_path / "x.csv")) == 7
    assert "Sex x age" in capsys.readouterr().out


def test_the_budget_asked_for_is_named(folder, tmp_path, capsys):
    options = ["--insecure-simulation", "--epsilon", "2", "--mechanism", "mst", "--out", str(tmp_path / "x.csv")]
    assert main(["synthesize", *paths(folder), *options]) == 0
    assert "NOT PRIVATE ((2, 1e-09)-differential privacy, spent as 0.0" in capsys.readouterr().out


def test_pages(folder, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    (tmp_path / "sex.yaml").write_text("columns:\n  Sex: {type: categorical, values: [F, M], other: x}\n")
    pages = ["--report", str(tmp_path / "report.html"), "--owner-report", str(tmp_path / "PRIVATE.html")]
    options = ["--insecure-simulation", "--rho", "1", "--mechanism", "independent", "--out", str(tmp_path / "x.csv")]
    files = [str(folder / "people.csv"), "--schema", str(tmp_path / "sex.yaml")]
    assert main(["synthesize", *files, *options, *pages]) == 0
    assert "do NOT publish it" in capsys.readouterr().err
    assert "without access to the private data" in (tmp_path / "report.html").read_text()
    assert "do not publish them" in (tmp_path / "PRIVATE.html").read_text()


def test_a_private_page_must_be_named_so(folder, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    arguments = ["synthesize", *paths(folder), *TRIAL, "--out", "-", "--owner-report", str(tmp_path / "report.html")]
    assert "its name must contain 'private', such as PRIVATE-report.html" in wrong_usage(arguments, capsys)


@pytest.mark.parametrize("seed", [[], ["--seed", "3"]])
def test_a_checkpoint_pays_once(seed, folder, tmp_path):
    arguments = ["synthesize", *paths(folder), "--rho", "1", "--mechanism", "independent"]
    arguments += ["--checkpoint", str(tmp_path / "journal")]
    for name in ("one.csv", "two.csv"):
        assert main([*arguments, *seed, "--out", str(tmp_path / name)]) == 0
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "two.csv").read_text()


def test_a_fixed_checkpoint_never_publishes_the_answers_about_another_file(folder, tmp_path, capsys):
    table, text = tmp_path / "people.csv", (folder / "people.csv").read_bytes()
    table.write_bytes(text)
    arguments = ["synthesize", str(table), "--schema", str(folder / "people.yaml"), "--rho", "1"]
    arguments += ["--mechanism", "independent", "--checkpoint", str(tmp_path / "night"), "--seed", "3"]
    assert main([*arguments, "--out", str(tmp_path / "monday.csv")]) == 0
    assert "ended on" not in capsys.readouterr().err
    assert main([*arguments, "--out", str(tmp_path / "again.csv")]) == 0
    assert "night: this run ended on 20" in capsys.readouterr().err
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "monday.csv").read_text()
    table.write_bytes(text.replace(b",F,", b",M,", 1))  # a file of the same size
    assert len(table.read_bytes()) == len(text)
    assert main([*arguments, "--out", str(tmp_path / "tuesday.csv")]) == 1
    assert "has the answers of a run on other records: nothing was asked or paid" in capsys.readouterr().err
    assert not (tmp_path / "tuesday.csv").exists()


def test_an_interrupted_run_writes_what_it_has(folder, tmp_path, monkeypatch, capsys):
    from pgmest.privacy import Curator

    def interrupted(self, *args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(Curator, "select", interrupted)
    assert main(["synthesize", *paths(folder), *TRIAL, "--out", str(tmp_path / "early.csv")]) == 130
    assert capsys.readouterr().err.endswith("pgmest: interrupted.\n")
    assert len(rows_of(tmp_path / "early.csv")) > 1000


def test_from_a_pipe_into_a_pipe(folder):
    command = [
        sys.executable,
        "-m",
        "pgmest",
        "synthesize",
        "-",
        "--schema",
        str(folder / "people.yaml"),
        "--rows",
        "5",
    ]
    with (folder / "people.csv").open("rb") as table:
        run = subprocess.run(
            [*command, *TRIAL, "--out", "-", "--json"], stdin=table, capture_output=True, check=True, encoding="utf-8"
        )
    rows = list(csv.DictReader(io.StringIO(run.stdout)))
    assert len(rows) == 5
    (facts,) = (line for line in run.stderr.splitlines() if line.startswith("{"))  # kernels may compile
    assert json.loads(facts)["rows"] == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--rho": None}, "no privacy budget: give --epsilon, such as --epsilon 1, or --rho."),
        ({"--rho": "-1"}, "rho=-1.0 is not valid"),
        ({"--mechanism": "magic"}, "mechanism='magic' is not valid: it must be one of 'aim'"),
        ({"--parameter": "thresold=1"}, "Did you mean 'threshold'?"),
        ({"--parameter": "rounds"}, "--parameter='rounds' is not valid: it must be NAME=VALUE, such as rounds=20."),
        ({"--workload": "Sex,agee"}, "'agee' is not an attribute of the domain"),
        ({"--schema": "nowhere.yaml"}, "nowhere.yaml: cannot be read"),
        ({"--records-per-person": "0"}, "records=0 is not valid: it must be a positive integer."),
    ],
)
def test_errors_in_input(folder, capsys, change, message):
    given = {"--schema": str(folder / "people.yaml"), "--rho": "1", "--mechanism": "mst", "--out": "-", **change}
    options = [text for option, value in given.items() if value is not None for text in (option, value)]
    assert message in failure(["synthesize", str(folder / "people.csv"), *options], capsys)


def test_outputs_are_checked_before_any_work(folder, capsys, monkeypatch):
    arguments = ["synthesize", *paths(folder), *TRIAL, "--out"]
    assert "The name must end in .csv, .csv.gz, .tsv, .tsv.gz, .parquet." in wrong_usage([*arguments, "x.xls"], capsys)
    assert "does not exist; create it first" in wrong_usage(
        [*arguments, str(folder / "deep" / "nowhere" / "x.csv")], capsys
    )
    monkeypatch.setattr("pgmest.cli.paths.find_spec", lambda name: None)
    assert "pip install pyarrow" in wrong_usage([*arguments, "x.parquet"], capsys)
    assert "pip install matplotlib" in wrong_usage([*arguments, "x.csv", "--report", "r.html"], capsys)


# -- values instead of codes ----------------------------------------------------------------------------------------


def test_query_with_a_schema_shows_values(folder, capsys):
    files = [str(folder / "model.npz"), "--schema", str(folder / "people.yaml")]
    assert main(["query", *files, "Sex"]) == 0
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == ["Sex", "F", "M", "x", "missing"]
    assert main(["query", *files, "Sex", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["labels"] == {"Sex": ["F", "M", "x", "missing"]}


def test_sample_with_a_schema_writes_values(folder, capsys):
    files = [str(folder / "model.npz"), "--schema", str(folder / "people.yaml")]
    assert main(["sample", *files, "--rows", "4", "--seed", "1", "--out", "-"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 4
    assert {row["city, state"] for row in rows} <= {"Berlin, BE", "Köln, NW", "elsewhere"}
    assert main(["sample", str(folder / "model.npz"), "--rows", "4", "--seed", "1", "--out", "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_another_schema_is_refused(folder, tmp_path, capsys):
    (tmp_path / "other.yaml").write_text("columns:\n  Sex: {type: boolean}\n")
    files = [str(folder / "model.npz"), "--schema", str(tmp_path / "other.yaml")]
    assert "is not the schema of this model" in failure(["query", *files, "Sex"], capsys)


def test_estimate_takes_a_schema_with_its_impossible_combinations(folder, tmp_path, capsys):
    domain = pg.Schema.load(folder / "people.yaml").domain
    table = np.full(domain.project(("age", "Income (EUR)")).shape, 10.0)
    noisy = pg.LinearMeasurement(table, ("age", "Income (EUR)"), 1.0)
    pg.save_measurements(tmp_path / "noisy.json", [noisy])
    options = [
        "--measurements",
        str(tmp_path / "noisy.json"),
        "--out",
        str(tmp_path / "m.npz"),
        "--json",
        "--overwrite",
    ]
    assert main(["estimate", "--schema", str(folder / "people.yaml"), *options]) == 0
    assert json.loads(capsys.readouterr().out)["converged"] is True
    assert pg.load(tmp_path / "m.npz").project(("age", "Income (EUR)")).values[0, 1:5].tolist() == [0, 0, 0, 0]
    assert failure(["estimate", *options], capsys) == "estimate needs either --domain or --schema, one of them."


# -- compare --------------------------------------------------------------------------------------------------------


def test_compare_tables_and_models(folder, capsys):
    table = str(folder / "people.csv")
    schema = pg.Schema.load(folder / "people.yaml")
    true, made = schema.encode(table), schema.encode(str(folder / "synthetic.csv"))
    expected = pg.evaluation.marginal_errors(true, made, [("Sex",), ("age", "born")], rescale=True)
    files = ["compare", table, str(folder / "synthetic.csv"), "--schema", str(folder / "people.yaml")]
    assert main([*files, "--workload", "Sex", "age,born", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert {tuple(row["attributes"]): row["error"] for row in facts["marginals"]} == pytest.approx(expected)
    assert facts["average_error"] == pytest.approx(np.mean(list(expected.values())))
    assert facts["records"] == [2000, made.records]

    files[2] = str(folder / "model.npz")
    assert main([*files, "--worst", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("records:        2,000 and 2,0") or lines[0].startswith("records:        2,000 and 1,9")
    assert "over 15 marginals" in lines[1]
    assert lines[2].startswith("  measured: ")
    assert lines[3].startswith("  modeled: ")
    assert sum(int(line.split(" over ")[1].split()[0]) for line in lines[2:4]) == 15
    assert all(line.split()[1] in ("measured", "modeled") for line in lines[4:])
    assert len(lines) == 6


def test_compare_a_table_with_itself(folder, capsys):
    table = str(folder / "people.csv")
    assert main(["compare", table, table, "--schema", str(folder / "people.yaml"), "--way", "2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert len(facts["marginals"]) == 10
    assert facts["average_error"] == 0


def test_compare_codes(tmp_path, capsys):
    domain = pg.Domain({"a": 2})
    domain.save(tmp_path / "domain.json")
    for name, codes in (("one.csv", [0, 0, 1, 1]), ("two.csv", [0, 1, 1, 1])):
        pg.Dataset.from_codes([codes], domain).save(tmp_path / name)
    files = ["compare", str(tmp_path / "one.csv"), str(tmp_path / "two.csv")]
    assert main([*files, "--domain", str(tmp_path / "domain.json")]) == 0
    assert "  0.2500  a" in capsys.readouterr().out
    assert "give --schema for raw values, --domain for codes" in failure(files, capsys)


# -- audit ----------------------------------------------------------------------------------------------------------


def test_audit_does_not_contradict_a_private_mechanism(capsys):
    options = ["--mechanism", "independent", "--delta", "0", "--trials", "60", "--json"]
    assert main(["audit", *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["claim"] == {"type": "Epsilon", "epsilon": 1.0}
    assert 0.0 <= facts["lower_bound"] < 1 < facts["most_that_can_be_shown"]
    assert facts["contradicted"] is False
    assert facts["largest_share_charged"] == pytest.approx(1.0)
    assert main(["audit", "--mechanism", "mst", "--trials", "150", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert 0.05 < facts["lower_bound"] < facts["claim"]["rho"]


def test_audit_of_the_secure_noise(capsys):
    options = ["--mechanism", "independent", "--rho", "2", "--trials", "100", "--exact-noise"]
    assert main(["audit", *options]) == 0
    assert "The claim is not contradicted." in capsys.readouterr().out


def test_audit_refuses_trials_that_cannot_contradict(capsys):
    assert "must be at least 219, since fewer cannot contradict Epsilon(3)" in failure(
        ["audit", "--mechanism", "hdmm", "--epsilon", "3", "--delta", "0", "--trials", "20"], capsys
    )


def test_audit_computes_what_an_answer_cost(capsys, monkeypatch):
    exact = pg.privacy.AddRemove.exact_l1
    monkeypatch.setattr(pg.privacy.AddRemove, "exact_l1", lambda self, query=None: exact(self, query) / 2)
    assert main(["audit", "--mechanism", "independent", "--epsilon", "1", "--delta", "0", "--trials", "60"]) == 1
    assert "the loss of an answer was at most 2 of its charge" in capsys.readouterr().out


def test_audit_says_when_a_claim_is_false(capsys, monkeypatch):
    found = pg.privacy.AuditReport(epsilon=9.0, delta=0.0, rho=9.0, trials=60, confidence=0.99)
    monkeypatch.setattr(pg.privacy, "audit", lambda *args, **options: found)
    assert main(["audit", "--mechanism", "independent", "--delta", "0", "--trials", "60"]) == 1
    captured = capsys.readouterr()
    assert "lower bound:  epsilon 9, with confidence 0.99, 60 trials each\n" in captured.out
    assert "The claim is FALSE.\n" in captured.out
    assert captured.err == "pgmest: error: the audit contradicts the claim of independent.\n"


# -- the ledger of the dataset --------------------------------------------------------------------------------------


def test_runs_on_the_same_table_charge_one_ledger(folder, tmp_path, capsys):
    ledger = str(tmp_path / "people.ledger")
    assert main(["ledger", "create", ledger, "--rho", "0.6", "--table", "people"]) == 0
    run = ["synthesize", *paths(folder), "--mechanism", "independent", "--rho", "0.5", "--rows", "10"]
    run += ["--overwrite", "--ledger", ledger, "--spent", str(tmp_path / "spent.json"), "--out"]
    assert main([*run, str(tmp_path / "one.csv")]) == 0
    assert json.loads((tmp_path / "spent.json").read_text())["budget"] == {"type": "Rho", "rho": 0.5}
    message = failure([*run, str(tmp_path / "two.csv")], capsys, code=4)
    assert [part.partition(")")[0] for part in message.split("(rho ")[1:]] == ["0.5", "0.1", "0.6"]
    assert "would cost epsilon " in message
    assert not (tmp_path / "two.csv").exists()
    assert main(["ledger", "show", ledger, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [run["label"] for run in facts["runs"]] == ["Independent"]
    assert "cannot be put on the ledger" in failure([*run, str(tmp_path / "x.csv"), "--insecure-simulation"], capsys)
    assert "cannot be opened" in failure([*run[:-1], "--ledger", str(tmp_path / "no.ledger"), "--out", "x.csv"], capsys)


def test_the_unit_of_the_schema_is_followed_and_said(tmp_path, capsys):
    (tmp_path / "u.csv").write_text("id,age\n7,3\n7,4\n7,5\n8,1\n")
    (tmp_path / "u.yaml").write_text(
        "columns:\n  age: {type: integer, min: 0, max: 9}\nunit: {column: id, at_most: 2}\n"
    )
    words = "A person is all rows with one value of 'id'; at most 2 rows of each are counted"
    assert main(["info", str(tmp_path / "u.yaml")]) == 0
    assert words in capsys.readouterr().out
    run = ["synthesize", str(tmp_path / "u.csv"), "--schema", str(tmp_path / "u.yaml"), *TRIAL]
    run += ["--out", str(tmp_path / "made.csv"), "--rows", "4"]
    assert main(run) == 0
    assert words in capsys.readouterr().out
    assert (tmp_path / "made.csv").read_text().startswith("age\n")
    (tmp_path / "made.csv").unlink()
    assert main([*run, "--records-per-person", "1"]) == 1
    assert "at least 2, as the unit of" in capsys.readouterr().err


@pytest.fixture(scope="module")
def semicolons(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("semicolons")
    rng = np.random.default_rng(0)
    with (folder / "leute.csv").open("w", encoding="cp1252", newline="") as file:
        rows = [[int(age), rng.choice(["Köln", "Bonn"])] for age in rng.integers(18, 90, 1500)]
        csv.writer(file, delimiter=";").writerows([["alter", "größe und ort"], *rows])
    (folder / "empty.csv").write_text("alter,größe und ort\n", encoding="utf-8")
    return folder


class TestOtherClothes:
    """Delimiters, encodings and bought bounds on the command line."""

    def test_from_a_draft_to_a_comparison(self, semicolons, capsys):
        table, schema, out = (str(semicolons / name) for name in ("leute.csv", "s.yaml", "out.tsv"))
        how = ["--delimiter", "semicolon", "--encoding", "cp1252"]
        assert main(["schema", table]) == 0
        guessed = capsys.readouterr()
        assert 'file: {delimiter: ";", encoding: "cp1252"}' in guessed.out
        assert "the delimiter is taken to be ';'" in guessed.err
        assert main(["schema", table, *how, "--bought", "--out", schema]) == 0
        text = Path(schema).read_text(encoding="utf-8")
        assert "bounds: bought" in text
        assert 'file: {delimiter: ";", encoding: "cp1252"}' in text
        clean = "\n".join(
            line.partition("  # READ")[0] for line in text.split("\n") if "drafted" not in line and line[:1] != "#"
        )
        Path(schema).write_text(clean, encoding="utf-8")
        budget = ["--epsilon", "5", "--delta", "1e-9", "--mechanism", "mst", "--insecure-simulation", "--seed", "0"]
        found = str(semicolons / "found.json")
        capsys.readouterr()
        assert main(["synthesize", table, "--schema", schema, *budget, "--out", out, "--bought", found]) == 0
        printed = capsys.readouterr().out
        assert "bought for alter: " in printed
        assert "2 values that are frequent enough" in printed
        assert json.loads(Path(found).read_text(encoding="utf-8"))["columns"]["größe und ort"]["values"] == [
            "Bonn",
            "Köln",
        ]
        assert Path(out).read_text(encoding="cp1252").startswith("alter;größe und ort\n")  # as the schema reads it
        assert main(["compare", table, out, "--schema", found, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["average_error"] < 0.1
        assert main(["check", table, found, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["kept"] > 0.9
        assert "is to be bought first" in failure(["check", table, schema], capsys)
        assert main(["plan", schema, *budget[:6], "--records-expected", "1500", "--quick"]) == 0
        assert main(["info", schema]) == 0
        assert "alter: bounds, not bought yet" in capsys.readouterr().out

    def test_an_empty_table_is_refused_before_anything_is_paid(self, semicolons, capsys):
        (semicolons / "e.yaml").write_text("columns:\n  alter: {type: integer, min: 0, max: 99}\n", encoding="utf-8")
        empty, schema = str(semicolons / "empty.csv"), str(semicolons / "e.yaml")
        assert "has no rows" in failure(["schema", empty], capsys)
        assert "has no rows" in failure(["check", empty, schema], capsys)
        arguments = ["synthesize", empty, "--schema", schema, "--epsilon", "1", "--out", str(semicolons / "o.csv")]
        assert "no budget spent" in failure(arguments, capsys)
        assert "nothing to buy" in failure([*arguments, "--buy-bounds", "0.1"], capsys)
