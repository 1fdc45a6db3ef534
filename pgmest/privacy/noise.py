"""Integer noise for integer answers: its calibration to a budget, and two sources of it.

`OpenDP` draws exact discrete Gaussian and Laplace noise from the operating system's randomness, without floating-point
arithmetic. `Simulation` draws the same distributions from a seeded NumPy generator; it is insecure, for experiments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, SpendTooSmall
from pgmest.measurements.noise import discrete_laplace, noise_scale, noise_stddev
from pgmest.privacy import exponential
from pgmest.privacy.budgets import GDP, ApproxDP, Budget, Epsilon, Rho, is_pure, rounded_up
from pgmest.privacy.gaussian import SAFETY, analytic_gaussian
from pgmest.privacy.neighbors import Neighbors, root_up

LARGEST = 2.0**52
"""The largest number of steps of an answer. Answers are clipped to it, which moves no two of them further apart."""
MOST_STEPS = 2.0**50
"""The largest scale of noise that is drawn, in steps."""
LEAST_STEPS = 1e-100
"""The smallest standard deviation of noise, in steps; smaller ones are raised to it, so that they can be divisors."""
VALUES_GRID = 2.0**-20
"""The largest step to which numbers other than counts are rounded, as a share of their sensitivity."""
FINEST = 2.0**-20
"""The finest grid, in sensitivities. On a finer one the counts of large tables would exceed LARGEST steps."""
UP, FINER = 1 + 4 * Fraction(SAFETY), 1 + Fraction(2, 10**5)
"""The surcharges if the caller fixes the noise: for the margin that the calibration adds, and for the growth of noise
on a fine grid."""
EXACT = 1e-3
"""The standard deviation stated for answers without noise, which no individual moves: estimation divides by it."""


@dataclass(frozen=True)
class Noise:
    """Noise on answers that are multiples of `step`: its kind, its parameter, and its standard deviation.

    Attributes:
        kind: "discrete_gaussian" (Canonne, Kamath, Steinke 2020) or "discrete_laplace" (geometric, two-sided).
        scale: sigma of the Gaussian, b of the Laplace (the probability falls as exp(-|x| / b)), in counts.
        sensitivity: the l2 sensitivity for the Gaussian, the l1 sensitivity for the Laplace, in counts, rounded up.
        step: the step of the answers, in counts; 1 for integer queries.
        exact: whether the sensitivity is exactly 0, so that the answers get no noise.
    """

    kind: str
    scale: float
    sensitivity: float
    step: float = 1.0
    exact: bool = False

    @property
    def pure(self) -> bool:
        """Whether this is Laplace noise, for pure differential privacy."""
        return self.kind == "discrete_laplace"

    @property
    def stddev(self) -> float:
        """The standard deviation in counts; for the Gaussian its parameter, as in `LinearMeasurement`."""
        return float(noise_stddev(self.kind, self.scale / self.step) * self.step) if not self.exact else EXACT

    @property
    def name(self) -> str:
        """The name of the noise in a `LinearMeasurement`: discrete only if it is integer-valued."""
        return self.kind if self.step == 1.0 else self.kind.removeprefix("discrete_")


def noise_for(spend: Budget, neighbors: Neighbors, query: Any = None, step: float = 1.0) -> Noise:
    """Return the least noise that makes the answers to a query private at this cost, rounded up.

    - Rho: discrete Gaussian noise with sigma = Delta_2 / sqrt(2 rho).
    - Epsilon, and ApproxDP with delta 0: discrete Laplace noise with b = Delta_1 / epsilon.
    - GDP: Gaussian noise with sigma = Delta_2 / mu. ApproxDP: with the sigma of the analytic Gaussian mechanism. For
      these two the grid is so fine that the discrete Gaussian is a post-processing of the continuous one.

    Raises:
        SpendTooSmall: if the noise would be larger than any count.
    """
    noise = _calibrated(spend, neighbors, query, Fraction(step))
    least = float(noise_scale(noise.kind, LEAST_STEPS)) * noise.step
    if not noise.exact and noise.scale < least:
        noise = replace(noise, scale=least)
    if not noise.scale < MOST_STEPS * noise.step:
        raise SpendTooSmall.of("spend", spend, f"more: it would need noise of {noise.scale:.2g} counts")
    return noise


def _calibrated(spend: Budget, neighbors: Neighbors, query: Any, step: Fraction) -> Noise:
    """Return the noise, calibrated in steps and scaled to counts: the sensitivity in steps cannot underflow."""
    if not neighbors.exact_l1(query):  # exact: no individual moves the integer matrix
        kind = "discrete_laplace" if is_pure(spend) else "discrete_gaussian"
        return Noise(kind, 0.0, 0.0, float(step), exact=True)
    return _at_sensitivity(spend, steps_between(neighbors, query, float(step), is_pure(spend)), float(step))


def _at_sensitivity(spend: Budget, steps: float, step: float) -> Noise:
    """Return the noise at a sensitivity in steps, in l1 for a pure budget, else in l2."""
    if is_pure(spend):
        return _in_counts("discrete_laplace", steps / spend.epsilon * (1 + SAFETY), steps, step)
    if isinstance(spend, Rho):
        return _in_counts("discrete_gaussian", steps / math.sqrt(2 * spend.rho) * (1 + SAFETY), steps, step)
    assert isinstance(spend, GDP | ApproxDP)
    return _on_fine_grid(_sigma(spend), steps, step)


def _in_counts(kind: str, scale: float, sensitivity: float, step: float) -> Noise:
    return Noise(kind, scale * step, sensitivity * step, step)


def _on_fine_grid(sigma: float, sensitivity: float, step: float) -> Noise:
    """Return the discrete Gaussian that protects like the continuous one of sigma times the sensitivity.

    Take continuous noise of variance s^2, and draw a discrete Gaussian of variance (4 steps)^2 around the result. The
    outcome is distributed as a discrete Gaussian of variance s^2 + (4 steps)^2, up to factors within exp(-300) of 1
    (Peikert 2010, Theorem 3.1). So this discrete Gaussian is a post-processing of the continuous noise, and as private.
    With 1,000 steps or more in s the standard deviation grows by less than a hundred-thousandth.
    """
    scale = sigma * sensitivity
    fine = min(1.0, 2.0 ** math.floor(math.log2(max(scale / 1000, FINEST * sensitivity))))
    grown = math.hypot(scale, 4 * fine) * (1 + SAFETY)
    return Noise("discrete_gaussian", grown * step, sensitivity * step, fine * step)


def values_noise(spend: Budget, count: int, sensitivity: float, together: bool = False) -> tuple[Noise, float]:
    """Return the noise on a vector of numbers, and the sensitivity of the vector in steps of the noise.

    The numbers are rounded to a grid of 2^20 steps or more per sensitivity. Each number then changes by up to two more
    steps between neighbors: one for the rounding, and one for the float errors in its computation. The l1 sensitivity
    of the vector is count times that of a number, the l2 sensitivity sqrt(count) times.

    Args:
        spend: the cost.
        count: the length of the vector.
        sensitivity: the largest change of each number between neighbors.
        together: whether `sensitivity` is that of the whole vector instead, in l1 for Laplace noise, else in l2. Then
            the rounding adds 2 count steps in l1, and 2 sqrt(count) steps in l2.
    """
    step = 2.0 ** math.floor(math.log2(sensitivity * VALUES_GRID))
    each = math.ceil(Fraction(sensitivity) / Fraction(step)) + (0 if together else 2)
    if is_pure(spend):
        apart = float(each + 2 * count if together else count * each)
    elif together:
        apart = rounded_up(each + Fraction(root_up(Fraction(4 * count))))
    else:
        apart = root_up(Fraction(count * each**2))
    noise = _at_sensitivity(spend, apart, step)
    return noise, apart * (step / noise.step)


def most_of(noise: Noise, cost: Budget) -> Fraction:
    """Return the most rho, or epsilon of Laplace noise, that noise for this cost may have."""
    if noise.pure:
        assert isinstance(cost, Epsilon | ApproxDP)
        return cost.exact[0]
    if isinstance(cost, ApproxDP):
        return 1 / Fraction(_sigma(cost)) ** 2 / 2
    assert isinstance(cost, Rho | GDP)
    return cost.exact[0] / (2 if isinstance(cost, GDP) else 1)


def steps_between(neighbors: Neighbors, query: Any, step: float, pure: bool) -> float:
    """Return the largest distance of the answers of neighbors to a query, in steps, rounded up: in l1 if pure."""
    if pure:
        return rounded_up(neighbors.exact_l1(query) / Fraction(step))
    return root_up(neighbors.exact_l2_squared(query) / Fraction(step) ** 2)


def _sigma(spend: GDP | ApproxDP) -> float:
    """Return the sigma of Gaussian noise at sensitivity 1."""
    if isinstance(spend, ApproxDP):
        return analytic_gaussian(spend.epsilon, spend.delta)
    return 1 / math.sqrt(spend.mu_squared) * (1 + SAFETY)


def cost_of(stddev: float, kind: type[Budget], neighbors: Neighbors, query: Any = None, step: float = 1.0) -> Budget:
    """Return the cost of noise of this standard deviation, rounded up: the inverse of `noise_for`.

    Raises:
        ArgumentError: if `stddev` is not a positive number, or the budget is ApproxDP, for which the cost is ambiguous.
    """
    if not 0 < stddev < math.inf:
        raise ArgumentError.of("stddev", stddev, "a positive number")
    if kind is Rho:
        return Rho(rounded_up(neighbors.exact_l2_squared(query) / Fraction(stddev) ** 2 / 2 * UP))
    if kind is GDP:
        return GDP(rounded_up(neighbors.exact_l2_squared(query) / Fraction(stddev) ** 2 * FINER))
    if kind is Epsilon:
        scale = float(noise_scale("discrete_laplace", stddev / step))
        return Epsilon(rounded_up(neighbors.exact_l1(query) / Fraction(step) / Fraction(scale) * UP))
    raise ArgumentError("stddev= does not say how to share epsilon and delta: give spend=ApproxDP(epsilon, delta).")


MANY_CANDIDATES = 2**10
"""The number of candidates from which a selection under zCDP is drawn by `exponential`."""


class OpenDP:
    """Exact noise, which cannot be seeded. The prices are those of the OpenDP measurements that draw the noise.

    `request` is the number of a curator's request, by which a simulation can be resumed.
    """

    insecure = False

    def price(self, noise: Noise, sensitivity: float) -> float:
        """Return the price of noise at a sensitivity in steps, rounded up: rho, or epsilon of Laplace noise."""
        return self._mechanism(noise).map(float(sensitivity))

    def selection_price(self, scale: float, sensitivity: int, pure: bool, monotone: bool) -> float:
        """Return the price of `noisy_max` at a sensitivity of integer scores, rounded up: rho, or epsilon if pure."""
        return self._noisy_max(scale, pure, monotone).map(int(sensitivity))

    def add_noise(self, answers: np.ndarray, noise: Noise, request: int) -> np.ndarray:
        """Return answers in counts with independent noise added, as multiples of the noise's step."""
        mechanism = self._mechanism(noise)
        return np.array(mechanism(in_steps(answers, noise.step).tolist()), dtype=np.float64) * noise.step

    def noisy_max(self, scores: np.ndarray, scale: float, pure: bool, request: int) -> int:
        """Return the position of the largest integer score with noise: exponential noise if pure, else Gumbel noise.

        OpenDP chooses it, or among many candidates `exponential`, with the same probabilities.
        OpenDP draws noise for each candidate, which takes 50 times as long as one exact draw of the exponential
        mechanism.
        """
        if not pure and len(scores) >= MANY_CANDIDATES and scale <= exponential.LARGEST_SCALE:
            return exponential.draw(*exponential.exponents(scores, scale), 1)[0]
        return int(self._noisy_max(scale, pure, False)(scores.tolist()))

    def draw(self, exponents: np.ndarray, unit_power: int, draws: int, request: int) -> list[int]:
        """Draw positions with probabilities proportional to exp(exponents * 2^unit_power), for integer exponents."""
        return exponential.draw(exponents, unit_power, draws)

    def generator(self, request: int) -> np.random.Generator:
        """Return a generator with fresh entropy, for a mechanism of the caller."""
        return np.random.default_rng()

    def _mechanism(self, noise: Noise) -> Any:
        dp = _opendp()
        vectors, scale = dp.domains.vector_domain(dp.domains.atom_domain(T="i64")), noise.scale / noise.step
        if noise.kind == "discrete_gaussian":
            return dp.measurements.make_gaussian(vectors, dp.metrics.l2_distance(T="f64"), scale=scale)
        return dp.measurements.make_laplace(vectors, dp.metrics.l1_distance(T="f64"), scale=scale)

    def _noisy_max(self, scale: float, pure: bool, monotone: bool) -> Any:
        dp = _opendp()
        scores = dp.domains.vector_domain(dp.domains.atom_domain(T="i64"))
        metric = dp.metrics.linf_distance(T="i64", monotonic=monotone)
        measure = dp.measures.max_divergence() if pure else dp.measures.zero_concentrated_divergence()
        return dp.measurements.make_noisy_max(scores, metric, measure, scale=scale)


