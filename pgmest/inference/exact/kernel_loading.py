"""Loading the kernels of the exact oracle: compiled at their first use, read from the cache on disk later."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType

import numpy as np

from pgmest._base.kernel_cache import kernels_are_kept
from pgmest.inference.exact import contraction_columns as f

COMPILES = 4.0
"""The seconds of processor time that tell compiling kernels from loading them, which takes less."""

LOOKS = 0.5
"""The seconds between looks at the processor time."""


@contextmanager
def compile_notice() -> Iterator[None]:
    """Print a notice if the block compiles kernels, which happens at their first use; later they are cached.

    The test uses processor time, because a busy machine may take seconds of wall time to read kernels from disk.
    """
    text = "pgmest: compiling its kernels, once per installation (10 to 25 s; `pgmest warm-up` does it beforehand)..."
    if not kernels_are_kept():
        text = (
            "pgmest: compiling its kernels (10 to 25 s), in every process again, because no folder can be written to. "
            "Run `pgmest warm-up` where one can, or name a folder with PGMEST_CACHE_DIR."
        )
    ended, started = threading.Event(), time.process_time()

    def watch() -> None:
        while not ended.wait(LOOKS):
            if time.process_time() - started >= COMPILES:
                return _say_once(text)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


@cache
def _say_once(text: str) -> None:
    print(text, file=sys.stderr)


def _contraction_tables() -> tuple[np.ndarray, ...]:
    """Return the arrays of a contraction without steps."""
    shapes = (0, f.N_STEP), (0, f.N_SIDE), 1
    steps, sides, maps = (np.zeros(shape, dtype=np.int64) for shape in shapes)
    return steps, sides, maps


@cache
def load_contraction_kernels(together: bool) -> ModuleType:
    """Return the kernels of sweeps by contraction, with those that several threads run together if asked for."""
    with compile_notice():
        from pgmest._base.team_kernels import alone
        from pgmest.inference.exact import contraction_kernels as kernels

        tables = 0, *_contraction_tables()
        theta, mu, work = np.zeros((3, 1))
        theta.flags.writeable = False
        kernels.both_sweeps(*tables, theta, mu, work, np.zeros(1), 0.0, 1.0, alone())
        if together:
            kernels.upward(*tables, 0, 0, theta, mu, work, np.zeros(1), 0.0, alone())
            kernels.downward(*tables, 0, 0, mu, work, np.zeros(1), 0.0, 1.0, alone())
            kernels.assist(*tables, work, alone())
    return kernels


@cache
def load_message_kernels() -> ModuleType:
    """Return the kernels of messages in logarithms."""
    with compile_notice():
        from pgmest.inference.exact import message_kernels as kernels

        nodes, maps = np.zeros((0, kernels.N_NODE), dtype=np.int64), np.zeros(1, dtype=np.int64)
        theta, tables = np.zeros((2, 1))
        state = np.zeros((kernels.N_STATE, 1))
        theta.flags.writeable = False
        kernels.upward(nodes, maps, theta, tables, state)
        kernels.downward(nodes, maps, tables, state)
    return kernels


@cache
def load_max_contraction_kernels() -> ModuleType:
    """Return the kernels of the max-product by contraction."""
    with compile_notice():
        from pgmest._base.team_kernels import alone
        from pgmest.inference.exact import max_contraction_kernels as kernels

        tables = _contraction_tables()
        theta, best, work = np.zeros((3, 1))
        theta.flags.writeable = False
        kernels.upward_max(*tables, 0, 0, theta, work, alone())
        kernels.downward_max(*tables, 0, 0, theta, best, work, 0.0, alone())
    return kernels
