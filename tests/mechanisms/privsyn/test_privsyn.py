"""PrivSyn: InDif and its sensitivity, the choice of pairs, and the mechanism."""

from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import pgmest as pg
from pgmest.errors import ArgumentError
from pgmest.evaluation import workload_error
from pgmest.mechanisms import Independent, PrivSyn
from pgmest.mechanisms.privsyn import privsyn
from pgmest.mechanisms.privsyn.pairs import (
    choose_pairs,
    combine_pairs,
    difference_sensitivity,
    independent_difference,
    noisy_differences,
)
from pgmest.privacy import AddRemove, Curator, Replace, Rho
from pgmest.synthesis import GradualUpdate
from tests.mechanisms.auditing import DATA, audit_statistics
from tests.mechanisms.repeating import check_cut_journal

CENSUS = pg.datasets.load("census").select(["age", "sex", "race", "relationship", "income>50K"])
PAIRS = pg.workloads.all_kway(CENSUS.domain, 2)
COUNTS = arrays.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 4)), elements=st.integers(0, 30))


def fitted(seed=0, workload=None, **parameters):
    given = {"epsilon": 1.0, "delta": 1e-9, "backend": "simulation", **parameters}
    return PrivSyn(**given).fit(CENSUS, workload, seed=seed, progress=False)


# -- InDif ----------------------------------------------------------------------------------------------------------


