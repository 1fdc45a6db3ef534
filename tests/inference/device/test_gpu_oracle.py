"""The oracle on a GPU against the full joint table; without one its kernels run in numba's simulator."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import (
    ArgumentError,
    DeviceError,
    ImpossibleModelError,
    MeasurementError,
    ModelTooLarge,
    ShapeError,
)
from pgmest.inference.device import gpu_oracle, loading, operands, schedule, schedule_nodes
from pgmest.inference.device.gpu_oracle import GpuOracle
from tests.inference.device.conftest import SIMULATED
from tests.inference.exact.test_belief_propagation import EXAMPLES
from tests.inference.problems import Problem, limited, limits, problems

few = settings(max_examples=40, deadline=None)
INF = np.inf


def device_limits() -> st.SearchStrategy[dict[str, Any]]:
    """Thresholds under which tiny tables are shared between blocks, grouped, looked up and run step by step."""
    return st.fixed_dictionaries(
        {
            "GROUP_RATIO": st.sampled_from([1, 2, 64]),
            "LOW_CELLS": st.sampled_from([1, 4, 4096]),
            "LEAST_CHUNK": st.sampled_from([1, 32]),
            "CELLS_A_THREAD": st.sampled_from([(1, 1), (4, 16)]),
            "FUSED_BLOCKS": st.sampled_from([0, 2, 100]),
        }
    )


HOLDERS = {"FUSED_BLOCKS": gpu_oracle, "GROUP_RATIO": schedule_nodes, "LOW_CELLS": operands}
"""The modules of thresholds that are not in `schedule`."""


@contextlib.contextmanager
def device_limited(limits: dict[str, Any]) -> Iterator[None]:
    """Within this context the thresholds have other values."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(HOLDERS.get(name, schedule), name, value)
        yield


SHARED = {"GROUP_RATIO": 1, "LOW_CELLS": 1, "LEAST_CHUNK": 1, "CELLS_A_THREAD": (1, 1), "FUSED_BLOCKS": 0}
SMALL = Problem({"a": 2, "b": 3, "c": 2}, (("a", "b"), ("b", "c")))


# -- marginals and the log-partition function -------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("limits", [{}, SHARED], ids=["fused", "shared"])
def test_examples(name, limits):
    problem = EXAMPLES[name]
    with device_limited(limits):
        mu, log_partition = GpuOracle(problem.plan()).run(problem.theta, 250.0)
    expected, expected_partition = problem.truth.run(problem.theta, 250.0)
    np.testing.assert_allclose(mu, expected, rtol=0, atol=250e-12)
    assert log_partition == pytest.approx(expected_partition, rel=1e-13, abs=1e-13)


@few
@given(problems(), limits(), device_limits())
def test_it_agrees_with_brute_force(problem, thresholds, device_thresholds):
    with limited(thresholds), device_limited(device_thresholds):
        oracle = GpuOracle(problem.plan())
        if not problem.possible:
            with pytest.raises(ImpossibleModelError, match="structural zeros"):
                oracle.run(problem.theta)
            return
        mu, log_partition = oracle.run(problem.theta)
        best = oracle.maximum(problem.theta)
    truth, expected = problem.truth.run(problem.theta)
    assert np.abs(mu - truth).max(initial=0) <= 1e-10
    assert log_partition == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert best == pytest.approx(problem.truth.maximum(problem.theta), rel=1e-13, abs=1e-13)
    assert oracle.calls == 2


