"""Loading the kernels of the exact oracle: compiled at their first use, read from the cache on disk later."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from pgmest._base.kernel_cache import kernels_are_kept
from pgmest.inference.exact.plan import Plan
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Domain

COMPILES = 4.0
"""Seconds of a processor that loading kernels does not take, and compiling them does."""


@contextmanager
def compile_notice() -> Iterator[None]:
    """Say what takes so long, should the block compute for long: kernels are compiled at their first use, then cached.

    By the clock, a busy machine may take as long to read them from the disk, which is nothing to speak of.
    """
    text = "pgmest: compiling its kernels, once per installation (10 to 25 s; `pgmest warm-up` does it beforehand)..."
    if not kernels_are_kept():
        text = (
            "pgmest: compiling its kernels (10 to 25 s), in every process again, because no folder can be written to. "
            "Run `pgmest warm-up` where one can, or name a folder with PGMEST_CACHE_DIR."
        )
    ended, started = threading.Event(), time.process_time()

    def watch() -> None:
        while not ended.wait(0.5):
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
    """The smallest plan and its arrays, to run each kernel once."""

    def __init__(self, dtype: type[np.floating] = np.float64) -> None:
        plan = Plan.of(Layout.of(Domain({"a": 2}), [("a",)]))
        self.tables = (plan.nodes, plan.children, plan.maps)
        self.nodes = (0, len(plan.nodes))
        self.theta, self.mu, self.arena = (np.zeros(cells, dtype) for cells in (2, 2, plan.arena_cells))
        self.theta.flags.writeable = False
        self.messages, self.copies = plan.messages, (plan.messages, plan.marginals)
        self.buffer, self.buffers = plan.scratch, (plan.scratch, plan.scratch + plan.row)


@cache
def load_kernels() -> ModuleType:
    """The kernels of the sum-product, compiled or read from the cache on disk."""
    with compile_notice():
        from pgmest.inference.exact import kernels

        for run in _sums().values():
            run()
    return kernels


@cache
def load_max_kernels() -> ModuleType:
    """The same of the max-product."""
    with compile_notice():
        from pgmest.inference.exact import max_kernels

        for run in _maxima().values():
            run()
    return max_kernels


def _sums() -> dict[str, Callable[[], Any]]:
    """Each kernel of the sum-product, run once on the smallest plan."""
    from pgmest.inference.exact import kernels

    t = _Tiny()
    return {
        "upward": lambda: kernels.upward(*t.tables, *t.nodes, t.theta, t.mu, t.arena, t.buffer),
        "downward": lambda: kernels.downward(*t.tables, *t.nodes, t.theta, t.mu, t.arena, t.buffer, 1.0),
        "clique_table": lambda: kernels.clique_table(*t.tables, 0, t.theta, t.mu, t.arena, t.buffer, np.zeros(2)),
    }


def _maxima() -> dict[str, Callable[[], Any]]:
    """The same of the max-product."""
    from pgmest.inference.exact import max_kernels

    t = _Tiny()
    return {
        "upward_max": lambda: max_kernels.upward_max(*t.tables, *t.nodes, t.theta, t.arena, t.messages, t.buffer),
        "downward_max": lambda: max_kernels.downward_max(
            *t.tables, *t.nodes, t.theta, t.mu, t.arena, *t.copies, t.buffer, 0.0
        ),
    }


def compile_sweep(name: str) -> None:
    """Compile one kernel of the sweeps into the cache; several processes may do so for several kernels."""
    {**_sums(), **_maxima()}[name]()


@cache
def load_covariance_kernels() -> ModuleType:
    """The same for the covariance, which few need."""
    with compile_notice():
        from pgmest.inference.exact import covariance_kernels as kernels

        t, tangent = _Tiny(), np.zeros(2)
        kernels.covariance_upward(*t.tables, *t.nodes, t.theta, t.mu, t.theta, t.arena, t.messages, *t.buffers)
        kernels.covariance_downward(
            *t.tables, *t.nodes, t.theta, t.mu, t.theta, tangent, t.arena, *t.copies, *t.buffers
        )
    return kernels


@cache
def load_many_kernels() -> None:
    """The same for runs of many vectors."""
    with compile_notice():
        kernels, t = load_kernels(), _Tiny()
        thetas, (mus, columns, marginals) = np.zeros((1, 2)), np.zeros((3, 1, 2))
        thetas.flags.writeable = False
        roots = np.zeros(1, dtype=np.int64)
        rows = (*t.tables, roots, 0, 1, thetas, np.ones(1), mus, np.ones(1))
        kernels.run_rows(*rows, t.arena, t.buffer)
        kernels.run_batches(*rows, columns.reshape(2, 1), marginals.reshape(2, 1), t.arena, t.buffer)


@cache
def load_contraction_kernels(dtype: np.dtype[Any], together: bool) -> ModuleType:
    """The kernel of sweeps by contraction, and those that several threads run together."""
    with compile_notice():
        from pgmest._base.team_kernels import alone
        from pgmest.inference.exact import contraction_columns as f
        from pgmest.inference.exact import contraction_kernels as kernels

        steps, sides = np.zeros((1, f.N_STEP), dtype=np.int64), np.zeros((3, f.N_SIDE), dtype=np.int64)
        tables = 0, steps, sides, np.zeros(1, dtype=np.int64)
        theta, mu, work = (np.zeros(1, dtype) for _ in range(3))
        theta.flags.writeable = False
        kernels.both_sweeps(0, steps[:0], *tables[2:], theta, mu, work, np.zeros(1), 0.0, 1.0, alone())
        if together:
            kernels.upward(*tables, 0, 0, theta, mu, work, np.zeros(1), 0.0, alone())
            kernels.downward(*tables, 0, 0, mu, work, np.zeros(1), 0.0, 1.0, alone())
            kernels.assist(*tables, work, alone())
    return kernels


@cache
def load_many_contraction_kernels() -> ModuleType:
    """The same for many vectors at one call."""
    with compile_notice():
        from pgmest._base.team_kernels import alone
        from pgmest.inference.exact import contraction_columns as f

        kernels = load_contraction_kernels(np.dtype(np.float64), together=False)
        steps, sides = np.zeros((0, f.N_STEP), dtype=np.int64), np.zeros((0, f.N_SIDE), dtype=np.int64)
        thetas, mus = np.zeros((2, 0, 1))
        thetas.flags.writeable = False
        tables = 0, steps, sides, np.zeros(1, dtype=np.int64)
        rows = 0, 0, thetas, np.ones(1), mus, np.ones(1)
        kernels.run_rows(*tables, *rows, np.ones(1), np.ones(1), 0.0, 0.0, alone())
    return kernels


@cache
def load_max_contraction_kernels(dtype: np.dtype[Any]) -> ModuleType:
    """The same for the max-product."""
    with compile_notice():
        from pgmest._base.team_kernels import alone
        from pgmest.inference.exact import contraction_columns as f
        from pgmest.inference.exact import max_contraction_kernels as kernels

        steps, sides = np.zeros((1, f.N_STEP), dtype=np.int64), np.zeros((3, f.N_SIDE), dtype=np.int64)
        tables = steps, sides, np.zeros(1, dtype=np.int64)
        theta, best, work = (np.zeros(1, dtype) for _ in range(3))
        theta.flags.writeable = False
        kernels.upward_max(*tables, 0, 0, theta, work, alone())
        kernels.downward_max(*tables, 0, 0, theta, best, work, 0.0, alone())
    return kernels


@cache
def load_single_kernels() -> ModuleType:
    """The kernels, with the sum-product in float32 compiled besides."""
    with compile_notice():
        kernels, t = load_kernels(), _Tiny(np.float32)
        kernels.upward(*t.tables, *t.nodes, t.theta, t.mu, t.arena, t.buffer)
        kernels.downward(*t.tables, *t.nodes, t.theta, t.mu, t.arena, t.buffer, 1.0)
    return kernels
