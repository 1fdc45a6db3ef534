"""Draw the growth of the oracle's time and memory, readable in gray."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.benchmarks.oracle import MBI_SCHEDULES, best_mbi, own_label, thread_counts
from pgmest._base.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Result = dict[str, Any]
OWN: dict[str, Any] = {"color": "black", "marker": "o", "linestyle": "-"}
OWN_MORE: dict[str, Any] = {"color": "black", "marker": "s", "linestyle": ":"}
MBI: dict[str, Any] = {"color": "0.45", "marker": "^", "linestyle": "--"}
SCHEDULES = {
    f"mbi {schedule}": {"color": "0.5", "marker": marker, "linestyle": "--", "markerfacecolor": "white"}
    for schedule, marker in zip(MBI_SCHEDULES, "^vDX", strict=True)
}
EXP: dict[str, Any] = {"color": "0.7", "marker": "x", "linestyle": "-."}


def draw(results: Sequence[Result], path: Path) -> None:
    """Time against cells and attributes, until the first result, and against threads; peak memory."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 7), layout="constrained")
    panels = figure.subplots(2, 3).ravel()
    census = [r for r in results if r["problem"].startswith("census")]
    chains = [r for r in results if r["problem"].startswith("chain")]
    for draw_panel, panel, chosen, legend in (
        (_time_against_cells, panels[0], census, "upper left"),
        (_time_against_attributes, panels[1], chains, "lower right"),
        (_first_against_attributes, panels[2], chains, "lower right"),
        (_time_against_threads, panels[3], [r for r in results if r["tree_cells"] >= 1e6], "upper left"),
        (partial(_memory_against_cells, "later"), panels[4], census, "upper left"),
        (partial(_memory_against_cells, "first"), panels[5], census, "center left"),
    ):
        if chosen:
            draw_panel(panel, chosen)
            if panel.get_legend_handles_labels()[0]:
                panel.legend(frameon=False, fontsize=8, loc=legend)
        panel.spines[["top", "right"]].set_visible(False)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=110)


def _time_against_cells(axes: Axes, results: Sequence[Result]) -> None:
    threads = thread_counts()
    _curve(axes, results, "tree_cells", _call(own_label(1)), own_label(1), OWN)
    if len(threads) > 1:
        _curve(axes, results, "tree_cells", _call(own_label(threads[-1])), own_label(threads[-1]), OWN_MORE)
    for label, style in SCHEDULES.items():
        _curve(axes, results, "tree_cells", _call(label), label, style)
    _logarithmic(axes, "census-like: a call", "cells of the junction tree", "seconds")


def _time_against_attributes(axes: Axes, results: Sequence[Result]) -> None:
    _curve(axes, results, "attributes", _call(own_label(1)), own_label(1), OWN)
    _curve(axes, results, "attributes", lambda r: _call(best_mbi(r))(r), "mbi, its best", MBI)
    _curve(axes, results, "attributes", _call("np.exp"), "one np.exp over the potentials", EXP)
    _logarithmic(axes, "chains: a call", "attributes", "seconds")


def _first_against_attributes(axes: Axes, results: Sequence[Result]) -> None:
    _curve(axes, results, "attributes", lambda r: r["new_cold_seconds"], "pgmest: tree, plan, call", OWN)
    _curve(axes, results, "attributes", _least_first_seconds, "mbi, its best: compile, call", MBI)
    _logarithmic(axes, "chains: new cliques to first marginals", "attributes", "seconds")


def _least_first_seconds(result: Result) -> float | None:
    return min(result["first_seconds"].values(), default=None)


def _time_against_threads(axes: Axes, results: Sequence[Result]) -> None:
    threads = thread_counts()
    styles = zip(results, ("o", "s", "^", "D", "v", "x"), ("-", "--", ":", "-.", "-", "--"), strict=False)
    for result, marker, line in styles:
        alone = _call(own_label(1))(result)
        speedups = [result["ratios"][own_label(1)].get(own_label(n), 1.0) for n in threads]
        if alone:
            axes.plot(
                threads, [1 / s for s in speedups], color="0.2", marker=marker, linestyle=line, label=result["problem"]
            )
    axes.plot(threads, threads, color="0.8", label="proportional", zorder=0)
    axes.set(title="threads", xlabel="threads", ylabel="times faster than one thread", xticks=threads)


def _memory_against_cells(when: str, axes: Axes, results: Sequence[Result]) -> None:
    def peak(label: str) -> Callable[[Result], float | None]:
        return lambda result: result.get("memory", {}).get(label, {}).get(f"{when}_megabytes")

    for label, style in {"pgmest": OWN, **SCHEDULES}.items():
        _curve(axes, results, "tree_cells", peak(label), label, style)
    _logarithmic(axes, f"census-like: peak memory, {when} call", "cells of the junction tree", "MB")


def _curve(
    axes: Axes,
    results: Iterable[Result],
    key: str,
    value: Callable[[Result], float | None],
    label: str,
    style: Mapping[str, Any],
) -> None:
    points = [(result[key], value(result)) for result in results]
    known = [(x, y) for x, y in points if y is not None]
    if known:
        axes.plot(*zip(*known, strict=True), label=label, **style)


def _call(label: str | None) -> Callable[[Result], float | None]:
    return lambda result: result["calls"].get(label, {}).get("median")


def _logarithmic(axes: Axes, title: str, xlabel: str, ylabel: str) -> None:
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel, xscale="log", yscale="log")
    axes.grid(True, which="major", color="0.92")
