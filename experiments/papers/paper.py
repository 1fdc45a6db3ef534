"""A paper: its entries, and the steps that make all of their results."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.papers.entry import ROOT, Entry
from experiments.stored_rows import Cell, rows_of
from pgmest._base.files import write_atomically


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

    def table(self, cells: Iterable[Cell], name: str) -> pd.DataFrame:
        """The same as a table; empty where nothing has been run and nothing is to be."""
        return pd.DataFrame(self.rows(cells, name))

    def write_table(self, name: str, table: pd.DataFrame) -> None:
        """Write `NAME.csv` among the results."""
        path = self.results / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, table.to_csv(index=False, float_format="%.6g"))

    def few(self, full: int, quick: int) -> int:
        """A number of seeds, iterations, ...: `full`, or `quick` in a try."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Step:
    """One experiment of a paper; `run` writes its files to `Run.results`."""

    name: str
    run: Callable[[Run], None]


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
    """

    key: str
    short: str
    title: str
    steps: Sequence[Step]
    entries: Sequence[Entry]
    remarks: Sequence[str] = ()

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
