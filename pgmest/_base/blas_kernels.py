"""Products of matrices for kernels, by BLAS, in pieces that it does not share between threads.

As elementary_kernels.py, a file that kernels of others may call.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import get_cython_function_address, intrinsic

from pgmest._base.compiled import inlined

UNSHARED = 1 << 18
"""OpenBLAS uses one thread for a product of at most this many multiplications: threads are ours to share out."""

DEPTH, WIDTH = 256, 64
"""Larger products are cut to this many summed cells and columns, so that `UNSHARED` still leaves many rows."""


@cache
def gemm_address(kind: np.dtype) -> int:
    """Where SciPy's BLAS has its product of matrices, as SciPy documents it for compiled callers."""
    routine = {np.dtype(np.float64): "dgemm", np.dtype(np.float32): "sgemm"}[kind]
    return get_cython_function_address("scipy.linalg.cython_blas", routine)


@intrinsic  # type: ignore[arg-type]
def _call_gemm(typing_context, address, flags, sizes, beta, a, b, c):
    """c = op(a) op(b) + beta c by the gemm of BLAS at an address; all column-major.

    flags: whether a and b are transposed. sizes: rows, columns, summed cells. a, b, c: (array, start, stride) each.
    BLAS reads 32 or 64 bits of an integer, as it was built; its low bits come first, so both find it.
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
    blas, rows, summed, columns, a, a_start, a_step, a_turned, b, b_start, b_step, b_turned, c, c_start, c_step
):
    """c = a b, row-major: in pieces that BLAS does not share between threads.

    a is (rows, summed) with rows `a_step` apart, or turned: (summed, rows); likewise b of (summed, columns).
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
            left = a_start + (s * a_step + r if a_turned else r * a_step + s)
            for j in range(0, columns, width):
                wide = min(width, columns - j)
                right = b_start + (j * b_step + s if b_turned else s * b_step + j)
                place = c_start + r * c_step + j  # column-major BLAS sees the transposed product
                turned, sizes = (np.int64(b_turned), np.int64(a_turned)), (wide, high, deep)
                _call_gemm(blas, turned, sizes, beta, (b, right, b_step), (a, left, a_step), (c, place, c_step))  # type: ignore[call-arg]
