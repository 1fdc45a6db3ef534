"""A paper: its lines, and the steps that make all of their results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import pandas as pd

from experiments.papers.line import Line
from experiments.papers.reading import RESULTS, ROOT
from experiments.stored_rows import Cell, Row, known_row, published_rows, rows_of, table_of
from pgmest._base.files import write_atomically


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
        fresh: run again also what has a stored result.
        stored: run nothing, and report what has a stored result: of a run that was stopped.
    """

    fresh: bool = False
    stored: bool = False

    @property
    def cells(self) -> Path:
        """Where the rows of single runs are kept (`experiments/stored_rows.py`), so that a run can go on."""
        return ROOT / "build" / "cells"

    def rows(self, runs: Runs) -> list[Row]:
        """The rows of the cells of an experiment, run where they are missing and that is asked for."""
        return list(rows_of(runs.cells, self.cells / runs.folder, _published(runs), self.fresh, self.stored))

    def table(self, runs: Runs) -> pd.DataFrame:
        """The same as a table; empty where nothing has been run and nothing is to be."""
        return table_of(self.rows(runs))

    def missing(self, runs: Runs) -> list[Cell]:
        """The cells without a row."""
        published = {} if self.fresh else _published(runs)
        return [c for c in runs.cells if self.fresh or known_row(c, self.cells / runs.folder, published) is None]

    def write_table(self, name: str, table: pd.DataFrame) -> None:
        """Write `NAME.csv` among the results, unless it would be empty."""
        if len(table):
            path = RESULTS / f"{name}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, table.to_csv(index=False, float_format="%.6g"))


def _published(runs: Runs) -> dict[str, Row]:
    """What the tables among the results have."""
    return published_rows((RESULTS / f"{name}.csv" for name in runs.tables), runs.lists)


@dataclass(frozen=True)
class Paper:
    """A paper that pgmest builds on.

    Attributes:
        key: what the command calls it.
        short: the short name in docstrings.
        title: authors, title, where it appeared.
        setting: what all lines have in common, said above their table.
        steps: what makes its results, by name, in order; each writes its tables.
        runs: the single runs of its steps.
        lines: what it says of its results.
        findings: sentences for the top of the page, made of our numbers.
        not_attempted: what it says that was not tried here.
    """

    key: str
    short: str
    title: str
    setting: str
    steps: dict[str, Callable[[Run], None]]
    runs: Callable[[], Sequence[Runs]]
    lines: Sequence[Line]
    findings: Callable[[], Sequence[str]]
    not_attempted: Sequence[str]

    def run(self, how: Run, only: Sequence[str] = ()) -> None:
        """Run the steps, or those named; say how long each took."""
        for name, step in self.steps.items():
            if not only or name in only:
                start = time.perf_counter()
                step(how)
                print(f"{self.key} {name}: {time.perf_counter() - start:.0f} s", flush=True)

    def missing(self, how: Run, patterns: Sequence[str] = ("*",)) -> Iterator[Runs]:
        """What of its single runs has no row yet, and a name like one of the patterns; each is in one place only."""
        seen: set[tuple[str, str]] = set()
        for runs in self.runs():
            lacking = [
                cell
                for cell in how.missing(runs)
                if (runs.folder, cell.name) not in seen and any(fnmatchcase(cell.name, one) for one in patterns)
            ]
            seen |= {(runs.folder, cell.name) for cell in lacking}
            yield replace(runs, cells=lacking)
