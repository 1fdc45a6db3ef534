"""Matrix products for kernels, computed by BLAS in blocks that BLAS does not share between threads.

Kernels in other files call these functions; see `CALLED` in compiled.py.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import get_cython_function_address, intrinsic

from pgmest._base.compiled import inlined

UNSHARED = 1 << 18
"""OpenBLAS computes a product of at most this many multiplications on one thread: pgmest shares out the threads."""

DEPTH, WIDTH = 256, 64
"""Larger products are cut into blocks of at most this many summed cells and at least this many columns.

`UNSHARED` then still allows many rows a block.
"""


@cache
def gemm_address() -> int:
    """Return the address of the matrix product in SciPy's BLAS, which SciPy documents for compiled callers."""
    return get_cython_function_address("scipy.linalg.cython_blas", "dgemm")


@intrinsic  # type: ignore[arg-type]
def _call_gemm(typing_context, address, flags, sizes, beta, a, b, c):
    """Compute c = op(a) op(b) + beta c by the gemm of BLAS at an address; all matrices are column-major.

    flags: whether a and b are transposed. sizes: rows, columns, summed cells. a, b, c: (array, start, stride) each.
    Depending on its build, BLAS reads integers of 32 or 64 bits. The low bits come first in memory, so that both
    builds read the same number.
    """
    kind = c[0].dtype

    def generate(context, builder, signature, arguments):
        address_value, flags_value, sizes_value, beta_value, *tables = arguments
        element, letter = context.get_value_type(kind), ir.IntType(8)

        def stored(value):
            place = cgutils.alloca_once(builder, value.type)
            builder.store(value, place)
            return place

        letters = [
            stored(builder.select(builder.trunc(flag, ir.IntType(1)), letter(ord("T")), letter(ord("N"))))
            for flag in cgutils.unpack_tuple(builder, flags_value)
        ]
        numbers = [stored(size) for size in cgutils.unpack_tuple(builder, sizes_value)]
        pointers = []
        for value, table in zip(tables, (a, b, c), strict=True):
            array, start, stride = cgutils.unpack_tuple(builder, value)
            data = context.make_array(table[0])(context, builder, array).data
            pointers += [builder.gep(data, [start]), stored(stride)]
        passed = [
            *letters, *numbers, stored(element(1.0)), *pointers[:4], stored(beta_value), *pointers[4:],
        ]  # fmt: skip
        routine = ir.FunctionType(ir.VoidType(), [value.type for value in passed])
        builder.call(builder.inttoptr(address_value, routine.as_pointer()), passed)
        return context.get_dummy_value()

    return types.void(address, flags, sizes, kind, a, b, c), generate


@inlined
def multiply_matrices(
    blas, rows, summed, columns, a, a_start, a_step, a_transposed, b, b_start, b_step, b_transposed, c, c_start, c_step
):
    """Compute c = a b, row-major, in blocks that BLAS does not share between threads.

    a is (rows, summed) with rows `a_step` apart, or (summed, rows) if transposed; likewise b is (summed, columns).
    """
    one, none = c.dtype.type(1.0), c.dtype.type(0.0)
    depth, width, height = summed, columns, rows
    if rows * summed * columns > UNSHARED:
        depth, width = min(summed, DEPTH), min(columns, max(WIDTH, UNSHARED // (16 * min(summed, DEPTH))))
        height = max(1, UNSHARED // (depth * width))
    for s in range(0, summed, depth):
        deep, beta = min(depth, summed - s), none if s == 0 else one
        for r in range(0, rows, height):
            high = min(height, rows - r)
            left = a_start + (s * a_step + r if a_transposed else r * a_step + s)
            for j in range(0, columns, width):
                wide = min(width, columns - j)
                right = b_start + (j * b_step + s if b_transposed else s * b_step + j)
                place = c_start + r * c_step + j
                # BLAS is column-major and sees the transposed product, so a and b change places
                flags, sizes = (np.int64(b_transposed), np.int64(a_transposed)), (wide, high, deep)
                _call_gemm(blas, flags, sizes, beta, (b, right, b_step), (a, left, a_step), (c, place, c_step))  # type: ignore[call-arg]
