"""Prediction from synthetic records: perfect where the target follows from them, no better than chance where not."""

import sys

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, DataError, DomainError, OptionalDependencyError
from pgmest.evaluation import svm_misclassification, train_on_synthetic
from pgmest.evaluation.prediction import _indicators

DOMAIN = pg.Domain({"a": 3, "b": 4, "target": 2})


def some_data(seed: int, follows: bool = True, records: int = 400) -> pg.Dataset:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 3, records), rng.integers(0, 4, records)
    target = (a == 1).astype(int) if follows else rng.integers(0, 2, records)
    return pg.Dataset.from_codes([a, b, target], DOMAIN)


def test_indicators_by_hand():
    data = pg.Dataset.from_codes(np.array([[1, 3, 0], [2, 0, 1]]), DOMAIN)
    np.testing.assert_array_equal(_indicators(data, "target").toarray(), [[0, 1, 0, 0, 0, 0, 1], [0, 0, 1, 1, 0, 0, 0]])


def test_what_follows_is_learned_and_noise_is_not():
    pytest.importorskip("sklearn")
    real = some_data(0)
    np.testing.assert_array_equal(svm_misclassification(real, some_data(1), "target"), np.zeros(5))
    assert svm_misclassification(real, some_data(1, follows=False), "target").mean() > 0.2
    quality = train_on_synthetic(real, some_data(2), some_data(1), "target")
    assert (quality.synthetic, quality.real) == (1.0, 1.0)
    assert 0.5 < quality.majority < 0.8


def test_records_are_made_from_the_training_folds_only():
    pytest.importorskip("sklearn")
    real, sizes = some_data(0, records=103), []

    def remember(train):
        sizes.append(train.records)
        return train

    rates = svm_misclassification(real, remember, "b", positive=[0, 1], folds=3)
    assert sorted(sizes) == [68, 69, 69]
    assert rates.shape == (3,)


def test_mistakes_are_named(monkeypatch):
    pytest.importorskip("sklearn")
    real = some_data(0)
    with pytest.raises(DomainError, match="same domain"):
        svm_misclassification(real, real.select(("a", "target")), "target")
    with pytest.raises(DataError, match="same class of 'target'"):
        train_on_synthetic(real, real, pg.Dataset.from_codes(np.zeros((5, 3), dtype=int), DOMAIN), "target")
    with pytest.raises(ArgumentError, match="folds=1"):
        svm_misclassification(real, real, "target", folds=1)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(OptionalDependencyError, match=r"pip install scikit-learn"):
        svm_misclassification(real, real, "target")
