"""All marginals of two or three attributes of one model at once, `Model.project_many` against mbi's bulk functions.

Each comparison runs in a process of its own, in which both sides take turns. Both start from the potentials: pgmest's
run of the oracle counts, the plan and mbi's compilation are reported apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import problems
from experiments.benchmarks.timing import alternate, timed
from experiments.benchmarks.worker import WorkerFailed, apart
from experiments.problems import NamedProblem
from pgmest.inference.exact.kernel_loading import load_contraction_kernels
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.models.exact import Model

TOTAL = 10_000.0
MANY, ELIMINATION = "calculate_many_marginals", "bulk_variable_elimination"


@dataclass(frozen=True)
class Case:
    """A model and the size of the marginals asked for, and which of mbi's functions to run always, and if slow."""

    make: Callable[[], NamedProblem]
    size: int
    always: tuple[str, ...] = ()
    if_slow: tuple[str, ...] = ()


CASES = {
    "adult14-tree-2": Case(problems.adult14_tree, 2, always=(MANY,), if_slow=(ELIMINATION,)),
    "adult14-tree-3": Case(problems.adult14_tree, 3, if_slow=(MANY, ELIMINATION)),
    "adult14-pairs-2": Case(problems.adult14_pairs, 2, always=(ELIMINATION,), if_slow=(MANY,)),
    "adult14-pairs-3": Case(problems.adult14_pairs, 3, if_slow=(ELIMINATION, MANY)),
}


def run_case(name: str, quick: bool, slow: bool) -> dict[str, Any]:
    """pgmest alone, and against each of mbi's functions that is asked for."""
    case, seconds = CASES[name], 0.5 if quick else 5.0
    result = {"problem": name, **apart(measure, name, None, seconds), "mbi": {}, "errors": {}}
    for function in (*case.always, *(case.if_slow if slow else ())):
        try:
            result["mbi"][function] = apart(measure, name, function, seconds)["mbi"]
        except WorkerFailed as error:
            result["errors"][function] = str(error)
    return result


def measure(name: str, function: str | None, seconds: float) -> dict[str, Any]:
    """In a process of its own: pgmest, and one of mbi's functions if one is named."""
    case = CASES[name]
    problem = case.make()
    potentials = problem.potentials()
    cliques = list(itertools.combinations(problem.domain, case.size))
    load_contraction_kernels(together=True)
    plan_seconds, plan = timed(lambda: PropagationPlan.of(potentials.layout))
    first_seconds, tables = timed(lambda: Model(potentials, TOTAL, plan=plan).project_many(cliques))
    kept = Model(potentials, TOTAL, plan=plan)
    subjects: dict[str, Callable[[], Any]] = {
        "pgmest": lambda: Model(potentials, TOTAL, plan=plan).project_many(cliques),
        "pgmest, calibrated": lambda: kept.project_many(cliques),
    }
    theirs: dict[str, Any] = {}
    if function is not None:
        from experiments.benchmarks import peers

        subjects[function] = peers.BULK[function](potentials, cliques, TOTAL)
        theirs["first_seconds"], answers = timed(subjects[function])
        differences = [
            np.abs(np.asarray(answers[c].values) - t.values).max() for c, t in zip(cliques, tables, strict=True)
        ]
        theirs["difference"] = float(np.max(differences)) / TOTAL
    timings = alternate(subjects, seconds)
    if function is not None:
        theirs["median_seconds"] = timings[function].median
        theirs["ratios"] = {label: timings[function].ratio(timings[label]) for label in subjects if label != function}
    return {
        "title": problem.title,
        "marginals": len(cliques),
        "cells": sum(map(problem.domain.size, cliques)),
        "plan_seconds": plan_seconds,
        "first_seconds": first_seconds,
        "median_seconds": {label: timings[label].median for label in ("pgmest", "pgmest, calibrated")},
        "mbi": theirs,
    }
