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

TEXT = """# A.3: direct optimization against the proximal algorithms

`python -m experiments.papers pgm --step direct`. HDMM's measurements at epsilon 1, squared loss, one seed. Each method
runs for some iterations; the losses are compared at the least of the three times of processor, and the loss at the
optimum is the least that any of them has found. *Loss*: half squares per answer in units of the noise.

| table | seconds | {names} | least found |
|---|---|---|---|---|---|
{rows}

The workload error at the same time:

| table | {names} |
|---|---|---|---|
{errors}
"""


def runs(run: Run) -> Runs:
    """L-BFGS, Algorithm 1 and Algorithm 2 on each table."""
    names = [name for name in DATASETS if not run.quick or name == "titanic"]
    cells = [Path(PAPERS, 0, run.few(ITERATIONS, 60), dataset=name) for name in names]
    cells += [Path(method, 0, run.few(MOST[name], 30), dataset=name) for name in names for method in (DIRECT, PROXIMAL)]
    return Runs("pgm_paths", cells, ("pgm_direct_path", "pgm_figure3_path"), LISTS)


def make(run: Run) -> None:
    """Run what is missing, and write the tables and the report."""
    rows = run.rows(runs(run))
    table = compared(rows)
    run.write_table("pgm_direct", table)
    run.write_table("pgm_direct_path", table_of(rows))
    names = [DIRECT, PROXIMAL, PAPERS]
    lines, errors = [], []
    for _, row in table.iterrows():
        losses = " | ".join(f"{row[name]:.4f}" for name in names)
        lines.append(f"| {row.dataset} | {row.seconds:.2g} | {losses} | {row.least:.4f} |")
        errors.append(f"| {row.dataset} | " + " | ".join(f"{row['error, ' + name]:.4f}" for name in names) + " |")
    text = TEXT.format(names=" | ".join(names), rows="\n".join(lines), errors="\n".join(errors))
    run.write_report("pgm_direct", text)


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
