"""Equivalent potentials: the same distribution, and contraction where it would be refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.inference.exact import agreeing_potentials
from pgmest.inference.exact.agreeing_potentials import (
    LONGEST_BACKOFF,
    PATIENCE,
    AgreeingPotentials,
    diffused,
    shared_attributes,
)
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.contracted_sweeps import ContractedSweeps
from tests.inference.exact.test_belief_propagation import indicators
from tests.inference.problems import Problem, problems

pytestmark = pytest.mark.filterwarnings("error")
quick = settings(max_examples=150, deadline=None)

CYCLE = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("b",), ("a", "b", "d"))
SIZES = {"a": 3, "b": 4, "c": 2, "d": 3}


def sum_of_maxima(problem: Problem, theta: np.ndarray) -> float:
    return float(np.maximum.reduceat(theta, problem.layout.offsets[:-1]).sum())


def drifted(problem: Problem, by: float, seed: int = 0) -> np.ndarray:
    """The problem's potentials, with large functions of what cliques share moved between these."""
    theta, rng = problem.theta.copy(), np.random.default_rng(seed)
    for shared in shared_attributes(problem.layout):
        first, *_, last = shared.tables(theta)
        move = by * rng.normal(size=first.shape[: shared.axes])
        for table, sign in ((first, 1.0), (last, -1.0)):
            table += sign * move.reshape(*move.shape, *[1] * (table.ndim - shared.axes))
    return theta


@quick
@given(problem=problems(magnitudes=(1.0, 1e3)), passes=st.integers(1, 3), seed=st.integers(0, 10))
def test_a_shift_changes_no_record_of_any_potentials(problem, passes, seed):
    """Also of potentials that allow what those it was found for exclude."""
    if not problem.cliques:
        return
    shift = diffused(problem.theta, np.zeros(problem.layout.cells), shared_attributes(problem.layout), passes)
    assert np.isfinite(shift).all()
    other = np.random.default_rng(seed).normal(size=problem.layout.cells)
    before, after = (problem.truth.log_joint(theta).values for theta in (other, other + shift))
    assert np.allclose(after, before, rtol=0, atol=1e-9)


@quick
@given(problem=problems(magnitudes=(1.0, 1e3), zeros=(0.0, 0.1)))
def test_the_sum_of_maxima_falls_to_no_less_than_the_best_record(problem):
    if not problem.layout.cells or not problem.possible:
        return
    shared, shift = shared_attributes(problem.layout), np.zeros(problem.layout.cells)
    best, before = problem.truth.maximum(problem.theta), sum_of_maxima(problem, problem.theta)
    for _ in range(4):
        shift = diffused(problem.theta, shift, shared, passes=1)
        now = sum_of_maxima(problem, problem.theta + shift)
        assert best - 1e-9 <= now <= before + 1e-9
        before = now


def test_cliques_of_a_chain_agree_in_the_end():
    problem = Problem({"a": 3, "b": 4, "c": 2, "d": 3}, (("a", "b"), ("b", "c"), ("c", "d")), magnitude=100.0)
    shift = diffused(problem.theta, np.zeros(problem.layout.cells), shared_attributes(problem.layout), passes=200)
    assert sum_of_maxima(problem, problem.theta + shift) == pytest.approx(problem.truth.maximum(problem.theta))


def test_shared_attributes_are_the_intersections_of_two_cliques():
    layout = Problem(SIZES, (("a", "b", "c"), ("c", "b", "d"), ("d",), ("a",))).layout
    views = shared_attributes(layout)
    assert [shared.axes for shared in views] == [2, 1, 1]
    flat = np.arange(layout.cells)
    first, second = views[0].tables(flat)
    assert first.shape[:2] == second.shape[:2] == (SIZES["b"], SIZES["c"])
    assert first[1, 0, 2] == 2 * 8 + 1 * 2 + 0
    assert second[1, 0, 2] == layout.offsets[1] + 0 * 12 + 1 * 3 + 2


