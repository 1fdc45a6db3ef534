"""The memory of this machine: tables that do not fit are refused before they are allocated."""

from __future__ import annotations

import functools
import gc
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager

from pgmest.errors import ArgumentError, ModelTooLarge, count_text, memory_text

LARGEST_TABLE = 2**31
"""The most cells of a marginal, an answer, or an intermediate table: 17 GB at 8 bytes a cell."""


@functools.cache
def physical_memory() -> float:
    """Return the bytes of physical memory, inf if the system does not report them."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return math.inf


def check_room(what: str, cells: int) -> None:
    """Raise ModelTooLarge if tables of `cells` cells in all, 8 bytes each, do not fit in the memory of this machine."""
    if 8 * cells > min(physical_memory(), 2**62):
        raise ModelTooLarge(
            f"{what} would have {count_text(cells)} cells ({memory_text(8 * cells)}), more than the memory of this "
            "machine. Use smaller cliques, or give the attributes fewer values."
        )


MOST_DEFAULT_RECORDS = 10**8
"""The most records that are drawn unless their number is stated, because a model's file can claim any total."""


def default_records(total: float) -> int:
    """Return the number of records to draw if none is stated: the rounded total.

    Raises:
        ArgumentError: if that is more than `MOST_DEFAULT_RECORDS`.
    """
    if total > MOST_DEFAULT_RECORDS:
        raise ArgumentError.of("n", None, f"stated (--rows), as the model's total is {total:,.0f} records")
    return round(total)


def check_records(n: int, size: int) -> None:
    """Raise ArgumentError if n records of `size` bytes do not fit in the memory of this machine."""
    if n * size > min(physical_memory(), 2**62):
        raise ArgumentError.of(
            "n", n, f"fewer records, as these take {memory_text(n * size)}; sample_batches and write_samples need less"
        )


@contextmanager
def without_collection() -> Iterator[None]:
    """Pause Python's garbage collector while tens of thousands of small objects without reference cycles are created.

    The collector would visit all of them repeatedly, which takes a third of the time, and would find no cycles.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
