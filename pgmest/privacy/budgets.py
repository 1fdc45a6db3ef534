"""Privacy budgets as types: `Epsilon` (pure), `Rho` (zero-concentrated), `GDP` (Gaussian), `ApproxDP` (epsilon, delta).

Budgets of one type compose by addition. Different types are converted by explicit calls, which are tight and rounded
on the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import cached_property
from numbers import Real
from typing import Any, Self, TypeGuard

from pgmest.errors import ArgumentError, BudgetTypeError
from pgmest.privacy.gaussian import SAFETY, analytic_gaussian, gaussian_epsilon

DEFAULT_DELTA = 1e-9
"""The delta of every mechanism, command and `Synthesizer` whose budget is an epsilon; `delta=0` asks for pure DP.

delta must be well below 1 / records. 1e-9 is a tenth of that for a hundred million records.
"""


def rounded_down(exact: Fraction) -> float:
    """Return the largest float that is not above an exact number."""
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, -math.inf)


def rounded_up(exact: Fraction) -> float:
    """Return the smallest float that is not below an exact number."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def at_most_text(amount: float, digits: int = 6) -> str:
    """Return an amount with this many significant digits, rounded up, so that a promise in words is not too strong.

    Digits beyond the tenth are rounding errors of a conversion, and do not raise the text.

    >>> at_most_text(1e-9), at_most_text(3.3201, digits=3)
    ('1e-09', '3.33')
    """
    shown = Decimal(f"{amount:.10g}")
    if shown.is_finite():
        shown = Context(prec=digits, rounding=ROUND_CEILING).plus(shown)
    return f"{float(shown):.{digits}g}"


def equal_parts(amount: float, parts: int) -> list[float]:
    """Return equal parts of an amount, rounded down, so that their exact sum is at most the amount.

    >>> sum(map(Fraction, equal_parts(1e-9, 3))) <= Fraction(1e-9)  # 1e-9 / 3 three times is more
    True
    """
    return [rounded_down(Fraction(amount) / parts)] * parts if parts else []


@dataclass(frozen=True)
class Budget:
    """The base class of budgets, with their arithmetic: sums are rounded up, all other results down."""

    def __post_init__(self) -> None:
        for field in fields(self):
            amount = getattr(self, field.name)
            if not _is_number(amount) or not 0 <= amount < math.inf:
                raise ArgumentError.of(field.name, amount, "a finite number of at least 0")
            object.__setattr__(self, field.name, float(amount))

    @cached_property
    def exact(self) -> tuple[Fraction, ...]:
        """The amounts as exact fractions: (epsilon,), (rho,), (mu^2,) or (epsilon, delta)."""
        return tuple(Fraction(getattr(self, field.name)) for field in fields(self))

    @classmethod
    def below(cls, exact: Iterable[Fraction]) -> Self:
        """Return the largest budget in floats that is not above these exact amounts, and at least zero."""
        return cls(*(max(0.0, rounded_down(amount)) for amount in exact))

    @classmethod
    def above(cls, exact: Iterable[Fraction]) -> Self:
        """Return the smallest budget in floats that is not below these exact amounts."""
        return cls(*map(rounded_up, exact))

    @classmethod
    def zero(cls) -> Self:
        """Return a budget of zero."""
        return cls.below([Fraction(0)] * len(fields(cls)))

    def split(self, weights: int | Iterable[float]) -> list[Self]:
        """Return parts whose exact sum is at most this budget: equal parts, or parts in proportion to weights.

        >>> Rho(1.0).split([1, 3])
        [Rho(0.25), Rho(0.75)]

        Args:
            weights: the number of parts, or a non-negative weight per part.

        Raises:
            ArgumentError: if there are no parts, or the weights are negative, not finite, or all zero.
        """
        shares = [1.0] * weights if isinstance(weights, int) else [float(weight) for weight in weights]
        if not shares or not all(0 <= share < math.inf for share in shares) or not any(shares):
            raise ArgumentError.of("weights", weights, "a positive count, or non-negative weights with a positive sum")
        whole = sum(map(Fraction, shares))
        return [self.below(amount * Fraction(share) / whole for amount in self.exact) for share in shares]

    def share(self, share: float) -> Self:
        """Return a share of this budget. Shares that sum to 1 but for rounding errors never exceed it together.

        >>> sum(Epsilon(1.0).share(1 / 5).exact[0] for _ in range(5)) <= 1  # the float 1 / 5 is more than a fifth
        True

        Args:
            share: a number from 0 to 1. Below 1 it may have been rounded up, and is lowered by the relative `SAFETY`.

        Raises:
            ArgumentError: if the share is not from 0 to 1.
        """
        if not _is_number(share) or not 0 <= share <= 1:
            raise ArgumentError.of("share", share, "a number from 0 to 1")
        return self * (1.0 if share == 1 else float(share) * (1 - SAFETY))

    def __add__(self, other: Self) -> Self:
        self._check(other)
        return self.above(a + b for a, b in zip(self.exact, other.exact, strict=True))

    def __sub__(self, other: Self) -> Self:
        """Return the difference, and zero if `other` is larger by rounding only."""
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
        """Return a budget if divided by a number, and the largest ratio of components if divided by a budget."""
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
    """Pure differential privacy: one individual makes no event more than exp(epsilon) times as likely."""

    epsilon: float

    def to_rho(self) -> Rho:
        """Return the least rho that epsilon implies: epsilon tanh(epsilon / 2), below the usual epsilon^2 / 2.

        Of all epsilon-DP mechanisms, randomized response has the largest Renyi divergence of every order. Divided by
        the order, it is largest at order 1, where it is epsilon tanh(epsilon / 2).
        """
        return Rho(self.epsilon * math.tanh(self.epsilon / 2) * (1 + SAFETY))

    def to_approx(self) -> ApproxDP:
        """Return (epsilon, 0)-DP, which is equivalent."""
        return ApproxDP(self.epsilon, 0.0)


