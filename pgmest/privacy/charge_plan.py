"""A plan of charges that is fixed before a run, so that its (epsilon, delta) can be read off exact curves.

In zCDP, costs add up even if earlier answers decide what the next request costs. A run that fixes beforehand how much
it spends on Gaussian noise, how many choices it makes, and what each choice costs at most, keeps the same promise with
less noise: the privacy curve of all Gaussian noise together is known exactly, and the worst case of the choices among
it is computed (`pgmest.privacy.bounded_range`). The requests, their order, and the division of the Gaussian share may
still depend on earlier answers. A curator refuses requests that are not in the plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, PlanError
from pgmest.privacy.bounded_range import MOST_CHOICES, choice_curve, choice_mu
from pgmest.privacy.budgets import ApproxDP, PlannedRho, Rho
from pgmest.privacy.gaussian import SAFETY, gaussian_deltas
from pgmest.privacy.ledger import ROUNDING, Entry
from pgmest.privacy.one_process import OneProcess

SLACK = 1 + 2 * float(ROUNDING)
"""The relative safety margin of rho for the rounding of its shares."""
CLOSE = 1e-8
"""The relative precision of a search for rho or epsilon."""
LARGEST = 1e300
"""The largest rho that is searched for. A plan that spends only a tiny share of its budget could have a larger one."""


@dataclass(frozen=True)
class ChargePlan:
    """The charges of a run, as shares of its budget.

    >>> plan = ChargePlan(gaussian=2 / 3, choices=13, choice=1 / 39)
    >>> plan.budget(1.0, 1e-9), Rho.of(1.0, 1e-9)
    (PlannedRho(0.0165334), Rho(0.0149731))

    Attributes:
        gaussian: the largest share of all measurements together.
        choices: the largest number of choices.
        choice: the largest share of one choice.

    Raises:
        ArgumentError: if a share is not between 0 and 1, or the shares exceed the whole.
    """

    gaussian: Fraction | float
    choices: int = 0
    choice: Fraction | float = 0

    def __post_init__(self) -> None:
        shares = (self.gaussian, self.choice)
        if not all(0 <= share <= 1 for share in shares) or isinstance(self.choices, bool) or self.choices < 0:
            raise ArgumentError.of("plan", self, "shares from 0 to 1, and no negative number of choices")
        if not 0 < self.gaussian + self.choices * self.choice <= 1 + ROUNDING:
            raise ArgumentError.of("plan", self, "shares of the budget whose sum is at most 1")

    def costs(self, rho: float) -> tuple[float, int, float]:
        """Return, for a budget of this rho, mu^2 of the noise, the number of choices, and their epsilon, rounded up.

        Choices beyond `MOST_CHOICES` are counted with the noise, at the mu of each.
        """
        rho = rho * SLACK
        each = math.sqrt(8 * rho * float(self.choice)) * (1 + SAFETY)
        number = min(self.choices, MOST_CHOICES) if each else 0
        others = (self.choices - number) * choice_mu(each) ** 2 if number and self.choices > number else 0.0
        return (2 * rho * float(self.gaussian) + others) * (1 + SAFETY), number, each

    def delta(self, rho: float, epsilon: float) -> float:
        """Return the delta at an epsilon for a run with a budget of this rho, rounded up."""
        mu_squared, number, each = self.costs(rho)
        gaussian = partial(gaussian_deltas, math.sqrt(mu_squared) * (1 + SAFETY))
        if not number:
            return float(gaussian(np.array([epsilon]))[0])
        return choice_curve(number, each).delta(epsilon, gaussian)

    def implies(self, budget: Rho, promise: ApproxDP) -> bool:
        """Return whether a run with this budget keeps a promise."""
        if not promise.delta:
            return False
        known = Rho(budget.rho).to_approx(promise.delta).epsilon <= promise.epsilon
        return known or self.delta(budget.rho, promise.epsilon) <= promise.delta

    def to_approx(self, budget: Rho, delta: float) -> ApproxDP:
        """Return the smallest epsilon of a run with this budget, rounded up; never more than its zCDP implies."""
        from scipy.optimize import brentq

        most = Rho(budget.rho).to_approx(delta)

        def excess(epsilon: float) -> float:
            return math.log(max(self.delta(budget.rho, epsilon), 1e-300) / delta)

        if not most.epsilon or excess(most.epsilon) >= 0:
            return most
        if excess(0.0) <= 0:
            return ApproxDP(0.0, delta)
        high = most.epsilon
        while excess(high / 2) <= 0:  # if a tiny share of a huge budget is spent, the bound is far above the root
            high /= 2
        root: Any = brentq(excess, high / 2, high, xtol=CLOSE * high)
        epsilon = float(root) * (1 + CLOSE)
        while excess(epsilon) > 0:
            epsilon *= 1 + CLOSE
        return ApproxDP(min(epsilon, most.epsilon), delta)

    def budget(self, epsilon: float, delta: float) -> PlannedRho:
        """Return the largest budget for which a run by this plan is (epsilon, delta)-DP, rounded down.

        Raises:
            ArgumentError: if epsilon or delta is not positive, or delta is not below 1.
        """
        from scipy.optimize import brentq

        least = Rho.of(epsilon, delta).rho

        def excess(rho: float) -> float:
            return math.log(max(self.delta(rho, epsilon), 1e-300) / delta)

        if excess(least) >= 0:  # for little more than a single choice, zCDP is as good
            return PlannedRho(least)
        low, high = least, 1.25 * least
        while excess(high) <= 0:
            if high > LARGEST:
                return PlannedRho(high)
            low, high = high, 2 * high
        root: Any = brentq(excess, low, high, xtol=CLOSE * least)
        rho = float(root) * (1 - CLOSE)
        while excess(rho) > 0:
            rho *= 1 - CLOSE
        return PlannedRho(max(rho, least))


class PlannedRun(OneProcess):
    """The part of a plan that a run has not used yet.

    Args:
        plan: the plan.
        budget: the budget of the run.
    """

    def __init__(self, plan: ChargePlan, budget: PlannedRho):
        slack = 1 + ROUNDING
        self._gaussian = Fraction(plan.gaussian) * Fraction(budget.rho) * slack
        self._choice = Fraction(plan.choice) * Fraction(budget.rho) * slack
        self._choices = plan.choices

    def take(self, entry: Entry) -> None:
        """Subtract a charge from the plan before it is paid.

        Raises:
            PlanError: if the charge is not in the plan.
            ProcessError: if this process is a fork of the run's process.
        """
        self._check_process()
        cost = entry.cost.exact[0]
        if entry.kind in ("measure", "count"):
            if cost > self._gaussian:
                raise PlanError.of(entry.label, f"only {float(self._gaussian):.4g} is left for measurements")
            self._gaussian -= cost
        elif entry.kind == "select" and "draws" not in entry.parameters:
            if not self._choices or cost > self._choice:
                limit = f"{self._choices} choices for at most {float(self._choice):.4g} each"
                raise PlanError.of(entry.label, f"it costs {float(cost):.4g}, and there are {limit} left")
            self._choices -= 1
        else:
            raise PlanError.of(entry.label, "a plan consists of measurements and choices only")
