"""Elementary functions for kernels, written as plain arithmetic that the compiler can vectorize.

numba would call libm for one number at a time. Kernels in other files call these functions; compiled.py compiles those
kernels again if this file changes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from pgmest._base.compiled import inlined
from pgmest._base.row_kernels import Lanes, maximum_on_rows, sum_on_rows


def _bitcast(source: Any, target: Any, to_llvm: ir.Type) -> Any:
    """Return an intrinsic that reads the bits of a number as another type."""

    def typed(typing_context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], to_llvm)

        return target(source), generate

    return intrinsic(typed)


_to_bits = _bitcast(types.float64, types.int64, ir.IntType(64))
_from_bits = _bitcast(types.int64, types.float64, ir.DoubleType())

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.693147180369123816490  # ln 2 as a sum of two numbers, which makes k * ln 2 exact to twice the precision
_LN2_LOW = 1.90821492927058770002e-10


_ROUNDING = 1.5 * 2**52
"""The number whose addition rounds to an integer, which is then in the lowest bits."""

_LEAST, _UNDERFLOW = -740.0, -700.0
"""Smaller arguments of exp are raised to the first before the computation; up to the second, the result is 0."""

_POLYNOMIAL = (
    2.510038549551032e-08, 2.7620088445409746e-07, 2.7557268459997064e-06, 2.4801521295954376e-05,
    0.00019841269863053618, 0.0013888888917213717, 0.008333333333330062, 0.04166666666662413, 0.16666666666666669,
    0.5000000000000001, 1.0, 1.0,
)  # fmt: skip
"""The coefficients of exp(r) for |r| <= ln(2) / 2, highest power first, to within 1.6e-17.

The polynomial interpolates (exp(r) - 1 - r) / r^2 at the Chebyshev nodes. A Taylor polynomial of the same accuracy has
two more terms.
"""


def exp_of(x: Lanes) -> Lanes:
    """Return exp(x) to within two units in the last place.

    x is at most 709. The result is 0 for x <= -700.
    """
    bounded, rounding = x.larger(x.filled(_LEAST)), x.filled(_ROUNDING)
    shifted = bounded * x.filled(_LOG2_E) + rounding
    k = shifted - rounding
    r = (bounded - k * x.filled(_LN2_HIGH)) - k * x.filled(_LN2_LOW)
    p = x.filled(_POLYNOMIAL[0])
    for coefficient in _POLYNOMIAL[1:]:
        p = p * r + x.filled(coefficient)
    return p.times_power(shifted).where(x, x.filled(_UNDERFLOW))


_SQRT2 = math.sqrt(2.0)
_MANTISSA = (1 << 52) - 1
_ONE_BITS = 1023 << 52
_L1, _L2, _L3, _L4, _L5, _L6, _L7, _L8, _L9, _L10 = [2.0 / (2 * k + 1) for k in range(1, 11)]


@inlined
def log(x: float) -> float:
    """Return log(x) of a normal positive x.

    The result is the exponent times ln 2, plus 2 atanh((m - 1) / (m + 1)) with the mantissa m.
    """
    bits = _to_bits(np.float64(x))
    m = _from_bits((bits & _MANTISSA) | _ONE_BITS)
    k = float((bits >> 52) - 1023)
    large = m > _SQRT2
    m = 0.5 * m if large else m
    k = k + 1.0 if large else k
    s = (m - 1.0) / (m + 1.0)
    t = s * s
    p = _L10 * t + _L9
    p = p * t + _L8
    p = p * t + _L7
    p = p * t + _L6
    p = p * t + _L5
    p = p * t + _L4
    p = p * t + _L3
    p = p * t + _L2
    p = p * t + _L1
    return k * _LN2_HIGH + (2.0 * s + (s * t * p + k * _LN2_LOW))


@maximum_on_rows
def largest_of(row):
    """Return the largest cell, -inf for an empty row; no cell may be NaN."""
    return row


@sum_on_rows
def sum_of(row):
    """Return the sum of the cells."""
    return row
