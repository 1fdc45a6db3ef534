"""Errors of sums over the most frequent codes, as far as answers tell."""

import numpy as np
import pytest

from pgmest.models.errors.code_errors import _frequent_beyond_noise


def test_sums_over_frequent_codes_are_as_large_as_the_answers_say():
    """Answers with hardly any noise that have 40 records more in the two most frequent codes are believed."""
    counts, off = np.array([40.0, 200.0, 50.0, 90.0]), np.array([-20.0, 30.0, -20.0, 10.0])
    found = _frequent_beyond_noise(off, counts, np.full(4, 1e-6), None)
    assert found[1] == pytest.approx(30.0)
    assert found[1] + found[3] == pytest.approx(40.0)
    assert found.sum() == pytest.approx(0.0)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_sums_over_frequent_codes_stay_between_no_and_all_records(sign: float):
    """Noise of merged codes gives the frequent ones more records than there are; the model's sums cannot lack those."""
    counts = np.append([500.0, 300.0], np.full(62, 10.0))
    off = sign * np.append([100.0, 5000.0], np.full(62, 1000.0))
    found = _frequent_beyond_noise(off, counts, np.full(64, 1e-6), None)
    places = [1, 2, 4, 8, 16, 32, 64]
    sums = np.cumsum(counts + found)[np.array(places) - 1]
    assert sums.min() >= -1e-9
    assert sums.max() <= counts.sum() + 1e-9
    assert abs(found[0]) == pytest.approx(100.0)