@pytest.mark.parametrize("by", [500.0, 1e4])
def test_potentials_that_drifted_apart_are_contracted_after_some_refusals(by):
    problem = Problem(SIZES, CYCLE)
    theta, mu = drifted(problem, by), np.empty(problem.layout.cells)
    sweeps = ContractedSweeps.of(problem.layout, problem.plan().tree)
    found = [sweeps.run(theta, 1.0, mu) for _ in range(PATIENCE + 2)]
    assert found[: PATIENCE - 1] == [None] * (PATIENCE - 1)
    truth, log_partition = problem.truth.run(problem.theta)
    assert found[PATIENCE - 1 :] == pytest.approx([log_partition] * 3, abs=1e-9)
    assert np.allclose(mu, truth, rtol=0, atol=1e-10)
    other = Problem(SIZES, CYCLE, seed=5)
    sweeps.run(other.theta + (theta - problem.theta), 1.0, mu)  # the same drift, of another distribution
    assert np.allclose(mu, indicators(other) @ other.joint.reshape(-1), rtol=0, atol=1e-10)


@quick
@given(problem=problems(), runs=st.integers(1, 3 * PATIENCE), later=st.integers(0, 100))
def test_what_was_refused_before_changes_no_result(problem, runs, later):
    """Earlier potentials do not matter, even if they made all records impossible."""
    if not problem.layout.cells:
        return
    oracle = problem.exact()
    sweeps, mu = oracle.contracted, np.empty(problem.layout.cells)
    for _ in range(runs):
        sweeps.run(problem.theta, 1.0, mu)
    other = Problem(problem.sizes, problem.cliques, seed=later)
    for _ in range(PATIENCE + 1):
        found, log_partition = oracle.run(other.theta)
        assert np.allclose(found, indicators(other) @ other.joint.reshape(-1), rtol=0, atol=1e-10)
        assert log_partition == pytest.approx(other.truth.run(other.theta)[1], abs=1e-9)


def test_many_vectors_that_drifted_apart_are_right():
    problem = Problem({name: 8 * size for name, size in SIZES.items()}, CYCLE)
    oracle = ExactOracle(problem.plan(), threads=1)
    thetas = np.stack([drifted(problem, by, seed) for seed, by in enumerate((0.0, 900.0, 800.0, 700.0, 600.0, 1e3))])
    mus, logs = zip(*(oracle.run(theta) for theta in thetas), strict=True)
    for mu, log_partition in zip(mus, logs, strict=True):
        assert np.allclose(mu, mus[0], rtol=0, atol=1e-10)
        assert log_partition == pytest.approx(logs[0], abs=1e-9)


def test_where_it_does_not_help_it_is_tried_ever_more_rarely(monkeypatch):
    """Maxima that exclude one another inside the cliques, whatever is moved between them."""
    tried = []
    monkeypatch.setattr(agreeing_potentials, "diffused", lambda theta, shift, *more: tried.append(1) or shift)
    layout = Problem(SIZES, CYCLE).layout
    potentials, theta = AgreeingPotentials(layout), np.zeros(layout.cells)
    runs = [not potentials.skip() and potentials.renew(theta) for _ in range(10 * LONGEST_BACKOFF)]
    places = np.flatnonzero(runs)
    assert len(places) == len(tried)
    rests = (np.diff(places) - 1).tolist()
    assert places[0] == PATIENCE - 1
    assert rests[:5] == [PATIENCE, 2 * PATIENCE, 4 * PATIENCE, 8 * PATIENCE, 16 * PATIENCE]
    assert max(rests) == rests[-1] == LONGEST_BACKOFF
    potentials.accept()
    runs = [not potentials.skip() and potentials.renew(theta) for _ in range(PATIENCE)]
    assert runs == [False] * (PATIENCE - 1) + [True]


def test_marginals_do_not_depend_on_what_was_asked_before():
    """To the last bit: an oracle that `pg.marginals` keeps forgets what it was given."""
    large = Problem({name: 8 * size for name, size in SIZES.items()}, CYCLE)
    far, near = (pg.CliqueVector.of(large.layout, drifted(large, by)) for by in (900.0, 0.3))
    first, other = (pg.marginals(vector).flat.copy() for vector in (far, near))
    for _ in range(2 * PATIENCE):  # in a row: what is accepted in between would begin the count of refusals anew
        assert np.array_equal(pg.marginals(far).flat, first)
    assert np.array_equal(pg.marginals(near).flat, other)


def test_without_a_shift_potentials_are_left_as_they_are():
    problem = Problem(SIZES, CYCLE)
    theta = drifted(problem, 900.0)
    potentials = AgreeingPotentials(problem.layout)
    assert potentials.shifted(theta) is theta
    assert any(potentials.renew(theta) for _ in range(PATIENCE))
    assert potentials.shifted(theta) is not theta
    potentials.reset()
    assert potentials.shifted(theta) is theta
