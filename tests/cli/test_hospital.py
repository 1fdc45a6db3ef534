"""A messy table of hospital visits, from the draft of a schema to a report: what the commands print must be true."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pgmest as pg
from pgmest.cli.main import main

ROWS, PERSONS, AT_MOST = 8000, 3000, 4
WARDS = ("ICU", "Surgery", "Medicine", "Geriatrics")
ICD = [f"{chr(65 + number // 100)}{number % 100:02}.{number % 7}" for number in range(600)]
LISTED = ICD[:450]
SCHEMA = f"""\
columns:
  age: {{type: integer, min: 0, max: 109, width: 10, missing: [-1]}}
  ward: {{type: categorical, values: [{", ".join(WARDS)}], other: other}}
  admitted: {{type: date, min: 2023-01-01, max: 2023-12-31, unit: month, missing: [unknown]}}
  stay: {{type: integer, min: 0, max: 59, width: 5}}
  icd: {{type: categorical, values: [{", ".join(LISTED)}], other: other}}
  plz: {{type: integer, min: 0, max: 99999, width: 10000}}
constraints:
  - impossible: {{ward: Geriatrics, age: {{max: 59}}}}
unit: {{column: patient_id, at_most: {AT_MOST}}}
"""


def visits() -> pd.DataFrame:
    """Several visits of a patient, ages of -1, unknown dates, wards in mixed case, 600 codes, and leading zeros."""
    rng = np.random.default_rng(0)
    person = rng.choice(PERSONS, ROWS, p=rng.dirichlet(np.full(PERSONS, 0.8)))
    age = np.where(rng.random(ROWS) < 0.03, -1, rng.integers(0, 100, PERSONS)[person])
    ward = rng.choice(WARDS, ROWS, p=[0.15, 0.35, 0.4, 0.1])
    case = rng.random(ROWS)
    mixed = np.where(case < 0.1, np.char.lower(ward), np.where(case < 0.15, np.char.upper(ward), ward))
    admitted = (np.datetime64("2023-01-01") + rng.integers(0, 365, ROWS)).astype(str).astype(object)
    admitted[rng.random(ROWS) < 0.05] = "unknown"
    codes = rng.choice(ICD, ROWS, p=rng.dirichlet(np.full(len(ICD), 0.5)))
    areas = rng.choice(rng.integers(1000, 99999, 60), ROWS)
    stay = np.where(rng.random(ROWS) < 0.4, 0, rng.geometric(0.15, ROWS))
    return pd.DataFrame(
        {
            "patient_id": [f"P{number:06}" for number in person],
            "age": age,
            "ward": mixed,
            "admitted": admitted,
            "stay": stay,
            "icd": codes,
            "plz": [f"{area:05}" for area in areas],
        }
    )


TABLE = visits()
TRIAL = ["--epsilon", "2", "--mechanism", "mst", "--insecure-simulation", "--seed", "0"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hospital")
    TABLE.to_csv(folder / "visits.csv", index=False)
    (folder / "visits.yaml").write_text(SCHEMA, encoding="utf-8")
    return folder


def printed(arguments: list[str], capsys) -> str:
    capsys.readouterr()
    assert main(arguments) == 0
    captured = capsys.readouterr()
    return captured.out + captured.err


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.3g} %"


def text_of(page: Path) -> str:
    """Return a page without its pictures."""
    return html.unescape(re.sub(r'src="data:[^"]*"', "", page.read_text(encoding="utf-8")))


def left_out() -> int:
    return int((TABLE.patient_id.value_counts() - AT_MOST).clip(lower=0).sum())


def broken() -> int:
    return int(((TABLE.ward == "Geriatrics") & TABLE.age.between(0, 59)).sum())


def test_the_check_says_what_is_true(folder, capsys):
    text = printed(["check", str(folder / "visits.csv"), str(folder / "visits.yaml")], capsys)
    cells = {line.split()[0]: line for line in text.splitlines() if line}
    assert text.splitlines()[1].startswith("8,000 rows, 6 columns")
    assert f" {percent((TABLE.age == -1).sum(), ROWS)} " in cells["age"]
    assert f" {percent((TABLE.admitted == 'unknown').sum(), ROWS)} " in cells["admitted"]
    ward = percent((~TABLE.ward.isin(WARDS)).sum(), ROWS)
    assert f"ward: {ward} are not listed" in text
    assert "differ from listed values in capitals only: add ignore_case: true" in text
    assert f"icd: {percent((~TABLE.icd.isin(LISTED)).sum(), ROWS)} are not listed" in text
    assert f"stay: {percent((TABLE.stay == 0).sum(), ROWS)} are 0, in the bin 0..4" in text
    assert f"plz: {percent(TABLE.plz.str.startswith('0').sum(), ROWS)} are written with leading zeros" in text
    assert f"constraint on ward, age: {broken():,} of 8,000 rows ({percent(broken(), ROWS)})" in text
    counts = TABLE.patient_id.value_counts()
    crowded = f"{left_out():,} as {(counts > AT_MOST).sum():,} of {len(counts):,} persons have more than 4 rows"
    assert f"{left_out():,} of 8,000 rows ({percent(left_out(), ROWS)}) are left out: {crowded}" in text
    assert f"(up to {counts.max()})" in text
    assert "The schema fits the table." not in text


def test_the_plan_says_what_is_public(folder, capsys):
    arguments = ["plan", str(folder / "visits.yaml"), "--records-expected", "6000", "--quick", *TRIAL[:4]]
    text = printed(arguments, capsys)
    assert "at most 4 rows of each are counted. Rows beyond them, and rows without a person, are left out" in text
    private = (f"{ROWS:,}", f"{left_out():,}", f"{ROWS - left_out():,}", f"{broken():,}", str(ROWS))
    assert not [number for number in private if number in text]


@pytest.fixture(scope="module")
def made(folder):
    """The files of a run."""
    names = {"--report": "report.html", "--spent": "spent.json", "--model": "model.npz"}
    files = [text for option, name in names.items() for text in (option, str(folder / name))]
    table = [str(folder / "visits.csv"), "--schema", str(folder / "visits.yaml"), "--out", str(folder / "out.csv")]
    return ["synthesize", *table, *TRIAL, *files, "--overwrite"]


@pytest.mark.usefixtures("blank_pictures")
def test_synthesize_compare_and_report_say_what_is_true(folder, made, capsys):
    pytest.importorskip("matplotlib")
    text = printed(made, capsys)
    rows, spent = pd.read_csv(folder / "out.csv", dtype=str), json.loads((folder / "spent.json").read_text())
    assert f"{len(rows):,} synthetic records in " in text
    assert "rows beyond that number are left out" in text
    assert f"spent on {len(spent['entries'])} requests" in text
    assert "NOT private" in text
    assert not rows.isin(TABLE.patient_id.tolist()).any().any()
    ages = rows.age[rows.ward == "Geriatrics"].astype(float)
    assert ((ages >= 60) | (ages == -1)).all()

    schema = pg.Schema.load(folder / "visits.yaml")
    model = pg.load(folder / "model.npz")
    files = [str(folder / "visits.csv"), str(folder / "model.npz"), "--schema", str(folder / "visits.yaml")]
    told = json.loads(printed(["compare", *files, "--json"], capsys).splitlines()[0])
    tables = [tuple(one["attributes"]) for one in told["marginals"]]
    assert told["rows_left_out"] == left_out()
    assert len(tables) == 6 + 15
    pairs = {
        tuple(sorted(e["parameters"]["clique"]))
        for e in spent["entries"]
        if len(e["parameters"].get("clique", ())) == 2
    }
    found = {tuple(sorted(one["attributes"])): one["evidence"] for one in told["marginals"]}
    assert {clique for clique, evidence in found.items() if len(clique) == 2 and evidence != "modeled"} == pairs
    assert all(found[(name,)] == "measured" for name in schema.domain)
    text = printed(["compare", *files], capsys)
    average = np.mean([one["error"] for one in told["marginals"]])
    assert f"average error:  {average:.4f} over 21 marginals" in text
    assert f"{left_out():,} rows of the first table left out" in text
    assert (
        f"  modeled:      {np.mean([o['error'] for o in told['marginals'] if o['evidence'] == 'modeled']):.4f}" in text
    )
    records = float(model.project(()))

    for clique, evidence in [(c, e) for c, e in found.items() if len(c) == 2][:6]:
        capsys.readouterr()
        assert main(["query", str(folder / "model.npz"), ",".join(clique), "--interval", "none"]) == 0
        assert ("was not measured" in capsys.readouterr().err) == (evidence == "modeled")
    first, second = next(c for c, e in found.items() if len(c) == 2 and e == "modeled" and {"ward", "icd"} & set(c))
    listed = "ward" if "ward" in (first, second) else "icd"
    given = ["--given", f"{listed}={schema.labels(listed)[0]}"]
    assert main(["query", str(folder / "model.npz"), f"{first},{second}", *given]) == 0
    said = capsys.readouterr().err
    assert f"{first} × {second} was not measured" in said or f"{second} × {first} was not measured" in said

    page = text_of(folder / "report.html")
    assert f"about {records:,.0f} records with 6 attributes" in page
    measured = {
        tuple(sorted(pair))
        for pair in re.findall(r"<td>(\w+) × (\w+)</td>", page.split("How far off")[1].split("<h3>NOT measured")[0])
    }
    assert measured == pairs
    unmeasured = re.findall(
        r"<td>(\w+) × (\w+)</td>", page.split("Pairs that were not measured")[1].split("</section>")[0]
    )
    assert {tuple(sorted(pair)) for pair in unmeasured} | pairs == {c for c in found if len(c) == 2}
    assert len(unmeasured) == 15 - len(pairs)
    assert not re.search(r"P\d{6}", page)


@pytest.mark.usefixtures("blank_pictures")
def test_an_impatient_user_publishes_no_identifier(tmp_path, capsys):
    """All marks of the draft are deleted unread; the visits have three identifiers, under names that say little."""
    rng = np.random.default_rng(1)
    table = TABLE.assign(
        nr=rng.permutation(ROWS) + 10_000_000,
        ref=[f"{row:04x}-{rng.integers(65536):04x}" for row in rng.permutation(ROWS)],
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    printed(["schema", str(tmp_path / "t.csv"), "--out", str(tmp_path / "draft.yaml")], capsys)
    draft = (tmp_path / "draft.yaml").read_text(encoding="utf-8")
    kept = [line for line in draft.splitlines() if "READ FROM" not in line and "drafted_from" not in line]
    (tmp_path / "s.yaml").write_text("\n".join(kept), encoding="utf-8")
    files = [str(tmp_path / "t.csv"), "--schema", str(tmp_path / "s.yaml"), "--out", str(tmp_path / "out.csv")]
    files += ["--report", str(tmp_path / "report.html"), "--model", str(tmp_path / "model.npz"), "--rows", "3000"]
    options = ["--epsilon", "1000", "--mechanism", "independent", "--insecure-simulation", "--seed", "0"]
    printed(["synthesize", *files, *options], capsys)
    rows = pd.read_csv(tmp_path / "out.csv", dtype=str)
    for name in ("patient_id", "nr", "ref"):
        assert name not in rows
        held = set(table[name].astype(str))
        assert not rows.isin(list(held)).any().any(), name
        texts = (text_of(tmp_path / "report.html"), "\n".join(kept))
        assert not [value for value in held for text in texts if value in text], name