@few
@given(problems(), device_limits())
def test_float32_is_within_the_stated_error(problem, device_thresholds):
    assume(problem.possible)
    single = problem.theta.astype(np.float32)
    with device_limited(device_thresholds):
        mu, log_partition = GpuOracle(problem.plan(), np.float32).run(single, 3.0)
    expected, expected_partition = problem.truth.run(single.astype(np.float64), 3.0)
    finite = single[np.isfinite(single)]
    largest = float(np.abs(finite).max(initial=0.0)) * len(problem.cliques) + 10.0
    share = 2.0**-24 * (100.0 + 2.0 * largest * (1 + len(problem.plan().tree.cliques)))
    assert mu.dtype == np.float32
    assert not np.isnan(mu).any()
    np.testing.assert_allclose(mu, expected, rtol=share, atol=3.0 * share * 1e-3 + 1e-12)
    assert log_partition == pytest.approx(expected_partition, abs=share, rel=share)


@pytest.mark.parametrize("limits", [{}, SHARED], ids=["fused", "shared"])
def test_the_blocks_of_a_step_do_not_wait_for_each_other(limits):
    problem = Problem({"a": 3, "b": 4, "c": 3, "d": 2, "e": 3}, (("a", "b", "c"), ("c", "d"), ("b", "e"), ("e", "a")))
    with device_limited(limits):
        oracle = GpuOracle(problem.plan())
        expected, log_partition = oracle.run(problem.theta)
        found = oracle.schedule
        blocks = [found.blocks[a:b][::-1] for a, b in zip(found.steps[:-1], found.steps[1:], strict=True)]
        other = GpuOracle(problem.plan())
        other.schedule = dataclasses.replace(found, blocks=np.concatenate(blocks))
        mu, same = other.run(problem.theta)
    np.testing.assert_array_equal(mu, expected)  # to the last bit
    assert same == log_partition


def test_many_small_tables_in_one_clique_meet_in_groups(monkeypatch):
    monkeypatch.setattr(schedule_nodes, "GROUP_RATIO", 4)
    problem = Problem(dict.fromkeys("abcdef", 2), tuple(combinations("abcdef", 2)))
    oracle = GpuOracle(problem.plan())
    clique_cells = int(oracle.schedule.passes[:, 1].max())  # of the largest pass by entries: a group's own
    assert clique_cells == 16
    np.testing.assert_allclose(oracle.run(problem.theta)[0], problem.truth.run(problem.theta)[0], atol=1e-14)


@pytest.mark.parametrize("value", [np.nan, INF])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_nan_is_never_returned(value):
    theta = SMALL.theta.copy()
    theta[0] = value
    with pytest.raises(ImpossibleModelError):
        GpuOracle(SMALL.plan()).run(theta)


# -- many vectors -----------------------------------------------------------------------------------------------------


@few
@given(problems(max_attributes=4), st.integers(0, 5), st.sampled_from([1, 2, 100]), device_limits())
def test_many_vectors_are_as_many_runs(problem, vectors, batch, device_thresholds):
    assume(problem.possible)
    rng = np.random.default_rng(problem.seed)
    thetas = np.array([problem.theta * rng.choice([0.1, 1.0]) + rng.normal() for _ in range(vectors)])
    thetas, totals = thetas.reshape(vectors, problem.layout.cells), np.arange(1.0, vectors + 1)
    with device_limited(device_thresholds), pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_oracle, "MOST_VECTORS", batch)
        patch.setattr(gpu_oracle, "MANY_VECTORS", 2)
        oracle = GpuOracle(problem.plan())
        mus, logs = oracle.run_many(thetas, totals)
    assert mus.shape == thetas.shape
    assert oracle.calls == vectors
    for theta, total, mu, log_partition in zip(thetas, totals, mus, logs, strict=True):
        expected, expected_partition = problem.truth.run(theta, total)
        assert np.abs(mu - expected).max(initial=0) <= 1e-10 * total
        assert log_partition == pytest.approx(expected_partition, rel=1e-12, abs=1e-12)


