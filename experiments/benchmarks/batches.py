"""Many parameter vectors on one plan: `ExactOracle.run_many` against a call for each, and against one np.exp of all.

Each problem is measured in a process of its own, in which the subjects take turns.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from experiments import problems
from experiments.benchmarks.oracle import own_label, thread_counts
from experiments.benchmarks.timing import alternate
from experiments.benchmarks.worker import apart
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.tables.clique_vector import CliqueVector

MOST_CELLS = 1 << 22
"""Potentials of all vectors together, at most (32 MB)."""

EXPONENTIAL = "np.exp"


def _small_chain(attributes: int, values: int) -> CliqueVector:
    return problems.chain(attributes, values).potentials()


CASES = {
    "8 attributes of 2": functools.partial(_small_chain, 8, 2),
    "8 attributes of 4": functools.partial(_small_chain, 8, 4),
    "12 attributes of 5": functools.partial(_small_chain, 12, 5),
    "chain-10": lambda: problems.chain(10).potentials(),
    "adult14-tree": lambda: problems.adult14_tree().potentials(),
    "adult14-pairs": lambda: problems.adult14_pairs().potentials(),
    "census-1e5": lambda: problems.census(10**5).potentials(),
}


def run_case(name: str, quick: bool) -> dict[str, Any]:
    """The times of one problem."""
    return apart(measure, name, 0.5 if quick else 6.0)


def measure(name: str, seconds: float) -> dict[str, Any]:
    """Seconds a vector of each subject, and how many times longer each takes than run_many on one thread."""
    potentials = CASES[name]()
    plan = PropagationPlan.of(potentials.layout)
    vectors = max(16, min(1000, MOST_CELLS // plan.layout.cells))
    thetas = np.random.default_rng(0).normal(size=(vectors, plan.layout.cells))
    out = np.empty_like(thetas)
    subjects: dict[str, Any] = {}
    for threads in thread_counts():
        oracle = ExactOracle(plan, threads)
        subjects[f"run_many, {own_label(threads)}"] = functools.partial(oracle.run_many, thetas, 1.0, out)
    subjects["run, one after the other"] = functools.partial(_one_by_one, ExactOracle(plan, 1), thetas, out)
    subjects[EXPONENTIAL] = functools.partial(np.exp, thetas, out)
    timings = alternate(subjects, seconds)
    first = next(iter(subjects))
    return {
        "problem": name,
        "vectors": vectors,
        "cells": plan.layout.cells,
        "tree_cells": plan.tree.total_cells,
        "seconds": {label: timing.median / vectors for label, timing in timings.items()},
        "ratios": {label: timing.ratio(timings[first]) for label, timing in timings.items()},
    }


def _one_by_one(oracle: ExactOracle, thetas: np.ndarray, out: np.ndarray) -> None:
    for theta, mu in zip(thetas, out, strict=True):
        oracle.run(theta, 1.0, mu)
