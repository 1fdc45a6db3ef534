"""The kinds of noise of measurements: parameters, standard deviations, and draws for simulations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

NOISES = ("gaussian", "laplace", "discrete_gaussian", "discrete_laplace")
"""The names of the noise kinds."""


def noise_scale(noise: str, stddev: Any) -> Any:
    """Return the parameter of noise with a given standard deviation: sigma of Gaussian noise, b of Laplace noise.

    The probability of (discrete) Laplace noise k is proportional to exp(-|k| / b).
    """
    if noise == "laplace":
        return stddev / math.sqrt(2.0)
    if noise == "discrete_laplace":
        return 0.5 / np.arcsinh(math.sqrt(0.5) / stddev)
    return stddev


def noise_stddev(noise: str, scale: Any) -> Any:
    """Return the standard deviation of noise with a given parameter, the inverse of `noise_scale`."""
    if noise == "laplace":
        return scale * math.sqrt(2.0)
    if noise == "discrete_laplace":
        with np.errstate(over="ignore"):  # below b = 1/1400 the noise is 0 in float64
            return math.sqrt(0.5) / np.sinh(0.5 / scale)
    return scale


def discrete_laplace(scale: Any, size: int, generator: np.random.Generator) -> np.ndarray:
    """Draw integers k with probability proportional to exp(-|k| / scale), as differences of two geometric integers.

    Only for simulations and the bootstrap: noise that protects privacy comes from the backends of `pgmest.privacy`.

    Args:
        scale: one number, or one for each integer.
        size: the number of integers.
        generator: the source of randomness.
    """
    success = -np.expm1(-1.0 / np.asarray(scale, dtype=np.float64))
    return generator.geometric(success, size) - generator.geometric(success, size)
