"""Many parameter vectors on one plan: each as a run of its own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest.errors import ArgumentError, ImpossibleModelError, MeasurementError, ShapeError
from pgmest.inference.exact import belief_propagation, many_runs
from pgmest.inference.exact.belief_propagation import ExactOracle
from tests.inference.exact.test_belief_propagation import EXAMPLES, indicators
from tests.inference.problems import Problem, limited, limits, problems

pytestmark = pytest.mark.filterwarnings("error")
quick = settings(max_examples=120, deadline=None)
INF = np.inf


def variants(problem: Problem, vectors: int) -> np.ndarray:
    """Shape (vectors, cells): the problem's potentials, in turn as they are, shifted, scaled and permuted in sign."""
    rng = np.random.default_rng(problem.seed)
    rows = [problem.theta * rng.choice([0.1, 1.0, -1.0]) + rng.normal() for _ in range(vectors)]
    rows = [np.where(np.isposinf(row), -INF, row) for row in rows]
    return np.array(rows).reshape(vectors, problem.layout.cells)


def truth(problem: Problem, theta: np.ndarray, total: float) -> tuple[np.ndarray, float] | None:
    try:
        return problem.truth.run(theta, total)
    except ImpossibleModelError:
        return None


@pytest.fixture(params=["interleaved", "in turn", "one after the other"])
def way(request, monkeypatch):
    """Each of the three ways in which vectors run."""
    monkeypatch.setattr(many_runs, "THREAD_CELLS", 1)
    monkeypatch.setattr(many_runs, "FEWEST", 2 if request.param == "interleaved" else 1000)
    if request.param == "one after the other":
        monkeypatch.setattr(many_runs, "WORKSPACE_CELLS", 0)
    return request.param


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_examples(name, threads, way):
    problem = EXAMPLES[name]
    thetas, totals = variants(problem, 7), np.arange(1.0, 8.0)
    oracle = problem.exact(threads)
    mus, logs = oracle.run_many(thetas, totals)
    assert mus.shape == thetas.shape
    for k in range(7):
        expected, log_partition = problem.truth.run(thetas[k], totals[k])
        assert np.allclose(mus[k], expected, rtol=0, atol=1e-12 * totals[k])
        assert np.isclose(logs[k], log_partition, rtol=1e-13, atol=1e-13)
    assert oracle.calls == 7


@quick
@given(problems(), limits(), st.integers(1, 3), st.integers(1, 9), st.sampled_from([2, 1000]))
def test_they_agree_with_brute_force(problem, thresholds, threads, vectors, fewest):
    thetas = variants(problem, vectors)
    expected = [truth(problem, theta, 2.0) for theta in thetas]
    with limited(thresholds), pytest.MonkeyPatch.context() as patch:
        patch.setattr(many_runs, "FEWEST", fewest)
        patch.setattr(many_runs, "THREAD_CELLS", 1)
        oracle = problem.exact(threads)
        if None in expected:
            with pytest.raises(ImpossibleModelError, match=f"of vector {expected.index(None)} is"):
                oracle.run_many(thetas, 2.0)
            return
        mus, logs = oracle.run_many(thetas, 2.0)
    for k, pair in enumerate(expected):
        assert pair is not None
        assert np.abs(mus[k] - pair[0]).max(initial=0) <= 1e-10
        assert abs(logs[k] - pair[1]) <= 1e-10 * max(1, abs(pair[1]))
        assert (mus[k][np.isneginf(thetas[k])] == 0).all()


def test_impossible_vectors_leave_the_others_alone(way):
    problem = EXAMPLES["a cycle"]
    thetas = variants(problem, 6)
    thetas[[2, 4]] = -INF
    out = np.zeros_like(thetas)
    with pytest.raises(ImpossibleModelError, match=r"vector 2 is -inf.* as with 2 of 6 vectors"):
        problem.exact(2).run_many(thetas, 1.0, out)
    for k in (0, 1, 3, 5):
        assert np.allclose(out[k], indicators(problem) @ joint(problem, thetas[k]), atol=1e-12)


