"""Pictures of privacy budgets: the noise that they need, and the error of mechanisms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.plots.style import INK, LINES, NEW, pyplot_for, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_noise_choices(ks: Iterable[int], epsilon: float, delta: float) -> Figure:
    """Draw the noise for k marginals under each noise distribution and composition theorem (DPSyn, Figure 2).

    Both axes are logarithmic.

    Args:
        ks: the numbers of marginals.
        epsilon, delta: the total budget.

    Raises:
        OptionalDependencyError: matplotlib is not installed.
        ArgumentError: as for `privacy.noise_choices`.
    """
    from pgmest.privacy.composition import noise_choices

    pyplot = pyplot_for("drawing noise choices")
    lines = {"basic": ":", "advanced": "--", "zcdp": "-"}
    rows = [noise_choices(k, epsilon, delta) for k in ks]
    with pyplot.rc_context(style()):
        figure, axes = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
        for column in zip(*rows, strict=True):
            noise, composition = column[0].noise, column[0].composition
            color, name = INK if noise == "gaussian" else NEW, f"{noise}, {composition}"
            deviations = [choice.stddev for choice in column]
            axes.loglog([choice.k for choice in column], deviations, lines[composition], color=color, label=name)
        axes.set(xlabel="marginals", ylabel="standard deviation of a cell", title=f"({epsilon:g}, {delta:g})-DP")
        axes.legend(frameon=False)
    return figure


def draw_errors(
    errors: Mapping[str, Mapping[float, float | Sequence[float]]],
    *,
    budget: str = "epsilon",
    error: str = "total variation error",
    levels: Mapping[str, float] | None = None,
    title: str = "",
) -> Figure:
    """Draw the error against the budget, a line per name: the median of the trials, in a band from least to largest.

    >>> figure = draw_errors({"AIM": {0.1: [0.2, 0.3], 1.0: [0.05, 0.06]}, "MST": {0.1: 0.25, 1.0: 0.08}})

    Args:
        errors: name -> budget -> the error, or the errors of several trials; all are positive, since both axes are
            logarithmic.
        budget, error: the labels of the axes.
        levels: name -> an error that does not depend on the budget, drawn as a horizontal line.
        title: a heading.

    Raises:
        OptionalDependencyError: matplotlib is not installed.
        ArgumentError: there is no error, or a budget or an error is not positive.
    """
    lines = {
        name: [(spent, np.atleast_1d(np.asarray(found, dtype=float))) for spent, found in sorted(by_budget.items())]
        for name, by_budget in errors.items()
    }
    points = [point for line in lines.values() for point in line]
    across = dict(levels or {})
    if not points or any(not (spent > 0 and found.size and (found > 0).all()) for spent, found in points):
        raise ArgumentError.of("errors", dict(errors), "positive errors by positive budgets")
    pyplot = pyplot_for("drawing errors against a budget")
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    with pyplot.rc_context(style()):
        figure, axes = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
        for number, (name, line) in enumerate(lines.items()):
            look = LINES[number % len(LINES)]
            spent = [at for at, _ in line]
            axes.plot(spent, [np.median(found) for _, found in line], label=name, **look)
            low, high = ([summary(found) for _, found in line] for summary in (np.min, np.max))
            axes.fill_between(spent, low, high, color=look["color"], alpha=0.15, linewidth=0)
        for name, level in across.items():
            axes.axhline(level, color="#777777", linewidth=0.8, linestyle=(0, (6, 3)))
            axes.annotate(name, (0.01, level), (0, 2), xycoords=("axes fraction", "data"), textcoords="offset points")
        axes.set(xscale="log", yscale="log", xlabel=budget, ylabel=error, title=title)
        axes.set_xticks(sorted({spent for spent, _ in points}))
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())
        axes.legend(frameon=False)
    return figure
