"""Commands read what commands write: notations, units, and warnings that a run prints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pgmest.cli.main import main

GERMAN = """\
columns:
  Betrag: {type: real, min: 0, max: 2000, bins: 20, decimals: 2, ignore: ["€", "."], decimal: ",", missing: ["k. A."]}
  Tag: {type: date, min: 2020-01-01, max: 2020-12-31, unit: month, format: "%d.%m.%Y"}
  bezahlt: {type: boolean, labels: [nein, ja]}
  Größe: {type: categorical, values: [groß, klein], other: "?"}
file: {delimiter: ";", encoding: cp1252}
"""

VISITS = """\
columns:
  ward: {type: categorical, values: [A, B], other: C}
  days: {type: integer, min: 0, max: 9}
unit: {column: patient, at_most: 2}
"""

TRIAL = ["--insecure-simulation", "--seed", "0", "--epsilon", "50", "--mechanism", "mst"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder, rng = tmp_path_factory.mktemp("output"), np.random.default_rng(0)
    lines = ["Betrag;Tag;bezahlt;Größe"]
    for row in range(400):
        amount = rng.uniform(0, 2000)
        whole, cents = divmod(round(100 * amount), 100)
        text = f"{whole // 1000}.{whole % 1000:03},{cents:02} €" if whole > 999 else f"{whole},{cents:02} €"
        amount_text = "k. A." if row % 20 == 0 else text
        size, paid = ("groß", "klein")[row % 2], ("ja", "nein")[int(amount > 700)]
        lines.append(f"{amount_text};{row % 28 + 1}.{row % 12 + 1}.2020;{paid};{size}")
    (folder / "german.csv").write_text("\n".join(lines) + "\n", encoding="cp1252")
    (folder / "german.yaml").write_text(GERMAN, encoding="utf-8")
    rows = [f"{rng.integers(0, 60)},{rng.choice(['A', 'B'])},{rng.integers(0, 10)}" for _ in range(300)]
    (folder / "visits.csv").write_text("patient,ward,days\n" + "\n".join(rows) + "\n,A,1\n", encoding="utf-8")
    (folder / "visits.yaml").write_text(VISITS, encoding="utf-8")
    return folder


def synthesized(folder: Path, name: str, *options: str) -> Path:
    out = folder / f"{name}-synthetic.csv"
    files = [str(folder / f"{name}.csv"), "--schema", str(folder / f"{name}.yaml"), "--out", str(out)]
    assert main(["synthesize", *files, *TRIAL, "--overwrite", *options]) == 0
    return out


def test_a_table_is_written_as_its_schema_reads_it(folder, capsys):
    out = synthesized(folder, "german", "--model", str(folder / "german.npz"))
    capsys.readouterr()
    lines = out.read_bytes().decode("cp1252").splitlines()
    assert lines[0] == "Betrag;Tag;bezahlt;Größe"
    assert {line.split(";")[2] for line in lines[1:]} == {"ja", "nein"}
    assert sum(line.startswith("k. A.;") for line in lines) > 5
    assert main(["check", str(out), str(folder / "german.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kept"] == 1
    compared = ["compare", str(folder / "german.csv"), str(out), "--schema", str(folder / "german.yaml"), "--json"]
    assert main(compared) == 0
    assert json.loads(capsys.readouterr().out)["average_error"] < 0.1
    again = folder / "again.csv"
    assert main(["sample", str(folder / "german.npz"), "--rows", "50", "--out", str(again)]) == 0
    assert again.read_bytes().decode("cp1252").startswith("Betrag;Tag;bezahlt;Größe\n")
    assert main(["check", str(again), str(folder / "german.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kept"] == 1


def test_a_pipe_has_the_same_bytes(folder, capfdbinary):
    files = [str(folder / "german.csv"), "--schema", str(folder / "german.yaml"), "--out", "-", "--rows", "5"]
    assert main(["synthesize", *files, *TRIAL]) == 0
    assert capfdbinary.readouterr().out.decode("cp1252").startswith("Betrag;Tag;bezahlt;Größe\n")


def test_options_count_where_the_schema_says_nothing(folder, capsys):
    plain = GERMAN.replace('file: {delimiter: ";", encoding: cp1252}\n', "")
    (folder / "plain.yaml").write_text(plain, encoding="utf-8")
    said = ["--delimiter", ";", "--encoding", "cp1252"]
    out = folder / "options.csv"
    files = [str(folder / "german.csv"), "--schema", str(folder / "plain.yaml"), "--out", str(out)]
    assert main(["synthesize", *files, *said, *TRIAL]) == 0
    capsys.readouterr()
    assert main(["check", str(out), str(folder / "plain.yaml"), *said, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kept"] == 1


def test_what_cannot_be_written_is_said_before_anything_is_paid(folder, capsys):
    schema = folder / "lodz.yaml"
    schema.write_text(GERMAN.replace("klein]", "klein, Łódź]"), encoding="utf-8")
    files = [str(folder / "german.csv"), "--schema", str(schema), "--spent", str(folder / "spent.json")]
    assert main(["synthesize", *files, "--out", str(folder / "lodz.csv"), *TRIAL]) == 1
    said = capsys.readouterr().err
    assert "the encoding cp1252 of" in said
    assert "the value of 'Größe' 'Łódź'" in said
    assert not (folder / "spent.json").exists()
    assert main(["synthesize", *files, "--out", str(folder / "lodz.parquet"), *TRIAL]) == 0


def test_compare_takes_a_schema_with_a_unit(folder, capsys):
    out = synthesized(folder, "visits", "--model", str(folder / "visits.npz"))
    capsys.readouterr()
    schema = ["--schema", str(folder / "visits.yaml")]
    assert main(["compare", str(folder / "visits.csv"), str(out), *schema]) == 0
    shown = capsys.readouterr()
    left = int(shown.err.split(" rows of the first table left out")[0].rpartition(" ")[2])
    assert shown.out.startswith(f"records:        {301 - left} and ")
    assert 0 < left < 301
    assert "at most 2 of a person count, and none without a value of 'patient'" in shown.err
    assert "second table" not in shown.err
    assert main(["compare", str(folder / "visits.csv"), str(folder / "visits.csv"), *schema, "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["average_error"] == 0
    assert "rows of the second table left out" in shown.err
    assert main(["compare", str(folder / "visits.csv"), str(folder / "visits.npz"), *schema]) == 0
    capsys.readouterr()
    assert main(["compare", str(out), str(out), *schema]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("above", "said"),
    [
        ("Report\n\nage;c\n", 'delimiter: ";", skip: 2'),
        ("age;c\nyears;letter\n", 'delimiter: ";", header: 2'),
        ("age;c\nyears;letter\n0;0\n", 'delimiter: ";", header: 3'),
        ("", 'delimiter: ";", header: [age, c]'),
    ],
)
def test_titles_and_headers_of_the_private_table_lose_no_row(tmp_path, above, said, capsys):
    rows = "".join(f"{number % 50};{'ab'[number % 2]}\n" for number in range(300))
    (tmp_path / "t.csv").write_text(above + rows)
    columns = "  age: {type: integer, min: 0, max: 49, width: 10}\n  c: {type: categorical, values: [a, b], other: z}\n"
    (tmp_path / "t.yaml").write_text(f"columns:\n{columns}file: {{{said}}}\n")
    schema, out = str(tmp_path / "t.yaml"), str(tmp_path / "o.csv")
    made = ["synthesize", str(tmp_path / "t.csv"), "--schema", schema, "--rows", "50"]
    assert main([*made, *TRIAL, "--out", out]) == 0
    capsys.readouterr()
    assert main(["check", out, schema, "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert (checked["rows"], checked["kept"]) == (50, 1)
    assert main(["compare", str(tmp_path / "t.csv"), out, "--schema", schema, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == [300, 50]
    assert main([*made, *TRIAL, "--out", "-"]) == 0
    assert capsys.readouterr().out == (tmp_path / "o.csv").read_text()


def test_weak_promises_and_unused_workloads_are_said_each_time(folder, capsys):
    options = ["--delta", "0.5", "--workload", "Betrag,Tag,bezahlt"]
    for _ in range(2):
        synthesized(folder, "german", *options)
        said = [line for line in capsys.readouterr().err.splitlines() if "WARNING" in line]
        assert [line[:40] for line in said] == [
            "pgmest: WARNING: delta 0.5 is not well b",
            "pgmest: WARNING: MST measures pairs at m",
        ]
    synthesized(folder, "german", "--delta", "1e-5", "--records-expected", "1000000")
    assert capsys.readouterr().err.count("WARNING: delta 1e-05") == 1
    synthesized(folder, "german", "--epsilon", "1000")
    assert capsys.readouterr().err.count("WARNING: epsilon 1000") == 1


def test_given_restricts_counts_and_records(folder, capsys):
    model = str(folder / "given.npz")
    synthesized(folder, "visits", "--model", model, "--epsilon", "8")
    capsys.readouterr()
    assert main(["query", model, "ward", "--given", "days=2..5", "ward=A,C", "--json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)
    assert table["labels"] == {"ward": ["A", "B", "C"]}
    assert table["counts"][0] > 0
    assert table["counts"][1] == 0
    assert main(["sample", model, "--rows", "30", "--given", "days=2..5", 'ward=["B"]', "--out", "-"]) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading == "ward,days"
    assert {row.split(",")[0] for row in rows} == {"B"}
    assert {int(row.split(",")[1]) for row in rows} <= {2, 3, 4, 5}
    assert main(["sample", model, "--rows", "5", "--codes", "--given", "ward=1", "--out", "-"]) == 0
    assert {row.split(",")[0] for row in capsys.readouterr().out.splitlines()[1:]} == {"1"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["wrad=A"], "Did you mean 'ward'?"),
        (["ward=a a"], "(A, B, C)"),
        (["days=12"], "whole numbers within 0..9"),
        (["days"], "NAME=VALUE"),
        (["days=1", "days=2"], "each name once"),
        (["days=[1"], "a JSON list"),
    ],
)
def test_unknown_names_and_values_of_given_are_refused(folder, given, said, capsys):
    synthesized(folder, "visits", "--model", str(folder / "visits.npz"))
    capsys.readouterr()
    assert main(["query", str(folder / "visits.npz"), "ward", "--given", *given]) == 1
    assert said in capsys.readouterr().err
