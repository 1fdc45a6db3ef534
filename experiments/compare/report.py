"""The table, the report and the plot of the comparison."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from experiments.compare.cells import BY_MBI, DELTA, EPSILONS, MOST_CELLS, MOST_PAIRS, MOST_SECONDS
from pgmest.files import atomic_path, write_atomically

RESULTS = Path(__file__).resolve().parents[1] / "results"

HEAD = f"""# All mechanisms on all tables

`python -m experiments.compare`. The error is the total variation distance between true and estimated marginals,
averaged over the pairs of attributes with at most {MOST_CELLS:,} cells (at most {MOST_PAIRS:,} of them); of the model,
not of records drawn from it, which are in compare.csv. Every mechanism is told to answer all pairs and
spends the budget named, delta {DELTA:g} where it uses one. Noise is simulated, junction trees are limited to 1 MB, and
HDMM answers by least squares; one seed, one thread, two runs at a time. A dash: not run yet, refused, or
stopped after {MOST_SECONDS:g} seconds; the last two are listed below with the reason.

"{BY_MBI}" has the measurements of MST and mbi 2.0.0's mirror descent, 1,000 iterations; its seconds are
of the estimate alone, with compilation, which each new set of cliques needs. mbi's repository has mechanisms of its
own, MST and AIM, which its package does not contain.
"""


def write(table: pd.DataFrame) -> None:
    """Write the results of all cells that were run."""
    with atomic_path(RESULTS / "compare.csv") as path:
        table.to_csv(path, index=False, float_format="%.5g")
    lines = [HEAD]
    for epsilon in EPSILONS:
        rows = table[table["epsilon"].eq(epsilon)]
        lines += [f"## Epsilon {epsilon:g}: error", "", *_pivot(rows, "error", "{:.3f}"), ""]
    rows = table[table["epsilon"].eq(1.0)]
    lines += [
        "## Epsilon 1: seconds",
        "",
        *_pivot(rows, "seconds", "{:.1f}"),
        "",
        "![error against seconds](compare.png)",
    ]
    notes = table[table["note"].fillna("").ne("")].drop_duplicates(["table", "mechanism"])
    if len(notes):
        lines += ["", "## What did not finish", ""]
        lines += [f"- {row.mechanism} on {row.table}: {str(row.note).splitlines()[0]}" for row in notes.itertuples()]
    write_atomically(RESULTS / "compare.md", "\n".join(lines) + "\n")
    _draw(rows)


def _pivot(rows: pd.DataFrame, value: str, form: str) -> list[str]:
    names, tables = list(dict.fromkeys(rows["mechanism"])), list(dict.fromkeys(rows["table"]))
    found = rows.set_index(["mechanism", "table"])[value]
    lines = ["| | " + " | ".join(tables) + " |", "|---|" + "---:|" * len(tables)]
    for name in names:
        values = [found.get((name, table)) for table in tables]
        lines.append(f"| {name} | " + " | ".join("-" if pd.isna(v) else form.format(v) for v in values) + " |")
    return lines


def _draw(rows: pd.DataFrame) -> None:
    """Geometric means over the tables that all mechanisms finished, relative to Independent's error."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    errors = rows.pivot_table(index="table", columns="mechanism", values="error")
    seconds = rows.pivot_table(index="table", columns="mechanism", values="seconds")
    relative = np.exp(np.log(errors.div(errors["Independent"], axis=0)).mean())
    typical = np.exp(np.log(seconds.clip(lower=1e-3)).mean())
    figure, axis = plt.subplots(figsize=(7, 4.5))
    for name in relative.index:
        axis.scatter(typical[name], relative[name], color="black", marker="x" if name == BY_MBI else "o", s=25)
        axis.annotate(f" {name} ({errors[name].notna().sum()})", (typical[name], relative[name]), fontsize=8)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("seconds (geometric mean over the tables it finished)")
    axis.set_ylabel("error / error of Independent (geometric mean)")
    axis.set_title("Epsilon 1; in brackets: how many tables it finished", fontsize=10)
    figure.tight_layout()
    with atomic_path(RESULTS / "compare.png") as path:
        figure.savefig(path, dpi=120, format="png")
    plt.close(figure)
