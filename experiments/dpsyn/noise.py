"""Figure 2 of DPSyn: the noise on k marginals, with the bounds that the paper states."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from pgmest.privacy.composition import advanced_composition

PANELS = {"A": (0.1, 1e-8), "B": (0.1, 1e-12), "C": (1.0, 1e-8), "D": (1.0, 1e-12)}
"""epsilon and delta of each: with them the four crossings are those of the paper, which prints only these."""

CROSSINGS = {"A": 18, "B": 28, "C": 19, "D": 28}
"""The crossing of "gauss zcdp" and "lap basic", as printed."""

COUNTS = (1, 10, 30, 100, 1000)
"""The k whose deviations are kept."""


def rho_of(epsilon: float, delta: float) -> float:
    """The rho with rho + 2 sqrt(rho log(1 / delta)) = epsilon (section 2.4)."""
    level = math.log(1 / delta)
    return (math.sqrt(level + epsilon) - math.sqrt(level)) ** 2


def laplace_basic(k: int, epsilon: float, delta: float) -> float:
    """sqrt(2) k / epsilon: every marginal gets a k-th of epsilon."""
    return math.sqrt(2) * k / epsilon


def laplace_advanced(k: int, epsilon: float, delta: float) -> float:
    """By the bound of section 2.4, with all of delta for the composition."""
    return math.sqrt(2) / _largest(lambda one: advanced_composition(one, k, delta) <= epsilon)


def laplace_zcdp(k: int, epsilon: float, delta: float) -> float:
    """A scale b is 1 / (2 b^2)-zCDP."""
    return math.sqrt(2) * math.sqrt(k / (2 * rho_of(epsilon, delta)))


def gauss_advanced(k: int, epsilon: float, delta: float) -> float:
    """sqrt(2 log(1.25 / delta_i)) / epsilon_i, with half of delta for the noise and half for the composition."""
    one = _largest(lambda one: advanced_composition(one, k, delta / 2) <= epsilon)
    return math.sqrt(2 * math.log(1.25 / (delta / (2 * k)))) / one


def gauss_zcdp(k: int, epsilon: float, delta: float) -> float:
    """sqrt(k / (2 rho))."""
    return math.sqrt(k / (2 * rho_of(epsilon, delta)))


APPROACHES: Mapping[str, Callable[[int, float, float], float]] = {
    "lap basic": laplace_basic,
    "lap adv": laplace_advanced,
    "lap zcdp": laplace_zcdp,
    "gauss adv": gauss_advanced,
    "gauss zcdp": gauss_zcdp,
}
"""The standard deviation of each cell, by the paper's names."""


def crossing(epsilon: float, delta: float) -> float:
    """The k at which Gaussian noise under zCDP is as large as Laplace noise under basic composition."""
    return epsilon**2 / (4 * rho_of(epsilon, delta))


def _largest(fits: Callable[[float], bool]) -> float:
    low, high = 0.0, 1.0
    while fits(high):
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
