"""Coverage and widths over tables, seeds and budgets, each table weighted evenly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from experiments.coverage_of_mechanisms.scores import REACH

FEWEST = 30
"""A table with fewer answers of a class than this is not called the worst."""


def by_table(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return a row for each combination of the keys and each table: means over seeds, and ratios to an oracle's width.

    The oracle knows how large the errors of a class are on a table, over all seeds.
    """
    rows = rows[rows["answers"] > 0].copy()
    for mark in ("", " present"):
        rows[f"square{mark}"] = np.square(rows[f"rms{mark}"])
    numbers = ["held", "held present", "below", "above", "next", "width", "width present", "square", "square present"]
    groups = rows.groupby([*keys, "table"], sort=False)
    found = groups[numbers].mean().join(groups[["answers", "present", "refused"]].sum()).reset_index()
    found["held"] = found["held"].round(4)  # kept rows have more digits than the committed ones
    for mark in ("", " present"):
        oracle = 2 * REACH * np.sqrt(found[f"square{mark}"])
        found[f"ratio{mark}"] = np.log(np.maximum(found[f"width{mark}"], 1e-9) / np.maximum(oracle, 1e-9))
    return found


def summary(rows: pd.DataFrame, keys: Sequence[str] = ("mechanism", "epsilon", "class")) -> pd.DataFrame:
    """Return a row for each combination of the keys, tables weighted evenly."""
    found = []
    for key, group in by_table(rows, keys).groupby(list(keys), sort=False):
        large = group[group["answers"] >= FEWEST]
        worst = large.sort_values(["held", "table"]).iloc[0] if len(large) else None
        found.append(
            {
                **dict(zip(keys, key, strict=True)),
                "answers": int(group["answers"].sum()),
                "refused": int(group["refused"].sum()),
                "held": group["held"].mean(),
                "present": group["held present"].mean(),
                "below": group["below"].mean(),
                "above": group["above"].mean(),
                "worst": np.nan if worst is None else worst["held"],
                "worst table": "" if worst is None else worst["table"],
                "ratio": np.exp(group["ratio"].mean()),
                "ratio present": np.exp(group["ratio present"].mean()),
                "next": group["next"].median(),
            }
        )
    return pd.DataFrame(found)
