"""IDE Algorithm 1 and its penalized form, against linear programs and convex duals on small tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import pgmest as pg
from experiments.ide_two_stage import (
    dense_matrix,
    nearest_answers,
    nearest_of_least_divergence,
    stacked,
    two_stage,
)
from pgmest.errors import ArgumentError, DataError, QueryError
from pgmest.priors.ide.answers import partial_answers
from pgmest.priors.ide.projection import balance, project_answer
from pgmest.priors.ide.update import prior_fractions, relative_entropy, update_prior

DOMAIN = pg.Domain({"a": 3, "b": 3, "c": 2})
PAIRS = (("a", "b"), ("b", "c"), ("a", "c"))
SEEDS = st.integers(0, 10**6)


def random_prior(seed: int) -> pg.Dataset:
    """Weighted records, about four in five of the possible ones."""
    generator = np.random.default_rng(seed)
    possible = np.indices(DOMAIN.shape).reshape(3, -1).T
    kept = possible[generator.random(len(possible)) < 0.8]
    return pg.Dataset.from_codes(kept, DOMAIN, weights=generator.uniform(0.1, 1.0, len(kept)))


def answers_of(prior: pg.Dataset, seed: int, noise: float) -> list[pg.LinearMeasurement]:
    """Pairs measured on 100 records with the prior's support; their Laplace scale is stated to be 1."""
    generator = np.random.default_rng(seed + 1)
    truth = pg.Dataset(DOMAIN, prior.columns, prior.records, 100 * generator.dirichlet(np.ones(prior.records)))
    tables = [truth.project(pair).values for pair in PAIRS]
    noisy = [table + generator.laplace(0.0, noise, table.shape) if noise else table for table in tables]
    return [pg.LinearMeasurement(table, pair, math.sqrt(2.0)) for table, pair in zip(noisy, PAIRS, strict=True)]


# -- the closed forms -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fractions", "masses", "outside", "expected"),
    [
        ([0.2, 0.3], [0.5, 0.1], 0.4, [0.2, 0.3, 0.5]),  # the rest is left for records in no cell
        ([0.2, 0.3], [0.5, 0.5], 0.0, [0.5, 0.5, 0.0]),  # both must be more: in the prior's proportion
        ([0.7, 0.1], [0.5, 0.5], 0.0, [0.7, 0.3, 0.0]),  # only one need be
        ([0.9, 0.4], [0.5, 0.3], 0.2, [0.625, 0.375, 0.0]),  # both must be less
        ([0.9, 0.2], [0.5, 0.3], 0.2, [0.8, 0.2, 0.0]),
        ([0.5, 0.5], [1.0, 0.0], 0.0, [1.0, 0.0, 0.0]),  # a cell without mass cannot get any
        ([0.5, 0.2], [0.4, 0.0], 0.6, [0.5, 0.0, 0.5]),
        ([-0.5, 0.4], [0.4, 0.1], 0.5, [0.0, 0.4, 0.6]),
        ([-1.0, -2.0], [0.25, 0.75], 0.0, [0.25, 0.75, 0.0]),  # nothing is known: nothing moves
    ],
)
def test_projection_by_hand(fractions, masses, outside, expected):
    inside, rest = project_answer(np.array(fractions), np.array(masses), outside)
    np.testing.assert_allclose([*inside, rest], expected, atol=1e-12)


@given(seed=SEEDS, cells=st.integers(1, 6), outside=st.booleans())
@settings(deadline=None, max_examples=60)
def test_projection_is_nearest_and_moves_least(seed, cells, outside):
    generator = np.random.default_rng(seed)
    masses = generator.dirichlet(np.ones(cells + 1)) * (generator.random(cells + 1) < 0.8)
    masses[-1] *= outside
    masses[0] += 0.1
    masses /= masses.sum()
    fractions = generator.normal(0.3, 0.4, cells)
    found = np.append(*project_answer(fractions, masses[:-1], masses[-1]))
    assert found.sum() == pytest.approx(1.0)
    assert np.all(found >= 0)
    assert np.all(found[masses == 0] == 0)
    distance = np.abs(found[:-1] - fractions).sum()
    identity = np.eye(cells)
    best = linprog(  # min sum (over + under) with y + under - over = fractions
        np.concatenate([np.zeros(cells + 1), np.ones(2 * cells)]),
        A_eq=np.block(
            [[identity, np.zeros((cells, 1)), identity, -identity], [np.ones(cells + 1), np.zeros(2 * cells)]]
        ),
        b_eq=[*fractions, 1.0],
        bounds=[(0, None if mass > 0 else 0) for mass in masses] + [(0, None)] * 2 * cells,
    )
    assert distance == pytest.approx(best.fun, abs=1e-9)
    # No other nearest answer is closer in KL: moving mass between two cells either costs distance or divergence.
    for source in np.flatnonzero(found > 1e-3):
        for sink in np.flatnonzero(masses > 0):
            other = found.copy()
            other[source] -= 1e-4
            other[sink] += 1e-4
            if np.abs(other[:-1] - fractions).sum() <= distance + 1e-9:
                assert relative_entropy(other, masses) >= relative_entropy(found, masses) - 1e-12


