"""Integer noise for integer answers: how much a budget needs, and two sources of it.

`OpenDP` draws exact discrete Gaussian and Laplace noise from the operating system's randomness, without floating-point
arithmetic. `Simulation` draws the same distributions from a seeded NumPy generator: for experiments; it is insecure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from pgmest._base.errors import ArgumentError, SpendTooSmall
from pgmest.measurements.noise import discrete_laplace, noise_scale, noise_stddev
from pgmest.privacy import exponential
from pgmest.privacy.budgets import GDP, ApproxDP, Budget, Epsilon, PlannedRho, Rho, rounded_up
from pgmest.privacy.gaussian import SAFETY, analytic_gaussian
from pgmest.privacy.neighbors import Neighbors, root_up

LARGEST = 2.0**52
"""Answers are clipped to this many steps, which moves no two of them further apart."""
MOST_STEPS = 2.0**50
"""The largest noise that is drawn, in steps."""
LEAST_STEPS = 1e-100
"""The smallest standard deviation of noise, in steps: a budget that would need less gets this much. It is never seen in
a draw, but can be stated, and estimation can divide by it."""
VALUES_GRID = 2.0**-20
"""Numbers other than counts are rounded to multiples of at most this share of their sensitivity."""
FINEST = 2.0**-20
"""The finest grid, in sensitivities: on a finer one, LARGEST steps would be less than the counts of large tables."""
UP, FINER = 1 + 4 * Fraction(SAFETY), 1 + Fraction(2, 10**5)
"""By how much more is charged where the noise is given: for the margin that its calibration adds, and for the growth
of noise on a fine grid."""
EXACT = 1e-3
"""The stddev stated of answers that no individual moves, which get no noise (estimation needs a positive number)."""


@dataclass(frozen=True)
class Noise:
    """Noise on answers that are multiples of `step`: its kind, its own parameter, and its standard deviation.

    Attributes:
        kind: "discrete_gaussian" (Canonne, Kamath, Steinke 2020) or "discrete_laplace" (geometric, two-sided).
        scale: sigma of the Gaussian, b of the Laplace (probability falls as exp(-|x| / b)), in counts.
        sensitivity: l2 for the Gaussian, l1 for the Laplace, in counts, rounded up.
        step: what the answers are multiples of; 1 for integer queries.
        exact: whether no individual moves the answers, which then get no noise: their sensitivity, in integers, is 0.
    """

    kind: str
    scale: float
    sensitivity: float
    step: float = 1.0
    exact: bool = False

    @property
    def stddev(self) -> float:
        """In counts; of the Gaussian its parameter, as `LinearMeasurement` has it."""
        return float(noise_stddev(self.kind, self.scale / self.step) * self.step) if not self.exact else EXACT

    @property
    def name(self) -> str:
        """The kind of noise as a `LinearMeasurement` names it: discrete only where it is integer-valued."""
        return self.kind if self.step == 1.0 else self.kind.removeprefix("discrete_")


def noise_for(spend: Budget, neighbors: Neighbors, query: Any = None, step: float = 1.0) -> Noise:
    """The least noise that makes the answers to a query private at this cost; rounded up.

    Rho: discrete Gaussian with sigma = Delta_2 / sqrt(2 rho). Epsilon: discrete Laplace with b = Delta_1 / epsilon.
    GDP: Gaussian with sigma = Delta_2 / mu, PlannedRho: with that of Rho, and ApproxDP: by the exact condition for it,
    all three on a grid so fine that the discrete Gaussian is a post-processing of the continuous one. ApproxDP with
    delta zero: discrete Laplace.

    Raises:
        SpendTooSmall: the noise would drown every count.
    """
    noise = _calibrated(spend, neighbors, query, Fraction(step))
    least = float(noise_scale(noise.kind, LEAST_STEPS)) * noise.step
    if not noise.exact and noise.scale < least:
        noise = replace(noise, scale=least)
    if not noise.scale < MOST_STEPS * noise.step:
        raise SpendTooSmall.of("spend", spend, f"more: it would need noise of {noise.scale:.2g} counts")
    return noise


def _calibrated(spend: Budget, neighbors: Neighbors, query: Any, step: Fraction) -> Noise:
    """The noise in steps, in which its sensitivity is an ordinary number, times the step."""
    if isinstance(spend, ApproxDP) and not spend.delta:
        spend = Epsilon(spend.epsilon)
    if not neighbors.exact_l1(query):  # exact: no individual moves the integer matrix
        kind = "discrete_laplace" if isinstance(spend, Epsilon) else "discrete_gaussian"
        return Noise(kind, 0.0, 0.0, float(step), exact=True)
    if isinstance(spend, Epsilon):
        steps = rounded_up(neighbors.exact_l1(query) / step)
        return _in_counts("discrete_laplace", steps / spend.epsilon * (1 + SAFETY), steps, float(step))
    steps = root_up(neighbors.exact_l2_squared(query) / step**2)
    if type(spend) is Rho:
        scale = steps / math.sqrt(2 * spend.rho) * (1 + SAFETY)
        return _in_counts("discrete_gaussian", scale, steps, float(step))
    assert isinstance(spend, GDP | ApproxDP | PlannedRho)
    return _on_fine_grid(_sigma(spend), steps, float(step))


def _in_counts(kind: str, scale: float, sensitivity: float, step: float) -> Noise:
    return Noise(kind, scale * step, sensitivity * step, step)


def _on_fine_grid(sigma: float, sensitivity: float, step: float) -> Noise:
    """The discrete Gaussian that protects as the continuous one of sigma times the sensitivity does.

    Continuous noise of variance s^2, followed by a draw of the discrete Gaussian of variance (4 steps)^2 around what it
    gave, is distributed as a discrete Gaussian of variance s^2 + (4 steps)^2, up to factors within exp(-300) of 1
    (Peikert 2010, Theorem 3.1). So that is as private as the continuous noise, of which it is a post-processing. With
    1,000 steps or more in s the standard deviation grows by less than a hundred-thousandth.
    """
    scale = sigma * sensitivity
    fine = min(1.0, 2.0 ** math.floor(math.log2(max(scale / 1000, FINEST * sensitivity))))
    grown = math.hypot(scale, 4 * fine) * (1 + SAFETY)
    return Noise("discrete_gaussian", grown * step, sensitivity * step, fine * step)


def values_noise(spend: Budget, count: int, sensitivity: float) -> tuple[Noise, float]:
    """The noise on numbers each of which moves by `sensitivity`, and how far they move together, in its steps.

    They are rounded to a grid of 2^20 steps or more per sensitivity; each then moves by two steps more, one for the
    rounding and one for the float errors made when it was computed. Together they move by count times that in l1, by
    its root times that in l2.
    """
    step = 2.0 ** math.floor(math.log2(sensitivity * VALUES_GRID))
    each = math.ceil(Fraction(sensitivity) / Fraction(step)) + 2
    if isinstance(spend, Epsilon) or (isinstance(spend, ApproxDP) and not spend.delta):
        apart = float(count * each)
        return _in_counts("discrete_laplace", apart / spend.epsilon * (1 + SAFETY), apart, step), apart
    apart = root_up(Fraction(count * each**2))
    if type(spend) is Rho:
        return _in_counts("discrete_gaussian", apart / math.sqrt(2 * spend.rho) * (1 + SAFETY), apart, step), apart
    assert isinstance(spend, GDP | ApproxDP | PlannedRho)
    noise = _on_fine_grid(_sigma(spend), apart, step)
    return noise, apart * (step / noise.step)


def charge_of(
    noise: Noise, cost: Budget, neighbors: Neighbors | None = None, query: Any = None, steps: float | None = None
) -> tuple[str, float, Fraction]:
    """What a backend must confirm of noise before anything is released.

    Args:
        noise: that is to be added.
        cost: what is to be charged.
        neighbors, query: by which the sensitivity in steps of the noise is computed anew;
        steps: or the sensitivity itself, in steps.

    Returns:
        the measure ("zcdp" or "pure"), the sensitivity, and the rho or epsilon that it may cost at most.
    """
    step = Fraction(noise.step)
    if noise.kind == "discrete_laplace":
        assert isinstance(cost, Epsilon | ApproxDP)
        apart = steps if neighbors is None else rounded_up(neighbors.exact_l1(query) / step)
        return "pure", float(apart or 0.0), Fraction(cost.epsilon)
    apart = steps if neighbors is None else root_up(neighbors.exact_l2_squared(query) / step**2)
    if isinstance(cost, ApproxDP):
        return "zcdp", float(apart or 0.0), 1 / Fraction(_sigma(cost)) ** 2 / 2
    assert isinstance(cost, Rho | GDP)
    return "zcdp", float(apart or 0.0), Fraction(cost.rho) if isinstance(cost, Rho) else Fraction(cost.mu_squared) / 2


def _sigma(spend: GDP | ApproxDP | PlannedRho) -> float:
    """Of Gaussian noise at sensitivity 1."""
    if isinstance(spend, PlannedRho):
        return 1 / math.sqrt(2 * spend.rho) * (1 + SAFETY)
    if isinstance(spend, ApproxDP):
        return analytic_gaussian(spend.epsilon, spend.delta)
    return 1 / math.sqrt(spend.mu_squared) * (1 + SAFETY)


def cost_of(stddev: float, kind: type[Budget], neighbors: Neighbors, query: Any = None, step: float = 1.0) -> Budget:
    """What noise of this standard deviation costs, rounded up: the inverse of `noise_for`.

    Raises:
        ArgumentError: `stddev` is not a positive number, or the budget is ApproxDP, of which it determines no one cost.
    """
    if not 0 < stddev < math.inf:
        raise ArgumentError.of("stddev", stddev, "a positive number")
    if kind is Rho:
        return Rho(rounded_up(neighbors.exact_l2_squared(query) / Fraction(stddev) ** 2 / 2 * UP))
    if kind is PlannedRho:
        return PlannedRho(rounded_up(neighbors.exact_l2_squared(query) / Fraction(stddev) ** 2 / 2 * FINER))
    if kind is GDP:
        return GDP(rounded_up(neighbors.exact_l2_squared(query) / Fraction(stddev) ** 2 * FINER))
    if kind is Epsilon:
        scale = float(noise_scale("discrete_laplace", stddev / step))
        return Epsilon(rounded_up(neighbors.exact_l1(query) / Fraction(step) / Fraction(scale) * UP))
    raise ArgumentError("stddev= does not say how to share epsilon and delta: give spend=ApproxDP(epsilon, delta).")


class Backend(Protocol):
    """A source of noise. `request` numbers the questions of a curator, so that a simulation can be resumed."""

    insecure: bool

    def price(self, noise: Noise, sensitivity: float, measure: str) -> float:
        """What the noise costs at a sensitivity in steps, rounded up: rho ("zcdp") or epsilon ("pure")."""
        ...

    def selection_price(self, scale: float, sensitivity: int, pure: bool, monotone: bool) -> float:
        """What `noisy_max` costs for integer scores of this sensitivity, rounded up: rho, or epsilon if pure."""
        ...

    def add_noise(self, answers: np.ndarray, noise: Noise, request: int) -> np.ndarray:
        """Answers in counts, each plus independent noise; multiples of the noise's step."""
        ...

    def draw(self, exponents: np.ndarray, unit_power: int, draws: int, request: int) -> list[int]:
        """Positions, with probabilities proportional to exp(exponents * 2^unit_power), of integer exponents."""
        ...

    def generator(self, request: int) -> np.random.Generator:
        """A generator for mechanisms of the caller's own."""
        ...

    def noisy_max(self, scores: np.ndarray, scale: float, pure: bool, request: int) -> int:
        """The position of the largest of integer scores plus noise: exponential noise if pure, else Gumbel noise."""
        ...


