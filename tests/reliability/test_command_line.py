"""The command line with any arguments: an exit code and a message, never a traceback."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.cli.main import main
from tests.reliability.examples import READERS, write_examples

FILES = [*READERS, "nothing.npz", "nothing.csv", "empty.json", "raw.csv", "wrong.txt", ".", "-", "no/folder.csv"]
WORDS = ["age", "age,sex", '["city, state"]', "[]", "[[", "", "x", "0", "1", "-1", "3", "1e999", "nan", "-inf", "1e-9"]
WORDS += [
    "9" * 30,
    "l1",
    "likelihood",
    "mirror_descent",
    "multinomial",
    "mst",
    "independent",
    "mwem_pgm",
    "é",
    "\udcff",
]
WORDS += ["rounds=3", "rounds", "out.npz", "out.csv", "out.json", "out.html", "PRIVATE-out.html", "out.parquet"]
OPTIONS = ["--domain", "--schema", "--measurements", "--out", "--total", "--loss", "--method", "--tolerance", "--json"]
OPTIONS += ["--max-iterations", "--max-megabytes", "--cliques", "--cliques-file", "--stddev", "--seed", "--rows"]
OPTIONS += ["--workload", "--workload-file", "--way", "--mechanism", "--epsilon", "--delta", "--rho", "--parameter"]
OPTIONS += ["--records-per-person", "--worst", "--model", "--ledger", "--checkpoint", "--trials", "--confidence"]
OPTIONS += ["--allow-draft", "--help", "--version"]

COMMANDS: dict[str, list[str]] = {
    "estimate": ["--domain", "domain.json", "--measurements", "measurements.json", "--out", "out.npz"],
    "info": ["model.npz"],
    "query": ["model.npz", "age,sex"],
    "sample": ["model.npz", "--rows", "3", "--out", "out.csv"],
    "compare": ["table.csv", "model.npz", "--domain", "domain.json"],
    "measure": ["table.csv", "--domain", "domain.json", "--cliques", "age,sex", "--stddev", "1", "--out", "out.json"],
    "schema": ["raw.csv", "--out", "out.yaml"],
    "synthesize": [
        "raw.csv",
        "--schema",
        "small.yaml",
        "--out",
        "out.csv",
        "--epsilon",
        "1",
        "--mechanism",
        "independent",
    ],
    "audit": ["--mechanism", "independent", "--epsilon", "1", "--trials", "40"],
}
ALWAYS = {"synthesize": ["--insecure-simulation"]}


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    """The current folder, with examples and some more files of its own: `--out` may overwrite any of them."""
    pytest.importorskip("pyarrow")
    write_examples(tmp_path)
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "wrong.txt").write_text("age\n1\n")
    (tmp_path / "raw.csv").write_text("sex,age\nF,31\nM,\nX,200\n")
    (tmp_path / "small.yaml").write_text(
        "columns:\n  sex: {type: categorical, values: [F, M], other: X}\n"
        "  age: {type: integer, min: 0, max: 99, width: 50, missing: true}\n"
    )
    with contextlib.chdir(tmp_path):
        yield tmp_path


@st.composite
def arguments(draw: st.DrawFn) -> list[str]:
    """A command that works, with up to four of its arguments replaced, left out, or others added."""
    command = draw(st.sampled_from(sorted(COMMANDS)))
    words = list(COMMANDS[command])
    anything = st.sampled_from(FILES) | st.sampled_from(WORDS)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(words)))
        change = draw(st.integers(0, 3))
        if change == 0:
            words[at:at] = [draw(st.sampled_from(OPTIONS)), draw(anything)]
        elif change == 1:
            words[at:at] = [draw(anything | st.sampled_from(OPTIONS))]
        else:
            words[at : at + 1] = [draw(anything)] if change == 2 else []
    return [command, *words, *ALWAYS.get(command, [])]


def run(words: list[str]) -> tuple[int, str]:
    """The exit code, and what went to standard error."""
    output, errors, nothing = io.StringIO(), io.StringIO(), io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors), mock.patch("sys.stdin", nothing):
        try:
            return main(words), errors.getvalue()
        except SystemExit as stopped:
            return int(stopped.code or 0), errors.getvalue()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_that_are_varied_work(folder: Path, command: str) -> None:
    code, errors = run([command, *COMMANDS[command], *ALWAYS.get(command, [])])
    assert code == 0, errors


@settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(words=arguments())
def test_any_arguments(folder: Path, words: list[str]) -> None:
    code, errors = run(words)
    assert code in (0, 1, 2)
    assert code == 0 or errors.strip(), "an exit code without a word"
    assert "Traceback" not in errors


def test_a_terminal_that_cannot_show_every_letter(tmp_path: Path) -> None:
    pg.Model(pg.CliqueVector.zeros({"größe": 2, "年": 2}, [("größe", "年")]), 9.0).save(tmp_path / "model.npz")
    command = [sys.executable, "-m", "pgmest", "query", str(tmp_path / "model.npz"), "größe,年"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, capture_output=True, env=environment)
    assert b"Traceback" not in done.stderr
    assert done.returncode == 0
