"""Each figure of PPSyn: run its cells, write their table, draw it, and write the report again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.papers.paper import Run, Runs
from experiments.ppsyn import causes, cells, figures, problems, report, scores
from experiments.ppsyn.marginal_partition import merging_steps, reconstruction_error, required_budget

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
    how.write_table(f"{FOLDER}/figure2", table)
    figures.figure_2(table, how.results / FOLDER)
    report.write(how)


def runs(how: Run) -> dict[str, Runs]:
    """The runs of each table; that of the leak has those of Figures 3 to 5 at the same budgets beside its own."""
    seeds = how.few(cells.SEEDS, 1)
    sweep, leaks = list(cells.sweep(seeds, how.quick)), list(cells.leaks(seeds, how.quick))
    settings = {(cell.table, cell.epsilon) for cell in leaks}
    beside = [
        cell
        for cell in sweep
        if cell.mechanism in ("AIM", "PPSyn", cells.PUBLISHED) and (cell.table, cell.epsilon) in settings
    ]
    found = {
        "sweep": sweep,
        "svm": list(cells.support_vectors(how.quick)),
        "eta": list(cells.etas(seeds, how.quick)),
        "eta_budgets": list(cells.eta_budgets(seeds, how.quick)),
        "dimensions": list(cells.dimensions(seeds, how.quick)),
        "letter": list(cells.letter(seeds, how.quick)),
        "loans_eta": list(cells.loans_etas(seeds, how.quick)),
        "leak": [*leaks, *beside],
        "causes": list(causes.runs(how.quick)),
        "causes_svm": list(causes.support_vectors(how.quick)),
    }
    return {name: Runs(FOLDER, of, tuple(f"{FOLDER}/{one}" for one in found)) for name, of in found.items()}


def figures_3_to_5(how: Run) -> None:
    """Errors against epsilon."""
    _figure(how, "sweep", figures.sweep)


def to_the_letter(how: Run) -> None:
    """The letter of the paper, comparators as published, Loans, and ranges of other seeds."""
    tables = dict.fromkeys(cell.table for cell in cells.letter(1, how.quick))
    how.write_table(f"{FOLDER}/ranges", empty_ranges(tables))
    for name in ("letter", "loans_eta"):
        table = how.table(runs(how)[name])
        if not table.empty:
            how.write_table(f"{FOLDER}/{name}", table)
    report.write(how)


def figure_6(how: Run) -> None:
    """The support vector machine."""
    _figure(how, "svm", lambda table, to: figures.support_vectors(folds(table), to))


def figures_7_and_8(how: Run) -> None:
    """Errors against eta."""
    others = how.table(runs(how)["eta_budgets"])
    if not others.empty:
        how.write_table(f"{FOLDER}/eta_budgets", others)
    _figure(how, "eta", figures.etas)


def figure_9(how: Run) -> None:
    """Errors against d."""
    _figure(how, "dimensions", figures.dimensions)


def leak(how: Run) -> None:
    """The published algorithm with its leak closed, beside it, AIM and the private PPSyn, from Figures 3 to 5."""
    _figure(how, "leak", figures.leaks)


def tested_causes(how: Run) -> None:
    """Runs with one thing changed, which show what differences come from."""
    for name in ("causes", "causes_svm"):
        table = how.table(runs(how)[name])
        if not table.empty:
            how.write_table(f"{FOLDER}/{name}", table)
    report.write(how)


def _figure(how: Run, name: str, draw: Callable[[pd.DataFrame, Path], object]) -> None:
    """Run the cells, write their table, draw it, and write the report again."""
    table = how.table(runs(how)[name])
    if table.empty:  # with --stored
        return
    how.write_table(f"{FOLDER}/{name}", table)
    draw(table, how.results / FOLDER)
    report.write(how)


def empty_ranges(tables: Iterable[str]) -> pd.DataFrame:
    """The share of each table's ranges that hold hardly any record, by the seed that drew them and as prefixes."""
    lines = []
    for name in tables:
        records = problems.table(name).records
        for attributes in problems.COMBINATIONS:
            for seed in cells.RANGE_SEEDS if attributes == 5 else cells.RANGE_SEEDS[:1]:
                for prefixes in (False, True):
                    truth = scores.true_ranges(name, attributes, seed, prefixes)
                    below = float(np.mean(truth * records < problems.FEW))
                    lines.append({"table": name, "attributes": attributes, "seed": seed, "prefixes": prefixes,
                                  "records": records, "below": below})  # fmt: skip
    return pd.DataFrame(lines)


def folds(wide: pd.DataFrame) -> pd.DataFrame:
    """A row for each fold."""
    kept = ["table", "mechanism", "epsilon"]
    return wide.melt(kept, [name for name in wide if name.startswith("fold_")], "fold", "rate")
