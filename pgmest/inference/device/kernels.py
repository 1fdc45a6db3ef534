"""The CUDA kernels that run a schedule (schedule.py), compiled once per device and precision by numba's CUDA target.

Experimental: no kernel has run on a device yet.

A block of threads takes some entries of a pass and some of the cells of each entry (`_run_block`). `1 << LANES_LOG`
threads share an entry. Each of them reduces the cells lane, lane + lanes, lane + 2 lanes, ... to one number, `UNROLLED`
cells at a time, which keeps several reads in flight. The threads' numbers are then combined in shared memory. No sum
depends on timing: the same schedule gives the same bits.

Sums of exponentials are kept as a peak and a sum relative to it, and need one reading of the cells: when a larger cell
comes, the sum so far is rescaled. An impossible entry has the peak -inf, is never divided, and gets weight 0.

All kernels are in one file because numba's cache on disk notices changes only in the file that defines a kernel.
"""

# numba declares the functions that kernels call by its own classes, which type checkers misread.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportMissingImports=false, reportOptionalSubscript=false

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
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
"""The largest number of threads in a block; it fixes the size of the arrays in shared memory."""

UNROLLED = 4
"""The number of cells that a thread reads at once."""


try:  # the package numba-cuda has its own configuration
    from numba.cuda.core import config
except ImportError:
    from numba.core import config


def _cached(function: Any) -> Any:
    """Return the compiled kernel. Its machine code is cached on disk if some folder is writable."""
    try:
        with numba_cache(config):
            return cuda.jit(cache=True)(function)
    except RuntimeError:  # a read-only installation and no writable user cache: compile in memory
        return cuda.jit(function)


@contextmanager
def small_grids() -> Iterator[None]:
    """Silence numba's warnings about launches of few blocks: small steps are meant to be small."""
    before = config.CUDA_LOW_OCCUPANCY_WARNINGS
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
    try:
        yield
    finally:
        config.CUDA_LOW_OCCUPANCY_WARNINGS = before


_inlined = cuda.jit(device=True)


@_inlined
def _entry_offset(operands, maps, k, entry, high, low):
    """Return the position in operand `k` of the first cell of an entry."""
    start = operands[k, START]
    if operands[k, KEPT_STRIDE] >= 0:
        return start + entry * operands[k, KEPT_STRIDE]
    return start + maps[np.uint64(operands[k, KEPT_HIGH] + high)] + maps[np.uint64(operands[k, KEPT_LOW_MAP] + low)]


@_inlined
def _cell_offset(stride, high_map, low_map, maps, cell, low_cells):
    """Return the distance of a cell from its entry's start, by an operand's stride or by its maps."""
    if stride >= 0:
        return cell * stride
    high = np.uint32(cell) // np.uint32(low_cells)
    low = np.uint32(cell) - high * np.uint32(low_cells)
    return np.int64(maps[np.uint64(high_map + high)]) + maps[np.uint64(low_map + low)]


@_inlined
def _add_operand(values, array, start, stride, high_map, low_map, maps, base, lanes, most, low_cells):
    """Add to values[u] the operand's value of cell `base + u * lanes`.

    Beyond `most` the last valid cell is read again, so that the loop has a fixed length and no branch.
    """
    if stride >= 0:
        start += base * stride
        step = lanes * stride
        for u in range(UNROLLED):
            values[u] += array[np.uint64(start + min(u, most) * step)]
    else:
        for u in range(UNROLLED):
            cell = base + min(u, most) * lanes
            values[u] += array[np.uint64(start + _cell_offset(stride, high_map, low_map, maps, cell, low_cells))]


@_inlined
def _log_potentials(
    values, passes, operands, maps, p, entry, high, low, base, lanes, most, theta, theta_at, work, work_at
):
    """Set values[u] to the log potential of cell `base + u * lanes` of an entry."""
    low_cells = passes[p, REDUCED_LOW]
    for u in range(UNROLLED):
        values[u] = 0.0
    for number in range(passes[p, FIRST], passes[p, LAST]):
        k = np.uint64(number)
        start, stride = _entry_offset(operands, maps, k, entry, high, low), operands[k, REDUCED_STRIDE]
        high_map, low_map = operands[k, REDUCED_HIGH], operands[k, REDUCED_LOW_MAP]
        if operands[k, SPACE] == THETA:
            start += theta_at
            _add_operand(values, theta, start, stride, high_map, low_map, maps, base, lanes, most, low_cells)
        else:
            start += work_at
            _add_operand(values, work, start, stride, high_map, low_map, maps, base, lanes, most, low_cells)


