"""Runs of experiments are made once, and go on from files and from the committed table."""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments import kept_runs
from experiments.kept_runs import KeptRuns, add_options, made_by, wanted


@dataclass(frozen=True)
class Run:
    table: str
    epsilon: float
    seed: int

    @property
    def name(self):
        return f"{self.table}-{self.epsilon:g}-{self.seed}"


@dataclass(frozen=True)
class Noted:
    """A run that leaves a file in a folder."""

    table: Path
    seed: int

    @property
    def name(self):
        return str(self.seed)


def squared(run):
    return {"error": run.seed**2}


@pytest.fixture
def kept(tmp_path, monkeypatch):
    folder = tmp_path / "experiments"
    (folder / "results").mkdir(parents=True)
    monkeypatch.setattr(kept_runs, "EXPERIMENTS", folder)
    kept_runs._committed.cache_clear()
    yield KeptRuns("trial", Run)
    kept_runs._committed.cache_clear()


def test_a_row_is_kept_in_a_file(kept):
    run = Run("adult", 1.0, 3)
    assert kept.row(run) is None
    row = kept.keep(run, {"error": 0.25, "note": None})
    assert kept.row(run) == row == {"table": "adult", "epsilon": 1.0, "seed": 3, "error": 0.25, "note": None}
    assert kept.table([run, Run("adult", 1.0, 4)])["error"].tolist() == [0.25]


def test_committed_rows_count_as_kept_and_files_come_first(kept):
    rows = [{"table": "a/b", "epsilon": 1, "seed": 0, "error": 0.5, "note": ""}]
    pd.DataFrame(rows).to_csv(kept_runs.EXPERIMENTS / "results" / "trial.csv", index=False)
    assert kept.row(Run("a/b", 1.0, 0)) == {**rows[0], "note": None}
    assert kept.row(Run("a/b", 10.0, 0)) is None
    assert kept.row(Run("a/b", 1.0, 1)) is None
    kept.keep(Run("ab", 1.0, 0), {"error": 0.25})
    assert kept.row(Run("ab", 1.0, 0))["error"] == 0.25


def test_options_choose_what_is_made(kept, capsys):
    parser = argparse.ArgumentParser()
    add_options(parser, "x-*")
    runs = [Run(table, 1.0, seed) for table in ("a", "b") for seed in range(2)]
    kept.keep(runs[0], {"error": 0})

    def chosen(*arguments):
        return wanted(runs, parser.parse_args(arguments), lambda run: kept.row(run) is not None)

    assert chosen() == runs[1:]
    assert chosen("--fresh", "--only", "a-*") == runs[:2]
    assert chosen("--report") == []
    assert "3 to do" in capsys.readouterr().out


def test_runs_are_made_by_processes():
    runs = [Run("a", 1.0, seed) for seed in range(3)]
    found = dict(made_by(runs, squared, workers=1, processes_of_their_own=True))
    assert {run.seed: row["error"] for run, row in found.items()} == {0: 0, 1: 1, 2: 4}


def noted(run) -> dict[str, Any]:
    (run.table / str(run.seed)).touch()
    if run.seed == 0:
        raise ValueError("no such table")
    time.sleep(0.05)
    return {}


def test_where_a_run_fails_the_others_are_not_made(tmp_path):
    """They were, one by one, before the error was told."""
    with pytest.raises(ValueError, match="no such table"):
        list(made_by([Noted(tmp_path, seed) for seed in range(100)], noted, workers=1))
    assert len(list(tmp_path.iterdir())) < 50
