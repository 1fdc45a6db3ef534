"""Draws with probabilities proportional to exponentials of integers, exactly: no rounding moves a probability.

A candidate is proposed with a probability in proportion to an integer weight that is no less than its exponential, and
accepted with the ratio of the two. Where floats cannot decide, as for one in a billion draws, the exponential is
computed by `decimal`, whose `exp` is correctly rounded, with as many digits as it takes. Integers come from the
operating system's generator.
"""

from __future__ import annotations

import decimal
import math
import secrets
from collections.abc import Callable
from fractions import Fraction

import numpy as np

WEIGHT_BITS = 40
"""A weight of the most likely candidate; with up to 2^23 candidates the sum of weights stays below 2^63."""
MOST_CANDIDATES = 2**22
LEAST_POWER, MOST_EXPONENT = -60, 2**60
"""Of the unit 2^power; of exponents, which are clipped to it: that moves no two of them further apart."""
SLACK = 1e-12
"""The share by which the exponential of a float may be wrong, and more."""
COIN_BITS = 64

Below = Callable[[int], int]
"""Draws a uniform integer from 0 up to and without its argument."""


def draw(exponents: np.ndarray, unit_power: int, draws: int, below: Below = secrets.randbelow) -> list[int]:
    """Positions, each drawn with probability proportional to exp(exponents[i] * 2^unit_power).

    Args:
        exponents: integers.
        unit_power: of the unit; negative or zero.
        draws: how many.
        below: the source of uniform integers.

    Raises:
        ValueError: too many candidates, too far apart, or a unit that is too fine.
    """
    if len(exponents) > MOST_CANDIDATES or not LEAST_POWER <= unit_power <= 0:
        raise ValueError(
            f"{len(exponents)} candidates, units of 2^{unit_power}: at most {MOST_CANDIDATES}, 2^-60 to 1."
        )
    clipped = np.clip(exponents, -MOST_EXPONENT, MOST_EXPONENT).astype(np.int64)
    gaps = clipped.max() - clipped
    upper = np.exp(-np.ldexp(gaps.astype(np.float64), unit_power)) * (1 + SLACK)
    weights = np.maximum(np.ceil(upper * 2.0**WEIGHT_BITS), 1.0).astype(np.int64)  # so that nothing is impossible
    sums = np.cumsum(weights)
    found: list[int] = []
    while len(found) < draws:
        place = int(np.searchsorted(sums, below(int(sums[-1])), side="right"))
        if _accepted(int(weights[place]), int(gaps[place]), unit_power, below):
            found.append(place)
    return found


def log_probabilities(exponents: np.ndarray, unit_power: int) -> np.ndarray:
    """The logs of the probabilities of one draw, in floats."""
    logits = np.ldexp((exponents - exponents.max()).astype(np.float64), unit_power)
    return logits - math.log(np.exp(logits).sum())


def _accepted(weight: int, gap: int, unit_power: int, below: Below) -> bool:
    """True with probability 2^WEIGHT_BITS exp(-gap 2^unit_power) / weight.

    A uniform number of [0, 1) is known to ever more bits, the probability between ever narrower limits.
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
    """Integers around 2^bits 2^WEIGHT_BITS exp(-gap 2^unit_power) / weight, at most two apart."""
    if gap >> -unit_power > bits + WEIGHT_BITS:
        return 0, 1
    digits = math.ceil((bits + WEIGHT_BITS) * math.log10(2)) + 20
    context = decimal.Context(prec=digits + 60)
    power = context.divide(decimal.Decimal(gap), decimal.Decimal(2**-unit_power))
    near = Fraction(context.exp(context.minus(power))) * 2 ** (bits + WEIGHT_BITS) / weight
    slack = near / 10**digits
    return math.floor(near - slack), math.ceil(near + slack)
