"""PrivMRF: its graph, its marginals, what it spends, and that it is as private as it claims."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError
from pgmest.mechanisms import Independent, PrivMRF
from pgmest.mechanisms.privmrf.attribute_graph import (
    _matrix,
    _ParentSets,
    attribute_graph,
    initial_marginals,
    useful_marginals,
)
from pgmest.mechanisms.privmrf.privmrf import some_of
from pgmest.privacy import AddRemove, Curator, Replace, Rho
from pgmest.tables.domain import Clique
from tests.mechanisms.auditing import DATA, audit_mechanism
from tests.mechanisms.repeating import check_failed_run, check_seeds

CENSUS = pg.datasets.load("census").select(["age", "education-num", "sex", "hours-per-week", "income>50K"])
DOMAIN = pg.Domain({"a": 4, "b": 4, "c": 4, "d": 4})


def pairs_of(**values):
    return {frozenset(names): value for names, value in values.items()}


def test_dependent_pairs_are_joined_while_they_fit():
    dependence = pairs_of(ab=0.5, bc=0.4, ac=0.3, cd=0.01)
    wide = attribute_graph(DOMAIN, dependence, least=0.1, max_megabytes=1.0)
    assert set(map(frozenset, wide)) == {frozenset("abc"), frozenset("d")}
    narrow = attribute_graph(DOMAIN, dependence, least=0.1, max_megabytes=40 * 8e-6)
    assert set(map(frozenset, narrow)) == {frozenset("ab"), frozenset("bc"), frozenset("d")}


def test_each_attribute_is_explained_by_the_best_parents():
    dependence = pairs_of(ab=0.5, bc=0.4, ac=0.1)
    found = initial_marginals(DOMAIN, [("a", "b", "c"), ("d",)], dependence, 16, np.random.default_rng(0))
    assert set(found) == {("a", "b"), ("b", "c")}
    triples = initial_marginals(DOMAIN, [("a", "b", "c")], dependence, 64, np.random.default_rng(0))
    assert ("a", "b", "c") in triples
    assert initial_marginals(DOMAIN, [("a", "b")], dependence, 15, np.random.default_rng(0)) == []


@given(st.integers(2, 4), st.integers(1, 300))
def test_useful_marginals_are_all_that_fit(size, cells):
    from itertools import combinations

    cliques = [("a", "b", "c"), ("c", "d")]
    expected = {
        subset
        for clique in cliques
        for length in range(2, size + 1)
        for subset in combinations(clique, length)
        if DOMAIN.size(subset) <= cells
    }
    assert set(useful_marginals(DOMAIN, cliques, size, cells)) == expected


@pytest.mark.parametrize("rho", [0.001, 1.0])
@pytest.mark.parametrize("neighbors", [AddRemove(), Replace()])
@pytest.mark.parametrize("workload", [None, [("a",)], [("a", "c")]])
def test_the_budget_is_spent_and_not_more(rho, neighbors, workload):
    result = PrivMRF(rho=rho, neighbors=neighbors, backend="simulation").fit(DATA, workload, seed=0)
    assert result.ledger.total <= Rho(rho)
    assert result.ledger.remaining / result.ledger.budget < 1e-9


def test_it_costs_no_more_than_it_claims():
    mechanism = PrivMRF(rho=0.5, theta=0.1, max_iterations=3, backend="simulation")
    assert not audit_mechanism(mechanism).contradicts(mechanism.budget())


def joined(result):
    """Return whether the graph joins all attributes, which the noisy dependence decides."""
    return float(any({"a", "b", "c"} <= set(clique) for clique in result.details["graph"]))


def test_the_graph_costs_no_more_than_its_share(monkeypatch):
    monkeypatch.setattr("pgmest.mechanisms.privmrf.privmrf.ONE_WAY_SHARE", 0.1)
    monkeypatch.setattr("pgmest.mechanisms.privmrf.privmrf.GRAPH_SHARE", 0.8)
    mechanism = PrivMRF(rho=0.5, theta=0.1, max_iterations=3, backend="simulation")
    assert not audit_mechanism(mechanism, statistic=joined, trials=51).contradicts(mechanism.budget())


def test_dependence_gets_the_noise_that_is_charged():
    mechanism = PrivMRF(rho=0.5, backend="simulation")
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    model = Independent(rho=1e6, backend="simulation").fit(DATA, seed=0).model
    exact = [np.abs(DATA.project(pair).values - model.project(pair).values).sum() / 30 for pair in pairs]
    found = [
        list(mechanism._dependence(Curator(DATA, Rho(0.5), backend="simulation", seed=seed), model, pairs).values())
        for seed in range(400)
    ]
    errors = 30 * (np.array(found) - exact)
    # three distances that one record moves by at most 1 each, for rho 0.05: sigma = sqrt(3 / 0.1)
    assert np.std(errors) == pytest.approx(np.sqrt(3 / 0.1), rel=0.1)
    assert np.abs(errors.mean(axis=0)).max() < 1.1


def test_it_beats_independent_attributes():
    pairs = pg.workloads.all_kway(CENSUS.domain, 2)
    rough, fine = (
        pg.evaluation.workload_error(CENSUS, kind(rho=0.05, backend="simulation").fit(CENSUS, seed=0), pairs, norm="tv")
        for kind in (Independent, PrivMRF)
    )
    assert fine < 0.8 * rough


def test_seeds_repeat_runs():
    check_seeds(PrivMRF(rho=0.05, theta=1.0, backend="simulation"))


def test_a_checkpoint_repeats_what_was_paid(tmp_path):
    whole = check_failed_run(PrivMRF(rho=0.5, theta=0.1), tmp_path / "run", charges=5)
    assert not whole.ledger.insecure


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"theta": 0}, "theta=0 is not valid"),
        ({"rounds_per_attribute": -1}, "rounds_per_attribute=-1 is not valid"),
        ({"max_megabytes": 0}, "max_megabytes=0 is not valid"),
    ],
)
def test_parameters_out_of_range_are_refused(given, message):
    with pytest.raises(ArgumentError, match=message):
        PrivMRF(rho=1.0, **given)


def test_the_best_parents_are_those_of_the_score_set_by_set():
    rng = np.random.default_rng(0)
    for _ in range(20):
        names = tuple("abcdefg")
        dependence = {frozenset(pair): float(rng.normal(0.2, 0.3)) for pair in itertools.combinations(names, 2)}
        dependence.pop(frozenset("ab"))
        sets = [part for k in range(1, 5) for part in itertools.combinations(names[:-1], k)]

        def score(parents, dependence=dependence):
            shared = sum(dependence.get(frozenset(("g", parent)), 0.0) for parent in parents)
            pairs = itertools.combinations(parents, 2)
            overlap = sum(max(0.0, dependence.get(frozenset(pair), 0.0)) for pair in pairs)
            return shared / np.sqrt(len(parents) + overlap)

        matrix = _matrix(names, dependence)
        place = {name: position for position, name in enumerate(names)}
        found, parents = _ParentSets.of(sets, place, matrix).best(matrix[place["g"]])
        assert found == pytest.approx(max(map(score, sets)))
        assert score(parents) == pytest.approx(found)
    assert _ParentSets.of([], place, matrix).best(matrix[0])[1] == ()


def test_of_very_many_candidates_some_are_drawn():
    cliques: list[Clique] = [(f"x{i}",) for i in range(50)]
    assert some_of(cliques, 50, np.random.default_rng(0)) == cliques
    drawn = some_of(cliques, 20, np.random.default_rng(0))
    assert len(set(drawn)) == 20
    assert drawn == sorted(drawn, key=cliques.index)
    assert drawn != some_of(cliques, 20, np.random.default_rng(1))
