"""Runs of an experiment that are made once: a command that was stopped, or asked for more seeds, goes on where it was.

A run is a frozen dataclass; its fields are the columns that tell it from others, and its `name` is that of its file.
Its row is kept at once in build/NAME, one JSON file each. The rows of the committed table,
experiments/results/NAME.csv, count as kept, too.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import json
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from pgmest._base.files import write_atomically

EXPERIMENTS = Path(__file__).resolve().parent

RunT = TypeVar("RunT")


@dataclass(frozen=True)
class MechanismRun:
    """A table, a mechanism and a budget."""

    table: str
    mechanism: str
    epsilon: float
    seed: int

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"{self.table}-{self.mechanism}-{self.epsilon:g}-{self.seed}".replace("/", "_").replace(" ", "_")


@dataclass(frozen=True)
class KeptRuns:
    """The rows of an experiment.

    Attributes:
        name: of the experiment: build/NAME, experiments/results/NAME.csv.
        kind: the dataclass of its runs.
    """

    name: str
    kind: type

    @property
    def folder(self) -> Path:
        """The folder of the rows."""
        return EXPERIMENTS.parent / "build" / self.name

    def row(self, run: Any) -> dict[str, Any] | None:
        """The row of a run that was made before."""
        path = self.folder / f"{run.name}.json"
        return json.loads(path.read_text()) if path.exists() else _committed(self).get(_key(asdict(run)))

    def keep(self, run: Any, found: dict[str, Any]) -> dict[str, Any]:
        """Keep what a run found; returns its row."""
        row = {**asdict(run), **found}
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder / f"{run.name}.json", json.dumps(row) + "\n")
        return row

    def table(self, runs: Iterable[Any]) -> pd.DataFrame:
        """The rows of those of the runs that were made."""
        return pd.DataFrame([row for run in runs if (row := self.row(run)) is not None])


@functools.cache
def _committed(kept: KeptRuns) -> dict[tuple[Hashable, ...], dict[str, Any]]:
    path = EXPERIMENTS / "results" / f"{kept.name}.csv"
    columns = [field.name for field in fields(kept.kind)]
    if not path.exists():
        return {}
    rows = pd.read_csv(path).astype(object).to_dict("records")
    plain = [{name: None if _missing(value) else value for name, value in row.items()} for row in rows]
    return {_key({name: row[name] for name in columns}): row for row in plain if all(name in row for name in columns)}


def _missing(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _key(columns: dict[str, Any]) -> tuple[Hashable, ...]:
    return tuple(float(value) if isinstance(value, int) else value for value in columns.values())


def add_options(parser: argparse.ArgumentParser, example: str) -> None:
    """The options that all such commands have."""
    parser.add_argument("--only", action="append", default=[], help=f"runs whose name fits, such as '{example}'")
    parser.add_argument("--fresh", action="store_true", help="make runs again that were made before")
    parser.add_argument("--report", action="store_true", help="write the report of what there is, and run nothing")
    parser.add_argument("--workers", type=int, default=1, help="processes (default 1)")


def wanted(runs: Sequence[RunT], options: argparse.Namespace, made: Callable[[RunT], bool]) -> list[RunT]:
    """The runs that the options ask for and that are not made yet."""
    if options.report:
        return []
    fitting = [r for r in runs if not options.only or any(fnmatch.fnmatch(_name(r), p) for p in options.only)]
    missing = [run for run in fitting if options.fresh or not made(run)]
    print(f"{len(fitting)} runs, {len(missing)} to do", flush=True)
    return missing


def made_by(
    runs: Sequence[RunT],
    measure: Callable[[RunT], dict[str, Any]],
    workers: int,
    start: Callable[[], None] | None = None,
    processes_of_their_own: bool = False,
) -> Iterator[tuple[RunT, dict[str, Any]]]:
    """The runs as they end, each with its row, made by so many processes."""
    alone = 1 if processes_of_their_own else None
    with ProcessPoolExecutor(workers, get_context("spawn"), start, max_tasks_per_child=alone) as pool:
        waiting = {pool.submit(measure, run): run for run in runs}
        try:
            for number, done in enumerate(as_completed(waiting), 1):
                print(f"{number}/{len(runs)} {_name(waiting[done])}: ", end="")
                yield waiting[done], done.result()
        finally:
            pool.shutdown(cancel_futures=True)  # where one failed, or no more are asked for


def _name(run: Any) -> str:
    return run.name


def run_and_report(
    kept: KeptRuns,
    runs: Sequence[Any],
    measure: Callable[[Any], dict[str, Any]],
    report: Callable[[pd.DataFrame], str],
    description: str | None,
    example: str,
    module: str = "",
    start: Callable[[], None] | None = None,
) -> None:
    """Make the runs that are missing, as the command line asks for, and write their rows and the report.

    Args:
        kept: the rows that were made before.
        runs: all runs.
        measure: makes a run and returns what it found.
        report: writes the report from the rows, as Markdown.
        description, example: the texts of `--help`.
        module: the name of the module below `experiments`; by default that of the rows.
        start: what each process does first.
    """
    parser = argparse.ArgumentParser(prog=f"python -m experiments.{module or kept.name}", description=description)
    add_options(parser, example)
    options = parser.parse_args()
    missing = wanted(runs, options, lambda run: kept.row(run) is not None)
    for run, row in made_by(missing, measure, options.workers, start) if missing else ():
        print(*(f"{name} {row[name]:.3g}" for name in row if isinstance(row[name], float)), sep=", ", flush=True)
        kept.keep(run, row)
    rows, results = kept.table(runs), EXPERIMENTS / "results"
    if rows.empty:
        return
    rows.to_csv(results / f"{kept.name}.csv", index=False)
    (results / f"{kept.name}.md").write_text(report(rows))