def test_what_is_wrong_with_many_vectors_is_named():
    oracle, thetas = GpuOracle(SMALL.plan()), np.stack([SMALL.theta] * 3)
    thetas[1] = -INF
    with pytest.raises(ImpossibleModelError, match="vector 1"):
        oracle.run_many(thetas)
    thetas[2, 0] = np.nan
    with pytest.raises(MeasurementError, match="vector 2"):
        oracle.run_many(thetas)
    with pytest.raises(ShapeError, match="total"):
        oracle.run_many(thetas, np.ones(2))
    with pytest.raises(ShapeError, match=r"\(vectors, 12\)"):
        oracle.run_many(SMALL.theta)


# -- arrays -----------------------------------------------------------------------------------------------------------


def test_arrays_on_the_device_stay_there():
    from numba import cuda

    oracle, (expected, _) = GpuOracle(SMALL.plan()), SMALL.truth.run(SMALL.theta, 2.0)
    theta, out = cuda.to_device(SMALL.theta), cuda.device_array(SMALL.layout.cells)
    mu, _ = oracle.run(theta, 2.0)
    np.testing.assert_allclose(mu.copy_to_host(), expected, atol=1e-14)
    assert oracle.run(theta, 2.0, out)[0] is out
    np.testing.assert_allclose(out.copy_to_host(), expected, atol=1e-14)
    assert oracle.maximum(theta) == oracle.maximum(SMALL.theta)
    thetas = np.stack([SMALL.theta, 2 * SMALL.theta])
    mus, _ = oracle.run_many(cuda.to_device(thetas))
    np.testing.assert_allclose(mus.copy_to_host(), SMALL.exact().run_many(thetas)[0], atol=1e-14)
    host = np.empty(SMALL.layout.cells)
    assert oracle.run(theta, 2.0, host)[0] is host
    np.testing.assert_allclose(host, expected, atol=1e-14)
    double = SMALL.exact()
    double.run(SMALL.theta, 2.0)
    np.testing.assert_allclose(oracle.covariance(SMALL.direction()), double.covariance(SMALL.direction()))


def test_a_sweep_over_the_same_arrays_is_captured_once(monkeypatch):
    """The capture itself needs a device; here what it captures is launched again."""
    if not SIMULATED:
        pytest.skip("on a device all tests that run twice capture")
    sweeps: list[int] = []

    def recorded(cuda, launch):
        sweeps.append(0)

        def replay() -> None:
            sweeps[-1] += 1
            launch(0)

        return replay

    monkeypatch.setattr(gpu_oracle, "captured", recorded)
    monkeypatch.setattr(gpu_oracle, "_address", lambda array: array.size)
    oracle = GpuOracle(SMALL.plan())
    for scale in (1.0, 2.0, 3.0):
        mu, _ = oracle.run(scale * SMALL.theta, scale)
        np.testing.assert_allclose(mu, SMALL.truth.run(scale * SMALL.theta, scale)[0], atol=1e-14)
    assert sweeps == [2]  # not the first
    oracle.maximum(SMALL.theta)
    oracle.maximum(SMALL.theta)
    assert sweeps == [2, 1]
    oracle.run_many(np.stack([SMALL.theta] * 4))  # in larger buffers
    np.testing.assert_allclose(oracle.run(SMALL.theta)[0], SMALL.truth.run(SMALL.theta)[0], atol=1e-14)
    assert sweeps == [2, 1]


def test_float64_in_numpy_is_converted_for_float32():
    out = np.empty(SMALL.layout.cells)
    mu, _ = GpuOracle(SMALL.plan(), np.float32).run(SMALL.theta, 1.0, out)
    assert mu is out
    np.testing.assert_allclose(out, SMALL.truth.run(SMALL.theta)[0], atol=1e-6)


