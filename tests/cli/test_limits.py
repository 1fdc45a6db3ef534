"""Limits of time, signals and progress of a whole command, as a scheduler, a container or a log sees them."""

from __future__ import annotations

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import pgmest as pg
from pgmest._base import stages
from pgmest.cli.main import main
from pgmest.privacy import Curator

SCHEMA = """\
columns:
  a: {type: categorical, values: [x, y, z], outside: error}
  b: {type: categorical, values: [x, y, z], outside: error}
  c: {type: categorical, values: [x, y, z], outside: error}
"""
SLOW = """
import sys, time
from pgmest.cli.main import main
from pgmest.privacy import Curator

select = Curator.select
def slow(curator, *args, **options):
    chosen = select(curator, *args, **options)
    print("chosen", flush=True)
    while not curator._outermost.stopped:
        time.sleep(0.01)
    return chosen

Curator.select = slow
sys.exit(main(sys.argv[1:]))
"""
"""The command line, with a mechanism that waits after its first selection until it is stopped."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("limits")
    codes = np.random.default_rng(0).integers(0, 3, (500, 3))
    lines = ["a,b,c", *(",".join("xyz"[code] for code in row) for row in codes)]
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    (folder / "schema.yaml").write_text(SCHEMA)
    return folder


def arguments(folder: Path, out: Path, *more: str) -> list[str]:
    table = [str(folder / "table.csv"), "--schema", str(folder / "schema.yaml"), "--out", str(out)]
    return ["synthesize", *table, "--epsilon", "1", "--mechanism", "mst", *more]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows ends processes without a signal")
@pytest.mark.parametrize("in_background", [False, True])
def test_sigterm_keeps_what_was_paid_and_ends_in_order(folder, tmp_path, in_background):
    """Also in the background of a script, where Ctrl-C is ignored: there the whole run must not ignore SIGTERM, too."""
    ledger, out, spent = tmp_path / "table.ledger", tmp_path / "out.csv", tmp_path / "spent.json"
    assert main(["ledger", "create", str(ledger), "--epsilon", "3"]) == 0
    command = [sys.executable, "-c", SLOW, *arguments(folder, out, "--ledger", str(ledger), "--spent", str(spent))]
    ignored = (lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if in_background else None
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=ignored)
    assert run.stdout is not None
    assert run.stdout.readline() == "chosen\n"
    os.kill(run.pid, signal.SIGTERM)
    _, messages = run.communicate(timeout=300)
    assert run.returncode == 130, messages
    assert "interrupted: nothing more is asked of the data" in messages
    with out.open() as file:
        assert len(list(csv.DictReader(file))) > 300
    entries = json.loads(spent.read_text())["entries"]
    assert [entry["kind"] for entry in entries] == ["measure"] * 3 + ["select"]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no shell that closes streams")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_loses_only_what_goes_there(folder, tmp_path, closed):
    out = tmp_path / "out.csv"
    asked = arguments(folder, out, "--seed", "0")
    if closed != ">&- 2>&-":  # a quicker command for one of the two
        pg.Model(pg.CliqueVector.zeros({"a": 3, "b": 3}, [("a", "b")]), 400.0).save(tmp_path / "model.npz")
        asked = ["sample", str(tmp_path / "model.npz"), "--out", str(out)]
    command = [sys.executable, "-m", "pgmest", *asked]
    run = subprocess.run(f"{shlex.join(command)} {closed}", shell=True, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert len(out.read_text().splitlines()) > 300
    assert "Traceback" not in run.stderr
    if closed == "2>&-":
        command = [sys.executable, "-m", "pgmest", "info", str(tmp_path / "none.npz")]
        run = subprocess.run(f"{shlex.join(command)} {closed}", shell=True, capture_output=True, text=True, timeout=300)
        assert (run.returncode, run.stdout) == (1, "")


def test_a_closed_standard_input_is_named(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["schema", "-"]) == 1
    assert "standard input is closed" in capsys.readouterr().err


def test_sigterm_is_answered_as_before_after_the_command(folder):
    before = signal.getsignal(signal.SIGTERM)
    assert main(["info", str(folder / "schema.yaml")]) == 0
    assert signal.getsignal(signal.SIGTERM) is before


def test_without_a_terminal_lines_say_how_far_it_is(folder, tmp_path, monkeypatch, capsys):
    select = Curator.select

    def slow(curator, *args, **options):
        time.sleep(0.3)
        return select(curator, *args, **options)

    monkeypatch.setattr(Curator, "select", slow)
    monkeypatch.setattr(stages, "TICK", 0.02)
    monkeypatch.setattr(stages, "EVERY", 0.1)
    assert main(arguments(folder, tmp_path / "out.csv")) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("pgmest synthesize: ")]
    assert any("% of the budget spent, " in line for line in lines)
    assert len(set(lines)) >= 2
    monkeypatch.setattr(stages, "EVERY", 10.0)
    assert main(arguments(folder, tmp_path / "again.csv")) == 0
    assert "budget spent" not in capsys.readouterr().err  # a short run says nothing


def test_a_limit_of_time_leaves_time_for_the_model(folder, tmp_path, capsys, monkeypatch):
    def waiting(curator, *args, **options):
        while not curator._outermost.stopped:
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(Curator, "select", waiting)
    assert main(arguments(folder, tmp_path / "out.csv", "--most-seconds", "4")) == 0
    assert "and the rest of the limit of 4 s is for the model" in capsys.readouterr().err
    assert (tmp_path / "out.csv").exists()


def test_a_limit_that_reading_uses_up_spends_nothing(folder, tmp_path, capsys):
    ledger = tmp_path / "table.ledger"
    assert main(["ledger", "create", str(ledger), "--epsilon", "3"]) == 0
    before = ledger.read_bytes()
    assert main(arguments(folder, tmp_path / "out.csv", "--most-seconds", "1e-9", "--ledger", str(ledger))) == 1
    assert "nothing was spent" in capsys.readouterr().err
    assert ledger.read_bytes() == before