class OpenDP:
    """Exact noise; nothing here can be seeded. Prices are OpenDP's own, of the measurements that draw the noise."""

    insecure = False

    def price(self, noise: Noise, sensitivity: float, measure: str) -> float:
        """See `Backend`."""
        return self._mechanism(noise).map(float(sensitivity))

    def selection_price(self, scale: float, sensitivity: int, pure: bool, monotone: bool) -> float:
        """See `Backend`."""
        return self._noisy_max(scale, pure, monotone).map(int(sensitivity))

    def add_noise(self, answers: np.ndarray, noise: Noise, request: int) -> np.ndarray:
        """See `Backend`."""
        mechanism = self._mechanism(noise)
        return np.array(mechanism(in_steps(answers, noise.step).tolist()), dtype=np.float64) * noise.step

    def noisy_max(self, scores: np.ndarray, scale: float, pure: bool, request: int) -> int:
        """See `Backend`."""
        return int(self._noisy_max(scale, pure, False)(scores.tolist()))

    def draw(self, exponents: np.ndarray, unit_power: int, draws: int, request: int) -> list[int]:
        """See `Backend`; by exact integer arithmetic."""
        return exponential.draw(exponents, unit_power, draws)

    def generator(self, request: int) -> np.random.Generator:
        """See `Backend`."""
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
    """The same distributions from NumPy. Request i has a generator of its own, made from the seed and i.

    Args:
        seed: an integer, None for fresh randomness, or a generator, of which one draw is taken.
    """

    insecure = True

    def __init__(self, seed: int | np.random.Generator | None = None):
        if isinstance(seed, np.random.Generator):
            seed = int(seed.integers(2**63))
        self._entropy = np.random.SeedSequence(seed).entropy

    def price(self, noise: Noise, sensitivity: float, measure: str) -> float:
        """See `Backend`."""
        ratio = Fraction(sensitivity) / (Fraction(noise.scale) / Fraction(noise.step))
        return rounded_up(ratio if measure == "pure" else ratio**2 / 2)

    def selection_price(self, scale: float, sensitivity: int, pure: bool, monotone: bool) -> float:
        """See `Backend`."""
        epsilon = (1 if monotone else 2) * sensitivity / Fraction(scale)
        return rounded_up(epsilon if pure else epsilon**2 / 8)

    def add_noise(self, answers: np.ndarray, noise: Noise, request: int) -> np.ndarray:
        """See `Backend`."""
        draw = discrete_gaussian if noise.kind == "discrete_gaussian" else discrete_laplace
        steps = in_steps(answers, noise.step)
        return (steps + draw(noise.scale / noise.step, len(steps), self.generator(request))) * noise.step

    def noisy_max(self, scores: np.ndarray, scale: float, pure: bool, request: int) -> int:
        """See `Backend`."""
        generator = self.generator(request)
        draw = generator.exponential if pure else generator.gumbel
        return int(np.argmax(scores + draw(scale=scale, size=len(scores))))

    def draw(self, exponents: np.ndarray, unit_power: int, draws: int, request: int) -> list[int]:
        """See `Backend`; in floating point."""
        sums = np.cumsum(np.exp(exponential.log_probabilities(exponents, unit_power)))
        places = np.searchsorted(sums, self.generator(request).random(draws) * sums[-1], side="right")
        return np.minimum(places, len(sums) - 1).tolist()

    def generator(self, request: int) -> np.random.Generator:
        """See `Backend`."""
        return np.random.default_rng(np.random.SeedSequence(self._entropy, spawn_key=(request,)))


