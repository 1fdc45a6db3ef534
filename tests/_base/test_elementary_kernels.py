"""Elementary functions of kernels, against NumPy's."""

from __future__ import annotations

import numba
import numpy as np

from pgmest._base import elementary_kernels
from pgmest._base.compiled import OPTIONS
from pgmest._base.row_kernels import WIDTHS, on_rows


@on_rows
def _exponentiate(row):
    return {"row": elementary_kernels.exp_of(row)}


@numba.njit(**OPTIONS)
def exponentiate(row):
    _exponentiate(row)


def exp(points):
    found = np.array(points, dtype=np.float64)
    exponentiate(found)
    return found


def test_the_exponential():
    points = np.concatenate([np.linspace(-699.9, 0, 1001), -np.logspace(-300, 2.8, 500), [0.0, 1e-20, 700.0, 709.0]])
    assert np.allclose(exp(points), np.exp(points), rtol=5e-16, atol=0)
    assert exp([0.0]).tolist() == [1.0]
    assert exp([-700.0, -701.0, -740.0, -1e4, -1e308, -np.inf]).tolist() == [0.0] * 6


def test_the_exponential_is_the_same_wherever_in_a_row():
    """One cell alone, and as part of vectors of all widths."""
    points = np.random.default_rng(0).uniform(-90, 10, 2 * WIDTHS[0] - 1)
    assert exp(points).tolist() == [exp([x])[0] for x in points]
