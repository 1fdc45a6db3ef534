"""Loss above the best one known against seconds, as pictures that can be read in gray."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.benchmarks.solvers import CASES
from experiments.benchmarks.solvers_report import best_loss
from pgmest._base.files import atomic_path

LINES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 3)))
MARKERS = "osD^vX"
SIDES: dict[str, dict[str, Any]] = {
    "pgmest": {"color": "black"},
    "mbi": {"color": "0.6", "markerfacecolor": "white"},
}


def draw(traces: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """One picture per problem: seconds without mbi's compilation on the left, with it on the right."""
    from matplotlib.figure import Figure

    for case in CASES:
        chosen = [trace for trace in traces if trace["problem"] == case]
        if not chosen:
            continue
        best = best_loss(case, chosen)
        figure = Figure(figsize=(12, 5), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for panel, compiled in zip(panels, (False, True), strict=True):
            counts = {"pgmest": 0, "mbi": 0}
            for trace in chosen:
                side = trace["side"]
                seconds = [s + compiled * max(trace["compile_seconds"], 0.0) for s in trace["seconds"]]
                above = [max(loss / best - 1, 1e-7) for loss in trace["losses"]]
                style = {"linestyle": LINES[counts[side]], "marker": MARKERS[counts[side]], **SIDES[side]}
                style |= {"markevery": max(1, len(above) // 6), "markersize": 5}
                panel.plot(seconds, above, label=f"{side} {trace['method']}", **style)
                counts[side] += 1
            panel.set(xscale="log", yscale="log", xlabel="seconds, with compilation" if compiled else "seconds")
            panel.spines[["top", "right"]].set_visible(False)
            panel.grid(True, which="major", color="0.92")
        panels[0].set(ylabel="loss / best loss known - 1", title=f"{case}: after compilation")
        panels[1].set(title=f"{case}: from a fresh start")
        figure.legend(*panels[1].get_legend_handles_labels(), loc="outside lower center", frameon=False, ncols=4)
        with atomic_path(folder / f"solvers-{case}.png") as temporary:
            figure.savefig(temporary, dpi=110)
