"""Scores that a curator evaluates: what they come to, that each is computed once, and who sees them."""

import gc
import itertools
import math
import weakref
from typing import Any

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, BudgetExceeded
from pgmest.privacy import Curator, Epsilon, Rho
from pgmest.privacy import scores as scores_module
from pgmest.privacy.candidates import Candidates
from pgmest.privacy.score_kernels import l1_distances
from pgmest.privacy.scores import (
    Distance,
    Distances,
    Scores,
    TableScores,
    noisy_scores,
    score_noise,
)
from pgmest.transforms import merge
from pgmest.workloads import Item

DOMAIN = pg.Domain({"a": 2, "b": 3})
DATA = pg.Dataset.from_codes(np.array([[0, 0]] * 5 + [[1, 2]] * 4 + [[0, 1]]), DOMAIN)


def curator(budget=None, seed=0):
    return Curator(DATA, budget or Rho(1e6), backend="simulation", seed=seed)


class Counted(Scores[str]):
    """The number of records with code 0, and how often it was computed."""

    def __init__(self):
        self.asked = []

    def evaluate(self, data, candidates):
        self.asked += candidates
        return [data.project(name).values[0] for name in candidates]


def test_distances_by_hand():
    expected = np.array([[4.0, 0.0, 0.0], [0.0, 2.0, 4.0]]).reshape(-1)
    prefix = pg.Kron({"b": pg.queries.prefix(3)})
    scores = Distances(
        {
            "plain": Distance(Item(("a", "b")), expected),
            "weighted": Distance(Item(("a", "b")), expected, weight=2.0, expected_error=1.0),
            "rows": Distance(Item(("a", "b")), expected, groups=np.array([0, 0, 0, 1, 1, 1])),
            "turned": Distance(Item(("b", "a")), expected.reshape(2, 3).T.reshape(-1)),
            "prefixes": Distance(Item(("b",), prefix), np.array([5.0, 5.0, 5.0])),
        }
    )
    assert scores.evaluate(DATA, list(scores.of)) == [4.0, 6.0, 4.0, 4.0, 6.0]
    assert scores.evaluate(DATA, ["prefixes"]) == [6.0]


@pytest.mark.parametrize("at_once", [3, 4096])
@pytest.mark.parametrize("cells_at_once", [1, 7, 1000])
def test_many_distances_are_those_computed_one_by_one(at_once, cells_at_once, monkeypatch):
    rng = np.random.default_rng(0)
    cliques = [("a", "b"), ("b", "a"), ("a",), ("b",), ()] * 4
    of = {}
    for place, clique in enumerate(cliques):
        cells = DOMAIN.size(clique)
        groups = rng.integers(0, 4, cells) if place % 3 == 0 else None
        of[place] = Distance(Item(clique), 5 * rng.random(cells), groups, *rng.random(2))
    one_by_one = Distances(of).evaluate(DATA, list(of))
    monkeypatch.setattr(scores_module, "MANY_SCORES", 1)
    monkeypatch.setattr(scores_module, "TABLES_AT_ONCE", at_once)
    monkeypatch.setattr(scores_module, "CELLS_AT_ONCE", cells_at_once)
    monkeypatch.setattr(Distance, "score", lambda *arguments: pytest.fail("one by one"))
    assert Distances(of).evaluate(DATA, list(of)) == pytest.approx(one_by_one, rel=1e-14)


def test_distances_of_very_many_cells_are_rounded_a_few_times_only():
    rng = np.random.default_rng(1)
    exact, expected = rng.integers(0, 10**9, 300_000).astype(float), 1e9 * rng.random(300_000)
    ends, none = np.array([300_000]), np.empty(0, dtype=np.int64)
    found = np.empty(1)
    l1_distances(exact, expected, ends, none, np.array([False]), np.empty(0), found)
    assert found[0] == pytest.approx(math.fsum(np.abs(exact - expected)), rel=4e-16)
    l1_distances(exact, expected, ends, np.arange(300_000), np.array([True]), np.empty(300_000), found)
    assert found[0] == pytest.approx(math.fsum(np.abs(exact - expected)), rel=4e-16)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["expected", "weight", "expected_error"])
def test_candidates_with_numbers_that_are_not_finite_are_named(where, wrong):
    numbers = {"expected": np.ones(2), "weight": 1.0, "expected_error": 0.0}
    numbers[where] = np.array([wrong, 1.0]) if where == "expected" else wrong
    of = {"right": Distance(Item(("a",)), np.full(2, 1e308)), "wrong": Distance(Item(("a",)), **numbers)}
    with pytest.raises(ArgumentError, match="wrong"):
        Distances(of).check(DOMAIN, list(of))
    del of["wrong"]
    Distances(of).check(DOMAIN, list(of))  # their sum overflows, but they are finite


def test_scores_of_tables_have_the_first_attribute_in_rows():
    scores = TableScores(first_row)
    assert scores.evaluate(DATA, [("a",), ("b",), ("b", "a"), ("a", "b")]) == [6.0, 5.0, 5.0, 6.0]


def first_row(table):
    return table[0].sum()


def test_functions_that_could_keep_what_they_see_are_refused():
    seen: Any = []

    class Keeps:
        """Has a state."""

        def __call__(self, table):
            seen.append(table)

    for function in (lambda table: seen.append(table), Keeps(), seen.append.__self__):
        with pytest.raises(ArgumentError, match="a plain function, no closure"):
            TableScores(function)
    assert TableScores(len).evaluate(DATA, [("a",)]) == [2.0]


