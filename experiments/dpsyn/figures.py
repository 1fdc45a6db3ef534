"""DPSyn's figures: noise on k marginals, scores against epsilon, GUM against flows, PrivBasis."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from experiments import figure_style as style
from experiments.dpsyn import noise
from experiments.dpsyn.cells import EPSILONS, FLOWS, FLOWS_LONG, HALF_COPIES, OURS, PUBLISHED, RAISED, SCHEDULES, SCORED

COLORS = {PUBLISHED: "#D55E00", SCORED: "#CC79A7", HALF_COPIES: "#E69F00", OURS: "#0072B2", FLOWS: "#009E73"}
SCORES = {
    ("fire", "density"): "density estimation",
    ("fire", "ranges"): "range queries",
    ("acs/IL_OH", "pay_gap"): "Gini index and pay gap",
}
TABLES = {"fire": "fire calls", "fire30": "fire calls, 30 attributes", "acs/IL_OH": "census, Ohio and Illinois"}


def figure_2(path: Path) -> Path:
    """The standard deviation of each cell against k, and the crossings that the paper prints."""
    figure, panels = style.panels(4, columns=2, width=4.6, height=2.7, share_x=True)
    ks = np.unique(np.round(np.logspace(0, 3, 40)).astype(int))
    for axes, (panel, (epsilon, delta)) in zip(panels, noise.PANELS.items(), strict=True):
        rows = [(int(k), name, of(int(k), epsilon, delta)) for name, of in noise.APPROACHES.items() for k in ks]
        frame = pd.DataFrame(rows, columns=["k", "approach", "stddev"])
        labels = {"lap adv": "lap adv (under lap zcdp)"}
        style.lines(axes, frame, "k", "stddev", "approach", labels=labels, spread="none", log="xy", markers=False)
        axes.set_xticks([1, 10, 100, 1000])
        k = noise.CROSSINGS[panel]
        style.paper_marks(axes, [k], [noise.gauss_zcdp(k, epsilon, delta)], "crossing printed in the paper")
        last = panel in "CD"
        style.titles(axes, f"epsilon {epsilon:g}, delta {delta:g}", x="marginals k" if last else "",
                     y="standard deviation" if panel in "AC" else "")  # fmt: skip
    style.legend(figure, panels)
    return _saved(figure, path)


def scores(table: pd.DataFrame, path: Path) -> Path:
    """The three scores of the contest against epsilon."""
    shown = [key for key in SCORES if key[0] in set(table["table"])]
    figure, panels = style.panels(len(shown), width=3.2 + 1.8 / len(shown), height=3.0)
    for axes, (name, score) in zip(panels, shown, strict=True):
        rows = table[table["table"] == name].assign(score=table[score] / 1000)
        style.lines(axes, rows, "epsilon", "score", "method", order=list(COLORS), colors=COLORS, log="x")
        axes.set_xticks(list(EPSILONS), [f"{epsilon:g}" for epsilon in EPSILONS])
        style.titles(axes, f"{SCORES[name, score]}\n({TABLES[name]})", x="epsilon",
                     y="score, in thousands (perfect: 1,000)" if axes is panels[0] else "")  # fmt: skip
    style.legend(figure, panels)
    return _saved(figure, path)


def convergence(table: pd.DataFrame, path: Path) -> Path:
    """The error of the tables against iterations: GUM with its schedules, copies or not, and flows."""
    figure, panels = style.panels(2, width=4.6, height=3.4, share_y=True)
    schedules = {f"{RAISED}, {one}": f"alpha 1, {one.replace('_', ' ')} decay" for one in SCHEDULES}
    others = {
        f"{OURS}, long": "GUM, ours",
        PUBLISHED: "published: alpha 0.2, step decay",
        f"{PUBLISHED}, replace only": "published, replace only",
        FLOWS_LONG: "flows (MCF)",
    }
    colors = dict(zip([*schedules, *others], style.COLORS, strict=True))
    for axes, labels, title in zip(
        panels, (schedules, others), ("GUM as published, alpha 1", "GUM, copies, flows"), strict=True
    ):
        rows = table[table["method"].isin(labels)]
        style.lines(axes, rows, "iteration", "error", "method", order=list(labels), labels=labels, colors=colors,
                    log="y", markers=False)  # fmt: skip
        style.titles(axes, title, x="iteration", y="mean total variation of the tables" if axes is panels[0] else "")
    style.legend(figure, panels)
    return _saved(figure, path)


def itemsets(table: pd.DataFrame, path: Path) -> Path:
    """PrivBasis: how many of the frequent itemsets are found, and how far off their supports are."""
    figure, panels = style.panels(3, width=4.0, height=2.8)
    labelled = table.assign(share=table["theta"].map(lambda theta: f"in {theta:.0%} of the records or more"))
    named = {"precision": "precision", "recall": "recall", "relative_error": "median relative error of supports"}
    for axes, (value, label) in zip(panels, named.items(), strict=True):
        style.lines(axes, labelled, "epsilon", value, "share", log="xy" if value == "relative_error" else "x")
        axes.set_xticks([0.03, 0.1, 0.3, 1], ["0.03", "0.1", "0.3", "1"])
        style.titles(axes, label, x="epsilon")
    style.legend(figure, panels)
    return _saved(figure, path)


def _saved(figure: style.Figure, path: Path) -> Path:
    style.save(figure, path)
    return path