@dataclass(frozen=True, repr=False)
class Rho(Budget):
    """rho-zCDP (Bun, Steinke 2016): the Renyi divergence of any order alpha is at most rho * alpha."""

    rho: float

    @classmethod
    def of(cls, epsilon: float, delta: float) -> Rho:
        """Return the largest rho for which `to_approx(delta)` promises at most `epsilon`, rounded down.

        >>> Rho.of(1.0, 1e-9)
        Rho(0.0149731)

        Raises:
            ArgumentError: if epsilon or delta is not positive, or delta is not below 1.
        """
        check_delta(delta)
        if not _is_number(epsilon) or not 0 < epsilon < math.inf:
            raise ArgumentError.of("epsilon", epsilon, "a positive number")
        return cls(largest(lambda rho: cls(rho).to_approx(delta).epsilon <= epsilon, epsilon + 1.0))

    def to_approx(self, delta: float) -> ApproxDP:
        """Return the smallest epsilon that rho-zCDP implies by the bound of optimal order, rounded up.

        For every alpha > 1,
        epsilon = rho alpha + (log(1 / delta) + (alpha - 1) log(1 - 1 / alpha) - log(alpha)) / (alpha - 1) holds
        (Canonne, Kamath, Steinke 2020, Proposition 12). The least one is at the alpha where the derivative is zero,
        rho (alpha - 1)^2 = log(1 / (alpha delta)).

        >>> Rho(0.5).to_approx(1e-6)  # the textbook's rho + 2 sqrt(rho log(1 / delta)) is 5.76
        ApproxDP(5.22153, 1e-06)

        Raises:
            ArgumentError: if delta is not between 0 and 1.
        """
        check_delta(delta)
        if not self.rho:
            return ApproxDP(0.0, delta)
        level = math.log(1 / delta)
        low, high = 0.0, level  # bounds of log(alpha); at alpha = 1 / delta the derivative is positive
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

    For runs whose only randomness is Gaussian noise it is tighter than zCDP: their (epsilon, delta) is read off the
    exact curve of the Gaussian. At epsilon 1 and delta 1e-9 the same promise takes 5 % less noise. Choices can be paid
    from it, too (`pgmest.privacy.bounded_range.choice_mu`). Costs of mu^2 also add up if earlier answers decide them
    (Smith, Thakurta 2022; Koskela, Tobaben, Honkela 2023).

    >>> GDP.of(1.0, 1e-9), Rho.of(1.0, 1e-9)
    (GDP(0.0331148), Rho(0.0149731))
    >>> GDP.of(1.0, 1e-9).to_rho()
    Rho(0.0165574)

    Args:
        mu_squared: mu^2. For one Gaussian this is the square of l2 sensitivity / standard deviation.
    """

    mu_squared: float

    def __str__(self) -> str:
        return f"mu {self.mu:.6g}"

    @property
    def mu(self) -> float:
        """mu, rounded up."""
        return math.sqrt(self.mu_squared) * (1 + SAFETY)

    @classmethod
    def of(cls, epsilon: float, delta: float) -> GDP:
        """Return the largest mu^2 for which `to_approx(delta)` promises at most `epsilon`, rounded down.

        Raises:
            ArgumentError: if epsilon or delta is not positive, or delta is not below 1.
        """
        check_delta(delta)
        if not _is_number(epsilon) or not 0 < epsilon < math.inf:
            raise ArgumentError.of("epsilon", epsilon, "a positive number")
        return cls(analytic_gaussian(float(epsilon), float(delta)) ** -2 * (1 - 4 * SAFETY))

    def to_approx(self, delta: float) -> ApproxDP:
        """Return the smallest epsilon that mu-GDP implies, which is exact for Gaussian noise, rounded up.

        Raises:
            ArgumentError: if delta is not between 0 and 1.
        """
        check_delta(delta)
        return ApproxDP(gaussian_epsilon(self.mu, float(delta)), delta)

    def to_rho(self) -> Rho:
        """Return rho = mu^2 / 2: mu-GDP is post-processing of a Gaussian, whose Renyi divergence is mu^2 alpha / 2."""
        return Rho(self.mu_squared / 2 * (1 + SAFETY))


@dataclass(frozen=True, repr=False)
class ApproxDP(Budget):
    """Approximate differential privacy: `Epsilon` up to an additive delta. It composes by adding both (basic)."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta > 1:
            raise ArgumentError.of("delta", self.delta, "at most 1")


def is_pure(budget: Budget) -> TypeGuard[Epsilon | ApproxDP]:
    """Return whether a budget promises pure differential privacy, with a delta of 0."""
    return isinstance(budget, Epsilon) or (isinstance(budget, ApproxDP) and not budget.delta)


def _is_number(value: object) -> TypeGuard[float]:
    return type(value) in (float, int) or (isinstance(value, Real) and not isinstance(value, bool))


def check_delta(delta: float) -> None:
    """Raise ArgumentError if a delta is not a number between 0 and 1."""
    if not _is_number(delta) or not 0 < delta < 1:
        raise ArgumentError.of("delta", delta, "a number between 0 and 1, well below 1 / records, such as 1e-9")


def largest(fits: Callable[[float], bool], high: float = 1.0) -> float:
    """Return the largest positive number that fits, up to rounding, if all smaller ones fit, too.

    Args:
        fits: a function that returns whether a number fits.
        high: the number to begin with.
    """
    low = 0.0
    while fits(high):
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