def test_selections_find_the_best_and_compute_each_score_once():
    asked, scores = curator(), Counted()
    assert asked.select(["a", "b"], scores, 1.0, Rho(1e5)) == "a"
    assert asked.select(["b"], scores, 1.0, Rho(1e5)) == "b"
    assert asked.select(["b", "a", "a"], scores, 1.0, Rho(1e5)) == "a"
    assert scores.asked == ["a", "b"]
    curator().select(["a"], scores, 1.0, Rho(1e5))
    assert scores.asked == ["a", "b", "a"]  # another curator has another memo


def test_scores_choose_as_a_function_of_the_records_does():
    spend = Rho(0.5)
    for seed in range(20):
        by_function = curator(seed=seed).select(["a", "b"], lambda data: [6.0, 5.0], 1.0, spend)
        assert curator(seed=seed).select(["a", "b"], Counted(), 1.0, spend) == by_function


@pytest.mark.parametrize("spend", [Rho(0.05), Epsilon(0.5)])
def test_a_subset_chooses_as_a_list_does_and_all_scores_are_computed_once(spend):
    names = list(map(str, range(7)))
    data = pg.Dataset.from_codes(np.random.default_rng(0).integers(0, 2, (30, 7)), dict.fromkeys(names, 2))
    pairs = list(itertools.combinations(names, 2))
    scores = Distances({pair: Distance(Item(pair), np.full(4, 7.5)) for pair in pairs})
    for seed in range(10):
        asked = Curator(data, spend.split(1)[0], backend="simulation", seed=seed)
        other = Curator(data, spend.split(1)[0], backend="simulation", seed=seed)
        for places, part in zip(
            np.array_split(np.random.default_rng(seed).permutation(21), 3), spend.split(3), strict=True
        ):
            chosen = asked.select(scores.candidates.some(places), scores, 1.0, part)
            assert chosen == other.select([pairs[place] for place in places], scores, 1.0, part)
        for one, two in zip(asked.selections, other.selections, strict=True):
            assert [lost.clique for lost in one.lost] == [lost.clique for lost in two.lost]
            assert (one.chosen.clique, one.candidates) == (two.chosen.clique, two.candidates)
    counted = Counted()
    asked, all_names = curator(), Candidates(["a", "b"])
    for places in ([0], [1], [0, 1]):
        asked.select(all_names.some(np.array(places)), counted, 1.0, Rho(1.0))
    assert counted.asked == ["a", "b"]


def test_a_subset_is_checked_and_known_by_its_candidates():
    bad = Distances({name: Distance(Item((name,)), np.array([math.nan, 0.0])) for name in "ab"})
    with pytest.raises(ArgumentError, match="finite"):
        curator().select(bad.candidates.some(np.array([0])), bad, 1.0, Rho(1.0))
    with pytest.raises(ArgumentError, match="at least one candidate"):
        curator().select(bad.candidates.some(np.array([], dtype=int)), bad, 1.0, Rho(1.0))
    one, same, other, third = (
        Candidates(names).some(np.array(p)) for names, p in (("ab", [0]), ("ab", [0]), ("ac", [0]), ("ab", [1]))
    )
    assert repr(one) == repr(same)
    assert len({repr(one), repr(other), repr(third)}) == 3
    assert (list(one), one[-1], len(third[:0])) == (["a"], "a", 0)


def test_what_cannot_be_paid_is_not_computed():
    asked, scores = curator(Rho(0.1)), Counted()
    with pytest.raises(BudgetExceeded):
        asked.select(["a"], scores, 1.0, Rho(0.2))
    with pytest.raises(BudgetExceeded):
        noisy_scores(asked, ["a"], scores, 1.0, Rho(0.2), label="scores")
    assert not scores.asked


def test_the_memo_ends_with_the_scores_and_is_not_that_of_recoded_records():
    asked, scores = curator(), Counted()
    asked.select(["a"], scores, 1.0, Rho(1.0))
    recoded = asked.through(merge(DOMAIN, ("a", "b"), "ab"))
    recoded.select(["ab"], scores, 1.0, Rho(1.0))
    assert scores.asked == ["a", "ab"]
    gone = weakref.ref(scores)
    assert len(asked._memo) == 1
    del scores
    gc.collect()
    assert gone() is None
    assert not asked._memo
    assert not recoded._memo


@pytest.mark.parametrize("budget", [Rho(1.0), Epsilon(1.0)])
def test_candidates_must_be_there(budget):
    with pytest.raises(ArgumentError, match="at least one candidate"):
        curator(budget).select([], Counted(), 1.0, budget)


# -- with noise ------------------------------------------------------------------------------------------------------


def test_noisy_scores_have_the_noise_that_was_paid_for():
    names, spend, found = ["a", "b"], Rho(0.5), []
    for seed in range(300):
        asked = curator(Rho(1.0), seed)
        found.append(noisy_scores(asked, names, Counted(), 3.0, spend, label="scores"))
        assert asked.spent == spend
    assert np.mean(found, axis=0) == pytest.approx([6.0, 5.0], abs=1.0)
    assert np.std(found) == pytest.approx(
        3.0 * np.sqrt(2), rel=0.1
    )  # sensitivity 3 sqrt(2), sigma = that / sqrt(2 rho)
    assert score_noise(3.0, 2, spend).stddev == pytest.approx(3.0 * np.sqrt(2), rel=1e-5)
    assert score_noise(3.0, 2, spend).stddev > 3.0 * np.sqrt(2)


def test_noisy_scores_of_real_noise_are_not_insecure():
    asked = Curator(DATA, Rho(1e8))
    assert noisy_scores(asked, ["a"], Counted(), 1.0, Rho(1e8), label="scores") == pytest.approx([6.0], abs=0.1)
    assert not asked.ledger[0].insecure


# -- draws -----------------------------------------------------------------------------------------------------------
