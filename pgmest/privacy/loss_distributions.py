"""What releases of different kinds promise together, by their privacy-loss distributions.

Pure epsilon, Gaussian noise and planned runs do not add up in any one type of budget without loss. Where each cost was
fixed beforehand their privacy-loss distributions do: Google's `dp-accounting` (the extra `accounting`) composes those,
rounded against us. The choices of a planned run have no distribution that holds by itself, since neighbors decide
between them how they move each one; their worst case goes on top (`pgmest.privacy.bounded_range`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError, OptionalDependencyError
from pgmest.privacy.bounded_range import ChoiceCurve, choice_curve, choice_mu
from pgmest.privacy.budgets import GDP, ApproxDP, Epsilon, PlannedRho, Rho, check_delta
from pgmest.privacy.gaussian import SAFETY, gaussian_deltas
from pgmest.privacy.plans import Plan

STEPS = 20_000
"""Of the library's grid of losses, in what zCDP promises: each release adds one step at most to epsilon."""
CLOSE = 1e-7

Part = GDP | Epsilon | tuple[Plan, PlannedRho]
Deltas = Callable[[np.ndarray], np.ndarray]


def composed(parts: Iterable[Part], delta: float) -> ApproxDP:
    """The smallest epsilon that releases promise together, rounded up; never more than by adding up their rho.

    What each is asked may depend on the answers of those before it; what it costs may not.

    >>> composed([GDP(0.01), GDP(0.02)], 1e-9), GDP(0.03).to_approx(1e-9)
    (ApproxDP(0.9496, 1e-09), ApproxDP(0.9496, 1e-09))

    Args:
        parts: budgets: `GDP`, `Epsilon`, or a plan with the budget of its run. The choices of the plan with the most
            of them are composed as such, those of others through mu.
        delta: of the promise.

    Raises:
        ArgumentError: no parts, of another kind, or a delta that is none.
        OptionalDependencyError: there is an `Epsilon` among others, and the package `dp-accounting` is missing.
    """
    check_delta(delta)
    given = list(parts)
    gaussian, pure, choices = _sorted(given)
    most = Rho.above([sum((_rho(part).exact[0] for part in given), start=Fraction(0))]).to_approx(delta)
    if pure and not gaussian and choices is None:  # by basic composition, or with so much delta by another
        total = Epsilon.above([sum((part.exact[0] for part in pure), start=Fraction(0))])
        most = min(most, total.to_approx(), key=lambda promise: promise.epsilon)
        if len(pure) == 1:
            return most
    if not pure and choices is None:
        return min(most, GDP(gaussian).to_approx(delta), key=lambda promise: promise.epsilon)
    rest = _library(pure, gaussian, most.epsilon / STEPS) if pure else partial(gaussian_deltas, math.sqrt(gaussian))
    return ApproxDP(min(most.epsilon, _least_epsilon(rest, choices, most.epsilon, delta)), delta)


def _sorted(parts: list[Any]) -> tuple[float, list[Epsilon], ChoiceCurve | None]:
    """mu^2 of all Gaussian noise, and of choices that are reckoned so; pure parts; and the curve of other choices."""
    planned = [part for part in parts if isinstance(part, tuple)]
    pure = [part for part in parts if isinstance(part, Epsilon)]
    others = [part for part in parts if isinstance(part, GDP)]
    if not parts or len(planned) + len(pure) + len(others) < len(parts):
        raise ArgumentError.of("parts", parts, "GDP, Epsilon, and pairs of a Plan and its PlannedRho")
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
    """The curve of pure parts and Gaussian noise, by `dp-accounting`, rounded up."""
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
        order = np.argsort(at)  # in which the library wants them
        found = np.empty(len(at))
        found[order] = together.get_delta_for_epsilon(at[order].tolist())
        return found

    return curve


def _least_epsilon(rest: Deltas, choices: ChoiceCurve | None, most: float, delta: float) -> float:
    """Where the curve of all comes down to delta, rounded up."""

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
