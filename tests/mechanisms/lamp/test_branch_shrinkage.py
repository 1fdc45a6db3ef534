"""Tests for the shrinkage of pairs along trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmest.mechanisms.lamp.branch_shrinkage import branches_of_groups, by_branches, steps_of, unknown_fraction
from pgmest.mechanisms.lamp.shrinkage import NoisyPair
from pgmest.models.errors.mixture import NOTHING_KNOWN, PriorMixture
from pgmest.tables.groups import summed


def _pair(noisy: np.ndarray, rows: np.ndarray, columns: np.ndarray, stddev: float, expected=None) -> NoisyPair:
    return NoisyPair.of(lambda _: noisy, stddev, rows, columns, expected)


def test_branches_that_share_a_group_count_as_one():
    levels = [np.array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4])]
    found = branches_of_groups(np.array([0, 1, 2, 3, 3, 3, 3, 3, 4, 5]), levels)
    assert [labels.tolist() for labels in found] == [[0, 0, 1, 1, 2, 2], [0, 1, 2, 3, 4, 5]]
    assert len(branches_of_groups(np.zeros(10, dtype=np.int64), levels)) == 1


def test_steps_of_two_trees_go_from_coarse_to_fine_in_both():
    one, other = [np.array([0, 0, 1, 1]), np.arange(4)], [np.arange(3)]
    assert [[side.tolist() for side in step] for step in steps_of([one, other])] == [[[0, 0, 1, 1], [0, 1, 2]]]
    assert steps_of([other, other]) == []


@pytest.mark.parametrize("both", [False, True])
def test_the_noise_that_remains_is_that_of_a_projection(both: bool):
    rows, columns = np.repeat([0, 1], 3), np.repeat([0, 1], 2) if both else np.arange(4)
    fine = np.eye(6), np.eye(4)
    above = [np.eye(int(labels.max()) + 1)[labels].T for labels in (rows, columns)]
    known = np.concatenate([np.kron(*above), np.kron(np.eye(6), np.ones(4)), np.kron(np.ones(6), np.eye(4))])
    left = np.eye(24) - np.linalg.pinv(known) @ known
    found = unknown_fraction((rows, columns), (np.arange(6), np.arange(4)))
    assert np.allclose(found, np.diag(left).reshape(6, 4))
    sums = np.kron(above[0], fine[1])  # the first step: only the margins are known
    margins = known[-10:]
    free = np.eye(24) - np.linalg.pinv(margins) @ margins
    expected = np.diag(sums @ free @ sums.T).reshape(2, 4) / 3
    whole = np.zeros(6, dtype=np.int64), np.zeros(4, dtype=np.int64)
    assert np.allclose(unknown_fraction(whole, (rows, np.arange(4))), expected)


def _rates(noisy: np.ndarray, steps: list, stddev: float) -> list[np.ndarray]:
    return [np.full(noisy.shape, stddev**2)] * (len(steps) + 1)


@given(st.integers(0, 10_000), st.sampled_from([1e-6, 3.0, 1e5]), st.booleans())
def test_tables_are_positive_and_have_their_marginals_and_zeros(seed: int, stddev: float, zeros: bool):
    generator = np.random.default_rng(seed)
    expected = generator.gamma(1.0, 50.0, (8, 3))
    if zeros:
        expected[0, 1] = expected[5, 2] = 0.0
    rows, columns = expected.sum(axis=1), expected.sum(axis=0)
    noisy = expected + generator.normal(0, stddev, expected.shape)
    steps = steps_of([branches_of_groups(np.arange(8), [np.repeat([0, 1, 2], [1, 3, 4])]), [np.arange(3)]])
    table = by_branches(
        _pair(noisy, rows, columns, stddev, expected if zeros else None), steps, _rates(noisy, steps, stddev)
    )
    assert np.isfinite(table).all()
    assert ((table > 0) == (expected > 0)).all()
    assert np.allclose(table.sum(axis=1), rows, rtol=1e-3)
    assert np.allclose(table.sum(axis=0), columns, rtol=1e-3)


@pytest.mark.parametrize("stddev", [3.0, 10.0, 40.0])
def test_a_tree_helps_if_branches_depend_and_does_little_harm_if_only_codes_do(stddev: float):
    branch, steps = np.repeat(np.arange(8), 8), [(np.repeat(np.arange(8), 8), np.arange(4))]
    ratios: dict[tuple[bool, bool], list[float]] = {}
    for seed in range(8):
        generator = np.random.default_rng(seed)
        for by_branch in (True, False):
            chances = generator.dirichlet(np.full(4, 5.0), size=64)
            true = generator.gamma(1.0, 100.0, 64)[:, None] * (chances[branch] if by_branch else chances)
            noisy, left = true + generator.normal(0, stddev, true.shape), stddev * (63 / 64 * 3 / 4) ** 0.5
            pair = _pair(noisy, true.sum(axis=1), true.sum(axis=0), left)
            for coarse in (True, False):
                own, flat = (
                    np.abs(summed(of - true, steps[0] if coarse else (np.arange(64), np.arange(4)))).sum()
                    for of in (by_branches(pair, steps, _rates(noisy, steps, stddev)), pair.table())
                )
                ratios.setdefault((by_branch, coarse), []).append(own / flat)
    means = {case: float(np.mean(found)) for case, found in ratios.items()}
    assert means[True, True] < 0.97
    assert means[True, False] < 0.97
    assert means[False, True] < 1.03
    assert means[False, False] < 1.01


def test_a_mixture_of_counts_with_equal_noise_is_that_of_one_noise():
    generator = np.random.default_rng(1)
    expected = generator.gamma(1.0, 50.0, 40)
    values = expected + generator.normal(0, 10, 40)
    one = PriorMixture.of(values, expected, 10.0, 0.5)
    other = PriorMixture.with_variances(values, expected, np.full(40, 100.0), 0.5)
    assert np.allclose(one.logs, other.logs)
    assert np.allclose(one.kept, other.kept)
    assert np.allclose(one.risks, 100 * other.risks)
    assert np.isclose(one.risk(NOTHING_KNOWN), 100 * other.risk(NOTHING_KNOWN))
