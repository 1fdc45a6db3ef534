"""Misclassification by a machine trained on synthetic records: none where the target follows from them."""

import numpy as np
import pytest

import pgmest as pg
from experiments.ppsyn.svm import svm_misclassification

DOMAIN = pg.Domain({"a": 3, "b": 4, "target": 2})


def some_data(seed: int, follows: bool = True, records: int = 400) -> pg.Dataset:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 3, records), rng.integers(0, 4, records)
    target = (a == 1).astype(int) if follows else rng.integers(0, 2, records)
    return pg.Dataset.from_codes([a, b, target], DOMAIN)


def test_what_follows_is_learned_and_noise_is_not():
    pytest.importorskip("sklearn")
    real = some_data(0)
    np.testing.assert_array_equal(svm_misclassification(real, some_data(1), "target"), np.zeros(5))
    assert svm_misclassification(real, some_data(1, follows=False), "target").mean() > 0.2


def test_records_are_made_from_the_training_folds_only():
    pytest.importorskip("sklearn")
    real, sizes = some_data(0, records=103), []

    def remember(train):
        sizes.append(train.records)
        return train

    rates = svm_misclassification(real, remember, "b", positive=[0, 1], folds=3)
    assert sorted(sizes) == [68, 69, 69]
    assert rates.shape == (3,)