@given(seed=SEEDS, cells=st.integers(1, 6))
@settings(deadline=None, max_examples=60)
def test_balance_solves_its_equation(seed, cells):
    generator = np.random.default_rng(seed)
    middle = generator.random(cells) * 10.0 ** generator.integers(-3, 3, cells)
    spread = 10.0 ** generator.uniform(0, 40, cells)
    wanted = np.maximum(generator.normal(0.2, 0.3, cells), 0.0)
    inside, outside, scale = balance(wanted, middle / spread, middle * spread, generator.random())
    assert inside.sum() + outside == pytest.approx(1.0)
    clipped = np.minimum(np.maximum(wanted, scale * middle / spread), scale * middle * spread)
    np.testing.assert_allclose(inside, clipped, rtol=1e-6, atol=1e-12)


# -- answers that are not whole marginals ------------------------------------------------------------------------------


def test_overlapping_rows_fall_into_partial_workloads():
    prior = pg.Dataset.from_codes(np.arange(4)[:, None], {"x": 4})
    rows = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 1, 1, 1]])
    measurement = pg.LinearMeasurement([5.0, 1.0, 7.0], "x", [1.0, 2.0, 4.0], query=rows)
    first, second = partial_answers(prior, [measurement], 10)
    assert first.cells.tolist() == [0, 0, 1, 2]  # rows 0 and 1; value 3 is in neither
    assert second.cells.tolist() == [1, 0, 0, 0]
    np.testing.assert_array_equal(np.concatenate([dense_matrix(first), dense_matrix(second)]), rows)
    np.testing.assert_allclose(first.scales, np.array([1.0, 2.0]) / math.sqrt(2))


def test_a_partial_workload_leaves_the_rest_in_proportion():
    prior = pg.Dataset.from_codes(np.arange(4)[:, None], {"x": 4}, weights=[1.0, 1.0, 1.0, 3.0])
    measurement = pg.LinearMeasurement([6.0], "x", query=np.array([[1.0, 1.0, 0.0, 0.0]]))
    updated = update_prior(prior, [measurement], total=10.0)
    np.testing.assert_allclose(updated.data.project("x").values, [3.0, 3.0, 1.0, 3.0])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"prior_weight": -1}, ArgumentError, "prior_weight=-1"),
        ({"max_sweeps": 0}, ArgumentError, "max_sweeps=0"),
        ({"tolerance": math.nan}, ArgumentError, "tolerance=nan"),
        ({"total": 0}, ArgumentError, "total=0"),
    ],
)
def test_arguments_out_of_range(options, error, words):
    prior = random_prior(0)
    with pytest.raises(error, match=words):
        update_prior(prior, answers_of(prior, 0, 0.0), **options)


def test_what_cannot_be_updated():
    prior = pg.Dataset.from_codes(np.arange(2)[:, None], {"x": 2})
    with pytest.raises(QueryError, match="other than 0 and 1"):
        update_prior(prior, [pg.LinearMeasurement([1.0], "x", query=np.array([[0.5, 1.0]]))], total=2)
    empty = pg.Dataset.from_codes(np.zeros((1, 1), int), {"x": 2}, weights=[0.0])
    with pytest.raises(DataError, match="no records of positive weight"):
        update_prior(empty, [pg.LinearMeasurement([1.0, 1.0], "x")], total=2)


# -- convergence -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior_weight", [0.0, 0.02])
@pytest.mark.parametrize("seed", range(4))  # not any seed: how many sweeps it takes has no bound
def test_consistent_answers_give_the_two_stage_reference(prior_weight, seed):
    prior = random_prior(seed)
    measurements = answers_of(prior, seed, 0.0)
    updated = update_prior(
        prior, measurements, total=100, prior_weight=prior_weight, max_sweeps=1000, tolerance=1e-8, seed=seed
    )
    reference = two_stage(prior_fractions(prior), partial_answers(prior, measurements, 100))
    assert updated.report.distance == pytest.approx(0.0, abs=1e-4)
    assert updated.report.divergence == pytest.approx(reference.divergence, abs=1e-3)


