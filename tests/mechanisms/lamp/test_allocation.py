"""The expected errors of candidates, and the allocation of a budget."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest.mechanisms.lamp.allocation import ItemErrors, allocate, select_candidates, water_filling
from pgmest.mechanisms.lamp.candidates import (
    SHARE_GRID,
    CandidateMarginal,
    NoiseModel,
    expected_errors,
    one_way_candidate,
    table_candidate,
)
from pgmest.mechanisms.lamp.dependence import Dependence
from pgmest.privacy import AddRemove, Epsilon, Rho

PAIRS = [("a", "b"), ("a", "c"), ("b", "c")]


NOISE = NoiseModel(100.0, 1.0)


def cells_of_pairs(pairs, importance):
    """Return the errors of items that ask for every cell of a pair."""
    return ItemErrors.of([[(part, 1.0, None) for part in (pair, pair[:1], pair[1:])] for pair in pairs], importance)


def singles(size=4, stddev=50.0, noise_model=NOISE):
    return [one_way_candidate((name,), np.full(size, 1000.0 / size), stddev, noise_model) for name in "abc"]


def pair_candidate(pair, dependence, size=4, noise_model=NOISE):
    cells = (np.array([float(size)]), np.array([1000.0 / size]))
    return table_candidate(pair, [(cells, cells)], [True], Dependence(dependence, dependence), 2, 1000.0, noise_model)


def test_the_noise_of_a_share_is_the_curators():
    assert NoiseModel.of(Rho(0.5), AddRemove()).precision(1.0) == pytest.approx(1.0)
    assert NoiseModel.of(Rho(0.5), AddRemove()).precision(0.25) == pytest.approx(0.25)
    laplace = NoiseModel.of(Epsilon(0.1), AddRemove())
    assert laplace.precision(0.5) == pytest.approx(laplace.precision(1.0) / 4)


def test_the_error_before_anything_is_measured_is_the_dependence_and_falls_to_nothing():
    candidate = pair_candidate(("a", "b"), 300.0)
    assert candidate.errors[0] == pytest.approx(300.0)
    assert (np.diff(candidate.errors) <= 0).all()
    assert expected_errors(np.array([4.0]), np.array([1e3]), np.array([1e12]))[0] == pytest.approx(0, abs=1e-2)


def test_the_error_is_that_of_the_best_linear_shrinkage():
    rng = np.random.default_rng(0)
    truth, noise = 30 * rng.standard_normal(200_000), 40 * rng.standard_normal(200_000)
    weight = 30**2 / (30**2 + 40**2)
    found = expected_errors(np.array([1.0]), np.array([30.0]), np.array([40.0**-2]))[0]
    assert found == pytest.approx(np.abs(weight * (truth + noise) - truth).mean(), rel=0.01)


@given(st.lists(st.floats(1.0, 1e4), min_size=2, max_size=6), st.floats(0.01, 1.0))
@settings(max_examples=50, deadline=None)
def test_shares_fill_the_budget_and_no_other_split_tried_is_better(spreads, budget):
    curves = np.array([expected_errors(np.array([10.0]), np.array([s]), SHARE_GRID / 100.0) for s in spreads])
    weights = np.ones(len(curves))
    shares = water_filling(curves, weights, budget)
    assert shares.sum() == pytest.approx(budget)

    def total(split):
        return sum(np.interp(share, SHARE_GRID, curve) for share, curve in zip(split, curves, strict=True))

    rng = np.random.default_rng(0)
    others = [budget * rng.dirichlet(np.ones(len(curves))) for _ in range(20)]
    assert total(shares) <= min(map(total, others)) * 1.02 + 1e-9


def test_strong_pairs_get_more_and_weak_ones_are_left_out():
    candidates = [
        *singles(),
        pair_candidate(("a", "b"), 600.0),
        pair_candidate(("a", "c"), 400.0),
        pair_candidate(("b", "c"), 1.0),
    ]
    plan = select_candidates(candidates, cells_of_pairs(PAIRS, np.ones(3)), 0.8, least=0.5)
    assert ("b", "c") not in plan
    assert plan[("a", "b")][1] > 0
    assert sum(share for _, share in plan.values()) == pytest.approx(0.8)
    shares = allocate(candidates, cells_of_pairs(PAIRS, np.array([1.0, 1e-6, 1e-6])), 0.8)
    assert shares[3] > 10 * shares[4]


def test_where_no_pair_pays_everything_goes_to_the_attributes():
    noise = NoiseModel(1e8, 1.0)
    cells = (np.array([4.0]), np.array([250.0]))
    candidates = singles(noise_model=noise) + [
        table_candidate(pair, [(cells, cells)], [True], Dependence(50.0, 50.0), 2, 1000.0, noise) for pair in PAIRS
    ]
    plan = select_candidates(candidates, cells_of_pairs(PAIRS, np.ones(3)), 1.0, least=0.5)
    assert set(plan) == {("a",), ("b",), ("c",)}


def test_a_pair_is_measured_more_finely_for_more():
    fine, coarse = (np.array([64.0]), np.array([1000 / 64])), (np.array([4.0]), np.array([250.0]))
    candidate = table_candidate(
        ("a", "b"),
        [(coarse, coarse), (fine, fine)],
        [False, True],
        Dependence(300.0, 320.0),
        0,
        1e3,
        NoiseModel(0.001, 1.0),
    )
    assert isinstance(candidate, CandidateMarginal)
    assert candidate.level(1e-6) == 0
    assert candidate.level(1.0) == 1


RICH = NoiseModel(1.0, 1.0)


def with_triple(dependence, pairs=PAIRS, size=4):
    cells = (np.array([float(size)]), np.array([1000.0 / size]))
    found = Dependence(dependence, dependence)
    triple = table_candidate(("a", "b", "c"), [(cells,) * 3], [True], found, 2, 1000.0, RICH)
    return [*singles(noise_model=RICH), *(pair_candidate(pair, 300.0, noise_model=RICH) for pair in pairs), triple]


ALL = ItemErrors.of([[(part, 1.0, None) for part in (*PAIRS, ("a",), ("b",), ("c",), ("a", "b", "c"))]], np.ones(1))


def test_three_attributes_are_measured_where_they_are_asked_for_and_depend_beyond_their_pairs():
    plan = select_candidates(with_triple(500.0), ALL, 0.8, least=0.5)
    assert plan["a", "b", "c"][1] > 0
    assert allocate(with_triple(500.0), cells_of_pairs(PAIRS, np.ones(3)), 0.8)[-1] < 1e-3
    poor = [*singles(), *(pair_candidate(pair, 300.0) for pair in PAIRS), with_triple(500.0)[-1]]
    assert ("a", "b", "c") not in select_candidates(poor, ALL, 1e-4, least=0.5)


def test_three_attributes_are_not_measured_without_their_pairs():
    assert ("a", "b", "c") not in select_candidates(with_triple(500.0, PAIRS[:2]), ALL, 0.8, least=0.5)


def test_an_item_counts_an_error_by_what_it_sees_of_it():
    candidates = [*singles(), *(pair_candidate(pair, 300.0) for pair in PAIRS)]
    items = [
        [(pair, seen, None), (pair[:1], 1.0, None), (pair[1:], 1.0, None)]
        for pair, seen in zip(PAIRS, (1, 1, 0.01), strict=True)
    ]
    shares = allocate(candidates, ItemErrors.of(items, np.ones(3)), 0.8)
    assert shares[4] > 3 * shares[5]
    own, scale = ItemErrors.of(items, np.ones(3)).placed(candidates[:-1])
    assert scale[2, 0] == 0
    assert own.max() < len(candidates) - 1
