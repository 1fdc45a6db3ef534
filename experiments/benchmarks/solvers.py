"""Estimation, pgmest's solvers against mbi's: the loss that each has reached after how many seconds.

Every method runs in a process of its own. Evaluating the loss is not timed on either side. mbi's times leave out its
compilation, which is reported beside them; pgmest's include building the junction tree and the plan. A certificate
costs what the tolerance asks for, so the time to one is measured with `estimate` as it is used, apart from the trace.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from experiments import problems
from experiments.benchmarks.timing import load_all_kernels
from experiments.benchmarks.worker import WorkerFailed, apart
from experiments.problems import NamedProblem
from pgmest.estimation.estimate import estimate
from pgmest.losses import L2Loss

PGMEST_METHODS = ("accelerated", "universal", "mirror_descent", "dual_averaging", "lbfgs")
MBI_METHODS = (
    "universal_accelerated_linesearch",
    "universal_accelerated",
    "interior_gradient",
    "mirror_descent",
    "dual_averaging",
    "lbfgs",
)
PGMEST_SECONDS = 15.0
CERTIFIED_METHOD = "accelerated"
CERTIFIED_SHARE = 1e-3
"""A run of its own measures how long this method takes to prove that its loss is within this share of the best."""

REPEATS = 3
MBI_MOST_SECONDS = 600.0
"""A process of mbi is stopped after these, compilation included."""

POINTS = 300
"""About how many points of a trace are kept."""


@dataclass(frozen=True)
class Case:
    """A problem and how long each method may work on it.

    Attributes:
        make: builds the problem.
        optimum: a loss that is known to be within 0.001 % of the least one, if any is known.
        iterations: of mbi's methods.
        seconds: stop any of mbi's methods after these.
        fit: let mbi go on to a model where its method ends with marginals.
        slow: leave mbi out unless slow work is asked for.
    """

    make: Callable[[], NamedProblem]
    optimum: float | None
    iterations: int
    seconds: float
    fit: bool
    slow: bool = False


CASES = {
    "adult14-pairs": Case(problems.adult14_pairs, 4077.34, 5000, 60.0, fit=True),
    "adult14-nine": Case(problems.adult14_nine, 4770.277, 4000, 60.0, fit=True),
    "adult14-fifteen": Case(problems.adult14_fifteen, None, 1000, 60.0, fit=False, slow=True),
    "chain-1000": Case(functools.partial(problems.chain, 1000), None, 300, 60.0, fit=False, slow=True),
}


def measure_method(case: str, side: str, method: str, quick: bool) -> dict[str, Any]:
    """The trace of one method on one problem, from a process of its own, or how one of mbi's "failed"."""
    if side == "pgmest":
        return apart(pgmest_trace, case, method, 1.0 if quick else PGMEST_SECONDS)
    chosen = CASES[case]
    limits = (100, 5.0, False) if quick else (chosen.iterations, chosen.seconds, chosen.fit)
    try:
        return apart(mbi_trace, case, method, *limits, timeout=MBI_MOST_SECONDS)
    except WorkerFailed as failure:
        return {"problem": case, "side": side, "method": method, "failed": str(failure)}


def mbi_trace(case: str, method: str, iterations: int, seconds: float, fit: bool) -> dict[str, Any]:
    """In a process of its own: see `peers.estimation_trace`."""
    from experiments.benchmarks.peers import estimation_trace

    trace = estimation_trace(CASES[case].make(), method, iterations, seconds, fit)
    return {"problem": case, "side": "mbi", **trace}


def pgmest_trace(case: str, method: str, seconds: float) -> dict[str, Any]:
    """In a process of its own: the trace of the run of median length; long runs are not repeated."""
    load_all_kernels()
    problem = CASES[case].make()
    cold = _run_pgmest(problem, method, seconds)
    runs = [_run_pgmest(problem, method, seconds) for _ in range(REPEATS)] if cold["total_seconds"] < 5 else [cold]
    runs.sort(key=lambda run: run["total_seconds"])
    chosen = runs[len(runs) // 2]
    more = max(cold["seconds"][0] - chosen["seconds"][0], 0.0)
    certified = None
    if method == CERTIFIED_METHOD:
        best = min([*chosen["losses"], CASES[case].optimum or math.inf])
        certified = _seconds_certified(problem, method, best)
    record = {"problem": case, "side": "pgmest", "method": method, "compile_seconds": more}
    return {**record, **chosen, "certified_seconds": certified}


def _seconds_certified(problem: NamedProblem, method: str, best: float) -> float | None:
    """Seconds until `estimate` stops with a loss proven to be within CERTIFIED_SHARE of `best`, the median of REPEATS
    runs; None: it does not."""
    measurements, total = problem.measurements(), problem.data().records
    scale = max(best, L2Loss(measurements, problem.domain).noise_floor)
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        report = estimate(
            measurements,
            problem.domain,
            total=total,
            method=method,
            tolerance=CERTIFIED_SHARE * best / scale,
            max_iterations=20_000,
        ).report
        seconds.append(time.perf_counter() - started)
        if report is None or not report.converged:
            return None
    return statistics.median(seconds)


def _run_pgmest(problem: NamedProblem, method: str, seconds: float) -> dict[str, Any]:
    measurements, total = problem.measurements(), problem.data().records
    trace: dict[str, list[Any]] = {"iterations": [], "oracle_calls": [], "seconds": [], "losses": [], "gaps": []}
    resumed, elapsed, next_kept = time.perf_counter(), 0.0, 0.0

    def observe(progress: Any) -> bool:
        nonlocal resumed, elapsed, next_kept
        elapsed += time.perf_counter() - resumed
        if elapsed >= next_kept:
            next_kept = elapsed * (1 + 7 / POINTS)
            trace["iterations"].append(progress.iteration)
            trace["oracle_calls"].append(progress.oracle_calls)
            trace["seconds"].append(elapsed)
            trace["losses"].append(progress.loss)
            trace["gaps"].append(progress.gap)
        resumed = time.perf_counter()
        return elapsed > seconds

    model = estimate(
        measurements, problem.domain, total=total, method=method, tolerance=1e-6, max_iterations=10**6, callback=observe
    )
    elapsed += time.perf_counter() - resumed
    report = model.report
    assert report is not None, "estimate always reports"
    last = (report.iterations, report.oracle_calls, elapsed, report.loss, report.gap)
    for key, value in zip(trace, last, strict=True):
        trace[key].append(value)
    trace["gaps"] = [None if math.isinf(gap) else gap for gap in trace["gaps"]]
    return {
        **trace,
        "total_seconds": elapsed,
        "fit_seconds": 0.0,
        "fit_complete": True,
        "model_loss": report.loss,
    }
