"""The story of a hospital: 8,000 visits of 4,000 patients, and readmission by age, which matters."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from pgmest.cli.main import main

CODES = [f"C{code:03d}" for code in range(600)]
POSTAL = [str(1000 + 10 * place) for place in range(90)]
WARDS = [f"W{ward}" for ward in range(10)]
SCHEMA = f"""\
columns:
  age: {{type: integer, min: 0, max: 99, width: 5}}
  sex: {{type: categorical, values: [F, M], outside: error}}
  code: {{type: categorical, values: [{", ".join(CODES)}], outside: error}}
  postal: {{type: categorical, values: [{", ".join(f"'{code}'" for code in POSTAL)}], outside: error}}
  ward: {{type: categorical, values: [{", ".join(WARDS)}], outside: error}}
  stay: {{type: integer, min: 0, max: 29, width: 3}}
  readmitted: {{type: boolean}}
unit: {{column: patient, at_most: 4}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("visits"), np.random.default_rng(0)
    patients = np.repeat(np.arange(4000), rng.choice([1, 2, 3, 4], p=[0.4, 0.3, 0.2, 0.1], size=4000))[:8000]
    frequent = 1 / np.arange(1, 601) ** 1.1
    age = np.clip(rng.normal(58, 19, 4000), 0, 99).astype(int)[patients]
    postal = rng.choice(POSTAL, 4000)[patients]
    code = (rng.choice(600, len(age), p=frequent / frequent.sum()) + 37 * (age // 20)) % 600
    readmitted = rng.random(len(age)) < np.where(age < 40, 0.04, np.where(age < 65, 0.12, 0.28))
    stay = np.minimum(rng.poisson(2 + age / 25 + 2 * readmitted), 29)
    with (folder / "visits.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["patient", "age", "sex", "code", "postal", "ward", "stay", "readmitted"])
        for row, patient in enumerate(patients):
            sex = "FM"[patient % 2]
            fixed = [f"P{patient}", age[row], sex, CODES[code[row]], postal[row], WARDS[code[row] // 60]]
            writer.writerow([*fixed, stay[row], "yes" if readmitted[row] else "no"])
    (folder / "visits.yaml").write_text(SCHEMA)
    return folder


@pytest.fixture
def run(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)

    def called(*arguments):
        code = main(list(arguments))
        found = capsys.readouterr()
        return code, " ".join(found.out.split()), found.err

    return called


def test_the_plan_says_what_would_be_lost_before_anything_is_spent(run):
    code, text, err = run("plan", "visits.yaml", "--records-expected", "8000", "--epsilon", "1")
    assert code == 0, err
    assert "No record was read" in text
    assert "4 records of a person" in text
    assert "of 21 pairs are measured in the rehearsal" in text
    assert "code x postal, 54,000 cells: no reasonable budget is enough, or at most" in text
    for help_text in ("--matters", "epsilon 2:", "at_most 2 instead of 4", "coarser bins or groups"):
        assert help_text in text.split("What would help:")[1]


@pytest.mark.usefixtures("blank_pictures")
def test_the_plan_for_what_matters_and_the_run_agree(run, folder):
    wanted = ("--matters", "age,readmitted", "--matters", "postal,code")
    options = ("--epsilon", "1", *wanted)
    common = ("plan", "visits.yaml", "--records-expected", "8000", "--quick", *options)
    code, text, err = run(*common)
    assert code == 0, err
    assert "* age x readmitted matters: it is measured in the rehearsal" in text
    assert "! code x postal matters, but is NOT measured: the budget cannot carry it" in text
    assert "What would help" not in text
    _, planned, _ = run(*common, "--json")
    tables = {tuple(table["clique"]): table for table in json.loads(planned)["pairs"]}
    assert tables["age", "readmitted"]["error"] < 0.1

    files = ("--out", "s.csv", "--overwrite", "--report", "r.html", "--insecure-simulation", "--seed", "1")
    code, text, err = run("synthesize", "visits.csv", "--schema", "visits.yaml", *options, *files)
    assert code == 0, err
    assert "matters: age x readmitted: measured" in text
    assert "matters: code x postal: NOT measured, since the budget cannot tell it from noise" in text
    assert "of 21 pairs measured" in text
    assert "more (--report lists them)" in text
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "Which dependences were kept" in page
    assert "age × readmitted: measured" in page
    rates = {}
    for name in ("visits.csv", "s.csv"):
        with (folder / name).open(newline="") as file:
            rows = list(csv.DictReader(file))
        old, young = ([r for r in rows if (int(r["age"]) >= 65) == older] for older in (True, False))
        rates[name] = [np.mean([r["readmitted"] in ("yes", "true", "True") for r in some]) for some in (old, young)]
    assert rates["s.csv"][0] > 1.5 * rates["s.csv"][1]
    assert rates["s.csv"][0] == pytest.approx(rates["visits.csv"][0], abs=0.07)


def test_the_json_of_a_run_has_the_pairs(run):
    files = ("--out", "s.csv", "--overwrite", "--insecure-simulation", "--json")
    code, text, err = run("synthesize", "visits.csv", "--schema", "visits.yaml", "--epsilon", "1", *files)
    assert code == 0, err
    pairs = json.loads(text)["pairs"]
    assert pairs["measured"] + pairs["implied"] + pairs["independent"] == 21
    assert len(pairs["not_measured"]) == 21 - pairs["measured"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--matters", "age,readmited"), "Did you mean 'readmitted'"),
        (("--matters", "age,age"), "age"),
        (("--matters", "age,readmitted", "--mechanism", "mst"), "MST treats all marginals alike"),
    ],
)
def test_mistakes_are_named_by_both_commands(run, arguments, text):
    common = ("--epsilon", "1", *arguments)
    for command in (
        ("plan", "visits.yaml", *common),
        ("synthesize", "visits.csv", "--schema", "visits.yaml", "--out", "never.csv", *common),
    ):
        code, _, err = run(*command)
        assert code == 1
        assert text in err


def test_other_mechanisms_weigh_what_matters_too(run):
    files = ("--out", "s.csv", "--overwrite", "--insecure-simulation", "--seed", "0")
    options = ("--epsilon", "1", "--mechanism", "aim", "--matters", "age,readmitted")
    code, text, err = run("synthesize", "visits.csv", "--schema", "visits.yaml", *options, *files)
    assert code == 0, err
    assert "matters: age x readmitted: measured" in text