def make_backend(name: str, seed: int | np.random.Generator | None) -> Backend:
    """The backend of this name.

    Raises:
        ArgumentError: there is none.
    """
    if name == "simulation":
        return Simulation(seed)
    if name == "opendp":
        return OpenDP()
    raise ArgumentError.of("backend", name, ("opendp", "simulation"))


def in_steps(answers: np.ndarray, step: float) -> np.ndarray:
    """The answers as integer numbers of steps, clipped."""
    return np.clip(np.rint(answers / step), -LARGEST, LARGEST).astype(np.int64)


def discrete_gaussian(sigma: float, size: int, generator: np.random.Generator) -> np.ndarray:
    """Integers with probability proportional to exp(-k^2 / (2 sigma^2)), by rejection from the discrete Laplace
    (Canonne, Kamath, Steinke 2020, Algorithm 3)."""
    scale = math.floor(sigma) + 1
    drawn = np.empty(0, dtype=np.int64)
    while len(drawn) < size:
        proposed = discrete_laplace(scale, 2 * (size - len(drawn)) + 8, generator)
        exponent = (np.abs(proposed) - sigma**2 / scale) ** 2 / (2 * sigma**2)
        drawn = np.concatenate([drawn, proposed[generator.random(len(proposed)) < np.exp(-exponent)]])
    return drawn[:size]


def _opendp() -> Any:
    """The modules of OpenDP that noise needs, imported when first used.

    Its prelude would import scikit-learn, pandas and polars where they are installed: over a second for nothing.
    """
    import opendp
    from opendp import domains, measurements, measures, metrics, mod  # noqa: F401

    mod.enable_features("contrib")
    return opendp
