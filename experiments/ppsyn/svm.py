"""Support vector machines that are trained on synthetic records and tested on real ones, as PrivBayes and PPSyn do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, DataError, DomainError

Synthesizer = Callable[[Dataset], Dataset]
"""A function that returns synthetic records for training records."""


def svm_misclassification(
    real: Dataset,
    synthetic: Dataset | Synthesizer,
    target: str,
    *,
    positive: Iterable[int] | None = None,
    folds: int = 5,
    seed: int | None = 0,
) -> np.ndarray:
    """Return the misclassification rate of a linear support vector machine on each fold of the real records.

    For each fold, the machine is trained on synthetic records made from the other folds, and tested on the fold
    (PrivBayes, PPSyn). `synthetic` should therefore be a function that makes records. Synthetic records made once from
    all the data are also accepted; they then depend on the fold on which they are tested.

    Args:
        real: the records.
        synthetic: a function of training records that returns synthetic ones, such as
            `lambda train: mechanism.fit(train).sample()`; or synthetic records.
        target: the attribute to predict from all others; each code of these is an indicator.
        positive: predict whether the target is one of these codes; by default predict its code.
        folds: the number of folds, 5 in the papers.
        seed: the seed of the folds and of the machine.

    Returns:
        shares in 0..1, shape (folds,); their mean is the usual figure.

    Raises:
        DataError: there are fewer records than folds, or the training records have only one class.
        DomainError: the synthetic records have another domain.
    """
    from sklearn.model_selection import KFold
    from sklearn.svm import LinearSVC

    if not 2 <= folds <= real.records:
        raise ArgumentError.of("folds", folds, f"an integer from 2 to the {real.records:,} records")
    rates = []
    for train, test in KFold(folds, shuffle=True, random_state=seed).split(np.arange(real.records)):
        made = synthetic(real.take(train)) if callable(synthetic) else synthetic
        machine = LinearSVC(dual="auto", random_state=seed)
        rates.append(1.0 - _accuracy(machine, made, real.take(test), target, positive))
    return np.array(rates)


def _accuracy(classifier: Any, train: Dataset, test: Dataset, target: str, positive: Iterable[int] | None) -> float:
    if train.domain != test.domain:
        raise DomainError("the synthetic records and the real ones must have the same domain.")
    if not train.records or not test.records:
        raise DataError("there are no records to train or to test on.")
    classes = _classes(train, target, positive)
    if (classes == classes[0]).all():
        raise DataError(f"all training records have the same class of '{target}', so nothing can be learned from them.")
    classifier.fit(_indicators(train, target), classes)
    return float(np.mean(classifier.predict(_indicators(test, target)) == _classes(test, target, positive)))


def _classes(data: Dataset, target: str, positive: Iterable[int] | None) -> np.ndarray:
    codes = data.column(target)
    return codes if positive is None else np.isin(codes, list(positive))


def _indicators(data: Dataset, target: str) -> Any:
    """Return a sparse matrix of 0 and 1: a row per record, a column per code of each attribute but the target."""
    from scipy import sparse

    others = data.domain.without((target,))
    starts = np.cumsum([0, *others.shape])
    columns = np.stack([data.column(name) + np.int64(start) for name, start in zip(others, starts, strict=False)])
    rows = np.arange(data.records + 1) * len(others)
    return sparse.csr_matrix(
        (np.ones(columns.size), columns.T.reshape(-1), rows), shape=(data.records, int(starts[-1]))
    )
