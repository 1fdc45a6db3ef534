"""PGM A.3: direct optimization of the potentials by L-BFGS against the two proximal algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments.papers.paper import Run, Runs
from experiments.pgm_icml2019.paths import LISTS, PAPERS, Path
from experiments.pgm_icml2019.problem import DATASETS
from experiments.pgm_icml2019.published.algorithm2 import ITERATIONS
from experiments.stored_rows import table_of

DIRECT, PROXIMAL = "L-BFGS on potentials", "Algorithm 1, line search"
MOST = {"titanic": 2000, "adult": 300, "loans": 300, "stroke": 2000}
"""Iterations of these two; Algorithm 2 has the paper's."""


def runs() -> Runs:
    """L-BFGS, Algorithm 1 and Algorithm 2 on each table."""
    cells = [Path(PAPERS, 0, ITERATIONS, dataset=name) for name in DATASETS]
    cells += [Path(method, 0, MOST[name], dataset=name) for name in DATASETS for method in (DIRECT, PROXIMAL)]
    return Runs("pgm_paths", cells, ("pgm_direct_path", "pgm_figure3_path"), LISTS)


def make(run: Run) -> None:
    """Run what is missing, and write the tables."""
    rows = run.rows(runs())
    run.write_table("pgm_direct", compared(rows))
    run.write_table("pgm_direct_path", table_of(rows))


def compared(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """A line for each table that all three were run on: their losses and errors after the same seconds."""
    found = []
    for name in DATASETS:
        mine = {row["method"]: row for row in rows if row["dataset"] == name}
        if not {DIRECT, PROXIMAL, PAPERS} <= set(mine):
            continue
        seconds = min(row["seconds"][-1] for row in mine.values())
        line: dict[str, Any] = {"dataset": name, "seconds": seconds, "least": min(min(r["l2"]) for r in mine.values())}
        for method, row in mine.items():
            line[method] = float(np.interp(seconds, row["seconds"], row["l2"]))
            line[f"error, {method}"] = float(np.interp(seconds, row["seconds"], row["error"]))
        found.append(line)
    return pd.DataFrame(found)