@_inlined
def _sum_cells(passes, operands, maps, p, entry, high, low, base, end, lanes_log, mu, mu_at, work, work_at):
    """Return the sum of an entry's cells base, base + lanes, base + 2 lanes, ... below `end`."""
    lanes = np.int64(1) << lanes_log
    k, low_cells = np.uint64(passes[p, FIRST]), passes[p, REDUCED_LOW]
    start, stride = _entry_offset(operands, maps, k, entry, high, low), operands[k, REDUCED_STRIDE]
    high_map, low_map, from_mu = operands[k, REDUCED_HIGH], operands[k, REDUCED_LOW_MAP], operands[k, SPACE] == MU
    start += mu_at if from_mu else work_at
    found = work.dtype.type(0.0)
    values = cuda.local.array(UNROLLED, work.dtype)
    while base < end:
        most = min(UNROLLED - 1, (end - 1 - base) >> lanes_log)
        for u in range(UNROLLED):
            values[u] = 0.0
        if from_mu:
            _add_operand(values, mu, start, stride, high_map, low_map, maps, base, lanes, most, low_cells)
        else:
            _add_operand(values, work, start, stride, high_map, low_map, maps, base, lanes, most, low_cells)
        partial = values[0]
        for u in range(1, UNROLLED):
            if u <= most:
                partial += values[u]
        found += partial
        base += lanes * UNROLLED
    return found


@_inlined
def _merge_parts(passes, p, entry, base, end, lanes, work, work_at, maximize):
    """Return the peak and the sum over the parts base, base + lanes, ... of an entry."""
    real = work.dtype.type
    top, found, kept = real(-math.inf), real(0.0), passes[p, KEPT]
    tops = work_at + passes[p, PARTIAL] + entry
    sums = tops + end * kept
    while base < end:
        other = work[np.uint64(tops + base * kept)]
        if maximize:
            top = max(top, other)
        elif other > real(-math.inf):
            larger = max(top, other)
            found = found * math.exp(top - larger) + work[np.uint64(sums + base * kept)] * math.exp(other - larger)
            top = larger
        else:
            found += work[
                np.uint64(sums + base * kept)
            ]  # 0 for an impossible part, or NaN, which must reach the result
        base += lanes
    return top, found


@_inlined
def _log_sum(
    passes, operands, maps, p, entry, high, low, base, end, lanes_log, theta, theta_at, work, work_at, maximize
):
    """Return the peak and the sum relative to it over the cells base, base + lanes, ... of an entry."""
    lanes = np.int64(1) << lanes_log
    real = work.dtype.type
    top, found = real(-math.inf), real(0.0)
    values = cuda.local.array(UNROLLED, work.dtype)
    while base < end:
        most = min(UNROLLED - 1, (end - 1 - base) >> lanes_log)
        _log_potentials(
            values, passes, operands, maps, p, entry, high, low, base, lanes, most, theta, theta_at, work, work_at
        )
        larger = top
        for u in range(UNROLLED):
            larger = max(larger, values[u])  # repeated values beyond `most` do not change a maximum
        if larger > real(-math.inf) and not maximize:
            found *= math.exp(top - larger)
            for u in range(UNROLLED):
                if u <= most:
                    found += math.exp(values[u] - larger)
        else:
            for u in range(UNROLLED):
                if values[u] != values[u]:  # NaN must not be mistaken for an impossible cell
                    found = values[u]
        top = larger
        base += lanes * UNROLLED
    return top, found


@_inlined
def _spread(
    passes, operands, maps, p, entry, high, low, base, end, lanes_log, theta, theta_at, mu, work, work_at, total
):
    """Return the sum of the marginals of the cells base, base + lanes, ..., and write them if there is an output."""
    lanes = np.int64(1) << lanes_log
    real, low_cells = work.dtype.type, passes[p, REDUCED_LOW]
    own = np.uint64(passes[p, OWN])
    own_start, own_stride = (
        work_at + _entry_offset(operands, maps, own, entry, high, low),
        operands[own, REDUCED_STRIDE],
    )
    own_high, own_low = operands[own, REDUCED_HIGH], operands[own, REDUCED_LOW_MAP]
    writes, root = passes[p, WRITE] >= 0, passes[p, WEIGHT] < 0
    out = np.uint64(passes[p, WRITE] if writes else passes[p, OWN])
    out_start, out_stride = (
        theta_at + _entry_offset(operands, maps, out, entry, high, low),
        operands[out, REDUCED_STRIDE],
    )
    out_high, out_low = operands[out, REDUCED_HIGH], operands[out, REDUCED_LOW_MAP]
    peaks = own_start + passes[p, PEAK]
    weights, scale = own_start + (passes[p, INVERSE] if root else passes[p, WEIGHT]), total if root else real(1.0)
    found = real(0.0)
    values = cuda.local.array(UNROLLED, work.dtype)
    while base < end:
        most = min(UNROLLED - 1, (end - 1 - base) >> lanes_log)
        _log_potentials(
            values, passes, operands, maps, p, entry, high, low, base, lanes, most, theta, theta_at, work, work_at
        )
        for u in range(UNROLLED):
            cell = base + min(u, most) * lanes
            at = _cell_offset(own_stride, own_high, own_low, maps, cell, low_cells)
            values[u] -= work[np.uint64(peaks + at)]
            values[u] = math.exp(values[u]) * (work[np.uint64(weights + at)] * scale)
        partial = values[0]
        for u in range(1, UNROLLED):
            if u <= most:
                partial += values[u]
        found += partial
        if writes:
            for u in range(UNROLLED):
                if u <= most:
                    cell = base + u * lanes
                    mu[np.uint64(out_start + _cell_offset(out_stride, out_high, out_low, maps, cell, low_cells))] = (
                        values[u]
                    )
        base += lanes * UNROLLED
    return found


