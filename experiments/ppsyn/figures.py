"""The pictures: figures 3 to 9, a panel for each table."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

SWEEPS = {
    "workload_error": "total variation error of the workload's pairs",
    "ranges_3": "RMSE of 3-dimensional ranges (share of the records)",
    "ranges_5": "RMSE of 5-dimensional ranges (share of the records)",
    "svm": "misclassification rate of the SVM",
    "seconds": "seconds of the run",
}
"""Figures 3 to 6 and 9: against epsilon."""

PARAMETERS = {
    "eta": "noise allowed, eta (epsilon 0.5, pairs)",
    "dimensions": "attributes of a marginal, d (epsilon 0.5, triples)",
}
"""Figures 7 and 8: total variation error of the workload, against a parameter of PPSyn."""

COLOURS = {
    "Independent": "tab:gray",
    "MST": "tab:brown",
    "AIM": "tab:blue",
    "PrivMRF": "tab:green",
    "PPSyn": "tab:red",
    "PPSynAsPublishedNotPrivate": "tab:pink",
}

NUMBERS = {"workload_error": 3, "ranges_3": 4, "ranges_5": 5, "svm": 6, "eta": 7, "dimensions": 8, "seconds": 9}


def draw_all(table: pd.DataFrame, real: dict[str, float], folder: Path) -> list[Path]:
    """Draw what the table has, one file for each figure."""
    drawn = []
    plain = table[table["k"].eq(2) & _column(table, "eta").isna() & _column(table, "dimensions").isna()]
    for measure, label in SWEEPS.items():
        path = folder / f"figure{NUMBERS[measure]}_{measure}.png"
        drawn.append(_draw(plain, "epsilon", measure, ("epsilon", label), path, real if measure == "svm" else {}))
    for parameter, label in PARAMETERS.items():
        rows = table[_column(table, parameter).notna()]
        path = folder / f"figure{NUMBERS[parameter]}_{parameter}.png"
        drawn.append(_draw(rows, parameter, "workload_error", (label, "total variation error"), path, {}))
    return drawn


def _column(table: pd.DataFrame, name: str) -> pd.Series:
    return table[name] if name in table else pd.Series(float("nan"), index=table.index)


def _draw(
    rows: pd.DataFrame, across: str, measure: str, labels: tuple[str, str], path: Path, lines: dict[str, float]
) -> Path:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(rows["table"]))
    figure, axes = plt.subplots(1, len(names), figsize=(4 * len(names), 3.4), squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        for mechanism, points in rows[rows["table"].eq(name)].groupby("mechanism", sort=False):
            means = points.groupby(across)[measure].mean()
            style = "--" if str(mechanism).endswith("NotPrivate") else "-"
            axis.plot(
                means.index, means.values, style, marker="o", ms=3, color=COLOURS[str(mechanism)], label=mechanism
            )
        if name in lines:
            axis.axhline(lines[name], color="black", lw=0.7, ls=":", label="real records")
        if across == "epsilon":
            axis.set_xscale("log")
        if measure != "svm":
            axis.set_yscale("log")
        axis.set_title(name, fontsize=10)
        axis.set_xlabel(labels[0])
    axes[0, 0].set_ylabel(labels[1], fontsize=8)
    axes[0, 0].legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(path, dpi=70)
    plt.close(figure)
    return path
