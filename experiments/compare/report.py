"""The table, the report and the plot of the comparison."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from experiments.compare.cells import BY_MBI, DELTA, EPSILONS, MBI_ITERATIONS, MOST_CELLS, MOST_PAIRS
from pgmest._base.files import atomic_path, write_atomically

RESULTS = Path(__file__).resolve().parents[1] / "results"
SHOWN = (0.08, 8.0)
"""The relative errors that the plot shows; some of single tables lie outside."""
LABEL_HEIGHT = 0.045
"""Of the height of the plot."""

HEAD = f"""# All mechanisms on all tables

`python -m experiments.compare`. The error is the total variation distance between true and estimated marginals,
averaged over the pairs of attributes with at most {MOST_CELLS:,} cells (at most {MOST_PAIRS:,} of them); of the model,
not of records drawn from it, which are in compare.csv. Every mechanism is told to answer all pairs and
spends the budget named, delta {DELTA:g} where it uses one. Noise is simulated, junction trees are limited to 1 MB,
HDMM answers by least squares and DualQuery with its own records; one seed, one thread, two runs at a time. A dash:
refused or stopped, as listed below with the reason; no public table, for PMWPub; or not run.

Where mbi 2.0.0 estimates, it is given the mechanism's measurements and runs mirror descent, {MBI_ITERATIONS:,}
iterations, after the last of them for MST and after every round for AIM, started from its last estimate. The seconds
are of its estimates alone, with compilation, which each new set of cliques needs. (mbi's repository has an MST and an
AIM of its own, which its package does not contain.)
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
    """Each run a gray dot; each mechanism's geometric means over the tables that it finished, named at the side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    errors = rows.pivot_table(index="table", columns="mechanism", values="error")
    seconds = rows.pivot_table(index="table", columns="mechanism", values="seconds").clip(lower=1e-3)
    relative = errors.div(errors["Independent"], axis=0)
    x, y = (np.exp(np.log(values).mean()) for values in (seconds, relative))
    figure, axis = plt.subplots(figsize=(9, 5.5))
    axis.scatter(seconds.to_numpy(), relative.to_numpy(), color="0.85", s=8)
    for name in relative.columns:
        axis.scatter(x[name], y[name], color="black", marker="x" if name in BY_MBI else "o", s=30, zorder=3)
    axis.set(xscale="log", yscale="log", xlabel="seconds", ylabel="error / error of Independent", ylim=SHOWN)
    for name, height in _apart(np.log(y / SHOWN[0]) / np.log(SHOWN[1] / SHOWN[0])).items():
        axis.annotate(
            f"{name} ({relative[name].notna().sum()})",
            (x[name], y[name]),
            (1.03, height),
            textcoords="axes fraction",
            va="center",
            fontsize=8,
            arrowprops={"arrowstyle": "-", "color": "0.6", "linewidth": 0.6, "relpos": (0.0, 0.5)},
        )
    axis.set_title("Epsilon 1. Gray: a table; black: geometric means over the tables finished (how many)", fontsize=10)
    figure.tight_layout()
    with atomic_path(RESULTS / "compare.png") as path:
        figure.savefig(path, dpi=120, format="png")
    plt.close(figure)


def _apart(heights: pd.Series) -> dict[str, float]:
    """Heights between 0 and 1 for labels: in order, near those given, and far enough apart to be read."""
    ordered = heights.sort_values()
    placed = np.maximum.accumulate(ordered.to_numpy() - LABEL_HEIGHT * np.arange(len(ordered)))
    placed += LABEL_HEIGHT * np.arange(len(ordered))
    return dict(zip(ordered.index, placed - np.mean(placed - ordered.to_numpy()), strict=True))
