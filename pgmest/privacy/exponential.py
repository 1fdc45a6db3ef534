"""Exact draws with probabilities proportional to exponentials of integers: no rounding changes a probability.

This is rejection sampling. A candidate is proposed with a probability proportional to an integer weight that is at
least its exponential, and accepted with the ratio of the two. If floats cannot decide, in about one of a billion draws,
the exponential is computed by `decimal`, whose `exp` is correctly rounded, with as many digits as needed. The integers
come from the operating system's generator.
"""

from __future__ import annotations

import decimal
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.queries import LinearQuery
from pgmest.tables.domain import Clique

WEIGHT_BITS = 40
"""The weight of the most likely candidate is 2^40, so that the sum of 2^22 weights stays below 2^63."""
MOST_CANDIDATES = 2**22
"""The largest number of candidates, for which the sum of the weights fits an int64."""
LEAST_POWER = -60
"""The least power of two that can be the unit of the exponents."""
MOST_EXPONENT = 2**60
"""Exponents are clipped to this, which moves no two of them further apart."""
SLACK = 1e-12
"""An upper bound on the relative error of the exponential of a float."""
COIN_BITS = 64
"""The number of bits by which a uniform number is refined at a time."""

SLOPE_BITS = 19
"""A score is multiplied by an integer of at least 2^19 to become an exponent (`exponents`)."""
LARGEST_SCALE = 2.0**33
"""The largest scale of scores for `exponents`; scores that they clip have probabilities below e^-128."""

Below = Callable[[int], int]
"""A function that draws a uniform integer from 0 up to its argument, exclusive."""


def draw(exponents: np.ndarray, unit_power: int, draws: int, below: Below = secrets.randbelow) -> list[int]:
    """Draw positions independently, each with probability proportional to exp(exponents[i] * 2^unit_power).

    Args:
        exponents: integers, shape (candidates,).
        unit_power: the power of two that is the unit of the exponents, from -60 to 0.
        draws: the number of draws.
        below: the source of uniform integers.

    Raises:
        ValueError: if there are too many candidates, or the unit is too fine.
    """
    if len(exponents) > MOST_CANDIDATES or not LEAST_POWER <= unit_power <= 0:
        raise ValueError(
            f"{len(exponents)} candidates, units of 2^{unit_power}: at most {MOST_CANDIDATES}, 2^-60 to 1."
        )
    clipped = np.clip(exponents, -MOST_EXPONENT, MOST_EXPONENT).astype(np.int64)
    gaps = clipped.max() - clipped
    upper = np.exp(-np.ldexp(gaps.astype(np.float64), unit_power)) * (1 + SLACK)
    weights = np.maximum(np.ceil(upper * 2.0**WEIGHT_BITS), 1.0).astype(np.int64)  # at least 1: all can be proposed
    sums = np.cumsum(weights)
    found: list[int] = []
    while len(found) < draws:
        place = int(np.searchsorted(sums, below(int(sums[-1])), side="right"))
        if _accepted(int(weights[place]), int(gaps[place]), unit_power, below):
            found.append(place)
    return found


@dataclass(frozen=True, eq=False)
class CountExponents:
    """Integer exponents that are linear in answers, for `Curator.draw`: one for each query, then their negatives.

    Attributes:
        cliques: the marginal of each item of queries.
        slope: the factor of the answers.
        taken: the integers to subtract, shape (queries,): the exponents are slope * answers * units - taken.
        matrices: the query matrix of each clique, with multiples of 1 / units as entries; None for its cells.
        units: the power of two that makes all answers integers.
    """

    cliques: tuple[Clique, ...]
    slope: int
    taken: np.ndarray
    matrices: tuple[LinearQuery | None, ...]
    units: int = 1

    def __call__(self, data: Dataset) -> np.ndarray:
        tables = data.project_many(self.cliques)
        answers = np.concatenate(
            [
                table.datavector() if query is None else query.answer(table, clique)
                for table, clique, query in zip(tables, self.cliques, self.matrices, strict=True)
            ]
        )
        most = 2 * MOST_EXPONENT // max(1, self.slope)  # clipping moves no two answers further apart
        steps = self.slope * np.clip(np.rint(answers * self.units).astype(np.int64), -most, most) - self.taken
        return np.concatenate([steps, -steps])


def exponents(scores: np.ndarray, scale: float) -> tuple[np.ndarray, int]:
    """Return integers, and a power of two as their unit, whose exponentials are those of integer scores / scale.

    Scores are divided by a scale that is larger by at most 2^-19 of itself, never smaller, since privacy is calibrated
    for the stated one.

    Raises:
        ValueError: if the scale is below 1 or above `LARGEST_SCALE`.
    """
    if not 1 <= scale <= LARGEST_SCALE:
        raise ValueError(f"the scale is {scale}; it must be from 1 to {LARGEST_SCALE:g}.")
    unit_power = -SLOPE_BITS - math.ceil(math.log2(scale))
    slope = math.floor(Fraction(2) ** -unit_power / Fraction(scale))
    gaps = np.minimum(scores.max() - scores, MOST_EXPONENT >> SLOPE_BITS + 1)
    return -gaps * slope, unit_power


def log_probabilities(exponents: np.ndarray, unit_power: int) -> np.ndarray:
    """Return the log probabilities of one draw, in floats."""
    logits = np.ldexp((exponents - exponents.max()).astype(np.float64), unit_power)
    return logits - math.log(np.exp(logits).sum())


def _accepted(weight: int, gap: int, unit_power: int, below: Below) -> bool:
    """Return True with probability 2^WEIGHT_BITS exp(-gap 2^unit_power) / weight.

    A uniform number of [0, 1) is compared with the probability. Both are refined, bit by bit and digit by digit, until
    the comparison is decided.
    """
    bits, coin = COIN_BITS, below(1 << COIN_BITS)
    surely = math.exp(-math.ldexp(gap, unit_power)) * (1 - SLACK) * 2.0**WEIGHT_BITS / weight
    if coin < surely * (1 - SLACK) * 2.0**COIN_BITS:
        return True
    while True:
        low, high = _limits(weight, gap, unit_power, bits)
        if coin + 1 <= low:
            return True
        if coin >= high:
            return False
        bits, coin = bits + COIN_BITS, (coin << COIN_BITS) + below(1 << COIN_BITS)


def _limits(weight: int, gap: int, unit_power: int, bits: int) -> tuple[int, int]:
    """Return integers below and above 2^bits 2^WEIGHT_BITS exp(-gap 2^unit_power) / weight, at most two apart."""
    if gap >> -unit_power > bits + WEIGHT_BITS:
        return 0, 1
    digits = math.ceil((bits + WEIGHT_BITS) * math.log10(2)) + 20
    context = decimal.Context(prec=digits + 60)
    power = context.divide(decimal.Decimal(gap), decimal.Decimal(2**-unit_power))
    near = Fraction(context.exp(context.minus(power))) * 2 ** (bits + WEIGHT_BITS) / weight
    slack = near / 10**digits
    return math.floor(near - slack), math.ceil(near + slack)
