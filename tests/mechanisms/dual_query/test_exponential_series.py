"""The power series of many small exponentials, against the exponentials."""

import numpy as np
import pytest

from pgmest.mechanisms.dual_query.exponential_series import CHUNK, RADIUS, ExponentialSeries

TIMES = np.linspace(0, 1, 13)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("count", [0, 1, 50, CHUNK + 7])
def test_sums_and_slopes_are_those_of_the_exponentials(symmetric, count):
    rng = np.random.default_rng(count)
    exponents, weights = rng.uniform(-RADIUS, RADIUS, count), rng.normal(size=len(TIMES))
    up = np.exp(np.outer(TIMES, exponents))
    sums, slopes = (up + 1 / up, up - 1 / up) if symmetric else (up, up)
    series = ExponentialSeries(TIMES, symmetric)
    np.testing.assert_allclose(series.sums(exponents), sums.sum(axis=1), rtol=1e-13)
    np.testing.assert_allclose(series.slopes(exponents, weights), weights @ slopes, rtol=1e-12, atol=1e-13)


def test_the_series_is_exact_where_exponents_are_largest():
    for sign in (1.0, -1.0):
        sums = ExponentialSeries(TIMES, symmetric=False).sums(np.array([sign * RADIUS]))
        np.testing.assert_allclose(sums, np.exp(sign * RADIUS * TIMES), rtol=4e-15)


def test_small_differences_keep_their_digits():
    exponents = np.array([1e-9, -3e-7])
    slopes = ExponentialSeries(TIMES, symmetric=True).slopes(exponents, np.ones(len(TIMES)))
    np.testing.assert_allclose(slopes, 2 * np.sinh(np.outer(TIMES, exponents)).sum(axis=0), rtol=1e-14)