def joint(problem: Problem, theta: np.ndarray) -> np.ndarray:
    log_joint = problem.truth.log_joint(theta).values.reshape(-1)
    weights = np.exp(log_joint - log_joint.max())
    return weights / weights.sum()


def test_contracted_sweeps_run_many_and_what_they_refuse_runs_by_the_kernels(monkeypatch):
    monkeypatch.setattr(belief_propagation, "CONTRACTED_CELLS", 0)
    monkeypatch.setattr(belief_propagation, "NANOSECONDS_A_CELL", INF)
    problem = Problem({"a": 2, "b": 2}, (("a", "b"), ("b",), ("a",)))
    far = np.array([0.0, -900.0, -900.0, -1.0, -900.0, 0.0, 0.0, -900.0])
    oracle = problem.exact()
    assert oracle.contracted is not None
    mus, _ = oracle.run_many(np.array([problem.theta, far]), 3.0)
    for mu, theta in zip(mus, (problem.theta, far), strict=True):
        assert np.allclose(mu, problem.truth.run(theta, 3.0)[0], atol=1e-12)


def test_nothing_is_read_of_the_last_run_afterwards(way):
    problem = EXAMPLES["a cycle"]
    oracle = problem.exact()
    oracle.run(problem.theta)
    oracle.run_many(variants(problem, 3))
    with pytest.raises(ArgumentError, match="call run"):
        oracle.covariance(problem.direction())
    oracle.run(problem.theta)
    other = problem.exact()
    other.run(problem.theta)
    assert np.array_equal(oracle.covariance(problem.direction()), other.covariance(problem.direction()))


def test_no_vectors_and_any_memory_order(way):
    problem = EXAMPLES["a chain"]
    oracle = problem.exact(2)
    mus, logs = oracle.run_many(np.empty((0, problem.layout.cells)))
    assert mus.shape == (0, problem.layout.cells)
    assert logs.shape == (0,)
    thetas = variants(problem, 5)
    expected = oracle.run_many(thetas)[0].copy()
    assert np.array_equal(oracle.run_many(np.asfortranarray(thetas))[0], expected)
    out = np.empty_like(thetas)
    assert oracle.run_many(thetas, out=out)[0] is out
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("bad", [np.nan, INF])
def test_what_is_no_logarithm_is_refused(way, bad):
    problem = EXAMPLES["a cycle"]
    thetas = variants(problem, 6)
    thetas[4, 1] = bad
    with pytest.raises(MeasurementError, match="vector 4 of potentials holds NaN"):
        problem.exact(2).run_many(thetas)


def test_what_is_no_batch_is_refused():
    problem = EXAMPLES["a chain"]
    oracle = problem.exact()
    with pytest.raises(ShapeError, match=r"\(vectors, 20\) of float64"):
        oracle.run_many(problem.theta)
    with pytest.raises(ShapeError, match="float32"):
        oracle.run_many(variants(problem, 2).astype(np.float32))
    with pytest.raises(ShapeError, match="out"):
        oracle.run_many(variants(problem, 2), out=np.empty((3, 20)))
    with pytest.raises(ShapeError, match="total"):
        oracle.run_many(variants(problem, 2), np.ones(3))


def test_small_models_are_interleaved_and_large_ones_not():
    small, large = EXAMPLES["a cycle"].plan(), Problem(dict.fromkeys("abc", 60), (("a", "b", "c"),)).plan()
    assert many_runs.interleaved(small, 1000, 2) == many_runs.MOST
    assert many_runs.interleaved(small, 40, 2) == 16
    assert many_runs.interleaved(small, 7, 1) == 1
    assert many_runs.interleaved(large, 1000, 2) == 1
    assert isinstance(ExactOracle(small, 2), ExactOracle)
