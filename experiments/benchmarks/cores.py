"""Measure the oracle's speed by number of threads: each number in a separate process, with BLAS limited to it, too.

Processors that a system counts may be threads of one core, and all of them share its memory. So what could be gained at
most is measured, too: as many processes at once, which have nothing to wait for from one another.
"""

from __future__ import annotations

import functools
import os
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import numpy as np

from experiments import problems
from experiments.benchmarks.timing import alternate
from experiments.benchmarks.worker import apart
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
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
    """The times of one problem, for each number of threads; medians of one process, and of as many as processors."""
    counts, duration, seconds = thread_counts(), 0.5 if quick else 5.0, {}
    for threads in counts:
        with limited(threads):
            seconds[str(threads)] = apart(measure, name, threads, duration)
    with limited(1), ThreadPoolExecutor(counts[-1]) as processes:
        at_once = processes.map(lambda _: apart(measure, name, 1, duration), range(counts[-1]))
        together = statistics.mean(found["median"] for found in at_once)
    return {
        "problem": name,
        "seconds": {threads: found["least"] for threads, found in seconds.items()},
        "one_process": seconds["1"]["median"],
        "one_of_many_processes": together,
    }


def measure(name: str, threads: int, seconds: float) -> dict[str, float]:
    """The least time of a call, for what disturbs one, another call escapes; and the median."""
    vector = CASES[name]()
    oracle, out = ExactOracle(PropagationPlan.of(vector.layout), threads), np.empty(vector.layout.cells)
    timings = alternate({name: lambda: oracle.run(vector.flat, 1.0, out)}, seconds)[name]
    return {"least": timings.least, "median": timings.median}
