"""PrivBayes: its scores and their sensitivities, parent sets, the network, and the mechanism with both estimators."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError
from pgmest.evaluation import workload_error
from pgmest.mechanisms import PrivBayes
from pgmest.mechanisms.privbayes.bayesian_network import BayesianNetwork
from pgmest.mechanisms.privbayes.parent_scores import (
    SCORES,
    dependence_score,
    information_scale,
    mutual_information_score,
    nearest_dependence_score,
    sensitivity,
)
from pgmest.mechanisms.privbayes.parent_sets import maximal_parent_sets
from pgmest.mechanisms.privbayes.privbayes import limit_parents, mean_absolute
from pgmest.privacy import AddRemove, Epsilon, Replace, Rho
from pgmest.privacy.noise import noise_for
from tests.mechanisms.auditing import DATA, DOMAIN, audit_mechanism

binary_tables = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(st.integers(0, 6), min_size=width, max_size=width), min_size=2, max_size=2)
)
tables = st.tuples(st.integers(2, 3), st.integers(1, 4)).flatmap(
    lambda shape: st.lists(
        st.lists(st.integers(0, 6), min_size=shape[1], max_size=shape[1]), min_size=shape[0], max_size=shape[0]
    )
)


def neighbors_of(table, replace):
    """All tables with one record more, or with one record in another cell."""
    cells = list(np.ndindex(table.shape))
    for cell in cells:
        more = table.copy()
        more[cell] += 1
        if not replace:
            yield more
            continue
        for other in cells:
            if more[other] and other != cell:
                moved = more.copy()
                moved[other] -= 1
                yield moved


def test_scores_of_tables_worked_out_by_hand():
    independent, same = np.array([[2.0, 2.0], [2.0, 2.0]]), np.array([[4.0, 0.0], [0.0, 4.0]])
    assert dependence_score(independent) == 0.0
    assert dependence_score(same) == 4.0  # half of 4 cells that are each off by 2
    assert nearest_dependence_score(same) == 0.0
    assert nearest_dependence_score(independent) == -4.0
    assert nearest_dependence_score(np.array([[8.0, 0.0], [0.0, 0.0]])) == -4.0
    assert mutual_information_score(independent) == pytest.approx(0.0)
    assert mutual_information_score(same) == pytest.approx(8 * math.log(2) / (9 * math.log(9) - 8 * math.log(8)))
    assert mutual_information_score(np.zeros((2, 2))) == 0.0


@given(binary_tables)
def test_the_nearest_dependence_is_the_best_of_all_assignments(rows):
    table = np.array(rows, dtype=float)
    half = table.sum() / 2
    shortfalls = []
    for assigned in itertools.product([0, 1], repeat=table.shape[1]):
        zero = np.array(assigned) == 0
        shortfalls.append(max(half - table[0][zero].sum(), 0) + max(half - table[1][~zero].sum(), 0))
    assert nearest_dependence_score(table) == pytest.approx(-min(shortfalls))


@pytest.mark.parametrize("score", ["I", "F", "R"])
@pytest.mark.parametrize("replace", [False, True])
@given(data=st.data())
def test_no_neighbor_moves_a_score_by_more_than_its_sensitivity(score, replace, data):
    table = np.array(data.draw(binary_tables if score == "F" else tables), dtype=float)
    if replace and not table.sum():
        return
    relation = Replace() if replace else AddRemove()
    bound = sensitivity(score, relation, int(table.sum()) if replace else None, binary=min(table.shape) <= 2)
    for other in neighbors_of(table, replace):
        assert abs(SCORES[score](other) - SCORES[score](table)) <= bound + 1e-9


def test_sensitivities_are_almost_attained():
    table, more = np.zeros((2, 2)), np.zeros((2, 2))
    table[0, 0], more[0, 0], more[1, 1] = 1000, 1000, 1
    assert SCORES["R"](more) - SCORES["R"](table) > 0.99 * sensitivity("R", AddRemove(), None, True)
    assert SCORES["I"](more) - SCORES["I"](table) > 0.99 * sensitivity("I", AddRemove(), None, True)
    assert sensitivity("R", AddRemove(records=3), None, False) == 6.0
    assert sensitivity("F", Replace(records=2), 100, True) == 2.0


def test_falling_information_is_within_its_bound_at_every_number_of_records():
    # The fall is at most 2 g(n/2) - g(n) for n I; g grows, which lowers the score by at most I (g(n+1) - g(n)) / g.
    for n in range(1, 2000):
        now, later = information_scale(n), information_scale(n + 1)
        fall = 2 * information_scale(n / 2) - now + n * math.log(n) * (later / now - 1)
        assert fall <= later


@given(st.lists(st.integers(2, 5), min_size=0, max_size=5), st.integers(1, 60))
def test_maximal_parent_sets_are_all_of_them(sizes, most):
    domain = pg.Domain({f"x{i}": size for i, size in enumerate(sizes)})
    fitting = [
        frozenset(chosen)
        for count in range(len(domain) + 1)
        for chosen in itertools.combinations(domain, count)
        if domain.size(chosen) <= most
    ]
    expected = {members for members in fitting if not any(members < other for other in fitting)}
    found = maximal_parent_sets(domain, list(domain), most, 1000, np.random.default_rng(0))
    assert len(found) == len(expected)
    assert set(map(frozenset, found)) == expected


def test_too_many_parent_sets_are_drawn_and_still_maximal():
    domain = pg.Domain({f"x{i}": 2 for i in range(30)})
    found = maximal_parent_sets(domain, list(domain), 40, 50, np.random.default_rng(0))
    assert len(set(found)) == 50
    assert {len(members) for members in found} == {5}


def test_usefulness_is_measured_by_the_mean_absolute_noise():
    assert mean_absolute(noise_for(Epsilon(0.1), AddRemove())) == pytest.approx(10, rel=0.01)
    assert mean_absolute(noise_for(Rho(0.005), AddRemove())) == pytest.approx(10 * math.sqrt(2 / math.pi), rel=0.01)


def test_a_network_samples_what_it_projects():
    rng = np.random.default_rng(0)
    parents = {"b": (), "a": ("b",), "c": ("a", "b")}
    marginals = {
        name: pg.Factor(DOMAIN.project((*given, name)), rng.integers(-2, 9, DOMAIN.project((*given, name)).shape))
        for name, given in parents.items()
    }
    network = BayesianNetwork.of(DOMAIN, parents, marginals, 200_000)
    assert network.parents == parents
    drawn = network.sample(seed=1).project(("a", "b", "c")).values
    assert np.abs(drawn - network.project(("a", "b", "c")).values).sum() < 0.02 * network.total
    assert network.project(()).values == pytest.approx(200_000)
    joint = np.prod([table.expand(DOMAIN).values for table in network.conditionals.values()], axis=0)
    assert network.project(("a", "b", "c")).values == pytest.approx(joint * network.total)
    assert "c | a, b" in repr(network)


def test_contexts_without_records_are_uniform_and_negative_counts_vanish():
    table = pg.Factor(pg.Domain({"a": 2, "b": 2}), [[-1.0, -2.0], [4.0, -4.0]])
    network = BayesianNetwork.of(table.domain, {"a": (), "b": ("a",)}, {"a": table, "b": table}, 10)
    assert network.conditionals["b"].values.tolist() == [[0.5, 0.5], [1.0, 0.0]]
    assert network.conditionals["a"].values.tolist() == [0.0, 1.0]
    assert network.sample(50, seed=0).project(("a", "b")).values.tolist() == [[0, 0], [50, 0]]


def test_networks_with_too_large_a_tree_lose_parents():
    domain = pg.Domain({name: 10 for name in "abcd"})
    parents = {"a": (), "b": ("a",), "c": ("a", "b"), "d": ("a", "b", "c")}
    assert limit_parents(domain, parents, 0.08) == parents
    assert limit_parents(domain, parents, 0.02) == {**parents, "d": ("a", "b")}


@pytest.mark.parametrize("estimator", ["pgm", "original"])
@pytest.mark.parametrize("budget", [{"epsilon": 40.0, "delta": 0}, {"rho": 200.0}])
@pytest.mark.parametrize("neighbors", [AddRemove(), Replace()])
def test_without_noise_the_network_is_learned_exactly(estimator, budget, neighbors):
    mechanism = PrivBayes(estimator=estimator, backend="simulation", neighbors=neighbors, **budget)
    result = mechanism.fit(DATA, seed=0)
    assert result.project(("a", "b", "c")).values == pytest.approx(DATA.project(("a", "b", "c")).values, abs=0.2)
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    assert result.sample(20, seed=0) == result.sample(20, seed=0)


@pytest.mark.parametrize("score", ["I", "R", "F"])
def test_every_score_finds_a_chain(score):
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 2, 4000)]
    for _ in range(3):
        columns.append(np.where(rng.random(4000) < 0.95, columns[-1], 1 - columns[-1]))
    data = pg.Dataset.from_codes(columns, {name: 2 for name in "abcd"})
    result = PrivBayes(epsilon=5.0, delta=0, theta=600, score=score, backend="simulation").fit(data, seed=3)
    edges = {frozenset((name, *given)) for name, given in result.details["parents"].items() if given}
    assert edges == {frozenset("ab"), frozenset("bc"), frozenset("cd")}


def test_pgm_is_closer_than_the_original_on_the_same_measurements():
    data = pg.datasets.load("census").take(range(4000))
    workload = pg.workloads.random_triples(data.domain, 15, seed=0)
    results = [
        PrivBayes(epsilon=1.0, delta=0, estimator=estimator, backend="simulation").fit(data, seed=0)
        for estimator in ("pgm", "original")
    ]
    pgm, original = (workload_error(data, result, workload) for result in results)
    assert pgm < original
    mine, theirs = (np.concatenate([m.values for m in result.measurements]) for result in results)
    assert np.array_equal(mine, theirs)


def test_seeds_repeat_and_attributes_need_no_company():
    mechanism = PrivBayes(epsilon=1.0, delta=0, estimator="original", backend="simulation")
    first, again, other = (mechanism.fit(DATA, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(first.project("b").values, again.project("b").values)
    assert not np.array_equal(first.project("b").values, other.project("b").values)
    assert PrivBayes(epsilon=100.0, delta=0, estimator="original", backend="simulation").fit(
        DATA.select(["b"]), seed=0
    ).details["parents"] == {"b": ()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"estimator": "mle"}, "estimator='mle' is not valid"),
        ({"theta": 0.0}, "theta=0.0 is not valid"),
        ({"structure_share": 1.0}, r"structure_share=1\.0 is not valid"),
        ({"score": "Q"}, "score='Q' is not valid"),
        ({"max_megabytes": 0}, "max_megabytes=0 is not valid"),
    ],
)
def test_arguments_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        PrivBayes(epsilon=1.0, delta=0, **arguments)


def test_a_binary_score_needs_binary_attributes():
    with pytest.raises(ArgumentError, match='"F" is for attributes with two values'):
        PrivBayes(epsilon=1.0, delta=0, score="F").fit(DATA)


def test_audit():
    mechanism = PrivBayes(epsilon=1.0, delta=0, estimator="original", backend="simulation")
    assert not audit_mechanism(mechanism).contradicts(mechanism.budget())
