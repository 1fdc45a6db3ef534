"""A paper: its entries, and the steps that make all of their results."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import pandas as pd

from experiments.papers.entry import ROOT, Entry
from experiments.stored_rows import Cell, Row, known_row, published_rows, rows_of, table_of
from pgmest._base.files import write_atomically

A_TRY = "**A try: few seeds, few settings and rough numbers. Nothing here is a result.**"
PUBLISHED = ROOT / "experiments" / "results"


@dataclass(frozen=True)
class Runs:
    """The single runs of an experiment, and where their rows are.

    Attributes:
        folder: in `Run.cells`.
        cells: the runs.
        tables: those among the results that have rows of these cells.
        lists: the columns of these tables that are lists in a row.
    """

    folder: str
    cells: Sequence[Cell]
    tables: Sequence[str]
    lists: Sequence[str] = ()


@dataclass(frozen=True)
class Run:
    """The options of a step's run, and the folders of its files.

    Attributes:
        quick: a try, with fewer seeds and iterations, whose numbers are rough and kept apart.
        fresh: run again also what has a stored result.
        stored: run nothing, and report what has a stored result: of a run that was stopped.
    """

    quick: bool = False
    fresh: bool = False
    stored: bool = False

    @property
    def results(self) -> Path:
        """The folder of tables, reports and figures; those of a trial do not replace the published ones."""
        return ROOT / "build" / "quick" if self.quick else PUBLISHED

    @property
    def cells(self) -> Path:
        """Where the rows of single runs are kept (`experiments/stored_rows.py`), so that a run can go on."""
        return ROOT / "build" / ("quick-cells" if self.quick else "cells")

    def rows(self, runs: Runs) -> list[Row]:
        """The rows of the cells of an experiment, run where they are missing and that is asked for."""
        return list(rows_of(runs.cells, self.cells / runs.folder, self._published(runs), self.fresh, self.stored))

    def table(self, runs: Runs) -> pd.DataFrame:
        """The same as a table; empty where nothing has been run and nothing is to be."""
        return table_of(self.rows(runs))

    def missing(self, runs: Runs) -> list[Cell]:
        """The cells without a row."""
        published = {} if self.fresh else self._published(runs)
        return [c for c in runs.cells if self.fresh or known_row(c, self.cells / runs.folder, published) is None]

    def _published(self, runs: Runs) -> dict[str, Row]:
        """What the tables among the results have; nothing for a try, which runs everything itself."""
        return {} if self.quick else published_rows((PUBLISHED / f"{name}.csv" for name in runs.tables), runs.lists)

    def write_table(self, name: str, table: pd.DataFrame) -> None:
        """Write `NAME.csv` among the results."""
        path = self.results / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, table.to_csv(index=False, float_format="%.6g"))

    def write_report(self, name: str, text: str) -> None:
        """Write `NAME.md` among the results; that of a try says first that it is one."""
        path = self.results / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, f"{A_TRY}\n\n{text}" if self.quick else text)

    def few(self, full: int, quick: int) -> int:
        """A number of seeds, iterations, ...: `full`, or `quick` in a try."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Step:
    """One experiment of a paper; `run` writes its files to `Run.results`."""

    name: str
    run: Callable[[Run], None]


def runs_of(module: str) -> Callable[[Run], Sequence[Runs]]:
    """What the function `runs` of a module names; it is imported when that is asked for."""
    return lambda how: list(importlib.import_module(module).runs(how).values())


def steps_of(module: str, names: Iterable[str]) -> tuple[Step, ...]:
    """The functions of a module as steps; it is imported when one runs, for pages are made without it."""

    def step(name: str) -> Step:
        return Step(name, lambda how: getattr(importlib.import_module(module), name)(how))

    return tuple(map(step, names))


@dataclass(frozen=True)
class Paper:
    """A paper that pgmest builds on.

    Attributes:
        key: what the command calls it.
        short: the short name in docstrings.
        title: authors, title, where it appeared.
        steps: what makes its results, in order.
        entries: its algorithms, tables and figures, in the paper's order.
        remarks: sentences below its table.
        runs: the single runs of its steps, as they would be for a `Run`.
    """

    key: str
    short: str
    title: str
    steps: Sequence[Step]
    entries: Sequence[Entry]
    remarks: Sequence[str] = ()
    runs: Callable[[Run], Sequence[Runs]] = lambda how: ()

    def run(self, how: Run, only: Sequence[str] = ()) -> float:
        """Run the steps, or those named; say how long each took, and return the seconds of processor in all."""
        before = time.process_time()
        for step in self.steps:
            if only and step.name not in only:
                continue
            start = time.perf_counter()
            step.run(how)
            print(f"{self.key} {step.name}: {time.perf_counter() - start:.0f} s", flush=True)
        return time.process_time() - before

    def missing(self, how: Run, patterns: Sequence[str] = ("*",)) -> Iterator[Runs]:
        """What of its single runs has no row yet, and a name like one of the patterns; each is in one place only."""
        seen: set[tuple[str, str]] = set()
        for runs in self.runs(how):
            lacking = [
                cell
                for cell in how.missing(runs)
                if (runs.folder, cell.name) not in seen and any(fnmatchcase(cell.name, one) for one in patterns)
            ]
            seen |= {(runs.folder, cell.name) for cell in lacking}
            yield replace(runs, cells=lacking)
