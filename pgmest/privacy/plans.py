"""Plans: what a run is going to pay for, fixed beforehand, so that its (epsilon, delta) can be read off exact curves.

Rho adds up whatever is asked, also where earlier answers decide what the next question costs. Who says beforehand how
much goes to Gaussian noise in all, how many choices are made, and what each may cost at most, can have the same
promise with less noise: the curve of the Gaussian noise together is known exactly, and the worst case of the choices
among it is computed (`pgmest.privacy.bounded_range`). What is asked may still depend on earlier answers, and so may the
order of the questions, and how the share for Gaussian noise is divided. A curator holds a run to its plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError, PlanError
from pgmest.privacy.bounded_range import MOST_CHOICES, choice_curve, choice_mu
from pgmest.privacy.budgets import ApproxDP, PlannedRho, Rho
from pgmest.privacy.gaussian import SAFETY, gaussian_deltas
from pgmest.privacy.ledger import ROUNDING, Entry
from pgmest.privacy.one_process import OneProcess

SLACK = 1 + 2 * float(ROUNDING)
"""By so much more than planned is reckoned with, since shares of a budget are rounded."""
CLOSE = 1e-8
"""How close a search comes, as a share of rho."""
LARGEST = 1e300
"""No budget beyond this is searched for, where a plan spends next to nothing of it."""


@dataclass(frozen=True)
class Plan:
    """What a run pays for, as shares of its budget.

    >>> plan = Plan(gaussian=2 / 3, choices=13, choice=1 / 39)
    >>> plan.budget(1.0, 1e-9), Rho.of(1.0, 1e-9)
    (PlannedRho(0.0165334), Rho(0.0149731))

    Attributes:
        gaussian: what measurements cost at most, all together.
        choices: how many choices are made at most.
        choice: what each of them costs at most.

    Raises:
        ArgumentError: shares that are negative, or more than all.
    """

    gaussian: Fraction | float
    choices: int = 0
    choice: Fraction | float = 0

    def __post_init__(self) -> None:
        shares = (self.gaussian, self.choice)
        if not all(0 <= share <= 1 for share in shares) or isinstance(self.choices, bool) or self.choices < 0:
            raise ArgumentError.of("plan", self, "shares from 0 to 1, and no negative number of choices")
        if not 0 < self.gaussian + self.choices * self.choice <= 1 + ROUNDING:
            raise ArgumentError.of("plan", self, "shares of the budget that come to 1 at most")

    def costs(self, rho: float) -> tuple[float, int, float]:
        """Of a budget of this rho, all rounded up: mu^2 of the noise; how many choices, and the epsilon of each.

        Choices beyond `MOST_CHOICES` are among the noise, at the mu of each.
        """
        rho = rho * SLACK
        each = math.sqrt(8 * rho * float(self.choice)) * (1 + SAFETY)
        number = min(self.choices, MOST_CHOICES) if each else 0
        others = (self.choices - number) * choice_mu(each) ** 2 if number and self.choices > number else 0.0
        return (2 * rho * float(self.gaussian) + others) * (1 + SAFETY), number, each

    def delta(self, rho: float, epsilon: float) -> float:
        """The delta at an epsilon of a run with a budget of this rho, rounded up."""
        mu_squared, number, each = self.costs(rho)
        gaussian = partial(gaussian_deltas, math.sqrt(mu_squared) * (1 + SAFETY))
        if not number:
            return float(gaussian(np.array([epsilon]))[0])
        return choice_curve(number, each).delta(epsilon, gaussian)

    def to_approx(self, budget: Rho, delta: float) -> ApproxDP:
        """The smallest epsilon that a run with this budget promises, rounded up; never more than by its zCDP."""
        from scipy.optimize import brentq

        most = Rho(budget.rho).to_approx(delta)

        def excess(epsilon: float) -> float:
            return math.log(max(self.delta(budget.rho, epsilon), 1e-300) / delta)

        if not most.epsilon or excess(most.epsilon) >= 0:
            return most
        if excess(0.0) <= 0:
            return ApproxDP(0.0, delta)
        high = most.epsilon
        while excess(high / 2) <= 0:  # of a tiny part of a huge budget, the bound is not even of the root's size
            high /= 2
        root: Any = brentq(excess, high / 2, high, xtol=CLOSE * high)
        epsilon = float(root) * (1 + CLOSE)
        while excess(epsilon) > 0:
            epsilon *= 1 + CLOSE
        return ApproxDP(min(epsilon, most.epsilon), delta)

    def budget(self, epsilon: float, delta: float) -> PlannedRho:
        """The largest budget for which a run according to the plan is (epsilon, delta)-DP, rounded down.

        Raises:
            ArgumentError: epsilon or delta is not positive, or delta not below 1.
        """
        from scipy.optimize import brentq

        least = Rho.of(epsilon, delta).rho

        def excess(rho: float) -> float:
            return math.log(max(self.delta(rho, epsilon), 1e-300) / delta)

        if excess(least) >= 0:  # where there is little but one choice, zCDP is as good as this
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
    """How far a run has come with its plan.

    Args:
        plan: which.
        budget: of the run.
    """

    def __init__(self, plan: Plan, budget: PlannedRho):
        slack = 1 + ROUNDING
        self._gaussian = Fraction(plan.gaussian) * Fraction(budget.rho) * slack
        self._choice = Fraction(plan.choice) * Fraction(budget.rho) * slack
        self._choices = plan.choices

    def take(self, entry: Entry) -> None:
        """Take what is about to be paid for off the plan.

        Raises:
            PlanError: it is not in it.
            ProcessError: this is a fork of the run's process.
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
            raise PlanError.of(entry.label, "a plan has measurements and choices, nothing else")
