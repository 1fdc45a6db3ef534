"""Reads single numbers from the tables in `experiments/results`, for the entries of the papers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.papers.entry import ROOT

RESULTS = ROOT / "experiments" / "results"


def rows(name: str, **where: Any) -> pd.DataFrame:
    """The rows of `experiments/results/NAME` whose columns have the given values.

    Raises:
        FileNotFoundError: the table was not made yet.
        KeyError: it has no such row.
    """
    path = RESULTS / name
    table = _read(path, path.stat().st_mtime_ns)
    for column, value in where.items():
        table = table[table[column] == value]
    if table.empty:
        raise KeyError(f"{name} has no row with {where}.")
    return table


@cache
def _read(path: Path, changed: int) -> pd.DataFrame:
    """Return a table, which is read once until its file changes; nobody may change what is returned."""
    return pd.read_csv(path)


def by_seed(name: str, column: str, **where: Any) -> list[float]:
    """A column of those rows, which are the seeds of one setting."""
    return [float(value) for value in rows(name, **where)[column].dropna()]


def median(name: str, column: str, **where: Any) -> float:
    """The median of the same."""
    return float(rows(name, **where)[column].median())
