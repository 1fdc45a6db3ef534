"""Compiled loops of DualQuery's likelihood: sums of weights over queries for each step, and their derivatives.

The log-weight of query q before step t is l = -eta (t y_q - the number of records before t that it counts); its
negation has -l. From step to step a weight changes by two factors, so no exponential is taken in the inner loop.
"""

from __future__ import annotations

import math

import numba
import numpy as np


@numba.njit(cache=True)
def normalizers(y: np.ndarray, answers: np.ndarray, eta: float) -> np.ndarray:
    """For each step the sum over queries of exp(l) + exp(-l), shape (steps,)."""
    count, steps = answers.shape
    sums, up = np.zeros(steps), math.exp(eta)
    for q in range(count):
        drift, weight = math.exp(-eta * y[q]), 1.0
        for t in range(steps):
            sums[t] += weight + 1.0 / weight
            weight *= drift
            if answers[q, t]:
                weight *= up
    return sums


@numba.njit(cache=True)
def normalizer_slopes(y: np.ndarray, answers: np.ndarray, eta: float, sums: np.ndarray) -> np.ndarray:
    """The derivative of sum_t log(sums[t]) with respect to each y_q, shape (queries,)."""
    count, steps = answers.shape
    slopes, up = np.zeros(count), math.exp(eta)
    for q in range(count):
        drift, weight, slope = math.exp(-eta * y[q]), 1.0, 0.0
        for t in range(steps):
            slope -= eta * t * (weight - 1.0 / weight) / sums[t]
            weight *= drift
            if answers[q, t]:
                weight *= up
        slopes[q] = slope
    return slopes
