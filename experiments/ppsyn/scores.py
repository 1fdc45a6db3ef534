"""One run of a mechanism, and how good its synthetic records are."""

from __future__ import annotations

import functools
import time
import warnings
from typing import Any

import numpy as np

from experiments.data import load
from experiments.ppsyn.cells import Cell
from pgmest.data.dataset import Dataset
from pgmest.evaluation import range_query_mse, svm_misclassification, workload_error
from pgmest.queries.workloads import Workload, random_kway, random_ranges

TARGETS = {"adult": "income>50K", "BR2000": "a13", "loans": "loan_status"}
"""What the support vector machine predicts."""

LOANS = 16
"""Of the 48 attributes of loans so many are used, drawn once with seed 0, beside the target."""

MARGINALS, RANGES, MAX_CELLS = 60, 200, 15_000
SEED = 0


@functools.cache
def table(name: str) -> Dataset:
    """The records; of loans a subset of the attributes, so that all mechanisms finish in seconds."""
    data = load(name)
    if name != "loans":
        return data
    names = data.domain.attributes
    drawn = {names[place] for place in np.random.default_rng(SEED).choice(len(names), LOANS, replace=False)}
    return data.select([one for one in names if one in drawn or one == TARGETS[name]])


@functools.cache
def workload(name: str, k: int) -> Workload:
    """Random k-way marginals of at most `MAX_CELLS` cells: what the mechanisms are told, and judged by."""
    domain = table(name).domain
    return random_kway(domain, k, MARGINALS, seed=SEED, max_cells=MAX_CELLS)


@functools.cache
def ranges(name: str, attributes: int) -> Workload:
    """Random boxes over so many attributes."""
    return random_ranges(table(name).domain, attributes, RANGES, seed=SEED)


def run(cell: Cell) -> dict[str, Any]:
    """Fit, sample, and judge the records: errors are fractions of the records, the machine's is a rate."""
    data = table(cell.table)
    started = time.perf_counter()
    result = cell.make().fit(data, workload(cell.table, cell.k), seed=cell.seed, progress=False)
    seconds = time.perf_counter() - started
    records = result.sample(seed=cell.seed)
    return {
        **cell.as_row(),
        "workload_error": workload_error(data, records, workload(cell.table, cell.k), norm="tv", per="record"),
        "ranges_3": range_query_mse(data, records, ranges(cell.table, 3)) ** 0.5,
        "ranges_5": range_query_mse(data, records, ranges(cell.table, 5)) ** 0.5,
        "svm": misclassification(data, records, TARGETS[cell.table]) if not cell.parameters else None,
        "measurements": len(result.measurements),
        "seconds": seconds,
    }


def misclassification(data: Dataset, records: Dataset, target: str) -> float | None:
    """The rate on all real records; None where the synthetic records have one class only.

    The machine is trained on the same synthetic records whichever fold it is tested on, so that two folds give what
    five would.
    """
    from sklearn.exceptions import ConvergenceWarning

    if len(np.unique(records.column(target))) < 2:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return float(svm_misclassification(data, records, target, folds=2).mean())


def misclassification_of_real(name: str) -> float:
    """The mean rate of machines trained on four fifths of the real records and tested on the rest."""
    return float(svm_misclassification(table(name), lambda train: train, TARGETS[name]).mean())
