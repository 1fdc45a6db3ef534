"""Figure 3: minimizing L1 and L2 loss on HDMM's measurements of Adult, judged by both losses and the workload error."""

from __future__ import annotations

from typing import Any

import pandas as pd

from experiments.papers.paper import Run, Runs
from experiments.pgm_icml2019.paths import AUTHORS, LISTS, OURS, PAPERS, SMALLEST, Path
from experiments.pgm_icml2019.published.algorithm2 import ITERATIONS as ITERATIONS_OF_THE_PAPER
from experiments.stored_rows import table_of

SEEDS, ITERATIONS = 5, 300
SCAN = {"Algorithm 2, K / 100": 1000, OURS: 1000, SMALLEST: 1000}
"""Iterations of Algorithm 2 with smaller constants, one seed each."""
LONG = 3000
"""Those of Algorithm 1 with the authors' line search."""
PAPER_BEST, PAPER_END = 0.066, 0.084
REPEATS = 3
STEADY = ("Algorithm 1, line search", "accelerated", "smoothing")
"""Solvers of pgmest that are run on every seed."""


def runs() -> Runs:
    """All paths, with where their rows are: how each path ended, and for some the way there."""
    seeds = range(SEEDS)
    found = [Path(PAPERS, seed, ITERATIONS_OF_THE_PAPER) for seed in seeds]
    found += [Path(AUTHORS, seed, LONG) for seed in seeds]
    found += [Path(method, seed, ITERATIONS) for seed in seeds for method in STEADY]
    found += [Path(method, 0, most) for method, most in SCAN.items()]
    found += [Path(method, 0, ITERATIONS, repeats=REPEATS) for method in ("accelerated", "smoothing")]
    return Runs("pgm_paths", found, ("pgm_figure3", "pgm_figure3_path"), LISTS)


def make(run: Run) -> None:
    """Run what is missing, and write the tables."""
    rows = run.rows(runs())
    run.write_table("pgm_figure3", ends(rows))
    run.write_table("pgm_figure3_path", table_of(row for row in rows if "iteration" in row))


def ends(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """A line for each path: how it ended and the least error along it; a row that is such a line stays as it is."""
    return pd.DataFrame([_end(row) if "iteration" in row else row for row in rows])


def _end(row: dict[str, Any]) -> dict[str, Any]:
    least = min(row["error"])
    kept = ("run", "dataset", "method", "loss", "seed", "epsilon", "repeats", "constant", "gap", "local",
            "measured_local", "measured_end")  # fmt: skip
    return {name: row[name] for name in kept if name in row} | {
        "iterations": int(row["iteration"][-1]),
        "l1": row["l1"][-1],
        "l2": row["l2"][-1],
        "end": row["error"][-1],
        "least": least,
        "least_at": int(row["iteration"][row["error"].index(least)]),
    }
