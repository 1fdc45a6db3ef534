"""Pictures of convergence: the loss of a solver, and the duality gap, which bounds its distance from the optimum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.plots.style import LINES, pyplot_for, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pgmest.solvers.run import Progress

AXES = {"iteration": "iterations", "oracle_calls": "calls of the marginal oracle", "seconds": "seconds"}


class Step(NamedTuple):
    """One iteration of a solver; `gap` is the least gap so far (inf before the first certificate)."""

    iteration: int
    oracle_calls: int
    seconds: float
    loss: float
    gap: float


@dataclass
class History:
    """A callback for `pgmest.estimate` that keeps the loss and the gap of each iteration.

    >>> import pgmest as pg
    >>> history = History()
    >>> model = pg.estimate([pg.LinearMeasurement([60.0, 39.0], "sex", 2.0)], {"sex": 2}, callback=history)
    >>> history.steps[-1].loss >= model.report.loss
    True

    The callback computes the loss once more, which costs little compared with the iteration.

    Attributes:
        steps: the iterations, in order.
        tolerance: the gap at which the solver stops; nan before the first iteration.
    """

    steps: list[Step] = field(default_factory=list)
    tolerance: float = float("nan")

    def __call__(self, progress: Progress) -> None:
        self.tolerance = progress.tolerance
        self.steps.append(
            Step(progress.iteration, progress.oracle_calls, progress.seconds, progress.loss, progress.gap)
        )


def draw_convergence(
    histories: History | Mapping[str, History], *, against: str = "oracle_calls", title: str = ""
) -> Figure:
    """Draw each solver's loss minus the lowest loss of all solvers, and its duality gap as a dotted line.

    The gap is above that difference, because it bounds the distance from the optimum, which may be below every loss.

    Args:
        histories: the history of a solver, or name -> history for several solvers of the same problem.
        against: "oracle_calls", "iteration" or "seconds".
        title: a heading.

    Raises:
        OptionalDependencyError: matplotlib is not installed.
        ArgumentError: a history has no iteration, or `against` is not valid.
    """
    named = {"loss": histories} if isinstance(histories, History) else dict(histories)
    if against not in AXES:
        raise ArgumentError.of("against", against, list(AXES))
    if not named or not all(history.steps for history in named.values()):
        raise ArgumentError.of("histories", list(named), "histories of at least one iteration each")
    pyplot = pyplot_for("drawing convergence")
    lowest = min(step.loss for history in named.values() for step in history.steps)
    with pyplot.rc_context(style()):
        figure, axes = pyplot.subplots(figsize=(7.5, 3.4), layout="constrained")
        for number, (name, history) in enumerate(named.items()):
            look = {**LINES[number % len(LINES)], "marker": ""}
            at = np.array([getattr(step, against) for step in history.steps])
            above = np.array([step.loss for step in history.steps]) - lowest
            gaps = np.array([step.gap for step in history.steps])
            axes.plot(at, np.where(above > 0, above, np.nan), label=name, **look)
            proven = np.where(np.isfinite(gaps), gaps, np.nan)
            axes.step(at, proven, where="post", color=look["color"], linestyle=":", linewidth=1.0)
        tolerance = min(history.tolerance for history in named.values())
        axes.axhline(tolerance, color="#777777", linewidth=0.7)
        corner = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "ha": "right"}
        axes.annotate("tolerance", (1.0, tolerance), (0, 2), **corner)
        axes.set(yscale="log", xlabel=AXES[against], ylabel="loss above the lowest", title=title)
        axes.set_ylim(bottom=tolerance / 10 if tolerance > 0 else None)  # the optimum is not known more precisely
        axes.plot([], [], color="#777777", linestyle=":", linewidth=1.0, label="proven: the gap")
        figure.legend(frameon=False, loc="outside right upper")
    return figure
