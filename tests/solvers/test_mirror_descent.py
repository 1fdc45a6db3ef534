"""Mirror descent as published (PGM Algorithm 1) with its three step rules, and its kinship with MWEM's update (E.2)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError
from pgmest.mechanisms.mwem.multiplicative_weights import MultiplicativeWeights
from pgmest.solvers import MirrorDescent
from pgmest.solvers.mirror_descent import Rule

DOMAIN = pg.Domain({"a": 2, "b": 3, "c": 2})
CLIQUES = (("a", "b"), ("b", "c"))


def noisy(seed: int, total: float = 50.0, scale: float = 3.0, noise: str = "gaussian") -> list[pg.LinearMeasurement]:
    """Marginals of a random table with noise; the matrices that the tests below use are `marginal_matrix`."""
    generator = np.random.default_rng(seed)
    table = pg.Factor(DOMAIN, total * generator.dirichlet(np.ones(DOMAIN.size())).reshape(DOMAIN.shape))
    return [
        pg.LinearMeasurement(table.project(c).values + scale * generator.standard_normal(DOMAIN.size(c)).reshape(
            DOMAIN.project(c).shape), c, stddev=1.0, noise=noise)
        for c in CLIQUES
    ]  # fmt: skip


def marginal_matrix(clique: tuple[str, ...]) -> np.ndarray:
    """The 0/1 matrix from the joint table, row-major, to a marginal."""
    cells = np.indices(DOMAIN.shape).reshape(len(DOMAIN), -1)
    axes = DOMAIN.axes(clique)
    rows = np.ravel_multi_index([cells[axis] for axis in axes], [DOMAIN.shape[axis] for axis in axes])
    matrix = np.zeros((DOMAIN.size(clique), DOMAIN.size()))
    matrix[rows, np.arange(DOMAIN.size())] = 1.0
    return matrix


def joint_steps(
    measurements: list[pg.LinearMeasurement], total: float, sizes: list[float], loss: str = "l2"
) -> np.ndarray:
    """Entropic mirror descent on the joint table of fractions, one step for each size: the brute force."""
    matrix = np.concatenate([marginal_matrix(m.clique) for m in measurements])
    y = np.concatenate([m.values.reshape(-1) for m in measurements])
    p = np.full(DOMAIN.size(), 1.0 / DOMAIN.size())
    for size in sizes:
        residual = total * matrix @ p - y
        slope = residual if loss == "l2" else math.sqrt(2.0) * np.sign(residual)  # scale b = stddev / sqrt(2)
        p = p * np.exp(-size * total * matrix.T @ slope)
        p /= p.sum()
    return total * p


def joint(model: pg.Model) -> np.ndarray:
    return model.project(DOMAIN.attributes).datavector()


@pytest.mark.parametrize("rule", ["constant", "decreasing"])
@pytest.mark.parametrize("loss", ["l2", "l1"])
def test_fixed_steps_are_the_published_update_on_the_joint_table(rule, loss):
    size = 1e-4
    sizes = [size if rule == "constant" else size / math.sqrt(t) for t in range(1, 31)]
    measurements = noisy(0, noise="laplace")
    solver = MirrorDescent(rule=rule, size=size)
    for steps in (1, 2, 30):
        states = []
        pg.estimate(
            measurements, DOMAIN, total=50, loss=loss, method=solver, tolerance=0, max_iterations=steps,
            callback=lambda progress, states=states: states.append(progress.marginals),
        )  # fmt: skip
        table = joint_steps(measurements, 50.0, sizes[:steps], loss)
        expected = np.concatenate([marginal_matrix(clique) @ table for clique in CLIQUES])
        assert states[-1] == pytest.approx(expected, abs=1e-9)


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), total=st.floats(5, 500))
def test_constant_steps_of_one_over_the_lipschitz_constant_never_raise_the_loss(seed, total):
    losses = []
    pg.estimate(
        noisy(seed), DOMAIN, total=total, method=MirrorDescent(rule="constant"), tolerance=0, max_iterations=40,
        callback=lambda progress: losses.append(progress.loss),
    )  # fmt: skip
    assert np.all(np.diff(losses) <= 1e-9 * np.abs(losses[:-1]))


def test_all_three_rules_reach_the_minimum_of_the_squares():
    measurements = noisy(1)
    best = pg.estimate(measurements, DOMAIN, total=50, tolerance=1e-9).report.loss
    rules: list[tuple[Rule, float]] = [("line_search", 1e-5), ("constant", 1e-4), ("decreasing", 0.2)]
    for rule, enough in rules:
        report = pg.estimate(
            measurements, DOMAIN, total=50, method=MirrorDescent(rule=rule), tolerance=0, max_iterations=3000
        ).report
        assert best <= report.loss * (1 + 1e-9)
        assert report.loss <= best * (1 + enough), rule


def test_decreasing_steps_minimize_l1_where_a_line_search_jams_at_a_kink():
    measurements = noisy(2, noise="laplace")
    best = pg.estimate(measurements, DOMAIN, total=50, loss="l1", tolerance=1e-7).report.loss
    ends = {
        rule: pg.estimate(
            measurements, DOMAIN, total=50, loss="l1", method=MirrorDescent(rule=rule), tolerance=0, max_iterations=4000
        ).report.loss
        for rule in ("line_search", "decreasing")
    }
    assert ends["decreasing"] <= 1.03 * best
    assert ends["line_search"] > ends["decreasing"]


def test_a_rule_a_size_and_a_missing_lipschitz_constant_are_refused():
    with pytest.raises(ArgumentError, match="rule"):
        MirrorDescent(rule="adaptive")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="size"):
        MirrorDescent(rule="constant", size=0.0)
    with pytest.raises(ArgumentError, match="needs a `size`"):
        pg.estimate(noisy(0), DOMAIN, total=50, loss="l1", method=MirrorDescent(rule="constant"))


# -- PGM E.2: multiplicative weights and entropic mirror descent -------------------------------------------------------


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), total=st.floats(10, 1000))
def test_all_updates_of_multiplicative_weights_at_once_are_a_step_of_algorithm_1(seed, total):
    """E.2: p * exp(-Q^T (Q p - y) / 2m) in counts is mirror descent on the L2 loss with step 1 / 2m^2 in fractions.

    (The paper's E.2 has lost the minus sign that its equation (2) has.)
    """
    measurements = noisy(seed, total)
    matrix = np.concatenate([marginal_matrix(m.clique) for m in measurements])
    y = np.concatenate([m.values.reshape(-1) for m in measurements])
    p = np.full(DOMAIN.size(), total / DOMAIN.size())
    for _ in range(5):
        p = p * np.exp(-matrix.T @ (matrix @ p - y) / (2 * total))
        p *= total / p.sum()
    seen = []
    pg.estimate(
        measurements, DOMAIN, total=total, method=MirrorDescent(rule="constant", size=1 / (2 * total**2)),
        tolerance=0, max_iterations=5, callback=lambda progress: seen.append(progress.marginals),
    )  # fmt: skip
    expected = np.concatenate([marginal_matrix(clique) @ p for clique in CLIQUES])
    assert seen[-1] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_with_one_measurement_the_update_of_mwem_itself_is_that_step(seed):
    [first, _] = noisy(seed)
    weights = MultiplicativeWeights(DOMAIN, [DOMAIN.attributes], total=50.0)
    for _ in range(7):
        weights.update(first)
    seen = []
    pg.estimate(
        [first], DOMAIN, total=50, method=MirrorDescent(rule="constant", size=1 / (2 * 50.0**2)),
        tolerance=0, max_iterations=7, callback=lambda progress: seen.append(progress.marginals),
    )  # fmt: skip
    assert weights.model().project(first.clique).datavector() == pytest.approx(seen[-1], rel=1e-9)


def test_iterated_to_convergence_it_solves_the_problem_of_algorithm_2():
    """Section 4 concludes: consistent measurements and cyclic updates lead to the same distribution."""
    measurements = noisy(3, scale=0.0)
    weights = MultiplicativeWeights(DOMAIN, [DOMAIN.attributes], total=50.0)
    for _ in range(4000):
        for measurement in measurements:
            weights.update(measurement)
    model = pg.estimate(measurements, DOMAIN, total=50, method="dual_averaging", tolerance=1e-9, max_iterations=20_000)
    assert joint(weights.model()) == pytest.approx(joint(model), abs=0.02)
