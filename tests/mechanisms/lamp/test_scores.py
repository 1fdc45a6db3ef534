"""The noisy scores of LAMP: their sensitivity by brute force, and their noise."""

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import pgmest as pg
from pgmest.mechanisms.lamp.groups import nested_groups
from pgmest.mechanisms.lamp.scorer import noisy_distances, score_sensitivity, scores_stddev
from pgmest.privacy import AddRemove, Curator, Epsilon, Replace, Rho
from pgmest.privacy.account import Account
from pgmest.privacy.grouped_distances import GroupedDistance
from pgmest.privacy.transcript import Witness
from pgmest.tables.groups import summed
from tests.mechanisms.auditing import DATA

COUNTS = arrays.arrays(np.float64, (3, 4), elements=st.integers(0, 30))
EXPECTED = arrays.arrays(np.float64, (3, 4), elements=st.floats(0, 50))
GROUPS = (np.array([0, 0, 1]), np.array([0, 1, 1, 2]))
ROUNDING = 1e-9


def whole(shape):
    return tuple(map(np.arange, shape))


@given(COUNTS, EXPECTED, st.booleans())
@settings(max_examples=100, deadline=None)
def test_no_neighbor_moves_a_score_by_more_than_its_sensitivity(counts, expected, coarse):
    groups = GROUPS if coarse else whole(counts.shape)
    question = GroupedDistance(("a", "b"), groups, summed(expected, groups))
    before = question.score(counts)
    for cell in product(*map(range, counts.shape)):
        more = counts.copy()
        more[cell] += 1
        assert abs(question.score(more) - before) <= score_sensitivity(AddRemove()) + ROUNDING
        for other in np.argwhere(counts > 0).tolist():
            replaced = more.copy()
            replaced[tuple(other)] -= 1
            assert abs(question.score(replaced) - before) <= score_sensitivity(Replace()) + ROUNDING


def test_the_sensitivity_is_attained_and_grows_with_the_records_of_an_individual():
    counts = np.array([[5.0, 0.0]])
    question = GroupedDistance(("a", "b"), whole((1, 2)), np.array([[4.0, 3.0]]))
    first, second = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    assert question.score(counts + first) - question.score(counts) == 1
    assert question.score(counts + first) - question.score(counts + second) == 2
    assert [score_sensitivity(n) for n in (AddRemove(), AddRemove(3), Replace(), Replace(2))] == [1, 3, 2, 4]


@pytest.mark.parametrize(("budget", "stddev"), [(Rho(0.5), np.sqrt(3)), (Epsilon(2.0), 3 / np.sqrt(2))])
def test_scores_have_the_noise_that_was_paid_for(budget, stddev):
    pairs = list(combinations(DATA.domain, 2))
    shapes = [DATA.domain.project(pair).shape for pair in pairs]
    questions = [
        GroupedDistance(pair, whole(shape), np.full(shape, 2.0)) for pair, shape in zip(pairs, shapes, strict=True)
    ]
    exact = [question.score(DATA.project(question.clique).values) for question in questions]
    found = []
    for seed in range(200):
        curator = Curator(DATA, budget * 2, backend="simulation", seed=seed)
        found.append(noisy_distances(curator, questions, budget))
        assert curator.spent == budget
        assert curator.ledger[0].insecure
    assert scores_stddev(3, budget, AddRemove()) == pytest.approx(stddev, rel=0.01)
    assert np.mean(found, axis=0) == pytest.approx(exact, abs=4 * stddev / np.sqrt(200))
    assert np.std(found, axis=0) == pytest.approx(stddev, rel=0.2)


def test_secure_scores_are_marked_so_and_close_to_the_truth_with_much_budget():
    pairs = list(combinations(DATA.domain, 2))
    shapes = [DATA.domain.project(pair).shape for pair in pairs]
    questions = [
        GroupedDistance(pair, whole(shape), np.zeros(shape)) for pair, shape in zip(pairs, shapes, strict=True)
    ]
    curator = Curator(DATA, Rho(1e6))
    assert noisy_distances(curator, questions, Rho(1e6)) == pytest.approx([DATA.records] * 3, abs=0.1)
    assert not curator.ledger[0].insecure


@pytest.mark.parametrize("workload", [None, [("a", "b", "c")]])
@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("charged", [True, False])
def test_scores_that_are_not_charged_are_caught(charged, public, workload, monkeypatch):
    domain = pg.Domain({"a": 30, "b": 30, "c": 30})
    data = pg.Dataset.from_codes(np.array([[0, 0, 0]] * 40 + [[29, 29, 29]] * 40), domain)
    neighbor = pg.Dataset.from_codes(np.vstack([data.codes, (29, 0, 29)]), domain)
    charge = Account.charge

    def forgetful(self, entry, done, fresh=True):
        if charged or "dependence" not in entry.label:
            charge(self, entry, done, fresh)

    monkeypatch.setattr(Account, "charge", forgetful)
    mechanism = pg.mechanisms.LAMP(rho=0.5, backend="simulation", records=100, prior=data if public else None)
    witness = Witness(data, neighbor, mechanism.budget(), neighbors=mechanism.neighbors, backend="simulation", seed=0)
    mechanism.run(witness, workload, np.random.default_rng(0))
    assert any("dependence" in answer.label for answer in witness.answers) or not charged
    assert bool(witness.excessive) != charged


@given(arrays.arrays(np.float64, st.integers(1, 70), elements=st.floats(0, 1e6)))
@settings(max_examples=100, deadline=None)
def test_groups_are_nested_ranges_that_end_with_every_code(mass):
    levels = nested_groups(mass)
    assert np.array_equal(levels[-1], np.arange(len(mass)))
    for level in levels:
        assert level[0] == 0
        assert set(np.diff(level)) <= {0, 1}
    for coarse, fine in pairwise(levels):
        assert len(set(zip(coarse, fine, strict=True))) == fine[-1] + 1
        assert fine[-1] + 1 <= max(2 * (coarse[-1] + 1), len(mass))


def test_sums_over_groups_keep_the_total_and_match_the_domain():
    table = np.arange(12.0).reshape(3, 4)
    assert summed(table, GROUPS).tolist() == [[4, 14, 10], [8, 19, 11]]
    assert pg.Domain({"a": 3, "b": 4}).shape == table.shape
