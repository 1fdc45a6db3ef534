"""Each figure of PPSyn: run its cells and write their table."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd

from experiments.papers.paper import Run, Runs
from experiments.ppsyn import causes, cells, problems, scores
from experiments.ppsyn.marginal_partition import Steps, algorithm_3, reconstruction_error, required_budget

FOLDER = "ppsyn"
SHARES = (0.1, 0.3, 1.0)
"""Contributions for Example 2, as parts of the marginal's distance from uniform; the paper does not say its own."""
DRAWS = 1000
"""Draws of noise by which Theorem 4 is tested."""


def figure_2(how: Run) -> None:
    """Example 2: the budget against the size of the partition, and Theorem 4 where Algorithm 3 stops."""
    counts = problems.table("adult14").project("hours-per-week").values
    partitions, far = algorithm_3(counts), reconstruction_error(counts)
    frames, bounds = [], []
    for share in SHARES:
        rho = required_budget(partitions.intervals, partitions.errors, 0.7 * share * far)
        frame = pd.DataFrame({"contribution": share, "size": partitions.intervals, "rho": rho})
        frames.append(frame[np.isfinite(rho)])
        errors, sums = errors_over_the_bound(counts, partitions, 0.7 * share * far)
        bounds.append({"contribution": share, "draws": DRAWS, "mean": errors.mean(), "exceeded": np.mean(errors > 1),
                       "sum_exceeded": np.mean(sums > 1)})  # fmt: skip
    how.write_table(f"{FOLDER}/figure2", pd.concat(frames))
    how.write_table(f"{FOLDER}/theorem4", pd.DataFrame(bounds))


def errors_over_the_bound(counts: np.ndarray, partitions: Steps, allowed: float) -> tuple[np.ndarray, np.ndarray]:
    """Return ||M(D) - M(noisy P)||_1 and RE + NE, over eta Contr, of each draw of the noise, shape (DRAWS,)."""
    stop, rho = partitions.first_increase(allowed)
    boxes = partitions.partition(stop)
    sizes, sums = np.bincount(boxes), np.bincount(boxes, weights=counts)
    noise = np.random.default_rng(0).normal(0.0, np.sqrt(1 / (2 * rho)), (DRAWS, len(sums)))
    errors = np.abs(((sums + noise) / sizes)[:, boxes] - counts).sum(axis=1)
    return errors / allowed, (partitions.errors[stop] + np.abs(noise).sum(axis=1)) / allowed


def runs() -> dict[str, Runs]:
    """The runs of each table; that of the leak has those of Figures 3 to 5 at the same budgets beside its own."""
    sweep, leaks = cells.sweep(), cells.leaks()
    settings = {(cell.table, cell.epsilon) for cell in leaks}
    beside = [
        cell
        for cell in sweep
        if cell.mechanism in ("AIM", "PPSyn", cells.PUBLISHED) and (cell.table, cell.epsilon) in settings
    ]
    found = {
        "sweep": sweep,
        "svm": cells.support_vectors(),
        "eta": cells.etas(),
        "dimensions": cells.dimensions(),
        "letter": cells.letter(),
        "loans_eta": cells.loans_etas(),
        "leak": [*leaks, *beside],
        "causes": causes.runs(),
    }
    return {name: Runs(FOLDER, of, tuple(f"{FOLDER}/{one}" for one in found)) for name, of in found.items()}


def step(name: str) -> Callable[[Run], None]:
    """Return the step that runs the cells of a table and writes it."""
    return lambda how: how.write_table(f"{FOLDER}/{name}", how.table(runs()[name]))


STEPS = {"figure_2": figure_2, **{name: step(name) for name in runs()}}


def empty_ranges(how: Run, tables: Iterable[str] = problems.TABLES) -> None:
    """Write the share of each table's 5-attribute ranges that hold hardly any record, by the seed that drew them."""
    lines = []
    for name in tables:
        records = problems.table(name).records
        for seed in cells.RANGE_SEEDS:
            below = float(np.mean(scores.true_ranges(name, 5, seed) * records < problems.FEW))
            lines.append({"table": name, "attributes": 5, "seed": seed, "records": records, "below": below})
    how.write_table(f"{FOLDER}/ranges", pd.DataFrame(lines))


STEPS["ranges"] = empty_ranges
