"""Figures 2 to 9 of PPSyn, and that of the leak."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.ticker import LogLocator

from experiments import figure_style as style
from experiments.ppsyn.cells import GROUPS, INDEPENDENT, MECHANISMS, PUBLISHED, best_forms

LABELS = {
    PUBLISHED: "PPSyn as published (not private)",
    "PPSyn": "PPSyn, ours (private)",
    INDEPENDENT: "independent attributes",
}
NAMES = {"adult14": "Adult", "BR2000": "BR2000", "loans": "Loans"}
COLORS = dict(zip(MECHANISMS, ("#009E73", "#0072B2", "#E69F00", "#D55E00", "#CC79A7"), strict=True))
COLORS[INDEPENDENT] = style.MUTED
METRICS = {
    "workload_error": "workload error (l1, share of records)",
    "ranges_3": "mean squared error of 3-attribute ranges",
    "ranges_5": "mean squared error of 5-attribute ranges",
}
NUMBERS = {"workload_error": 3, "ranges_3": 4, "ranges_5": 5}


def figure_2(table: pd.DataFrame, folder: Path) -> Path:
    """The budget that each partition of hours-per-week asks for; stars are where Algorithm 3 stops."""
    figure, (axes,) = style.panels(1, width=6.6, height=3.2)
    labels = {share: f"{share:.0%} of the distance from uniform" for share in table["contribution"].unique()}
    style.lines(axes, table, "size", "rho", "contribution", labels=labels, spread="none", log="y", markers=False)
    stops = table[table["stops"]]
    axes.plot(stops["size"], stops["rho"], "k*", markersize=9, label="where Algorithm 3 stops", zorder=3, linewidth=0)
    style.titles(axes, "hours-per-week, 99 cells", x="size of the partition |P|", y="budget asked for, rho")
    style.legend(figure, axes, title="contribution, eta 0.7")
    return _saved(figure, folder / "figure2.png")


def sweep(table: pd.DataFrame, folder: Path) -> list[Path]:
    """Figures 3 to 5: error against epsilon."""
    drawn = []
    for metric, label in METRICS.items():
        figure, panels = _panels(table["table"])
        for axes, (name, rows) in zip(panels, table.groupby("table", sort=False), strict=True):
            style.lines(axes, rows, "epsilon", metric, "mechanism", order=list(MECHANISMS), labels=LABELS, log="xy",
                        colors=COLORS)  # fmt: skip
            style.titles(axes, NAMES[str(name)], x="epsilon", y=label if axes is panels[0] else "")
        _ticks(panels)
        style.legend(figure, panels)
        drawn.append(_saved(figure, folder / f"figure{NUMBERS[metric]}.png"))
    return drawn


def support_vectors(table: pd.DataFrame, folder: Path) -> Path:
    """Figure 6: misclassification by epsilon, with 95 % intervals of the mean over the folds."""
    run = table[table["epsilon"] > 0]
    figure, panels = _panels(run["table"])
    for axes, (name, rows) in zip(panels, run.groupby("table", sort=False), strict=True):
        places, order = sorted(rows["epsilon"].unique()), [one for one in MECHANISMS if one in set(rows["mechanism"])]
        style.dots(axes, rows, "epsilon", "rate", "mechanism", order=order, places=places, labels=LABELS, colors=COLORS,
                   spread="interval")  # fmt: skip
        real = table.loc[(table["mechanism"] == "real records") & (table["table"] == name), "rate"].mean()
        style.reference(axes, float(real), "trained on real records")
        style.titles(axes, NAMES[str(name)], x="epsilon", y="misclassification" if axes is panels[0] else "")
    style.legend(figure, panels)
    return _saved(figure, folder / "figure6.png")


def etas(table: pd.DataFrame, folder: Path) -> list[Path]:
    """Figures 7 and 8: workload error and range error against eta."""
    drawn = []
    for number, metric in ((7, "workload_error"), (8, "ranges_3")):
        figure, panels = _panels(table["table"])
        for axes, (name, rows) in zip(panels, table.groupby("table", sort=False), strict=True):
            style.lines(axes, rows, "eta", metric, "mechanism", order=["PPSyn", PUBLISHED], labels=LABELS,
                        colors=COLORS)  # fmt: skip
            style.titles(
                axes, f"{NAMES[str(name)]}, epsilon 0.5", x="eta", y=METRICS[metric] if axes is panels[0] else ""
            )
        style.legend(figure, panels)
        drawn.append(_saved(figure, folder / f"figure{number}.png"))
    return drawn


def dimensions(table: pd.DataFrame, folder: Path) -> Path:
    """Figure 9: workload error against d."""
    figure, (axes,) = style.panels(1, width=6.6, height=3.2)
    style.lines(axes, table, "d", "workload_error", "mechanism", order=[*MECHANISMS, INDEPENDENT], labels=LABELS,
                colors=COLORS)  # fmt: skip
    axes.set_ylim(0, None)
    axes.set_xticks(sorted(table["d"].unique()))
    style.titles(axes, "BR2000, epsilon 0.1", x="attributes of a marginal, d", y=METRICS["workload_error"])
    style.legend(figure, axes)
    return _saved(figure, folder / "figure9.png")


def leaks(table: pd.DataFrame, folder: Path) -> Path:
    """The published algorithm with its leaks closed, of each group the best form, beside AIM and the private PPSyn."""
    order = [PUBLISHED, *GROUPS, "AIM", "PPSyn"]
    colors = {**COLORS, **dict(zip(GROUPS, ("#8C6D31", "#E69F00", "#56B4E9", "#000000"), strict=True))}
    best = best_forms(table, "workload_error")
    best = best[best.groupby(["table", "epsilon"])["mechanism"].transform(lambda names: names.isin(GROUPS).any())]
    figure, panels = _panels(best["table"])
    for axes, (name, rows) in zip(panels, best.groupby("table", sort=False), strict=True):
        style.lines(axes, rows, "epsilon", "workload_error", "mechanism", order=order, labels=LABELS, colors=colors,
                    log="xy")  # fmt: skip
        style.titles(axes, NAMES[str(name)], x="epsilon", y=METRICS["workload_error"] if axes is panels[0] else "")
    _ticks(panels)
    style.legend(figure, panels)
    return _saved(figure, folder / "leak.png")


def _ticks(panels: Sequence[style.Axes]) -> None:
    """Some epsilons of the paper on the axis, and more than powers of ten beside it."""
    for axes in panels:
        axes.set_xticks([0.05, 0.2, 0.5, 2], ["0.05", "0.2", "0.5", "2"])
        axes.set_xlim(0.042, 2.4)
    _finer(panels)


def _finer(panels: Sequence[style.Axes]) -> None:
    """Labels at 1, 2 and 5 times powers of ten."""
    for axes in panels:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))


def _panels(tables: pd.Series) -> tuple[style.Figure, list[style.Axes]]:
    """A panel for each table, and room for the legend beside them."""
    count = tables.nunique()
    return style.panels(count, width=3.4 + 2.6 / count, height=3.2)


def _saved(figure: style.Figure, path: Path) -> Path:
    style.save(figure, path)
    return path
