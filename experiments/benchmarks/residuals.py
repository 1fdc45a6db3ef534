"""All pairs of many attributes: measured as residuals, made non-negative locally, and turned into records.

No junction tree could hold these pairs. Each case runs in a process of its own, which says how long each step took, how
much memory it needed, and how far the answers and the records are from the truth.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np

from experiments import problems
from experiments.benchmarks import memory
from experiments.benchmarks.worker import apart
from pgmest.mechanisms import HDMM
from pgmest.queries.workloads import all_kway

RHO = 0.5
CASES = {f"{attributes} attributes": attributes for attributes in (30, 100, 300, 1000)}
SLOW = ("300 attributes", "1000 attributes")
RECORDS = 1_000_000
QUICK_RECORDS = 100_000
COMPARED = 500
"""Pairs whose errors are averaged."""


def run_case(name: str, quick: bool) -> dict[str, Any]:
    """Everything about one number of attributes."""
    return apart(measure, CASES[name], QUICK_RECORDS if quick else RECORDS)


def measure(attributes: int, records: int) -> dict[str, Any]:
    """Seconds of each step, peak megabytes above the records, and mean total variation distances."""
    data = problems.chain_records(attributes, records)
    workload = all_kway(data.domain, 2)
    rng = np.random.default_rng(0)
    pairs = list(itertools.combinations(data.domain, 2))
    compared = [pairs[place] for place in rng.permutation(len(pairs))[:COMPARED]]
    result: dict[str, Any] = {"problem": f"{attributes} attributes", "records": records, "pairs": len(pairs)}
    before = memory.resident_megabytes()
    memory.forget_peak()
    errors = {}
    for estimator in ("original", "local"):
        mechanism = HDMM(rho=RHO, estimator=estimator, backend="simulation")
        if estimator == "original":
            started = time.perf_counter()
            plan = mechanism.plan(data.domain, workload)
            result["plan_seconds"] = time.perf_counter() - started
            result["expected_error"] = plan.expected_error
        started = time.perf_counter()
        fitted = mechanism.fit(data, workload, seed=0)
        result[f"{estimator}_seconds"] = time.perf_counter() - started
        errors[estimator] = _distance(data, fitted.model, compared)
    result["megabytes"] = memory.peak_megabytes() - before
    result["errors"] = errors
    started = time.perf_counter()
    made = fitted.sample(min(records, QUICK_RECORDS), seed=0)
    result["records_seconds"] = time.perf_counter() - started
    result["records_made"] = made.records
    result["records_to_model"] = fitted.model.distance(made)
    result["records_to_truth"] = _distance(data, made, compared)
    return result


def _distance(data: Any, other: Any, pairs: list[tuple[str, ...]]) -> float:
    """The mean total variation distance of marginals, as fractions of their totals."""
    apart_by = []
    for pair in pairs:
        truth, found = data.project(pair).values, other.project(pair).values
        apart_by.append(np.abs(truth / truth.sum() - found / found.sum()).sum() / 2)
    return float(np.mean(apart_by))