class Simulation:
    """A source that draws the same distributions with NumPy. The generator of request i is made from the seed and i.

    Args:
        seed: an integer, None for fresh randomness, or a generator, from which one number is drawn.
    """

    insecure = True

    def __init__(self, seed: int | np.random.Generator | None = None):
        if isinstance(seed, np.random.Generator):
            seed = int(seed.integers(2**63))
        self._entropy = np.random.SeedSequence(seed).entropy

    def price(self, noise: Noise, sensitivity: float) -> float:
        """Return the price of the noise by the formulas of the discrete Gaussian and Laplace mechanisms."""
        ratio = Fraction(sensitivity) / (Fraction(noise.scale) / Fraction(noise.step))
        return rounded_up(ratio if noise.pure else ratio**2 / 2)

    def selection_price(self, scale: float, sensitivity: int, pure: bool, monotone: bool) -> float:
        """Return the price of the choice by the formula of the exponential mechanism."""
        epsilon = (1 if monotone else 2) * sensitivity / Fraction(scale)
        return rounded_up(epsilon if pure else epsilon**2 / 8)

    def add_noise(self, answers: np.ndarray, noise: Noise, request: int) -> np.ndarray:
        """Return the answers with simulated noise."""
        draw = discrete_laplace if noise.pure else discrete_gaussian
        steps = in_steps(answers, noise.step)
        return (steps + draw(noise.scale / noise.step, len(steps), self.generator(request))) * noise.step

    def noisy_max(self, scores: np.ndarray, scale: float, pure: bool, request: int) -> int:
        """Return the position with the largest simulated noisy score."""
        generator = self.generator(request)
        draw = generator.exponential if pure else generator.gumbel
        return int(np.argmax(scores + draw(scale=scale, size=len(scores))))

    def draw(self, exponents: np.ndarray, unit_power: int, draws: int, request: int) -> list[int]:
        """Draw positions by floating-point arithmetic."""
        sums = np.cumsum(np.exp(exponential.log_probabilities(exponents, unit_power)))
        places = np.searchsorted(sums, self.generator(request).random(draws) * sums[-1], side="right")
        return np.minimum(places, len(sums) - 1).tolist()

    def generator(self, request: int) -> np.random.Generator:
        """Return the generator of a request."""
        return np.random.default_rng(np.random.SeedSequence(self._entropy, spawn_key=(request,)))


