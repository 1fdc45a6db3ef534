"""Privacy budgets as types: `Epsilon` (pure), `Rho` (zero-concentrated), `GDP` (Gaussian), `ApproxDP` (epsilon, delta).

Each composes by addition. Types do not mix; conversions are calls, tight, and rounded so that what they promise holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from fractions import Fraction
from numbers import Real
from typing import Any, Self, TypeGuard

from pgmest._base.errors import ArgumentError, BudgetTypeError
from pgmest.privacy.gaussian import SAFETY, analytic_gaussian, gaussian_epsilon


def rounded_down(exact: Fraction) -> float:
    """The largest float that is not above an exact number."""
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, -math.inf)


def rounded_up(exact: Fraction) -> float:
    """The smallest float that is not below an exact number."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


@dataclass(frozen=True)
class Budget:
    """What the three kinds share: the arithmetic. A product, quotient or difference is rounded down, a sum up."""

    def __post_init__(self) -> None:
        for field in fields(self):
            amount = getattr(self, field.name)
            if not _is_number(amount) or not 0 <= amount < math.inf:
                raise ArgumentError.of(field.name, amount, "a finite number of at least 0")
            object.__setattr__(self, field.name, float(amount))

    @property
    def exact(self) -> tuple[Fraction, ...]:
        """The amounts as exact fractions: (epsilon,), (rho,) or (epsilon, delta)."""
        return tuple(Fraction(getattr(self, field.name)) for field in fields(self))

    @classmethod
    def below(cls, exact: Iterable[Fraction]) -> Self:
        """The largest budget in floats that is not above these exact amounts, nor below zero."""
        return cls(*(max(0.0, rounded_down(amount)) for amount in exact))

    @classmethod
    def above(cls, exact: Iterable[Fraction]) -> Self:
        """The smallest budget in floats that is not below these exact amounts."""
        return cls(*map(rounded_up, exact))

    @classmethod
    def zero(cls) -> Self:
        """Nothing."""
        return cls.below([Fraction(0)] * len(fields(cls)))

    def split(self, weights: int | Iterable[float]) -> list[Self]:
        """Parts whose exact sum is at most this budget: equal ones, or in proportion to weights.

        >>> Rho(1.0).split([1, 3])
        [Rho(0.25), Rho(0.75)]

        Args:
            weights: a number of parts, or one non-negative weight per part.

        Raises:
            ArgumentError: no parts, or weights that are negative, not finite, or all zero.
        """
        shares = [1.0] * weights if isinstance(weights, int) else [float(weight) for weight in weights]
        if not shares or not all(0 <= share < math.inf for share in shares) or not any(shares):
            raise ArgumentError.of("weights", weights, "a positive count, or non-negative weights with a positive sum")
        whole = sum(map(Fraction, shares))
        return [self.below(amount * Fraction(share) / whole for amount in self.exact) for share in shares]

    def __add__(self, other: Self) -> Self:
        self._check(other)
        return self.above(a + b for a, b in zip(self.exact, other.exact, strict=True))

    def __sub__(self, other: Self) -> Self:
        """What is left, zero where rounding alone made `other` the larger one."""
        self._check(other)
        left = [a - b for a, b in zip(self.exact, other.exact, strict=True)]
        if any(rest < -Fraction(SAFETY) * amount for rest, amount in zip(left, self.exact, strict=True)):
            raise ArgumentError(f"{self} - {other} is negative: a budget cannot be.")
        return self.below(left)

    def __mul__(self, factor: float) -> Self:
        if not _is_number(factor) or not 0 <= factor < math.inf:
            raise ArgumentError.of("factor", factor, "a finite number of at least 0")
        return self.below(amount * Fraction(float(factor)) for amount in self.exact)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        """By a number: a budget. By a budget of the same type: the ratio, of the largest component."""
        if isinstance(other, Budget):
            self._check(other)
            pairs = zip(self.exact, other.exact, strict=True)
            return max((float(a / b) if b else (math.inf if a else 0.0)) for a, b in pairs)
        if not _is_number(other) or not 0 < other < math.inf:
            raise ArgumentError.of("divisor", other, "a positive number")
        return self.below(amount / Fraction(float(other)) for amount in self.exact)

    def __le__(self, other: Self) -> bool:
        self._check(other)
        return all(a <= b for a, b in zip(self.exact, other.exact, strict=True))

    def __lt__(self, other: Self) -> bool:
        return self <= other and self != other

    def __ge__(self, other: Self) -> bool:
        self._check(other)
        return other <= self

    def __gt__(self, other: Self) -> bool:
        self._check(other)
        return other < self

    def __bool__(self) -> bool:
        return any(self.exact)

    def _check(self, other: object) -> None:
        if type(other) is not type(self):
            raise BudgetTypeError.of("the other budget", type(self), other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{getattr(self, field.name):.6g}' for field in fields(self))})"


@dataclass(frozen=True, repr=False)
class Epsilon(Budget):
    """Pure differential privacy: no event becomes more than exp(epsilon) times as likely by one individual."""

    epsilon: float

    def to_rho(self) -> Rho:
        """epsilon tanh(epsilon / 2)-zCDP, below the usual epsilon^2 / 2; attained by randomized response.

        Randomized response has the largest Renyi divergence of all epsilon-DP mechanisms, of every order; divided by
        the order that is largest at order 1, where it is epsilon tanh(epsilon / 2).
        """
        return Rho(self.epsilon * math.tanh(self.epsilon / 2) * (1 + SAFETY))

    def to_approx(self) -> ApproxDP:
        """(epsilon, 0)-DP, the same thing."""
        return ApproxDP(self.epsilon, 0.0)


@dataclass(frozen=True, repr=False)
class Rho(Budget):
    """rho-zCDP (Bun, Steinke 2016): the Renyi divergence of any order alpha is at most rho * alpha."""

    rho: float

    @classmethod
    def of(cls, epsilon: float, delta: float) -> Rho:
        """The largest rho for which `to_approx(delta)` promises at most `epsilon`, rounded down.

        >>> Rho.of(1.0, 1e-9)
        Rho(0.0149731)

        Raises:
            ArgumentError: epsilon or delta is not positive, or delta not below 1.
        """
        check_delta(delta)
        if not _is_number(epsilon) or not 0 < epsilon < math.inf:
            raise ArgumentError.of("epsilon", epsilon, "a positive number")
        low, high = 0.0, epsilon + 1.0
        while cls(high).to_approx(delta).epsilon <= epsilon:
            low, high = high, 2 * high
        while (middle := (low + high) / 2) not in (low, high):
            low, high = (middle, high) if cls(middle).to_approx(delta).epsilon <= epsilon else (low, middle)
        return cls(low)

    def to_approx(self, delta: float) -> ApproxDP:
        """The smallest epsilon that rho-zCDP implies by the bound of optimal order, rounded up.

        epsilon = rho alpha + (log(1 / delta) + (alpha - 1) log(1 - 1 / alpha) - log(alpha)) / (alpha - 1), which holds
        for every alpha > 1 (Canonne, Kamath, Steinke 2020, Proposition 12), at the alpha where it is least: its
        derivative is zero where rho (alpha - 1)^2 = log(1 / (alpha delta)).

        >>> Rho(0.5).to_approx(1e-6)  # the textbook's rho + 2 sqrt(rho log(1 / delta)) is 5.76
        ApproxDP(5.22153, 1e-06)

        Raises:
            ArgumentError: delta is not between 0 and 1.
        """
        check_delta(delta)
        if not self.rho:
            return ApproxDP(0.0, delta)
        level = math.log(1 / delta)
        low, high = 0.0, level  # of log(alpha); at alpha = 1 / delta the derivative is positive
        for _ in range(80):
            middle = (low + high) / 2
            falling = self.rho * math.expm1(middle) ** 2 < level - middle if middle < 300 else False
            low, high = (middle, high) if falling else (low, middle)
        t = math.expm1(high)
        bound = self.rho * (1 + t) + (level + t * (math.log(t) - high) - high) / t
        return ApproxDP(max(0.0, bound + SAFETY * (abs(bound) + self.rho * (1 + t))), delta)


@dataclass(frozen=True, repr=False)
class GDP(Budget):
    """mu-Gaussian differential privacy, which composes by adding mu^2 (Dong, Roth, Su 2022).

    It says more than zCDP about runs whose only randomness is Gaussian noise: their (epsilon, delta) is read off the
    exact curve of the Gaussian. At epsilon 1 and delta 1e-9 the same promise takes 5 % less noise. Choices can be paid
    from it, too, at a price of their own (`pgmest.privacy.bounded_range.choice_mu`), also where what they cost is
    decided on the way: costs of mu^2 add up for those as well (Smith, Thakurta 2022; Koskela, Tobaben, Honkela 2023).

    >>> GDP.of(1.0, 1e-9), Rho.of(1.0, 1e-9)
    (GDP(0.0331148), Rho(0.0149731))
    >>> GDP.of(1.0, 1e-9).to_rho()
    Rho(0.0165574)

    Args:
        mu_squared: mu^2: of one Gaussian the square of l2 sensitivity / standard deviation.
    """

    mu_squared: float

    @property
    def mu(self) -> float:
        """mu, rounded up."""
        return math.sqrt(self.mu_squared) * (1 + SAFETY)

    @classmethod
    def of(cls, epsilon: float, delta: float) -> GDP:
        """The largest mu^2 for which `to_approx(delta)` promises at most `epsilon`, rounded down.

        Raises:
            ArgumentError: epsilon or delta is not positive, or delta not below 1.
        """
        check_delta(delta)
        if not _is_number(epsilon) or not 0 < epsilon < math.inf:
            raise ArgumentError.of("epsilon", epsilon, "a positive number")
        return cls(analytic_gaussian(float(epsilon), float(delta)) ** -2 * (1 - 4 * SAFETY))

    def to_approx(self, delta: float) -> ApproxDP:
        """The smallest epsilon that mu-GDP implies, which is exact for Gaussian noise; rounded up.

        Raises:
            ArgumentError: delta is not between 0 and 1.
        """
        check_delta(delta)
        return ApproxDP(gaussian_epsilon(self.mu, float(delta)), delta)

    def to_rho(self) -> Rho:
        """mu^2 / 2-zCDP: mu-GDP is a post-processing of a Gaussian, whose Renyi divergence is mu^2 alpha / 2."""
        return Rho(self.mu_squared / 2 * (1 + SAFETY))


@dataclass(frozen=True, repr=False)
class PlannedRho(Rho):
    """rho of a run whose costs were fixed beforehand (`pgmest.privacy.plans.Plan`), which promises more than its zCDP.

    Its Gaussian noise is as private as continuous noise of variance 1 / (2 rho), as that of `GDP` is; its choices are
    those of `Rho`. So what it promises as (epsilon, delta) can be read off exact curves.
    """


@dataclass(frozen=True, repr=False)
class ApproxDP(Budget):
    """Approximate differential privacy: as `Epsilon`, but for an additive delta. Composes by adding both (basic)."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta > 1:
            raise ArgumentError.of("delta", self.delta, "at most 1")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)


def check_delta(delta: float) -> None:
    """See that a delta is one.

    Raises:
        ArgumentError: it is not.
    """
    if not _is_number(delta) or not 0 < delta < 1:
        raise ArgumentError.of("delta", delta, "a number between 0 and 1, well below 1 / records, such as 1e-9")