@_inlined
def _run_block(
    passes, operands, maps, p, tile, part, theta, theta_at, mu, work, work_at, logs, logs_at, total, maximize, tops,
    sums,
):  # fmt: skip
    """Compute part `part` of the entries of tile `tile` of pass `p`."""
    thread = np.int64(cuda.threadIdx.x)
    kind, kept = passes[p, KIND], passes[p, KEPT]
    lanes_log, across, strided = passes[p, LANES_LOG], passes[p, ACROSS_LOG], passes[p, STRIDED]
    lanes, logarithmic = np.int64(1) << lanes_log, kind <= MERGE
    if strided:
        entry, lane = thread & ((np.int64(1) << across) - 1), thread >> across
    else:
        entry, lane = thread >> lanes_log, thread & (lanes - 1)
    entry += np.int64(tile) << across
    begin = np.int64(part) * passes[p, CHUNK]
    end = min(begin + passes[p, CHUNK], passes[p, REDUCED])
    if entry >= kept:
        end = begin  # no cells, but the thread must reach every syncthreads below
    high = low = np.int64(0)
    if passes[p, LOOKUP] and entry < kept:
        kept_low = passes[p, KEPT_LOW]
        high = np.int64(np.uint32(entry) // np.uint32(kept_low))
        low = entry - high * kept_low

    real = work.dtype.type
    top, found = real(-math.inf), real(0.0)
    first = begin + lane
    if first < end:
        if kind == SUM:
            found = _sum_cells(
                passes, operands, maps, p, entry, high, low, first, end, lanes_log, mu, theta_at, work, work_at
            )
        elif kind == MERGE:
            top, found = _merge_parts(passes, p, entry, first, end, lanes, work, work_at, maximize)
        elif kind == LOG_SUM:
            top, found = _log_sum(
                passes, operands, maps, p, entry, high, low, first, end, lanes_log,
                theta, theta_at, work, work_at, maximize,
            )  # fmt: skip
        elif kind == TABLE:
            values = cuda.local.array(UNROLLED, work.dtype)
            _log_potentials(
                values, passes, operands, maps, p, entry, high, low, 0, 1, 0, theta, theta_at, work, work_at
            )
            found = values[0]
        else:
            found = _spread(
                passes, operands, maps, p, entry, high, low, first, end, lanes_log,
                theta, theta_at, mu, work, work_at, total,
            )  # fmt: skip

    if lanes > 1:
        tops[thread], sums[thread] = top, found
        half = lanes >> 1
        while half > 0:
            cuda.syncthreads()
            if lane < half:
                other = thread + ((half << across) if strided else half)
                larger = max(tops[thread], tops[other])
                if logarithmic and larger > real(-math.inf) and not maximize:
                    sums[thread] *= math.exp(tops[thread] - larger)
                    sums[thread] += sums[other] * math.exp(tops[other] - larger)
                else:
                    sums[thread] += sums[other]
                tops[thread] = larger
            half >>= 1
        top, found = tops[thread], sums[thread]
        cuda.syncthreads()  # the next block of work overwrites tops and sums

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
        possible = top > real(-math.inf)
        message = top
        if not maximize:
            work[work_at + passes[p, PEAK] + entry] = top if possible else real(0.0)
            work[work_at + passes[p, INVERSE] + entry] = real(1.0) / found if possible else real(0.0)
            message = top + math.log(found) if possible else top + found
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
    """Run one step: one block of threads for each block of work (x) and each parameter vector (y)."""
    tops = cuda.shared.array(THREADS, work.dtype)
    sums = cuda.shared.array(THREADS, work.dtype)
    vector = np.int64(cuda.blockIdx.y)
    b = first + cuda.blockIdx.x
    places = (theta, vector * cells, mu, work, vector * work_cells, logs, vector * roots, totals[vector], maximize)
    _run_block(passes, operands, maps, np.uint64(blocks[b, 0]), blocks[b, 1], blocks[b, 2], *places, tops, sums)


@_cached
def run_steps(
    passes, operands, maps, blocks, steps, first, last, theta, mu, cells, work, work_cells, logs, roots, totals,
    maximize,
):  # fmt: skip
    """Run the small steps [first, last) with one block of threads for each parameter vector (y)."""
    tops = cuda.shared.array(THREADS, work.dtype)
    sums = cuda.shared.array(THREADS, work.dtype)
    vector = np.int64(cuda.blockIdx.y)
    places = (theta, vector * cells, mu, work, vector * work_cells, logs, vector * roots, totals[vector], maximize)
    for step in range(first, last):
        for b in range(steps[step], steps[step + 1]):
            _run_block(passes, operands, maps, np.uint64(blocks[b, 0]), blocks[b, 1], blocks[b, 2], *places, tops, sums)
        cuda.syncthreads()
