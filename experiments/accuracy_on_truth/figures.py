"""The plot: error on the truth along each path, against the loss."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from experiments.accuracy_on_truth.rules import CAUTIOUS

FAMILIES = {
    "accelerated from uniform": "tab:blue",
    "accelerated from independent": "tab:orange",
    "mirror descent from uniform": "tab:gray",
    "KL penalty from uniform": "tab:purple",
    "KL penalty from independent": "tab:green",
    "mirror flow from independent": "tab:red",
}


def draw(table: pd.DataFrame, path: Path) -> None:
    """A panel for each case (row) and noise level (column): first seed; measured solid, unmeasured pairs dotted.

    Errors are relative to those of the exact optimum; the loss is over the noise floor.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    cases = list(dict.fromkeys(table.case))
    columns = max(table[table.case == case].stddev.nunique() for case in cases)
    figure, axes = plt.subplots(len(cases), columns, figsize=(4 * columns, 3 * len(cases)), squeeze=False)
    for i, case in enumerate(cases):
        for j, (stddev, panel) in enumerate(table[table.case == case].groupby("stddev")):
            _panel(axes[i, j], panel[panel.seed == panel.seed.min()])
            axes[i, j].set_title(f"{case}, stddev {stddev:g}", fontsize=9)
    axes[0, 0].legend(fontsize=6)
    figure.supxlabel("loss / noise floor (triangle: held-out choice of the flow; dashed line: exact optimum)")
    figure.supylabel("total-variation error / that of the exact optimum")
    figure.tight_layout()
    figure.savefig(path, dpi=70)
    plt.close(figure)


def _panel(axis: object, panel: pd.DataFrame) -> None:
    exact = panel[panel.family == "exact optimum"].iloc[0]
    for family, color in FAMILIES.items():
        points = panel[(panel.family == family) & (panel.rule == "path")].sort_values("parameter")
        points = points[points.loss_over_floor < 1.6]
        axis.plot(points.loss_over_floor, points.measured / exact.measured, color=color, lw=1, label=family)
        axis.plot(points.loss_over_floor, points.pairs / exact.pairs, color=color, lw=0.8, ls=":")
    held = panel[(panel.family == "mirror flow from independent") & (panel.rule == CAUTIOUS)]
    axis.plot(held.loss_over_floor, held.measured / exact.measured, "v", color="tab:red", ms=6)
    axis.axvline(exact.loss_over_floor, color="black", ls="--", lw=0.7)
    axis.axhline(1.0, color="black", lw=0.5)
    axis.set_ylim(0.6, 1.5)
