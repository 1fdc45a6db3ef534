"""The kernels that run a schedule (schedule.py), compiled once per device and precision; numba's CUDA target.

A block of threads takes some entries of a pass and, of each, some of the cells (`_run_block`). `1 << LANES_LOG` threads
share an entry; each brings every so many-th of its cells to one number, `UNROLLED` at a time, so that several reads are
under way at once, and the threads' numbers are combined in shared memory. Nothing is added up in an order that depends
on timing: the same schedule gives the same bits.

Sums of exponentials are kept as a peak and a sum relative to it, in one reading: when a larger cell comes, the sum so
far is scaled. An impossible entry has the peak -inf, no division, and weight 0.

Everything is in one file because numba's cache on disk notices changes only in the file a kernel is written in.
"""

# numba declares what kernels call by classes of its own, which type checkers take for what they are not.
# pyright: reportArgumentType=false, reportCallIssue=false, reportMissingImports=false, reportOptionalSubscript=false

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda

from pgmest._base.kernel_cache import numba_cache
from pgmest.inference.device.columns import (
    ACROSS_LOG,
    CHUNK,
    FACTOR,
    FIRST,
    INVERSE,
    KEPT,
    KEPT_HIGH,
    KEPT_LOW,
    KEPT_LOW_MAP,
    KEPT_STRIDE,
    KIND,
    LANES_LOG,
    LAST,
    LOG_SUM,
    LOOKUP,
    MERGE,
    MU,
    OUT,
    OWN,
    PARTIAL,
    PARTS,
    PEAK,
    REDUCED,
    REDUCED_HIGH,
    REDUCED_LOW,
    REDUCED_LOW_MAP,
    REDUCED_STRIDE,
    ROOT,
    SPACE,
    START,
    STRIDED,
    SUM,
    TABLE,
    THETA,
    WEIGHT,
    WRITE,
)

THREADS = 256
"""Of a block, at most."""

UNROLLED = 4
"""Cells that a thread reads at once."""


try:  # the package numba-cuda has a configuration of its own
    from numba.cuda.core import config
except ImportError:
    from numba.core import config


def _cached(function: Any) -> Any:
    """A kernel, whose machine code is kept on disk where some folder is writable."""
    try:
        with numba_cache(config):
            return cuda.jit(cache=True)(function)
    except RuntimeError:  # a read-only installation and no writable user cache: compile in memory
        return cuda.jit(function)


_inlined = cuda.jit(device=True)


@_inlined
def _entry_offset(operands, maps, k, entry, high, low):
    """Where the cells of an entry start in operand `k`."""
    start = operands[k, START]
    if operands[k, KEPT_STRIDE] >= 0:
        return start + entry * operands[k, KEPT_STRIDE]
    return start + maps[operands[k, KEPT_HIGH] + high] + maps[operands[k, KEPT_LOW_MAP] + low]


@_inlined
def _cell_offset(operands, maps, k, cell, low_cells):
    """How far a cell of an entry is from the entry's start, in operand `k`."""
    if operands[k, REDUCED_STRIDE] >= 0:
        return cell * operands[k, REDUCED_STRIDE]
    high = np.uint32(cell) // np.uint32(low_cells)
    low = np.uint32(cell) - high * np.uint32(low_cells)
    return np.int64(maps[operands[k, REDUCED_HIGH] + high]) + maps[operands[k, REDUCED_LOW_MAP] + low]