Backend = OpenDP | Simulation
"""A source of noise."""


def make_backend(name: str, seed: int | np.random.Generator | None) -> Backend:
    """Return the backend of this name.

    Raises:
        ArgumentError: if no backend has this name.
    """
    if name == "simulation":
        return Simulation(seed)
    if name == "opendp":
        return OpenDP()
    raise ArgumentError.of("backend", name, ("opendp", "simulation"))


def in_steps(answers: np.ndarray, step: float) -> np.ndarray:
    """Return answers as integer numbers of steps, clipped to `LARGEST`."""
    return np.clip(np.rint(answers / step), -LARGEST, LARGEST).astype(np.int64)


def discrete_gaussian(sigma: float, size: int, generator: np.random.Generator) -> np.ndarray:
    """Draw integers with probability proportional to exp(-k^2 / (2 sigma^2)), by rejection from the discrete Laplace.

    This is Algorithm 3 of Canonne, Kamath, Steinke 2020, in floating point.
    """
    scale = math.floor(sigma) + 1
    drawn = np.empty(0, dtype=np.int64)
    while len(drawn) < size:
        proposed = discrete_laplace(scale, 2 * (size - len(drawn)) + 8, generator)
        exponent = (np.abs(proposed) - sigma**2 / scale) ** 2 / (2 * sigma**2)
        drawn = np.concatenate([drawn, proposed[generator.random(len(proposed)) < np.exp(-exponent)]])
    return drawn[:size]


def _opendp() -> Any:
    """Import the modules of OpenDP that noise needs, and return the package.

    OpenDP's prelude would import scikit-learn, pandas and polars if they are installed, which takes over a second.
    """
    import opendp
    from opendp import domains, measurements, measures, metrics, mod  # noqa: F401

    mod.enable_features("contrib")
    return opendp
