"""The composition of releases of different kinds by their privacy-loss distributions.

No single type of budget adds up pure epsilon, Gaussian noise and planned runs without loss. If each cost was fixed
beforehand, their privacy-loss distributions compose: by Google's `dp-accounting` (the extra `accounting`), with every
rounding on the safe side. The choices of a planned run have no worst-case distribution, since the worst
case of one depends on the others; the worst case of all of them is added (`pgmest.privacy.bounded_range`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, OptionalDependencyError
from pgmest.privacy.bounded_range import ChoiceCurve, choice_curve, choice_mu
from pgmest.privacy.budgets import GDP, ApproxDP, Epsilon, PlannedRho, Rho, check_delta
from pgmest.privacy.charge_plan import ChargePlan
from pgmest.privacy.gaussian import SAFETY, gaussian_deltas

STEPS = 20_000
"""The steps of the library's grid of losses within the epsilon that zCDP implies. A release adds at most one step."""
CLOSE = 1e-7
"""The relative precision of the search for epsilon."""

Part = GDP | Epsilon | tuple[ChargePlan, PlannedRho]
Deltas = Callable[[np.ndarray], np.ndarray]


def composed(parts: Iterable[Part], delta: float) -> ApproxDP:
    """Return the smallest epsilon of several releases together, rounded up; never more than their summed rho implies.

    The requests of a release may depend on the answers of earlier ones; its cost may not.

    >>> composed([GDP(0.01), GDP(0.02)], 1e-9), GDP(0.03).to_approx(1e-9)
    (ApproxDP(0.9496, 1e-09), ApproxDP(0.9496, 1e-09))

    Args:
        parts: budgets: `GDP`, `Epsilon`, or a plan with the budget of its run. The choices of the plan with the most
            choices are composed by their curve, those of other plans through mu.
        delta: the delta of the promise.

    Raises:
        ArgumentError: if there are no parts or parts of another kind, or delta is not between 0 and 1.
        OptionalDependencyError: if `Epsilon` is composed with others and the package `dp-accounting` is missing.
    """
    check_delta(delta)
    given = list(parts)
    gaussian, pure, choices = _sorted(given)
    most = Rho.above([sum((_rho(part).exact[0] for part in given), start=Fraction(0))]).to_approx(delta)
    if pure and not gaussian and choices is None:  # basic composition needs no delta, but may be the looser bound
        total = Epsilon.above([sum((part.exact[0] for part in pure), start=Fraction(0))])
        most = min(most, total.to_approx(), key=lambda promise: promise.epsilon)
        if len(pure) == 1:
            return most
    if not pure and choices is None:
        return min(most, GDP(gaussian).to_approx(delta), key=lambda promise: promise.epsilon)
    rest = _library(pure, gaussian, most.epsilon / STEPS) if pure else partial(gaussian_deltas, math.sqrt(gaussian))
    return ApproxDP(min(most.epsilon, _least_epsilon(rest, choices, most.epsilon, delta)), delta)


def _sorted(parts: list[Any]) -> tuple[float, list[Epsilon], ChoiceCurve | None]:
    """Return mu^2 of the Gaussian noise and of choices composed through mu, the pure parts, and the choices' curve."""
    planned = [part for part in parts if isinstance(part, tuple)]
    pure = [part for part in parts if isinstance(part, Epsilon)]
    others = [part for part in parts if isinstance(part, GDP)]
    if not parts or len(planned) + len(pure) + len(others) < len(parts):
        raise ArgumentError.of("parts", parts, "GDP, Epsilon, and pairs of a ChargePlan and its PlannedRho")
    planned.sort(key=lambda part: part[0].choices, reverse=True)
    curve, mu_squared = None, math.fsum(part.mu_squared for part in others)
    for position, (plan, budget) in enumerate(planned):
        noise, number, each = plan.costs(budget.rho)
        mu_squared += noise
        if number and position == 0:
            curve = choice_curve(number, each)
        elif number:
            mu_squared += number * choice_mu(each) ** 2
    return mu_squared * (1 + SAFETY), pure, curve


def _rho(part: Part) -> Rho:
    if isinstance(part, tuple):
        return Rho(part[1].rho)
    return part.to_rho()


def _library(pure: list[Epsilon], mu_squared: float, interval: float) -> Deltas:
    """Return the curve of pure parts and Gaussian noise, computed by `dp-accounting`, rounded up."""
    try:
        from dp_accounting.pld import common, privacy_loss_distribution
    except ImportError:
        raise OptionalDependencyError.of("dp-accounting", "composing an Epsilon with others") from None

    options = {"value_discretization_interval": interval, "pessimistic_estimate": True}
    together = None
    for part in pure:
        parameters = common.DifferentialPrivacyParameters(part.epsilon, 0.0)
        one = privacy_loss_distribution.from_privacy_parameters(parameters, value_discretization_interval=interval)
        together = one if together is None else together.compose(one)
    assert together is not None
    if mu_squared:
        noise = privacy_loss_distribution.from_gaussian_mechanism(1 / math.sqrt(mu_squared), **options)
        together = together.compose(noise)

    def curve(at: np.ndarray) -> np.ndarray:
        order = np.argsort(at)  # the library expects sorted epsilons
        found = np.empty(len(at))
        found[order] = together.get_delta_for_epsilon(at[order].tolist())
        return found

    return curve


def _least_epsilon(rest: Deltas, choices: ChoiceCurve | None, most: float, delta: float) -> float:
    """Return the least epsilon at which the curve of all parts is at most delta, rounded up."""

    def excess(epsilon: float) -> float:
        at = float(rest(np.array([epsilon]))[0]) if choices is None else choices.delta(epsilon, rest)
        return at - delta

    low, high = 0.0, most
    if excess(high) > 0:
        return high
    while high - low > CLOSE * most:
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) <= 0 else (middle, high)
    return high
