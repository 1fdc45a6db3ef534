"""Each figure of PPSyn: run its cells, write their table, draw it, and write the report anew."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.papers.paper import Run
from experiments.ppsyn import cells, figures, problems, report
from experiments.stored_rows import Cell
from pgmest._base.files import write_atomically
from pgmest.mechanisms.ppsyn.marginal_partition import merging_steps, reconstruction_error, required_budget

FOLDER = "ppsyn"


def figure_2(how: Run) -> None:
    """Example 2: the budget against the size of the partition; contributions are parts of the distance from uniform."""
    counts = problems.table("adult14").project("hours-per-week").values
    partitions, far = merging_steps(counts), reconstruction_error(counts)
    frames = []
    for share in (0.1, 0.3, 1.0):
        rho = required_budget(partitions.intervals, partitions.errors, 0.7 * share * far)
        frame = pd.DataFrame({"contribution": share, "size": partitions.intervals, "rho": rho})
        stop, _ = partitions.first_increase(0.7 * share * far)
        frames.append(frame.assign(stops=np.arange(len(rho)) == stop)[np.isfinite(rho)])
    table = pd.concat(frames)
    _written(how, "figure2", table)
    figures.figure_2(table, how.results / FOLDER)
    report.write(how.results)


def figures_3_to_5(how: Run) -> None:
    """Errors against epsilon."""
    table = _table(how, "sweep", cells.sweep(how.few(cells.SEEDS, 1), how.quick))
    if table.empty:  # with --stored
        return
    figures.sweep(table, how.results / FOLDER)
    report.write(how.results)


def figure_6(how: Run) -> None:
    """The support vector machine."""
    wide = _table(how, "svm", cells.support_vectors(how.quick))
    if wide.empty:  # with --stored
        return
    figures.support_vectors(folds(wide), how.results / FOLDER)
    report.write(how.results)


def figures_7_and_8(how: Run) -> None:
    """Errors against eta."""
    table = _table(how, "eta", cells.etas(how.few(2, 1), how.quick))
    if table.empty:  # with --stored
        return
    figures.etas(table, how.results / FOLDER)
    report.write(how.results)


def figure_9(how: Run) -> None:
    """Errors against d."""
    table = _table(how, "dimensions", cells.dimensions(how.few(cells.SEEDS, 1), how.quick))
    if table.empty:  # with --stored
        return
    figures.dimensions(table, how.results / FOLDER)
    report.write(how.results)


def leak(how: Run) -> None:
    """The published algorithm with its leak closed, beside it, AIM and the private PPSyn, from Figures 3 to 5."""
    names = ("AIM", "PPSyn", cells.PUBLISHED)
    beside = [
        cell
        for cell in cells.sweep(how.few(cells.SEEDS, 1), how.quick)
        if cell.mechanism in names and (how.quick or cell.epsilon in cells.LEAK_EPSILONS.get(cell.table, ()))
    ]
    table = _table(how, "leak", [*cells.leaks(how.few(cells.SEEDS, 1), how.quick), *beside])
    if table.empty:  # with --stored
        return
    figures.leaks(table, how.results / FOLDER)
    report.write(how.results)


def folds(wide: pd.DataFrame) -> pd.DataFrame:
    """A row for each fold."""
    kept = ["table", "mechanism", "epsilon"]
    return wide.melt(kept, [name for name in wide if name.startswith("fold_")], "fold", "rate")


def _table(how: Run, name: str, of: Iterable[Cell]) -> pd.DataFrame:
    table = pd.DataFrame(how.rows(of, FOLDER))
    if not table.empty:
        _written(how, name, table)
    return table


def _written(how: Run, name: str, table: pd.DataFrame) -> None:
    path: Path = how.results / FOLDER / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, table.to_csv(index=False, float_format="%.6g"))
