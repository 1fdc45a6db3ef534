"""A paper: its entries, and the steps that make all of their results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.papers.entry import ROOT, Entry
from experiments.stored_rows import Cell, rows_of


@dataclass(frozen=True)
class Run:
    """How a step is to run, and where it puts what it makes.

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
        """Where tables, reports and figures go; those of a try do not touch the published ones."""
        return ROOT / "build" / "quick" if self.quick else ROOT / "experiments" / "results"

    @property
    def cells(self) -> Path:
        """Where the rows of single runs are kept (`experiments/stored_rows.py`), so that a run can go on."""
        return ROOT / "build" / ("quick-cells" if self.quick else "cells")

    def rows(self, cells: Iterable[Cell], name: str) -> list[dict[str, Any]]:
        """The rows of the cells of an experiment, run where they are missing and that is asked for."""
        return list(rows_of(cells, self.cells / name, self.fresh, self.stored))

    def few(self, full: int, quick: int) -> int:
        """A number of seeds, iterations, ...: `full`, or `quick` in a try."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Step:
    """One experiment of a paper; `run` writes its files to `Run.results`."""

    name: str
    run: Callable[[Run], None]


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
    """

    key: str
    short: str
    title: str
    steps: Sequence[Step]
    entries: Sequence[Entry]
    remarks: Sequence[str] = ()

    def run(self, how: Run, only: Sequence[str] = ()) -> None:
        """Run the steps, or those named; say how long each took."""
        for step in self.steps:
            if only and step.name not in only:
                continue
            start = time.perf_counter()
            step.run(how)
            print(f"{self.key} {step.name}: {time.perf_counter() - start:.0f} s", flush=True)
