"""A comparison of the noise on k marginals under one (epsilon, delta), as in DPSyn, Figure 2.

There are six ways to answer k marginals, to each of which one record adds one count: Laplace or Gaussian noise, under
basic, advanced (Dwork, Rothblum, Vadhan 2010) or zero-concentrated composition.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pgmest.errors import ArgumentError
from pgmest.privacy.budgets import ApproxDP, Budget, Epsilon, Rho, largest
from pgmest.privacy.gaussian import analytic_gaussian


@dataclass(frozen=True)
class NoiseChoice:
    """One way to answer k marginals.

    Attributes:
        k: the number of marginals.
        noise: "laplace" or "gaussian".
        composition: "basic", "advanced" or "zcdp".
        stddev: the standard deviation of continuous noise on each cell, in counts. Integer noise has a smaller one if
            it is below about one count.
        budget: the budget with which a `Curator` adds this noise if it is split into k parts; None if no budget does.
    """

    k: int
    noise: str
    composition: str
    stddev: float
    budget: Budget | None = None


def noise_choices(k: int, epsilon: float, delta: float) -> list[NoiseChoice]:
    """Return the six ways to answer k marginals, Laplace first; one way if delta is 0.

    Raises:
        ArgumentError: if `k` or `epsilon` is not positive, or `delta` is not at least 0 and below 1.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ArgumentError.of("k", k, "a positive integer")
    if not 0 < epsilon < math.inf:
        raise ArgumentError.of("epsilon", epsilon, "a positive number")
    if not 0 <= delta < 1:
        raise ArgumentError.of("delta", delta, "at least 0 and below 1")
    pure = NoiseChoice(k, "laplace", "basic", math.sqrt(2) * k / epsilon, Epsilon(epsilon))
    if not delta:
        return [pure]
    rho = Rho.of(epsilon, delta)
    each = (rho / k).rho
    by_zcdp = largest(lambda one: Epsilon(one).to_rho().rho <= each)
    by_advanced = largest(lambda one: advanced_composition(one, k, delta) <= epsilon)
    gaussian_advanced = largest(lambda one: advanced_composition(one, k, delta / 2) <= epsilon)
    return [
        pure,
        NoiseChoice(k, "laplace", "advanced", math.sqrt(2) / by_advanced),
        NoiseChoice(k, "laplace", "zcdp", math.sqrt(2) / by_zcdp),
        NoiseChoice(k, "gaussian", "basic", analytic_gaussian(epsilon / k, delta / k), ApproxDP(epsilon, delta)),
        NoiseChoice(k, "gaussian", "advanced", analytic_gaussian(gaussian_advanced, delta / (2 * k))),
        NoiseChoice(k, "gaussian", "zcdp", math.sqrt(0.5 / each), rho),
    ]


def best_noise(k: int, epsilon: float, delta: float = 0.0) -> NoiseChoice:
    """Return the way with the least standard deviation per cell for k marginals.

    >>> best_noise(1, 1.0, 1e-9).noise, best_noise(100, 1.0, 1e-9).composition
    ('laplace', 'zcdp')

    Raises:
        ArgumentError: as for `noise_choices`.
    """
    return min(noise_choices(k, epsilon, delta), key=lambda choice: choice.stddev)


def noise_table(ks: Iterable[int], epsilon: float, delta: float) -> str:
    """Return the standard deviations as a Markdown table with a row per k and the least in bold."""
    rows = [noise_choices(k, epsilon, delta) for k in ks]
    if not rows:
        raise ArgumentError.of("ks", ks, "at least one number of marginals")
    names = [f"{choice.noise}, {choice.composition}" for choice in rows[0]]
    lines = [f"| k | {' | '.join(names)} |", "|---:" * (len(names) + 1) + "|"]
    for row in rows:
        least = min(choice.stddev for choice in row)
        cells = (f"**{choice.stddev:.4g}**" if choice.stddev == least else f"{choice.stddev:.4g}" for choice in row)
        lines.append(f"| {row[0].k} | {' | '.join(cells)} |")
    return "\n".join(lines)


def advanced_composition(epsilon: float, k: int, delta: float) -> float:
    """Return the epsilon of k epsilon-DP mechanisms for an additional delta (Dwork, Rothblum, Vadhan 2010, III.3)."""
    return epsilon * math.sqrt(2 * k * math.log(1 / delta)) + k * epsilon * math.expm1(min(epsilon, 700.0))
