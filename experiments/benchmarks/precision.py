"""The exact oracle in float32 against float64: how much faster, and how far the marginals are apart.

Each problem is measured in a process of its own, in which the two take turns. Times are those of the processor.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments import problems
from experiments.benchmarks.worker import apart
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.inference.exact.single_precision import SinglePrecisionOracle
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Domain


def _one_clique(values: int) -> CliqueVector:
    """A measured clique of three attributes."""
    return CliqueVector.random(Domain(dict.fromkeys("abc", values)), [tuple("abc")], seed=0)


CASES: dict[str, Callable[[], CliqueVector]] = {
    "a measured clique of 1e6 cells": functools.partial(_one_clique, 100),
    "a measured clique of 1e7 cells": functools.partial(_one_clique, 215),
    "census-1e6": lambda: problems.census(10**6).potentials(),
    "census-1e7": lambda: problems.census(10**7).potentials(),
    "chain-300": lambda: problems.chain(300).potentials(),
}
"""The census graphs have small measured cliques: there sums are contracted."""


def run_case(name: str, quick: bool) -> dict[str, Any]:
    """The times of one problem."""
    return apart(measure, name, 3 if quick else 15)


def measure(name: str, rounds: int) -> dict[str, Any]:
    """Seconds of a call, the least of some, and the largest difference of a marginal as a share of the total."""
    potentials = CASES[name]()
    plan = PropagationPlan.of(potentials.layout)
    double, single = ExactOracle(plan, 1), SinglePrecisionOracle(plan, 1)
    subjects = []
    for oracle, dtype in ((double, np.float64), (single, np.float32)):
        theta, out = potentials.flat.astype(dtype), np.empty(plan.layout.cells, dtype)
        subjects.append(functools.partial(oracle.run, theta, 1.0, out))
    found: tuple[list[float], list[float]] = ([], [])
    (expected, log_partition), (mu, single_log) = (subject() for subject in subjects)
    for _ in range(rounds):
        for times, subject in zip(found, subjects, strict=True):
            started = time.process_time()
            subject()
            times.append(time.process_time() - started)
    return {
        "problem": name,
        "tree_cells": plan.tree.total_cells,
        "seconds": [min(times) for times in found],
        "error": float(np.abs(mu - expected).max()),
        "relative_error": float(np.max(np.abs(mu - expected) / expected)),
        "log_error": abs(single_log - log_partition),
    }
