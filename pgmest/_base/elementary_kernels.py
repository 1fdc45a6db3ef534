"""Elementary functions of kernels, as plain arithmetic that the compiler spreads over whole vector registers.

numba calls libm one number at a time. A file that kernels of others may call: compiled.py sees to it that a change here
compiles these anew.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload

from pgmest._base.compiled import OPTIONS, inlined
from pgmest._base.row_kernels import maximum_on_rows, sum_on_rows


def _bitcast(pairs: dict[Any, tuple[Any, Any]]) -> Any:
    """An intrinsic that reads the bits of a number as another type, by the type of the number."""

    def typed(typing_context: Any, x: Any) -> Any:
        source = x if x in pairs else next(iter(pairs))
        target, to_llvm = pairs[source]

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], to_llvm)

        return target(source), generate

    return intrinsic(typed)


_to_bits = _bitcast({types.float64: (types.int64, ir.IntType(64)), types.float32: (types.int32, ir.IntType(32))})
_from_bits = _bitcast({types.int64: (types.float64, ir.DoubleType()), types.int32: (types.float32, ir.FloatType())})

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.693147180369123816490  # ln 2 split in two, so that k * ln 2 is exact to twice the precision
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer, kept in the lowest bits
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11 = (
    0.5000000000000001, 0.16666666666666669, 0.04166666666662413, 0.008333333333330062, 0.0013888888917213717,
    0.00019841269863053618, 2.4801521295954376e-05, 2.7557268459997064e-06, 2.7620088445409746e-07,
    2.510038549551032e-08,
)  # fmt: skip
"""The polynomial of degree 9 that equals (exp(r) - 1 - r) / r^2 at the Chebyshev nodes of |r| <= ln(2) / 2, lowest
power first. What it makes of exp(r) is within 1.6e-17 of it; a Taylor polynomial needs two terms more for that."""

_UNDERFLOW = -700.0


def exp(x):
    """exp(x), in the precision of x."""
    raise NotImplementedError  # compiled code takes one of the two below


@overload(exp, jit_options=OPTIONS)  # type: ignore[arg-type]
def _typed_exp(x):
    if x == types.float32:
        return lambda x: exp_single(x)
    return lambda x: exp_double(x)


@inlined
def exp_double(x: float) -> float:
    """exp(x) for x <= 709 to within two units in the last place; exactly 0 below -700 and at -inf."""
    bounded = x if x > -740.0 else -740.0
    shifted = bounded * _LOG2_E + _ROUND
    k = shifted - _ROUND
    r = (bounded - k * _LN2_HIGH) - k * _LN2_LOW
    p = _C11 * r + _C10
    p = p * r + _C9
    p = p * r + _C8
    p = p * r + _C7
    p = p * r + _C6
    p = p * r + _C5
    p = p * r + _C4
    p = p * r + _C3
    p = p * r + _C2
    p = p * r + 1.0
    p = p * r + 1.0
    scaled = _from_bits(_to_bits(p) + (_to_bits(shifted) << 52))
    return scaled if x > _UNDERFLOW else 0.0


_S_LOG2_E, _S_ROUND = np.float32(_LOG2_E), np.float32(1.5 * 2**23)
_S_LN2_HIGH, _S_LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_S1, _S2, _S3, _S4, _S5, _S6, _S7 = [np.float32(1 / math.factorial(k)) for k in range(1, 8)]
_S_UNDERFLOW, _S_LEAST, _S_ZERO = np.float32(-87.0), np.float32(-90.0), np.float32(0.0)


@inlined
def exp_single(x: Any) -> Any:
    """The same in float32, for x <= 88; exactly 0 below -87."""
    bounded = x if x > _S_LEAST else _S_LEAST
    shifted = bounded * _S_LOG2_E + _S_ROUND
    k = shifted - _S_ROUND
    r = (bounded - k * _S_LN2_HIGH) - k * _S_LN2_LOW
    p = _S7 * r + _S6
    p = p * r + _S5
    p = p * r + _S4
    p = p * r + _S3
    p = p * r + _S2
    p = p * r + _S1
    p = p * r + _S1
    scaled = _from_bits(np.int32(_to_bits(p) + np.int32(_to_bits(shifted) << np.int32(23))))
    return scaled if x > _S_UNDERFLOW else _S_ZERO


_SQRT2 = math.sqrt(2.0)
_MANTISSA = (1 << 52) - 1
_ONE_BITS = 1023 << 52
_L1, _L2, _L3, _L4, _L5, _L6, _L7, _L8, _L9, _L10 = [2.0 / (2 * k + 1) for k in range(1, 11)]


@inlined
def log(x: float) -> float:
    """log(x) for normal positive x: the exponent times ln 2, plus 2 atanh((m - 1) / (m + 1)) of the mantissa m."""
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
    """The largest cell, -inf where there is none; nothing may be NaN."""
    return row


@sum_on_rows
def sum_of(row):
    """The sum of the cells."""
    return row
