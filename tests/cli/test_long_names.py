"""Questions of a survey as names of columns: every printed table is narrow, and says the full names once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pgmest.cli.main import main

QUESTIONS = [
    f"Question {number}: how satisfied are you, on the whole and all in all, with the {what} that you get in "
    "our canteen on an ordinary working day?"
    for number, what in enumerate(("food", "coffee", "cutlery", "price"), 1)
]
WIDEST = 180
"""The most characters of a printed line, except those that say a full name."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("survey")
    generator = np.random.default_rng(0)
    pd.DataFrame({name: generator.integers(1, 6, 600) for name in QUESTIONS}).to_csv(folder / "t.csv", index=False)
    columns = "".join(f'  "{name}": {{type: integer, min: 1, max: 5}}\n' for name in QUESTIONS)
    first, second = QUESTIONS[:2]
    impossible = f'constraints:\n  - impossible: {{"{first}": 1, "{second}": 1}}\n'
    (folder / "s.yaml").write_text(f"columns:\n{columns}{impossible}", encoding="utf-8")
    return folder


TRIAL = ["--rho", "0.5", "--mechanism", "mst", "--insecure-simulation", "--seed", "0"]


@pytest.mark.parametrize(
    "command",
    [
        ["check", "t.csv", "s.yaml"],
        ["plan", "s.yaml", "--rho", "0.5", "--mechanism", "mst", "--records-expected", "600"],
        ["info", "s.yaml"],
        ["synthesize", "t.csv", "--schema", "s.yaml", *TRIAL, "--out", "x.csv", "--model", "m.npz", "--overwrite"],
        ["info", "m.npz"],
        ["compare", "t.csv", "m.npz", "--schema", "s.yaml"],
        ["compare", "t.csv", "x.csv", "--schema", "s.yaml"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_lines_are_narrow(folder, monkeypatch, capsys, command):
    monkeypatch.chdir(folder)
    assert main(command) == 0
    printed = capsys.readouterr()
    lines = (printed.out + printed.err).splitlines()
    named = [line for line in lines if any(name in line for name in QUESTIONS)]
    assert all(line.split(" = ")[1] in QUESTIONS for line in named)  # the key
    assert len(named) <= len(QUESTIONS)
    tables = [line for line in lines if line.startswith("  ") or "Question" in line]
    assert any("Question" in line for line in tables)
    sentences = ("!", "not measured: ")
    assert max(len(line) for line in tables if line not in named and not line.startswith(sentences)) <= WIDEST
