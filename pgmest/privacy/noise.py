"""Integer noise for integer answers: how much a budget needs, and two sources of it.

`OpenDP` draws exact discrete Gaussian and Laplace noise from the operating system's randomness, without floating-point
arithmetic. `Simulation` draws the same distributions from a seeded NumPy generator: for experiments; it is insecure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.measurements.noise import discrete_laplace, noise_scale, noise_stddev
from pgmest.privacy.budgets import SAFETY, ApproxDP, Budget, Epsilon, Rho
from pgmest.privacy.neighbors import Neighbors

LARGEST = 2.0**52
"""Answers are clipped to this many steps, which moves no two of them further apart."""
MOST_STEPS = 2.0**50
"""The largest noise that is drawn, in steps."""
LEAST_STEPS = 1e-100
"""The smallest standard deviation of noise, in steps: a budget that would need less gets this much. It is never seen in
a draw, but can be stated, and estimation can divide by it."""
FINEST = 2.0**-20
"""The finest grid, in sensitivities: on a finer one, LARGEST steps would be less than the counts of large tables."""
EXACT = 1e-3
"""The stddev stated of answers that no individual moves, which get no noise (estimation needs a positive number)."""


@dataclass(frozen=True)
class Noise:
    """Noise on answers that are multiples of `step`: its kind, its own parameter, and its standard deviation.

    Attributes:
        kind: "discrete_gaussian" (Canonne, Kamath, Steinke 2020) or "discrete_laplace" (geometric, two-sided).
        scale: sigma of the Gaussian, b of the Laplace (probability falls as exp(-|x| / b)), in counts.
        sensitivity: l2 for the Gaussian, l1 for the Laplace, in counts.
        step: what the answers are multiples of; 1 for integer queries.
    """

    kind: str
    scale: float
    sensitivity: float
    step: float = 1.0

    @property
    def stddev(self) -> float:
        """In counts; of the Gaussian its parameter, as `LinearMeasurement` has it."""
        return float(noise_stddev(self.kind, self.scale / self.step) * self.step) if self.sensitivity else EXACT

    @property
    def name(self) -> str:
        """The kind of noise as a `LinearMeasurement` names it: discrete only where it is integer-valued."""
        return self.kind if self.step == 1.0 else self.kind.removeprefix("discrete_")


def noise_for(spend: Budget, neighbors: Neighbors, query: Any = None, step: float = 1.0) -> Noise:
    """The least noise that makes the answers to a query private at this cost; rounded up.

    Rho: discrete Gaussian with sigma = Delta_2 / sqrt(2 rho). Epsilon: discrete Laplace with b = Delta_1 / epsilon.
    ApproxDP: Gaussian by the exact condition for it, on a grid so fine that the discrete Gaussian fulfils it, too; or
    discrete Laplace where delta is zero.

    Raises:
        ArgumentError: so little is spent that the noise would drown every count.
    """
    noise = _calibrated(spend, neighbors, query, step)
    least = float(noise_scale(noise.kind, LEAST_STEPS)) * noise.step
    if noise.sensitivity and noise.scale < least:
        noise = replace(noise, scale=least)
    if not noise.scale < MOST_STEPS * noise.step:
        raise ArgumentError.of("spend", spend, f"more: it would need noise of {noise.scale:.2g} counts")
    return noise


def _calibrated(spend: Budget, neighbors: Neighbors, query: Any, step: float) -> Noise:
    if isinstance(spend, ApproxDP):
        if spend.delta:
            return _on_fine_grid(analytic_gaussian(spend.epsilon, spend.delta), neighbors.l2_sensitivity(query), step)
        spend = Epsilon(spend.epsilon)
    if isinstance(spend, Rho):
        sensitivity = neighbors.l2_sensitivity(query)
        return Noise("discrete_gaussian", sensitivity / math.sqrt(2 * spend.rho) * (1 + SAFETY), sensitivity, step)
    assert isinstance(spend, Epsilon)
    sensitivity = neighbors.l1_sensitivity(query)
    return Noise("discrete_laplace", sensitivity / spend.epsilon * (1 + SAFETY), sensitivity, step)


@lru_cache(maxsize=256)
def analytic_gaussian(epsilon: float, delta: float) -> float:
    """The least sigma for which Gaussian noise at l2 sensitivity 1 is (epsilon, delta)-DP, rounded up.

    It solves Phi(1 / (2 sigma) - epsilon sigma) - exp(epsilon) Phi(-1 / (2 sigma) - epsilon sigma) = delta (Balle, Wang
    2018, Theorem 8), where Phi is the normal distribution function.

    >>> round(analytic_gaussian(1.0, 1e-5), 3)
    3.731
    """
    from scipy.special import log_ndtr

    def excess(sigma: float) -> float:
        upper, lower = 0.5 / sigma - epsilon * sigma, -0.5 / sigma - epsilon * sigma
        above, below = math.exp(log_ndtr(upper)), math.exp(min(0.0, epsilon + log_ndtr(lower)))
        return above * (1 + 1e-13) - below - delta * (1 - 1e-9)  # with a margin for the float errors of both

    low, high = 0.0, 1.0
    while excess(high) > 0:
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high * (1 + SAFETY)


def _on_fine_grid(sigma: float, sensitivity: float, step: float) -> Noise:
    """The discrete Gaussian that protects as the continuous one of sigma times the sensitivity does.

    Continuous noise of variance s^2, followed by a draw of the discrete Gaussian of variance (4 steps)^2 around what it
    gave, is distributed as a discrete Gaussian of variance s^2 + (4 steps)^2, up to factors within exp(-300) of 1
    (Peikert 2010, Theorem 3.1). So that is as private as the continuous noise, of which it is a post-processing. With
    1,000 steps or more in s the standard deviation grows by less than a hundred-thousandth.
    """
    scale = sigma * sensitivity
    fine = min(step, 2.0 ** math.floor(math.log2(max(scale / 1000, FINEST * sensitivity)))) if scale else step
    return Noise("discrete_gaussian", math.hypot(scale, 4 * fine) * (1 + SAFETY) if scale else 0.0, sensitivity, fine)


def cost_of(stddev: float, kind: type[Budget], neighbors: Neighbors, query: Any = None, step: float = 1.0) -> Budget:
    """What noise of this standard deviation costs, rounded up: the inverse of `noise_for`.

    Raises:
        ArgumentError: `stddev` is not a positive number, or the budget is ApproxDP, of which it determines no one cost.
    """
    if not 0 < stddev < math.inf:
        raise ArgumentError.of("stddev", stddev, "a positive number")
    if kind is Rho:
        return Rho((neighbors.l2_sensitivity(query) / stddev) ** 2 / 2 * (1 + 4 * SAFETY))
    if kind is Epsilon:
        scale = float(noise_scale("discrete_laplace", stddev / step) * step)
        return Epsilon(neighbors.l1_sensitivity(query) / scale * (1 + 4 * SAFETY))
    raise ArgumentError("stddev= does not say how to share epsilon and delta: give spend=ApproxDP(epsilon, delta).")


class Backend(Protocol):
    """A source of noise. `request` numbers the questions of a curator, so that a simulation can be resumed."""

    insecure: bool

    def add_noise(self, answers: np.ndarray, noise: Noise, request: int) -> np.ndarray:
        """Answers in counts, each plus independent noise; multiples of the noise's step."""
        ...

    def generator(self, request: int) -> np.random.Generator:
        """A generator for mechanisms of the caller's own."""
        ...

    def noisy_max(self, scores: np.ndarray, scale: float, pure: bool, request: int) -> int:
        """The position of the largest of integer scores plus noise: exponential noise if pure, else Gumbel noise."""
        ...


