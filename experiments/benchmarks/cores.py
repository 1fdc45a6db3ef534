"""How the oracle gets faster with threads: each number in a process of its own, with BLAS limited to it, too."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import numpy as np

from experiments import problems
from experiments.benchmarks.timing import alternate
from experiments.benchmarks.worker import apart
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.plan import Plan
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Domain

VARIABLES = ("PGMEST_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def _one_clique(values: int) -> CliqueVector:
    """A measured clique of three attributes, which the kernels run."""
    return CliqueVector.random(Domain(dict.fromkeys("abc", values)), [tuple("abc")], seed=0)


def _pairs(attributes: int) -> CliqueVector:
    """All pairs of attributes of ten values: sums are contracted."""
    names = [f"a{i}" for i in range(attributes)]
    return CliqueVector.random(Domain(dict.fromkeys(names, 10)), list(combinations(names, 2)), seed=0)


CASES: dict[str, Callable[[], CliqueVector]] = {
    "kernels, a clique of 1e7 cells": functools.partial(_one_clique, 215),
    "kernels, a clique of 1e8 cells": functools.partial(_one_clique, 464),
    "contraction, a clique of 1e7 cells": functools.partial(_pairs, 7),
    "contraction, a clique of 1e8 cells": functools.partial(_pairs, 8),
    "chain-1000": lambda: problems.chain(1000).potentials(),
}


def thread_counts() -> list[int]:
    """1, 2, 4, ... and all processors of this process."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return sorted({available, *(1 << k for k in range(available.bit_length()) if 1 << k <= available)})


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Processes started within it use this many threads."""
    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ |= dict.fromkeys(VARIABLES, str(threads))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def run_case(name: str, quick: bool) -> dict[str, Any]:
    """The times of one problem, for each number of threads."""
    seconds = {}
    for threads in thread_counts():
        with limited(threads):
            seconds[str(threads)] = apart(measure, name, threads, 0.5 if quick else 5.0)
    return {"problem": name, "seconds": seconds}


def measure(name: str, threads: int, seconds: float) -> float:
    """The least time of a call: what disturbs one, another call escapes."""
    vector = CASES[name]()
    oracle, out = ExactOracle(Plan.of(vector.layout), threads), np.empty(vector.layout.cells)
    return alternate({name: lambda: oracle.run(vector.flat, 1.0, out)}, seconds)[name].least
