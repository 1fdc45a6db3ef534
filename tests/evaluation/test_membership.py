"""Distances to synthetic records, against plain loops; copying is caught, and a fair sample is not accused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError, DataError, DomainError
from pgmest.evaluation import MembershipCheck, membership, membership_check, nearest_distances

DOMAIN = pg.Domain({"a": 3, "b": 40, "c": 300, "d": 1})


def some_data(records: int, seed: int) -> pg.Dataset:
    rng = np.random.default_rng(seed)
    return pg.Dataset.from_codes(np.stack([rng.integers(0, n, records) for n in DOMAIN.shape], axis=1), DOMAIN)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), numeric=st.sets(st.sampled_from(DOMAIN.attributes)))
def test_distances_are_gowers(seed, numeric):
    mine, theirs = some_data(6, seed), some_data(9, seed + 1000)
    expected = []
    for record in mine.codes.astype(int):
        distances = []
        for other in theirs.codes.astype(int):
            parts = [
                abs(x - y) / max(DOMAIN[name] - 1, 1) if name in numeric else float(x != y)
                for name, x, y in zip(DOMAIN, record, other, strict=True)
            ]
            distances.append(np.mean(parts))
        expected.append(min(distances))
    np.testing.assert_allclose(nearest_distances(mine, theirs, numeric=numeric), expected, atol=1e-6)


def test_blocks_change_nothing(monkeypatch):
    mine, theirs = some_data(50, 0), some_data(70, 1)
    expected = nearest_distances(mine, theirs, numeric=["b"])
    monkeypatch.setattr(membership, "PAIRS_AT_ONCE", 100)
    np.testing.assert_array_equal(nearest_distances(mine, theirs, numeric=["b"]), expected)


def test_a_copy_is_caught_and_a_fair_sample_is_not():
    train, holdout = some_data(500, 0), some_data(400, 1)
    copied = membership_check(train, holdout, train, seed=0)
    assert copied.auc > 0.99
    assert copied.copies == (1.0, pytest.approx(0.0, abs=0.05))
    assert len(copied.train) == len(copied.holdout) == 400
    fair = membership_check(train, holdout, some_data(500, 2), seed=0)
    assert abs(fair.auc - 0.5) < 3 * fair.auc_stddev


def test_auc_by_hand():
    check = MembershipCheck(np.array([0.0, 0.2]), np.array([0.2, 0.3]))
    assert check.auc == pytest.approx((1 + 1 + 0.5 + 1) / 4)
    assert check.medians == (pytest.approx(0.1), pytest.approx(0.25))
    assert str(check).startswith("nearest synthetic record of 2 members and 2 others: median distance 0.100 and 0.250")


def test_mistakes_are_named():
    data, empty = some_data(5, 0), pg.Dataset.from_codes(np.empty((0, 4), dtype=int), DOMAIN)
    with pytest.raises(DomainError, match="same domain"):
        nearest_distances(data, data.select(("a", "b")))
    with pytest.raises(DataError, match="no synthetic records"):
        nearest_distances(data, empty)
    with pytest.raises(DataError, match="held-out"):
        membership_check(data, empty, data)
    with pytest.raises(ArgumentError, match="sample=0"):
        membership_check(data, data, data, sample=0)
