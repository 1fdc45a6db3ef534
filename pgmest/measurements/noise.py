"""The kinds of noise that a measurement may have: their parameters, standard deviations, and draws for simulations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

NOISES = ("gaussian", "laplace", "discrete_gaussian", "discrete_laplace")


def noise_scale(noise: str, stddev: Any) -> Any:
    """The noise's own parameter: sigma of the Gaussians, b of the Laplaces (probability falls as exp(-|k| / b))."""
    if noise == "laplace":
        return stddev / math.sqrt(2.0)
    if noise == "discrete_laplace":
        return 0.5 / np.arcsinh(math.sqrt(0.5) / stddev)
    return stddev


def noise_stddev(noise: str, scale: Any) -> Any:
    """The standard deviation of noise with the given parameter: the inverse of `noise_scale`."""
    if noise == "laplace":
        return scale * math.sqrt(2.0)
    if noise == "discrete_laplace":
        with np.errstate(over="ignore"):  # below b = 1/1400 the noise is 0 in float64
            return math.sqrt(0.5) / np.sinh(0.5 / scale)
    return scale


def discrete_laplace(scale: Any, size: int, generator: np.random.Generator) -> np.ndarray:
    """Integers with probability proportional to exp(-|k| / scale): the difference of two geometric ones.

    For simulations and the bootstrap alone: noise that is to protect anything comes from `pgmest.privacy`'s backends.

    Args:
        scale: one number, or one for each integer.
        size: how many.
        generator: of the randomness.
    """
    success = -np.expm1(-1.0 / np.asarray(scale, dtype=np.float64))
    return generator.geometric(success, size) - generator.geometric(success, size)
