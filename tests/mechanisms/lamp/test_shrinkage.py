"""Shrinkage of noisy counts, and iterative proportional fitting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pgmest.mechanisms.lamp.shrinkage import NoisyPair, ipf, ipf_two_way
from pgmest.models.errors.mixture import NOTHING_KNOWN, PriorMixture, learned_weights, shrunk


def l1(a, b):
    return float(np.abs(a - b).sum())


def test_a_table_without_dependence_is_shrunk_to_independence_and_one_with_much_is_kept():
    rng = np.random.default_rng(1)
    expected = np.full((20, 20), 50.0)
    noisy = expected + 30 * rng.standard_normal(expected.shape)
    assert l1(shrunk(noisy, expected, 30.0), expected) < 0.4 * l1(noisy, expected)
    truth = np.diag(np.full(20, 1000.0))
    noisy = truth + rng.standard_normal(truth.shape)
    assert l1(shrunk(noisy, expected, 1.0), truth) < 1.05 * l1(noisy, truth)


@given(
    arrays.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=st.floats(-1e4, 1e4)),
    st.floats(0.01, 1e4),
)
@settings(max_examples=200, deadline=None)
def test_any_noisy_table_becomes_a_positive_one_with_the_one_way_marginals(noisy, stddev):
    rows, columns = np.linspace(1, 2, noisy.shape[0]), np.linspace(2, 1, noisy.shape[1])
    rows, columns = 100 * rows / rows.sum(), 100 * columns / columns.sum()
    table = NoisyPair.of(lambda expected: noisy, stddev, rows, columns).table()
    assert (table > 0).all()
    assert table.sum(axis=0) == pytest.approx(columns, rel=1e-9)
    assert l1(table.sum(axis=1), rows) < 0.05 * rows.sum()


def test_a_table_is_fitted_to_its_marginals():
    table = ipf_two_way(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([6.0, 4.0]), np.array([5.0, 5.0]))
    assert table.sum(axis=0) == pytest.approx([5, 5])
    assert table.sum(axis=1) == pytest.approx([6, 4], rel=1e-3)
    odds = table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0])
    assert odds == pytest.approx(4 / 6)


@given(st.integers(0, 10**6))
def test_margins_are_met_or_nothing_though_counts_are_hardly_numbers(seed):
    """Counts of 1e-310, as rare values of independent attributes have, once made infinite ratios and NaN."""
    rng = np.random.default_rng(seed)
    truth = 10.0 ** rng.uniform(-320, 4, (3, 4, 2)) * (rng.random((3, 4, 2)) < 0.8)
    table = 10.0 ** rng.uniform(-320, 4, (3, 4, 2)) * (rng.random((3, 4, 2)) < 0.8)
    margins = {(0, 1): truth.sum(axis=2), (0, 2): truth.sum(axis=1), (1, 2): truth.sum(axis=0)}
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        found = ipf(table, margins)
        pair = ipf_two_way(table.sum(axis=2), truth.sum(axis=(1, 2)), truth.sum(axis=(0, 2)))
    assert np.isfinite(found).all()
    assert np.isfinite(pair).all()
    assert found.sum() <= truth.sum() * (1 + 1e-9)


def tables(dependence, cells=12, records=20_000):
    """A table of two skewed attributes, as independent as they can be, and with so much of the records moved."""
    mass = 1 / np.arange(1, cells + 1)
    expected = records * np.outer(mass, mass) / mass.sum() ** 2
    moved = expected * np.where(np.add.outer(range(cells), range(cells)) % 2, 1 - dependence, 1 + dependence)
    return expected, moved


@pytest.mark.parametrize("stddev", [10.0, 100.0, 1000.0])
@pytest.mark.parametrize("dependence", [0.0, 0.1, 0.8])
def test_a_mixture_of_priors_is_hardly_worse_than_the_better_of_all_and_nothing(dependence, stddev):
    expected, truth = tables(dependence)
    rng = np.random.default_rng(3)
    noisy = [truth + stddev * rng.standard_normal(truth.shape) for _ in range(30)]
    off, raw = (
        np.mean([np.square(found - truth).sum() for found in some])
        for some in ([shrunk(values, expected, stddev) for values in noisy], noisy)
    )
    assert off <= 1.05 * min(raw, np.square(expected - truth).sum()) + 8 * stddev**2


def test_a_table_of_few_free_cells_is_not_taken_for_one_of_many():
    """All four cells of a table of two binary attributes, their sums known, are one number."""
    expected, rng = np.full((2, 2), 250.0), np.random.default_rng(4)
    signs, stddev = np.array([[1.0, -1.0], [-1.0, 1.0]]), 50.0
    off = {True: [], False: []}
    for _ in range(400):
        noisy = expected + signs * rng.normal(0, stddev / 2)
        off[True].append(l1(shrunk(noisy, expected, stddev / 2, free=0.25), expected))
        off[False].append(l1(shrunk(noisy, expected, stddev / 2), expected))
    assert np.mean(off[True]) < 0.9 * np.mean(off[False])


def test_how_far_many_tables_are_from_what_is_expected_is_learned_from_all_of_them():
    rng, stddev = np.random.default_rng(5), 30.0
    signs = np.array([[1.0, -1.0], [-1.0, 1.0]])
    expected = np.full((2, 2), 5000.0)
    for scale, quiet in ((0.0, True), (2000.0, False)):
        truths = [expected + scale * rng.standard_normal() * signs for _ in range(200)]
        noisy = [truth + signs * rng.normal(0, stddev / 2) for truth in truths]
        mixtures = [PriorMixture.of(values, expected, stddev / 2, 0.25) for values in noisy]
        before = learned_weights(mixtures)
        assert before.sum() == pytest.approx(1.0)
        assert (before[0] > 0.8) == quiet
        off = {
            name: np.mean([l1(expected + m.estimate(given), truth) for m, truth in zip(mixtures, truths, strict=True)])
            for name, given in (("learned", before), ("nothing known", NOTHING_KNOWN))
        }
        assert off["learned"] < 0.97 * off["nothing known"]


def test_from_no_tables_nothing_is_learned():
    assert learned_weights([]) == pytest.approx(NOTHING_KNOWN)
