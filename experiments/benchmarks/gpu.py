"""The exact oracle on a GPU against mbi's on the same one, and against our own on all processors.

Each side of each problem is measured in a process of its own, so that none finds the device's memory taken. JAX
computes in float32 unless it is told otherwise; mbi is measured in both precisions.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from experiments import problems
from experiments.benchmarks.timing import timed
from experiments.benchmarks.worker import WorkerFailed, apart
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.device.gpu_oracle import GpuOracle
from pgmest.inference.device.loading import load_device
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Domain

PRECISIONS = ("float64", "float32")
MBI_SCHEDULES = ("implicit", "hugin", "shafer_shenoy", "fast")
BLOCK = 1 << 20
"""Potentials are this many standard normal draws, over and over: a billion draws would take half a minute."""

PROCESSOR_CELLS = 2 * 10**8
"""The largest number of measured cells with which the oracle on the processor is measured beside."""


def _one_clique(values: int) -> Layout:
    return Layout.of(Domain(dict.fromkeys("abc", values)), [tuple("abc")])


def _all_of(attributes: int, values: int, size: int) -> Layout:
    """All cliques of one size among attributes that thus meet in one clique of the junction tree."""
    names = [f"a{i}" for i in range(attributes)]
    return Layout.of(Domain(dict.fromkeys(names, values)), list(combinations(names, size)))


def _band(values: int, attributes: int = 128) -> Layout:
    """Cliques (i, i + 1, i + 2)."""
    names = [f"a{i}" for i in range(attributes)]
    return Layout.of(Domain(dict.fromkeys(names, values)), [tuple(names[i : i + 3]) for i in range(attributes - 2)])


def _chain(attributes: int) -> Layout:
    return problems.chain(attributes).potentials().layout


CASES: dict[str, tuple[Callable[[], Layout], int]] = {
    "band-64": (functools.partial(_band, 64), 1),
    "band-256": (functools.partial(_band, 256), 1),
    "clique-1e8": (functools.partial(_one_clique, 464), 1),
    "clique-1e9": (functools.partial(_one_clique, 1000), 1),
    "pairs-1e8": (functools.partial(_all_of, 8, 10, 2), 1),
    "triples-1e8": (functools.partial(_all_of, 8, 10, 3), 1),
    "pairs-1e9": (functools.partial(_all_of, 9, 10, 2), 1),
    "chain-1000": (functools.partial(_chain, 1000), 1),
    "adult14-pairs x 1,000": (lambda: problems.adult14_pairs().potentials().layout, 1000),
    "chain-10 x 10,000": (functools.partial(_chain, 10), 10_000),
}
"""The cliques of each problem, and the number of parameter vectors that run at once. For the bands,
128 attributes with cliques of three neighbors, times on an A100 were published."""


def run_case(name: str, quick: bool) -> dict[str, Any]:
    """The times of one problem; what could not be measured is named in `errors`."""
    seconds = 0.2 if quick else 2.0
    layout, vectors = CASES[name][0](), CASES[name][1]
    tree = JunctionTree.from_cliques(layout.domain, layout.cliques, effort="low")
    result: dict[str, Any] = {
        "problem": name,
        "vectors": vectors,
        "cells": layout.cells,
        "tree_cells": tree.total_cells,
        "times": {},
        "errors": {},
    }
    sides: dict[str, functools.partial[Any]] = {
        f"GPU, {precision}": functools.partial(apart, measure_gpu, name, precision, seconds) for precision in PRECISIONS
    }
    if layout.cells * vectors <= PROCESSOR_CELLS:
        sides["processor"] = functools.partial(apart, measure_processor, name, seconds)
    if vectors == 1:
        sides |= {
            f"mbi {schedule}, {precision}": functools.partial(apart, measure_mbi, name, schedule, precision, seconds)
            for precision in PRECISIONS
            for schedule in MBI_SCHEDULES
        }
    for label, measure in sides.items():
        try:
            result["times"][label] = measure()
        except WorkerFailed as error:
            result["errors"][label] = str(error)
    return result


def potentials(name: str) -> tuple[Layout, np.ndarray]:
    """The cliques of a problem and its potentials, shape (cells,), or (vectors, cells) of several vectors."""
    layout, vectors = CASES[name][0](), CASES[name][1]
    flat = np.resize(np.random.default_rng(0).standard_normal(BLOCK), layout.cells * vectors)
    return layout, flat if vectors == 1 else flat.reshape(vectors, layout.cells)


def repeated(call: Callable[[], Any], seconds: float) -> float:
    """The median time of a call, of at least three and for about `seconds`."""
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        times.append(timed(call)[0])
    return float(np.median(times))


def measure_gpu(name: str, precision: str, seconds: float) -> dict[str, Any]:
    """Seconds until the first marginals are there, tree and plan included, and of a later call, arrays being on the
    device or in NumPy; and of the very first call of an installation, which compiles the kernels."""
    cuda, dtype = load_device(), np.dtype(precision).type
    layout, theta = potentials(name)
    theta = theta.astype(dtype)
    tiny = PropagationPlan.of(Layout.of(Domain({"a": 2}), [("a",)]))
    compiling, _ = timed(lambda: GpuOracle(tiny, dtype).run(np.zeros(2, dtype)))
    call = "run" if theta.ndim == 1 else "run_many"
    start = time.perf_counter()
    oracle = GpuOracle(PropagationPlan.of(layout), dtype)
    mu, _ = getattr(oracle, call)(theta)
    first = time.perf_counter() - start
    host = repeated(lambda: getattr(oracle, call)(theta, 1.0, mu), min(seconds, 1.0))
    oracle.release()
    there, out = cuda.to_device(theta), cuda.device_array(theta.shape, dtype)
    found: dict[str, Any] = {"compiling": compiling, "first": first, "later, NumPy": host}
    found["device"] = device_name(cuda)
    found["later"] = repeated(lambda: getattr(oracle, call)(there, 1.0, out), seconds)
    np.testing.assert_allclose(out.copy_to_host(), mu, rtol=0, atol=1e-6)
    if theta.size <= PROCESSOR_CELLS:
        expected = getattr(ExactOracle(oracle.plan), call)(theta.astype(np.float64))[0]
        found["difference"] = float(np.abs(mu - expected).max())
    return found


def device_name(cuda: Any) -> str:
    """Return the name of the device."""
    name = getattr(getattr(cuda.current_context(), "device", None), "name", "numba's simulator of a device")
    return name.decode() if isinstance(name, bytes) else str(name)


def measure_processor(name: str, seconds: float) -> dict[str, float]:
    """Measure the oracle on the processor, in float64, on all threads."""
    layout, theta = potentials(name)
    call = "run" if theta.ndim == 1 else "run_many"
    start = time.perf_counter()
    oracle = ExactOracle(PropagationPlan.of(layout))
    mu, _ = getattr(oracle, call)(theta)
    first = time.perf_counter() - start
    return {"first": first, "later": repeated(lambda: getattr(oracle, call)(theta, 1.0, mu), seconds)}


def measure_mbi(name: str, schedule: str, precision: str, seconds: float) -> dict[str, float]:
    """Seconds of mbi's first call, which compiles, and of a later one, its tables being on the device."""
    os.environ |= {"JAX_PLATFORMS": "cuda", "JAX_ENABLE_X64": "1" if precision == "float64" else "0"}
    from experiments.benchmarks.peers import PeerOracle

    layout, theta = potentials(name)
    oracle = PeerOracle(CliqueVector.of(layout, theta), schedule)
    first, _ = timed(oracle.run)
    return {"first": first, "later": repeated(oracle.run, seconds)}
