"""Selections give information about candidates that were not chosen: compared with simulated exponential mechanisms."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.measurements.selection import MAX_VALUES, PaidSelection, ScoredMarginal, latest
from pgmest.privacy import Curator, Epsilon, Rho
from pgmest.privacy.scores import Distance, Distances
from pgmest.privacy.selection import selection_epsilon
from pgmest.transforms import Column, Transform
from pgmest.workloads import Item

DOMAIN = pg.Domain({"a": 3, "b": 3, "c": 2})
PAIRS = [("a", "b"), ("b", "c"), ("a", "c")]


class TestLaw:
    def test_which_candidates_win_is_as_the_rate_says(self) -> None:
        """The curator's own selections have the rate that it records."""
        data = pg.Dataset.from_codes(np.random.default_rng(0).integers(0, 2, (60, 3)), DOMAIN)
        weights = dict(zip(PAIRS, (1.0, 1.02, 1.05), strict=True))
        tables = {pair: Distance(Item(pair), np.zeros(DOMAIN.size(pair)), weight=weights[pair]) for pair in PAIRS}
        wins, budget = dict.fromkeys(PAIRS, 0), Rho(0.05)
        for seed in range(600):
            curator = Curator(data, budget, backend="simulation", seed=seed)
            wins[curator.select(PAIRS, Distances(tables), 1.0, budget)] += 1
        kept = curator.selections[0]
        assert kept.rate == pytest.approx(selection_epsilon(budget) / 2)
        scores = np.array([tables[pair].score(data.project(pair).datavector()) for pair in PAIRS])
        chances = np.exp(kept.rate * (scores - scores.max()))
        found = np.array([wins[pair] for pair in PAIRS]) / 600
        np.testing.assert_allclose(found, chances / chances.sum(), atol=0.07)


class TestCurator:
    data = pg.Dataset.from_codes(np.random.default_rng(1).integers(0, 2, (200, 3)), DOMAIN)

    def distances(self, domain=DOMAIN, pairs=PAIRS) -> Distances:
        return Distances({p: Distance(Item(p), np.full(domain.size(p), 3.0), None, 2.0, 5.0) for p in pairs})

    def test_what_is_kept_is_public(self) -> None:
        curator = Curator(self.data, Rho(1.0), backend="simulation", seed=0)
        winner = curator.select(PAIRS, self.distances(), 2.0, Rho(0.5))
        (kept,) = curator.selections
        assert kept.chosen.clique == winner
        assert {one.clique for one in kept.lost} == set(PAIRS) - {winner}
        assert kept.candidates == 3
        assert kept.rate == pytest.approx(selection_epsilon(Rho(0.5)) / 4.0)
        for one in (kept.chosen, *kept.lost):
            np.testing.assert_array_equal(one.expected, 3.0)
            exact = self.data.project(one.clique).datavector()
            assert one.scores(exact[None])[0] == pytest.approx(2.0 * (np.abs(exact - 3.0).sum() - 5.0))

    def test_permute_and_flip_and_other_scores_say_nothing(self) -> None:
        pure = Curator(self.data, Epsilon(1.0), backend="simulation", seed=0)
        pure.select(PAIRS, self.distances(), 2.0, Epsilon(0.5))
        assert pure.selections == ()
        other = Curator(self.data, Rho(1.0), backend="simulation", seed=0)
        other.select(PAIRS, lambda data: [0.0, 1.0, 2.0], 1.0, Rho(0.5))
        assert other.selections == ()

    def test_recoded_records(self) -> None:
        """Values 1 and 2 of a merged: the score is of the merged table, and so is what is kept, read from the first."""
        columns = {"a": Column(("a",), np.array([0, 1, 1])), "b": Column.same("b", 3), "c": Column.same("c", 2)}
        transform = Transform(DOMAIN, columns)
        curator = Curator(self.data, Rho(1.0), backend="simulation", seed=0)
        recoded = curator.through(transform)
        recoded.select(PAIRS, self.distances(transform.after), 2.0, Rho(0.5))
        (kept,), (inner,) = curator.selections, recoded.selections
        merged = transform.encode(self.data)
        for before, after in zip((kept.chosen, *kept.lost), (inner.chosen, *inner.lost), strict=True):
            original = kept.original(before)
            assert kept.sources(before.clique) == original.clique
            tables = self.data.project(original.clique).datavector()[None]
            exact = merged.project(after.clique).datavector()[None]
            np.testing.assert_allclose(original.scores(tables), after.scores(exact))

    def test_only_the_latest_are_kept(self) -> None:
        large = ScoredMarginal(("a", "b"), np.zeros(MAX_VALUES // 3))
        many = [PaidSelection(large, (), 1.0, 2) for _ in range(7)]
        assert latest(many) == many[-3:]