@given(COUNTS, st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_one_record_moves_the_difference_by_less_than_its_sensitivity(table, random):
    more = table.copy()
    more[random.randrange(table.shape[0]), random.randrange(table.shape[1])] += 1
    moved = abs(independent_difference(more) - independent_difference(table))
    assert moved <= difference_sensitivity(AddRemove())
    fewer = more.copy()
    i, j = random.choice(np.argwhere(more).tolist())
    fewer[i, j] -= 1
    replaced = abs(independent_difference(fewer) - independent_difference(table))
    assert replaced <= difference_sensitivity(Replace())


def test_the_sensitivity_is_approached_and_grows_with_the_records_of_an_individual():
    table = np.full((40, 40), 1000.0)
    table[0], table[:, 0] = 0, 0
    more = table.copy()
    more[0, 0] = 1
    assert independent_difference(more) - independent_difference(table) > 3.99
    assert [difference_sensitivity(n) for n in (AddRemove(), AddRemove(3), Replace(), Replace(2))] == [4, 12, 8, 16]


def test_noisy_differences_have_the_noise_that_was_paid_for():
    pairs = list(combinations(DATA.domain, 2))
    exact = [independent_difference(DATA.project(pair).values) for pair in pairs]
    found = []
    for seed in range(100):
        curator = Curator(DATA, Rho(1.0), backend="simulation", seed=seed)
        found.append(noisy_differences(curator, pairs, Rho(0.5)))
        assert curator.spent == Rho(0.5)
        assert curator.ledger[0].insecure
    assert np.mean(found, axis=0) == pytest.approx(exact, abs=2.5)
    assert np.std(found, axis=0) == pytest.approx(4 * np.sqrt(3), rel=0.2)  # sqrt(pairs) * 4 / sqrt(2 rho)
    curator = Curator(DATA, Rho(1e6))
    assert noisy_differences(curator, pairs, Rho(1e6)) == pytest.approx(exact, abs=0.1)
    assert not curator.ledger[0].insecure


def test_pairs_are_chosen_where_dependence_exceeds_noise():
    domain = pg.Domain({"a": 10, "b": 10, "c": 10})
    pairs = list(combinations(domain, 2))
    assert choose_pairs(pairs, np.array([500.0, 20.0, -5.0]), domain, noise=1.0) == [("a", "b")]
    assert choose_pairs(pairs, np.array([500.0, 900.0, 0.0]), domain, noise=1.0) == [("a", "c"), ("a", "b")]
    assert choose_pairs(pairs, np.array([500.0, 900.0, 0.0]), domain, noise=1e3) == []
    kept = choose_pairs(pairs, np.full(3, 900.0), domain, 1.0, lambda pair: "c" not in pair)
    assert kept == [("a", "b")]


@given(
    st.lists(st.sampled_from(list(combinations("abcdef", 2))), unique=True, max_size=15),
    st.sampled_from([4, 8, 16, 64]),
)
def test_combined_marginals_cover_the_pairs_and_nothing_else(pairs, max_cells):
    domain = pg.Domain({name: 2 for name in "abcdef"})
    combined = combine_pairs(pairs, domain, max_cells)
    inside = {frozenset(pair) for clique in combined for pair in combinations(clique, 2)}
    assert inside == {frozenset(pair) for pair in pairs}
    assert all(domain.size(clique) <= max(4, max_cells) for clique in combined)


# -- the mechanism --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["original", "pgm"])
def test_it_spends_its_budget_and_beats_independence(estimator):
    result = fitted(estimator=estimator)
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    assert {entry.kind for entry in result.ledger} == {"measure"}
    assert len(result.measurements) == 5 + len(result.details["marginals"])
    baseline = Independent(epsilon=1.0, delta=1e-9, backend="simulation").fit(CENSUS, seed=0)
    assert workload_error(CENSUS, result, PAIRS) < 0.5 * workload_error(CENSUS, baseline, PAIRS)


def test_its_model_is_its_records():
    result = fitted()
    records = result.sample(seed=0)
    assert records.domain == CENSUS.domain
    assert records.records == round(result.model.total)
    pair = ("age", "sex")
    assert np.abs(records.project(pair).values - result.project(pair).values).sum() < 0.01 * records.records


def test_with_much_budget_it_is_close_to_the_data():
    result = fitted(epsilon=None, delta=None, rho=1e6)
    assert workload_error(CENSUS, result, PAIRS, norm="tv", per="record") < 0.01


def test_rare_values_are_combined_and_come_back():
    result = fitted(threshold=50.0, rho=0.05, epsilon=None, delta=None)
    assert any(m.query is not None for m in result.measurements)
    age = result.project(("age",)).values
    assert np.abs(age - CENSUS.project(("age",)).values).sum() < 0.1 * CENSUS.records
    assert fitted(threshold=-np.inf).measurements[-1].query is None


def test_a_workload_restricts_the_pairs():
    result = fitted(workload=[("age", "sex"), ("sex", "income>50K")])
    assert set(result.details["pairs"]) <= {("age", "sex"), ("sex", "income>50K")}
    assert fitted(workload=["age"]).ledger.remaining / fitted().ledger.budget < 1e-9
    race, truth = (one.project("race").values for one in (result, CENSUS))
    assert np.abs(race - truth).sum() < 0.05 * CENSUS.records  # the workload does not name it


def test_where_nothing_is_worth_measuring_the_budget_is_spent_nonetheless(monkeypatch):
    monkeypatch.setattr(privsyn, "noisy_differences", lambda curator, pairs, *_: np.zeros(len(pairs)))
    result = fitted()
    assert result.details["pairs"] == []
    assert len(result.measurements) == 10
    assert result.ledger[-1].cost / result.ledger[4].cost == pytest.approx(9, rel=0.2)
    assert result.ledger.remaining / result.ledger.budget < 1e-9


def test_the_tree_of_the_graphical_model_stays_within_its_limit():
    tight = 0.01
    result = fitted(estimator="pgm", max_megabytes=tight, rho=10.0, epsilon=None, delta=None)
    assert pg.JunctionTree.from_cliques(CENSUS.domain, result.details["marginals"]).megabytes <= tight
    assert 0 < len(result.details["pairs"]) < 10


def test_where_the_number_of_records_is_public_it_is_used():
    assert fitted(neighbors=Replace()).model.total == CENSUS.records


def test_the_same_seed_gives_the_same_run():
    first, second, other = fitted(seed=3), fitted(seed=3), fitted(seed=4)
    assert first.sample(100, seed=0) == second.sample(100, seed=0)
    assert first.sample(100, seed=0) != other.sample(100, seed=0)


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    mechanism = PrivSyn(epsilon=1.0, delta=1e-9, backend="simulation")
    check_cut_journal(mechanism, CENSUS, fitted(), tmp_path / "run", lines=8, selection_share=0.2)


def test_an_interrupted_run_keeps_what_was_paid():
    def stop(curator):
        if len(curator.ledger) == 9:
            raise KeyboardInterrupt

    result = PrivSyn(rho=1.0, backend="simulation").fit(CENSUS, seed=0, progress=stop)
    assert result.interrupted
    assert len(result.measurements) == 7
    assert result.model.total == pytest.approx(CENSUS.records, rel=0.01)


def test_the_audit_does_not_contradict_the_claim():
    mechanism = PrivSyn(rho=0.5, backend="simulation", synthesis=GradualUpdate(iterations=3))
    for report in audit_statistics(mechanism):
        assert not report.contradicts(mechanism.budget())


@pytest.mark.parametrize(
    "parameters",
    [
        {"estimator": "gum"},
        {"synthesis": "pgm"},
        {"selection_share": 0.9},
        {"max_cells": 0},
        {"max_megabytes": 0.0},
        {"threshold": float("nan")},
    ],
)
def test_parameters_out_of_range_are_refused(parameters):
    with pytest.raises(ArgumentError, match=next(iter(parameters))):
        PrivSyn(rho=1.0, **parameters)


@pytest.mark.parametrize(("records", "shape"), [(1, (2, 2)), (2, (2, 3)), (3, (3, 3)), (5, (2, 2)), (6, (3, 3))])
def test_the_dependence_of_neighbors_differs_by_no_more_than_stated(records, shape):
    """All tables of so many records, and all ways to replace one; some come near to 6 + 4 / N, and none exceeds it."""
    cells = list(np.ndindex(shape))
    moved = 0.0
    for who in combinations_with_replacement(range(len(cells)), records):
        table = np.bincount(who, minlength=len(cells)).astype(float).reshape(shape)
        before = independent_difference(table)
        for out, new in product({cells[i] for i in who}, cells):
            after = table.copy()
            after[out] -= 1
            after[new] += 1
            moved = max(moved, abs(independent_difference(after) - before))
    bound = difference_sensitivity(Replace(), records)
    assert moved <= bound <= 6 + 4 / records + 1e-9
    assert difference_sensitivity(Replace(3), records) == pytest.approx(3 * bound)
    assert difference_sensitivity(Replace(), 1) == 8.0
    assert difference_sensitivity(AddRemove(2)) == 8.0


def test_the_table_of_differences_moves_by_nearly_the_whole_bound():
    """Values that are rare except for the record: the l1 norm of the change, not only of the difference of norms."""
    size, records = 60, 3600
    table = np.full((size, size), 1.0)
    after = table.copy()
    after[0, 0] -= 1
    after[1, 1] += 1
    change = _differences(after) - _differences(table)
    assert 0.95 * (6 + 4 / records) < np.abs(change).sum() <= 6 + 4 / records


def _differences(table):
    return table - np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
