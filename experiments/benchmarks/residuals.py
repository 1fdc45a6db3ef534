"""All pairs of many attributes: measured as residuals, made non-negative locally, and turned into records.

No junction tree could hold these pairs. Each case runs in a process of its own, which says how long each step took, how
much memory it needed, and how far the answers and the records are from the truth.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from experiments import problems
from experiments.benchmarks import memory
from experiments.benchmarks.worker import WorkerFailed, apart
from pgmest.data.dataset import Dataset
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms import HDMM
from pgmest.simulation import simulate_measurements
from pgmest.synthesis import locally_nonnegative
from pgmest.tables.domain import Clique
from pgmest.workloads import all_kway

RHO = 0.5
CASES = {f"{attributes} attributes": attributes for attributes in (30, 100, 300, 1000)}
SLOW = ("300 attributes", "1000 attributes")
RECORDS = 1_000_000
COUNTED_AT_ONCE = 40_000
QUICK_RECORDS = 100_000
FEWER_RECORDS = {1000: 20_000}
"""The number of records for many attributes. The usual number would take hours: each code is in 999 tables."""

COMPARED = 500
"""Pairs whose errors are averaged."""
SECONDS_AT_MOST = 4 * 3600.0
PEER_CASES = {f"{attributes} attributes, mbi": attributes for attributes in (30, 100)}
PEER_STEPS, PEER_ITERATIONS, PEER_SECONDS = (1.0, 10.0), 200, 600.0
"""mbi's convex oracle in mirror descent with fixed steps: it has no line search."""


def run_case(name: str, quick: bool) -> dict[str, Any]:
    """Everything about one number of attributes."""
    return apart(measure, CASES[name], QUICK_RECORDS if quick else RECORDS, timeout=SECONDS_AT_MOST)


def run_peers(name: str, quick: bool) -> dict[str, Any]:
    """Estimate the same noisy pairs by local non-negativity and by mbi, each in a process with a time limit."""
    given = PEER_CASES[name], QUICK_RECORDS if quick else RECORDS
    result: dict[str, Any] = {"problem": name, "mbi": {}, **apart(measure_local, *given)}
    for step in PEER_STEPS:
        try:
            result["mbi"][f"{step:g}"] = apart(measure_peer, *given, step, timeout=PEER_SECONDS)
        except WorkerFailed as error:
            result["mbi"][f"{step:g}"] = {"ended": str(error)}
            break  # another step compiles the same program
    return result


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
            with _timed(result, "plan"):
                result["expected_error"] = mechanism.plan(data.domain, workload).expected_error
        with _timed(result, estimator):
            fitted = mechanism.fit(data, workload, seed=0)
        errors[estimator] = _distance(data, fitted.model, compared)
    result["megabytes"] = memory.peak_megabytes() - before
    result["errors"] = errors
    with _timed(result, "counting"):
        for begin in range(0, len(pairs), COUNTED_AT_ONCE):  # as the mechanism has them counted
            data.project_many(pairs[begin : begin + COUNTED_AT_ONCE])
    with _timed(result, "records"):
        made = fitted.sample(FEWER_RECORDS.get(attributes, min(records, QUICK_RECORDS)), seed=0)
    result["records_made"] = made.records
    result["records_to_model"] = fitted.model.distance(made)
    result["records_to_truth"] = _distance(data, made, compared)
    return result


@contextlib.contextmanager
def _timed(result: dict[str, Any], step: str) -> Iterator[None]:
    """Notes the seconds of a step, and those that processors spent on it, which other processes inflate less."""
    started, spent = time.perf_counter(), time.process_time()
    yield
    result[f"{step}_seconds"] = time.perf_counter() - started
    result[f"{step}_processor_seconds"] = time.process_time() - spent
    print(f"{step}: {result[f'{step}_processor_seconds']:.1f} s of processors", file=sys.stderr, flush=True)


def _noisy_pairs(attributes: int, records: int) -> tuple[Dataset, list[LinearMeasurement]]:
    """All pairs, each with the noise that residuals would leave in it."""
    data = problems.chain_records(attributes, records)
    pairs = list(itertools.combinations(data.domain, 2))
    noise = HDMM(rho=RHO, estimator="local").plan(data.domain, all_kway(data.domain, 2)).expected_error
    return data, simulate_measurements(data, pairs, noise, seed=0)


def measure_local(attributes: int, records: int) -> dict[str, Any]:
    """Seconds and mean distance to the truth of `locally_nonnegative` on noisy pairs, and of these themselves."""
    data, measurements = _noisy_pairs(attributes, records)
    locally_nonnegative(measurements[:1], data.domain)  # its kernel is loaded
    result: dict[str, Any] = {}
    with _timed(result, "local"):
        found = locally_nonnegative(measurements, data.domain)
    tables = {table.domain.attributes: table.values for table in found.tables}
    noisy = {m.clique: m.values for m in measurements}
    return {"seconds": result["local_seconds"], "error": _tables_off(data, tables), "noisy": _tables_off(data, noisy)}


def measure_peer(attributes: int, records: int, step: float) -> dict[str, Any]:
    """Measure mbi's mirror descent with its convex oracle; seconds with and without compilation."""
    from experiments.benchmarks.peers import approximate_marginals

    data, measurements = _noisy_pairs(attributes, records)
    started = time.perf_counter()
    seconds, found = approximate_marginals(measurements, data.domain, float(records), step, PEER_ITERATIONS)
    tables = {clique: table.values for clique, table in found.items()}
    return {
        "seconds": seconds,
        "compiled_seconds": time.perf_counter() - started,
        "error": _tables_off(data, tables),
    }


def _tables_off(data: Dataset, tables: Mapping[Clique, np.ndarray]) -> float:
    """The mean total variation distance of tables from the truth, as fractions of their totals."""
    found = zip(data.project_many(tables), tables.values(), strict=True)
    apart_by = [np.abs(one.values.ravel() / one.values.sum() - two.ravel() / two.sum()).sum() / 2 for one, two in found]
    return float(np.mean(apart_by))


def _distance(data: Any, other: Any, pairs: list[tuple[str, ...]]) -> float:
    """The mean total variation distance of marginals, as fractions of their totals."""
    apart_by = []
    for pair in pairs:
        truth, found = data.project(pair).values, other.project(pair).values
        apart_by.append(np.abs(truth / truth.sum() - found / found.sum()).sum() / 2)
    return float(np.mean(apart_by))