class OpenDP:
    """Exact noise; nothing here can be seeded."""

    insecure = False

    def add_noise(self, answers: np.ndarray, noise: Noise, request: int) -> np.ndarray:
        """See `Backend`."""
        dp = _opendp()
        vectors = dp.vector_domain(dp.atom_domain(T="i64"))
        if noise.kind == "discrete_gaussian":
            mechanism = dp.m.make_gaussian(vectors, dp.l2_distance(T="f64"), scale=noise.scale / noise.step)
        else:
            mechanism = dp.m.make_laplace(vectors, dp.l1_distance(T="f64"), scale=noise.scale / noise.step)
        return np.array(mechanism(in_steps(answers, noise.step).tolist()), dtype=np.float64) * noise.step

    def noisy_max(self, scores: np.ndarray, scale: float, pure: bool, request: int) -> int:
        """See `Backend`."""
        dp = _opendp()
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
        measure = dp.max_divergence() if pure else dp.zero_concentrated_divergence()
        return int(dp.m.make_noisy_max(*space, measure, scale=scale)(scores.tolist()))

    def generator(self, request: int) -> np.random.Generator:
        """See `Backend`."""
        return np.random.default_rng()


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
    """OpenDP, imported when first needed: it takes about a second."""
    import opendp.prelude as dp
    from opendp.mod import enable_features

    enable_features("contrib")
    return dp
