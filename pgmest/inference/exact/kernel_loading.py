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
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Domain

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


class _Tiny:
    """The smallest plan and its arrays, on which each kernel is run once to compile it."""

    def __init__(self) -> None:
        plan = PropagationPlan.of(Layout.of(Domain({"a": 2}), [("a",)]))
        self.tables = (plan.nodes, plan.children, plan.maps)
        self.nodes = (0, len(plan.nodes))
        self.theta, self.mu, self.arena = (np.zeros(cells) for cells in (2, 2, plan.arena_cells))
        self.theta.flags.writeable = False
        self.messages, self.copies = plan.messages, (plan.messages, plan.marginals)
        self.buffer, self.buffers = plan.scratch, (plan.scratch, plan.scratch + plan.row)


@cache
def load_kernels() -> ModuleType:
    """Return the kernels of the sum-product, compiled or read from the cache on disk."""
    with compile_notice():
        from pgmest.inference.exact import kernels

        t = _Tiny()
        kernels.upward(*t.tables, *t.nodes, t.theta, t.mu, t.arena, t.buffer)
        kernels.downward(*t.tables, *t.nodes, t.theta, t.mu, t.arena, t.buffer, 1.0)
        kernels.clique_table(*t.tables, 0, t.theta, t.mu, t.arena, t.buffer, np.zeros(2))
    return kernels


@cache
def load_wide_kernels() -> None:
    """Load the kernels that several threads run on shares of a wide clique's rows."""
    with compile_notice():
        kernels, t = load_kernels(), _Tiny()
        share = *t.tables, 0, *t.nodes, t.theta
        kernels.clique_max(*share, t.mu, t.arena, 0, t.buffer)
        kernels.settle_peaks(t.tables[0], 0, t.arena)
        kernels.clique_sum(*share, t.mu, t.arena, 0, t.buffer)
        kernels.send_message(t.tables[0], 0, t.arena)
        kernels.weigh(t.tables[0], 0, t.arena, 1.0)
        kernels.clique_spread(*share, t.mu, t.arena, 0, t.buffer)


@cache
def load_covariance_kernels() -> ModuleType:
    """Return the kernels of the covariance, which few callers need."""
    with compile_notice():
        from pgmest.inference.exact import covariance_kernels as kernels

        t, tangent = _Tiny(), np.zeros(2)
        kernels.covariance_upward(*t.tables, *t.nodes, t.theta, t.mu, t.theta, t.arena, t.messages, *t.buffers)
        kernels.covariance_downward(
            *t.tables, *t.nodes, t.theta, t.mu, t.theta, tangent, t.arena, *t.copies, *t.buffers
        )
    return kernels


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
