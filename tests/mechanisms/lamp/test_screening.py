"""Small budgets: pairs are selected before they are scored, and strong dependence survives."""

from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from pgmest.data.dataset import Dataset
from pgmest.mechanisms import AIM, LAMP
from pgmest.mechanisms.lamp.allocation import ItemErrors
from pgmest.mechanisms.lamp.evidence import Evidence
from pgmest.mechanisms.lamp.groups import nested_groups
from pgmest.mechanisms.lamp.rounds import Rounds
from pgmest.mechanisms.lamp.scorer import Scorer
from pgmest.mechanisms.lamp.screening import screened_pairs
from pgmest.privacy import Curator, Epsilon, Rho
from pgmest.privacy.grouped_distances import GroupedDistance
from pgmest.privacy.neighbors import AddRemove
from pgmest.tables.distances import total_variation

SIZES = {"a": 12, "b": 12, "c": 5, "d": 2, "e": 40, "f": 3}


def dependent(records=3_000, seed=0):
    """Return records of which b follows a and d follows c; all else is independent."""
    rng = np.random.default_rng(seed)
    a, c = rng.integers(0, 12, records), rng.integers(0, 5, records)
    b = np.where(rng.random(records) < 0.8, (a + rng.integers(0, 2, records)) % 12, rng.integers(0, 12, records))
    d = (rng.random(records) < np.where(c < 2, 0.1, 0.8)).astype(int)
    others = [rng.integers(0, size, records) for size in (40, 3)]
    return Dataset.from_codes(np.column_stack([a, b, c, d, *others]), SIZES)


def scorer_of(data, budget, noise=1e-6):
    """Return a scorer to which the one-way marginals are known but for noise of a standard deviation."""
    counts = {name: data.project(name).values.astype(float) for name in data.domain}
    evidence = Evidence(data.domain, len(data), {name: (values, noise**2) for name, values in counts.items()}, ())
    levels = {name: nested_groups(values) for name, values in counts.items()}
    return Scorer(Curator(data, budget, backend="simulation", seed=0), evidence, levels, budget)


def expected_of(scorer):
    return scorer.evidence.expected(list(combinations(scorer.evidence.domain.attributes, 2)))


@pytest.mark.parametrize("budget", [Rho(1e4), Epsilon(1e4)])
def test_the_dependent_pairs_come_first(budget):
    scorer = scorer_of(dependent(), budget)
    chosen = screened_pairs(scorer, expected_of(scorer), 2, budget)
    assert set(chosen) == {("a", "b"), ("c", "d")}


def test_the_forest_joins_everything_once_and_leaves_out_what_is_joined():
    scorer = scorer_of(dependent(), Rho(1.0), noise=1.0)
    chosen = screened_pairs(scorer, expected_of(scorer), 5, Rho(1.0), [("a", "b")])
    forest = nx.Graph()
    forest.add_edges_from([("a", "b"), *((pair[0], pair[1]) for pair in chosen)])
    assert len(chosen) == 4
    assert nx.is_tree(forest)
    assert set(forest) == set(SIZES)
    assert scorer.curator.remaining / Rho(1.0) == pytest.approx(0.2)  # four of five selections


def test_the_constant_of_a_distance_does_not_change_its_sensitivity():
    rng = np.random.default_rng(1)
    groups = (np.array([0, 0, 1]), np.array([0, 1]))
    for _ in range(50):
        counts, place = rng.integers(0, 4, (3, 2)).astype(float), tuple(rng.integers(0, (3, 2)))
        distance = GroupedDistance(("a", "b"), groups, rng.random((2, 2)) * 5, float(rng.random() * 9))
        more = counts.copy()
        more[place] += 1
        assert abs(distance.score(more) - distance.score(counts)) <= 1 + 1e-12


def test_strong_items_weigh_more_and_the_rest_as_before():
    items = ItemErrors.of([[(("a",), 1.0, None)], [(("a",), 1.0, None), (("a", "b"), 1.0, None)]], np.ones(2))
    strength = np.array([0.0, 3.0])
    assert items.weighted_by(strength, 0.5).importance.tolist() == [1.0, 2.0]
    assert items.weighted_by(np.zeros(2), 0.5).importance.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("parameters", [{}, {"delta": 0.0}, {"first_share": 0.9, "scoring_share": 0.09}, {"rounds": 1}])
def test_a_small_budget_is_spent_to_the_last(parameters):
    given = {"delta": 1e-9, **parameters}
    result = LAMP(epsilon=0.3, backend="simulation", neighbors=AddRemove(4), **given).fit(dependent(), seed=1)
    assert result.ledger.remaining / result.ledger.budget < 1e-9


def test_strong_dependence_survives_a_small_budget():
    data, pairs = dependent(8_000), [("a", "b"), ("c", "d")]
    found = {LAMP: [], AIM: []}
    for mechanism, kept in found.items():
        for seed in range(6):
            asked = mechanism(epsilon=1.0, delta=1e-9, backend="simulation", neighbors=AddRemove(4))
            model = asked.fit(data, seed=seed).model
            kept.append(np.mean([total_variation(data.project(p), model.project(p)) for p in pairs]))
    assert np.mean(found[LAMP]) <= 1.05 * np.mean(found[AIM])


def test_a_table_that_was_measured_ahead_keeps_its_groups():
    curator = Curator(dependent(), Rho(1e-3), backend="simulation", seed=0)
    rounds = Rounds.start(LAMP(rho=1e-3, backend="simulation"), curator, None)
    rounds.level_of["a", "e"] = 1
    before = dict(rounds.levels)
    rounds._measure_one_way_again()
    assert [name for name in SIZES if rounds.levels[name] is before[name]] == ["a", "e"]