def test_the_rest_is_computed_on_the_processor():
    oracle, double = GpuOracle(SMALL.plan(), np.float32), SMALL.exact()
    with pytest.raises(ArgumentError, match="call run"):
        oracle.covariance(SMALL.direction())
    single = SMALL.theta.astype(np.float32)
    oracle.run(single, 3.0)
    double.run(single.astype(np.float64), 3.0)
    np.testing.assert_array_equal(oracle.covariance(SMALL.direction()), double.covariance(SMALL.direction()))
    np.testing.assert_array_equal(oracle.clique_table(0).values, double.clique_table(0).values)
    np.testing.assert_array_equal(oracle.max_marginals(SMALL.theta), double.max_marginals(SMALL.theta))
    assert oracle.map_record(SMALL.theta) == double.map_record(SMALL.theta)
    oracle.release()
    with pytest.raises(ArgumentError, match="call run"):
        oracle.clique_table(0)
    np.testing.assert_allclose(oracle.run(single)[0], SMALL.truth.run(SMALL.theta)[0], atol=1e-6)


def test_what_is_refused(monkeypatch):
    oracle = GpuOracle(SMALL.plan())
    with pytest.raises(ArgumentError, match="float64 or float32"):
        GpuOracle(SMALL.plan(), np.int32)
    with pytest.raises(ShapeError, match="theta"):
        oracle.run(SMALL.theta[:-1])
    with pytest.raises(ShapeError, match="float32"):
        oracle.run(SMALL.theta, out=np.empty(12, dtype=np.float32))
    monkeypatch.setattr(gpu_oracle, "free_bytes", lambda cuda: 100)
    with pytest.raises(ModelTooLarge, match=r"potentials 96 bytes.*100 bytes of its memory are free.*float32"):
        oracle.run(SMALL.theta)
    assert not oracle._buffers


def test_without_a_device(monkeypatch):
    from numba import cuda

    monkeypatch.setattr(cuda, "is_available", lambda: False)
    monkeypatch.setattr(cuda, "cuda_error", lambda: "no driver", raising=False)
    loading.load_device_kernels.cache_clear()
    try:
        with pytest.raises(DeviceError, match=r"no driver.*pgmest\[gpu\]"):
            GpuOracle(SMALL.plan())
    finally:
        loading.load_device_kernels.cache_clear()


# -- how it is asked for ----------------------------------------------------------------------------------------------


def test_marginals():
    expected = pg.marginals(SMALL.vector, total=4.0)
    found = pg.marginals(SMALL.vector, total=4.0, oracle="gpu")
    np.testing.assert_allclose(found.flat, expected.flat, atol=1e-14)
    with pytest.raises(ArgumentError, match="gpu"):
        pg.marginals(SMALL.vector, oracle="tpu")  # pyright: ignore[reportArgumentType]
    with pytest.raises(MeasurementError, match="NaN"):
        pg.marginals(pg.CliqueVector.of(SMALL.layout, np.full(12, np.nan)), oracle="gpu")


def test_estimate():
    rng = np.random.default_rng(0)
    measurements = [
        pg.LinearMeasurement(100 + rng.normal(size=[SMALL.sizes[name] for name in clique]), clique, 1.0)
        for clique in SMALL.cliques
    ]
    expected = pg.estimate(measurements, SMALL.sizes, max_iterations=12)
    found = pg.estimate(measurements, SMALL.sizes, max_iterations=12, oracle="gpu")
    assert isinstance(found, type(expected))
    assert found.report.iterations == expected.report.iterations
    for clique in SMALL.cliques:
        np.testing.assert_allclose(found.project(clique).values, expected.project(clique).values, rtol=1e-9)


def test_estimate_with_functions():
    sizes, clique = {"a": 2, "b": 4, "c": 3}, ("b", "c")
    measurement = pg.LinearMeasurement(np.full((4, 3), 10.0), clique, 1.0)
    zeros = [pg.zeros.function("a", of="b", codes=[0, 0, 1, 1])]
    options = {"structural_zeros": zeros, "max_iterations": 12}
    expected = pg.estimate([measurement], sizes, **options)
    found = pg.estimate([measurement], sizes, **options, oracle="gpu")
    np.testing.assert_allclose(found.project("a").values, expected.project("a").values, atol=1e-9)
