"""A picture of the distances between synthetic records and real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pgmest.plots.style import INK, TRUTH, pyplot_for, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def compare_distances(train: np.ndarray, holdout: np.ndarray, title: str = "") -> Figure:
    """Draw the distances of members (line) and of others (area) to their nearest synthetic record.

    The two are alike if nothing leaks.

    Raises:
        OptionalDependencyError: matplotlib is not installed.
    """
    pyplot = pyplot_for("comparing distances")
    edges = np.linspace(0.0, max(train.max(), holdout.max(), 1e-9), 31)
    with pyplot.rc_context(style()):
        figure, axes = pyplot.subplots(figsize=(6, 2.4), layout="constrained")
        axes.stairs(np.histogram(holdout, edges)[0], edges, fill=True, color=TRUTH, label="others")
        axes.stairs(np.histogram(train, edges)[0], edges, color=INK, linewidth=1.1, label="members")
        axes.set(xlabel="distance to the nearest synthetic record", ylabel="records", title=title)
        axes.legend(frameon=False)
    return figure
