"""Elementary functions of kernels, against NumPy's."""

from __future__ import annotations

import numpy as np

from pgmest._base import elementary_kernels


def test_the_exponential():
    points = np.concatenate([np.linspace(-699.9, 0, 1001), -np.logspace(-300, 2.8, 500), [0.0, 1e-20, 700.0]])
    found = np.array([elementary_kernels.exp_double(x) for x in points])
    assert np.allclose(found, np.exp(points), rtol=5e-16, atol=0)
    assert elementary_kernels.exp_double(0.0) == 1.0
    assert [elementary_kernels.exp_double(x) for x in (-700.0, -701.0, -740.0, -1e4, -1e308, -np.inf)] == [0.0] * 6


def test_the_exponential_in_float32():
    points = np.concatenate([np.linspace(-86.9, 80, 1001), [0.0, 1e-20, -1e-30]]).astype(np.float32)
    found = np.array([elementary_kernels.exp_single(x) for x in points])
    assert np.allclose(found, np.exp(points.astype(np.float64)), rtol=1.2e-7, atol=0)
    assert [elementary_kernels.exp_single(np.float32(x)) for x in (-87.0, -90.0, -1e4, -1e38, -np.inf)] == [0.0] * 5


def test_the_logarithm():
    points = np.concatenate([np.linspace(1, 100, 1001), 1 + np.logspace(-16, 0, 200), np.logspace(0, 300, 301)])
    found = np.array([elementary_kernels.log(x) for x in points])
    assert np.allclose(found, np.log(points), rtol=5e-16, atol=0)
    assert elementary_kernels.log(1.0) == 0.0
