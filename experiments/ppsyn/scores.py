"""Score synthetic records: PPSyn's metrics 2 and 3 (1 is `pgmest.evaluation.workload_error`)."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

import numpy as np

from experiments.ppsyn import problems
from experiments.ppsyn.svm import svm_misclassification
from pgmest.data.dataset import Dataset


@functools.cache
def true_ranges(name: str, attributes: int, seed: int = problems.SEED) -> np.ndarray:
    """Return the answers of the true records, as fractions."""
    return np.array([one.fraction(problems.table(name)) for one in problems.ranges(name, attributes, seed)])


def range_error(name: str, records: Dataset, attributes: int, seed: int = problems.SEED) -> float:
    """The mean squared error of the answers to ranges, as fractions (metric 2)."""
    found = np.array([one.fraction(records) for one in problems.ranges(name, attributes, seed)])
    return float(np.mean(np.square(found - true_ranges(name, attributes, seed))))


def svm_rates(name: str, synthesizer: Callable[[Dataset], Dataset] | None, folds: int = 5) -> list[float]:
    """The misclassification rate on each fold, of a machine trained on records made from the others (metric 3).

    Where the records have one class only, its rate is that of answering it always.

    Args:
        name: of the table.
        synthesizer: makes the records; None for real ones.
        folds: how many.
    """
    from sklearn.exceptions import ConvergenceWarning

    data, target = problems.table(name), problems.TARGETS[name]

    def two_classes(train: Dataset) -> Dataset:
        made = train if synthesizer is None else synthesizer(train)
        if len(np.unique(made.column(target))) < 2:  # the machine needs one record of the other class
            codes = {attribute: np.array(made.column(attribute)) for attribute in made.domain}
            codes[target][0] = 1 - codes[target][0]
            return Dataset.from_codes([codes[attribute] for attribute in made.domain], made.domain)
        return made

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return [float(rate) for rate in svm_misclassification(data, two_classes, target, folds=folds)]