@_inlined
def _run_block(
    passes,
    operands,
    maps,
    p,
    tile,
    part,
    theta,
    theta_at,
    mu,
    work,
    work_at,
    logs,
    logs_at,
    total,
    maximize,
    tops,
    sums,
):
    """Part `part` of the entries of tile `tile` of pass `p`."""
    thread = cuda.threadIdx.x
    kind, kept, reduced_low = passes[p, KIND], passes[p, KEPT], passes[p, REDUCED_LOW]
    lanes_log, across, strided = passes[p, LANES_LOG], passes[p, ACROSS_LOG], passes[p, STRIDED]
    lanes, logarithmic = np.int64(1) << lanes_log, kind <= MERGE
    if strided:
        entry, lane = thread & ((1 << across) - 1), thread >> across
    else:
        entry, lane = thread >> lanes_log, thread & (lanes - 1)
    entry += np.int64(tile) << across
    begin = np.int64(part) * passes[p, CHUNK]
    end = min(begin + passes[p, CHUNK], passes[p, REDUCED])
    if entry >= kept:
        end = begin
    high = low = np.int64(0)
    if passes[p, LOOKUP]:
        kept_low = passes[p, KEPT_LOW]
        high = np.int64(np.uint32(entry) // np.uint32(kept_low))
        low = entry - high * kept_low
        if entry >= kept:
            high = low = np.int64(0)

    real = work.dtype.type
    zero, lowest = real(0.0), real(-math.inf)
    top, found = lowest, zero
    base = begin + lane
    if kind == SUM:
        first = passes[p, FIRST]
        start = _entry_offset(operands, maps, first, entry, high, low)
        from_mu = operands[first, SPACE] == MU
        start += theta_at if from_mu else work_at
        while base < end:
            partial = zero
            for u in range(UNROLLED):
                cell = base + u * lanes
                if cell < end:
                    at = start + _cell_offset(operands, maps, first, cell, reduced_low)
                    partial += mu[at] if from_mu else work[at]
            found += partial
            base += lanes * UNROLLED
    elif kind == MERGE:
        start = work_at + passes[p, PARTIAL] + entry
        while base < end:
            other = work[start + base * kept]
            if maximize:
                top = max(top, other)
            elif other > lowest:
                larger = max(top, other)
                found = found * math.exp(top - larger) + work[start + (end + base) * kept] * math.exp(other - larger)
                top = larger
            else:
                found += work[start + (end + base) * kept]  # 0, or NaN
            base += lanes
    else:
        values = cuda.local.array(UNROLLED, work.dtype)
        while base < end:
            for u in range(UNROLLED):
                values[u] = zero
            for k in range(passes[p, FIRST], passes[p, LAST]):
                start = _entry_offset(operands, maps, k, entry, high, low)
                if operands[k, SPACE] == THETA:
                    for u in range(UNROLLED):
                        cell = base + u * lanes
                        if cell < end:
                            values[u] += theta[theta_at + start + _cell_offset(operands, maps, k, cell, reduced_low)]
                else:
                    for u in range(UNROLLED):
                        cell = base + u * lanes
                        if cell < end:
                            values[u] += work[work_at + start + _cell_offset(operands, maps, k, cell, reduced_low)]
            if kind == TABLE:
                found = values[0]  # of the only cell
            elif kind == LOG_SUM:
                larger = top
                for u in range(UNROLLED):
                    if base + u * lanes < end:
                        larger = max(larger, values[u])
                if larger > lowest and not maximize:
                    found *= math.exp(top - larger)
                    for u in range(UNROLLED):
                        if base + u * lanes < end:
                            found += math.exp(values[u] - larger)
                else:
                    for u in range(UNROLLED):
                        if values[u] != values[u]:  # NaN, which must not pass for an impossible cell
                            found = values[u]
                top = larger
            else:
                own, write = passes[p, OWN], passes[p, WRITE]
                own_start = work_at + _entry_offset(operands, maps, own, entry, high, low)
                partial = zero
                for u in range(UNROLLED):
                    cell = base + u * lanes
                    if cell < end:
                        at = own_start + _cell_offset(operands, maps, own, cell, reduced_low)
                        if passes[p, WEIGHT] >= 0:
                            weight = work[passes[p, WEIGHT] + at]
                        else:
                            weight = total * work[passes[p, INVERSE] + at]
                        value = math.exp(values[u] - work[passes[p, PEAK] + at]) * weight
                        partial += value
                        if write >= 0:
                            start = theta_at + _entry_offset(operands, maps, write, entry, high, low)
                            mu[start + _cell_offset(operands, maps, write, cell, reduced_low)] = value
                found += partial
            base += lanes * UNROLLED

    if lanes > 1:
        tops[thread], sums[thread] = top, found
        half = lanes >> 1
        while half > 0:
            cuda.syncthreads()
            if lane < half:
                other = thread + ((half << across) if strided else half)
                if logarithmic:
                    larger = max(tops[thread], tops[other])
                    if larger > lowest and not maximize:
                        sums[thread] *= math.exp(tops[thread] - larger)
                        sums[thread] += sums[other] * math.exp(tops[other] - larger)
                    else:
                        sums[thread] += sums[other]
                    tops[thread] = larger
                else:
                    sums[thread] += sums[other]
            half >>= 1
        top, found = tops[thread], sums[thread]
        cuda.syncthreads()  # the next block of work writes to them

    if lane > 0 or entry >= kept:
        return
    if passes[p, PARTS] > 1:
        at = work_at + passes[p, PARTIAL] + part * kept + entry
        if kind == LOG_SUM:
            work[at] = top
            work[at + passes[p, PARTS] * kept] = found
        else:
            work[at] = found
        return
    if logarithmic:
        possible = top > lowest
        message = top
        if not maximize:
            work[work_at + passes[p, PEAK] + entry] = top if possible else zero
            work[work_at + passes[p, INVERSE] + entry] = real(1.0) / found if possible else zero
            message = top + math.log(found) if possible else lowest + found
        found = message
        if passes[p, ROOT] >= 0:
            logs[logs_at + passes[p, ROOT]] = message
    out = passes[p, OUT]
    if out >= 0:
        at = _entry_offset(operands, maps, out, entry, high, low)
        if passes[p, FACTOR] != 0:
            found *= work[work_at + at + passes[p, FACTOR]]
        if operands[out, SPACE] == MU:
            mu[theta_at + at] = found
        else:
            work[work_at + at] = found


@_cached
def run_step(passes, operands, maps, blocks, first, theta, mu, cells, work, work_cells, logs, roots, totals, maximize):
    """One step: a block of threads for each of its blocks (x) and each parameter vector (y)."""
    tops = cuda.shared.array(THREADS, work.dtype)
    sums = cuda.shared.array(THREADS, work.dtype)
    vector = np.int64(cuda.blockIdx.y)
    b = first + cuda.blockIdx.x
    places = (theta, vector * cells, mu, work, vector * work_cells, logs, vector * roots, totals[vector], maximize)
    _run_block(passes, operands, maps, blocks[b, 0], blocks[b, 1], blocks[b, 2], *places, tops, sums)


@_cached
def run_steps(
    passes,
    operands,
    maps,
    blocks,
    steps,
    first,
    last,
    theta,
    mu,
    cells,
    work,
    work_cells,
    logs,
    roots,
    totals,
    maximize,
):
    """Steps [first, last), small ones, by one block of threads for each parameter vector (y)."""
    tops = cuda.shared.array(THREADS, work.dtype)
    sums = cuda.shared.array(THREADS, work.dtype)
    vector = np.int64(cuda.blockIdx.y)
    places = (theta, vector * cells, mu, work, vector * work_cells, logs, vector * roots, totals[vector], maximize)
    for step in range(first, last):
        for b in range(steps[step], steps[step + 1]):
            _run_block(passes, operands, maps, blocks[b, 0], blocks[b, 1], blocks[b, 2], *places, tops, sums)
        cuda.syncthreads()
