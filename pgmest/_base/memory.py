"""The memory of this machine: tables that it cannot hold are refused before they are allocated."""

from __future__ import annotations

import functools
import gc
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager

from pgmest._base.errors import ArgumentError, ModelTooLarge, count_text, memory_text

LARGEST_TABLE = 2**31
"""No marginal, no answer, and no table on the way to one has more cells: 17 GB of them."""


@functools.cache
def physical_memory() -> float:
    """Bytes of memory, inf where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return math.inf


def check_room(what: str, cells: int) -> None:
    """Refuse tables of that many cells, 8 bytes each, that this machine cannot hold.

    Raises:
        ModelTooLarge: it cannot.
    """
    if 8 * cells > min(physical_memory(), 2**62):
        raise ModelTooLarge(
            f"{what} would have {count_text(cells)} cells ({memory_text(8 * cells)}), more than the memory of this "
            "machine. Use smaller cliques, or give the attributes fewer values."
        )


def check_records(n: int, size: int) -> None:
    """Refuse n records of `size` bytes that this machine cannot hold.

    Raises:
        ArgumentError: it cannot.
    """
    if n * size > min(physical_memory(), 2**62):
        raise ArgumentError.of(
            "n", n, f"fewer records, as these take {memory_text(n * size)}; sample_batches and write_samples need less"
        )


@contextmanager
def without_collection() -> Iterator[None]:
    """While tens of thousands of small objects without cycles are made: Python's collector of cycles waits.

    It would walk all of them again and again, which takes a third of the time, and find nothing.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
