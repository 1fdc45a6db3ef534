"""Reads the tables in `experiments/results`, for the lines of the papers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "experiments" / "results"


def rows(name: str, **where: Any) -> pd.DataFrame:
    """The rows of `experiments/results/NAME.csv` whose columns have the given values.

    Raises:
        KeyError: it has no such row.
    """
    table = _read(RESULTS / f"{name}.csv")
    for column, value in where.items():
        table = table[table[column] == value]
    if table.empty:
        raise KeyError(f"{name} has no row with {where}.")
    return table


@cache
def _read(path: Path) -> pd.DataFrame:
    """Return a table, which is read once; nobody may change what is returned."""
    return pd.read_csv(path)


def median(name: str, column: str, **where: Any) -> float:
    """The median of a column of those rows."""
    return float(rows(name, **where)[column].median())