@pytest.mark.parametrize("seed", [1, 3, 7])
def test_a_light_prior_gives_the_nearest_of_least_divergence(seed):
    prior = random_prior(seed)
    measurements = answers_of(prior, seed, 5.0)
    answers, q = partial_answers(prior, measurements, 100), prior_fractions(prior)
    least = nearest_answers(*stacked(answers)).distance
    exact = nearest_of_least_divergence(q, answers)
    assert exact.distance == pytest.approx(least, abs=1e-6)
    assert exact.divergence <= two_stage(q, answers).divergence + 1e-6  # whose nearest answers are any of them
    updated = update_prior(prior, measurements, total=100, prior_weight=0.1, max_sweeps=1000, tolerance=1e-9, seed=0)
    assert updated.report.distance == pytest.approx(least, abs=1e-6)
    assert updated.report.divergence == pytest.approx(exact.divergence, abs=1e-5)


@given(seed=SEEDS, prior_weight=st.sampled_from([0.3, 1.0, 3.0]))
@settings(deadline=None, max_examples=6)
def test_the_penalized_minimum_is_certified(seed, prior_weight):
    """Weak duality: KL + sum of penalties is at least the dual's value at any feasible potentials."""
    prior = random_prior(seed)
    measurements = answers_of(prior, seed, 5.0)
    updated = update_prior(
        prior, measurements, total=100, prior_weight=prior_weight, max_sweeps=2000, tolerance=1e-9, seed=seed
    )
    matrix, fractions, _ = stacked(partial_answers(prior, measurements, 100))
    p, q, bound = prior_fractions(updated.data), prior_fractions(prior), 1.0 / prior_weight
    objective = relative_entropy(p, q) + bound * np.abs(matrix @ p - fractions).sum()
    potentials = np.linalg.lstsq(matrix.T, np.log(p / q), rcond=None)[0]
    assert objective == pytest.approx(_dual_optimum(q, matrix, fractions, bound, potentials), abs=1e-4)


def _dual_optimum(q, matrix, fractions, bound, start):
    """max over |theta| <= bound of theta y - log sum q exp(W^T theta), by L-BFGS-B."""
    from scipy.optimize import minimize

    def value(theta):
        weights = q * np.exp(theta @ matrix)
        return np.log(weights.sum()) - theta @ fractions, matrix @ (weights / weights.sum()) - fractions

    start = np.clip(start, -bound, bound)
    bounds = [(-bound, bound)] * len(start)
    options = {"maxiter": 10000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-10}
    return -minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).fun


def test_algorithm_1_goes_round_where_answers_contradict():
    prior = pg.Dataset.from_codes(np.arange(2)[:, None], {"x": 2})
    measurements = [pg.LinearMeasurement([2.0, 8.0], "x"), pg.LinearMeasurement([6.0, 4.0], "x")]
    plain = update_prior(prior, measurements, total=10, seed=0).report
    assert not plain.converged
    assert plain.path[-1] > 0.5
    soft = update_prior(prior, measurements, total=10, prior_weight=0.5, seed=0)
    assert soft.report.converged
    # any x between 2 and 6 is nearest; the prior says 5
    np.testing.assert_allclose(soft.data.project("x").values, [5.0, 5.0], atol=1e-3)


def test_a_heavy_prior_hardly_moves():
    prior = random_prior(3)
    updated = update_prior(prior, answers_of(prior, 3, 5.0), total=100, prior_weight=1e4)
    np.testing.assert_allclose(prior_fractions(updated.data), prior_fractions(prior), atol=1e-3)


def test_the_same_seed_gives_the_same_weights_and_callbacks_see_each_sweep():
    prior = random_prior(1)
    measurements, seen = answers_of(prior, 1, 5.0), []
    first = update_prior(prior, measurements, total=100, max_sweeps=7, seed=4, callback=lambda *step: seen.append(step))
    again = update_prior(prior, measurements, total=100, max_sweeps=7, seed=4)
    assert first.data == again.data
    assert [sweep for sweep, _ in seen] == list(range(1, 8))
    assert tuple(distance for _, distance in seen) == first.report.path


def test_the_total_is_estimated_and_kept():
    prior = random_prior(2)
    measurements = answers_of(prior, 2, 1.0)
    updated = update_prior(prior, measurements)
    expected = np.mean([m.values.sum() / m.rows for m in measurements]) / np.mean([1 / m.rows for m in measurements])
    assert updated.data.total == pytest.approx(expected)


def test_no_measurements_leave_the_prior():
    prior = random_prior(5)
    updated = update_prior(prior, [], total=prior.total)
    assert updated.data.weights.tolist() == pytest.approx(prior.weights.tolist())
    assert updated.report.converged


def test_the_estimate_is_a_model_over_the_public_records():
    prior = random_prior(6)
    updated = update_prior(prior, answers_of(prior, 6, 0.0), total=100)
    model = updated.model
    assert model.total == pytest.approx(100.0)
    np.testing.assert_allclose(model.project(("c", "a")).values, updated.data.project(("c", "a")).values)
    assert model.sample(20, seed=0).records == 20
