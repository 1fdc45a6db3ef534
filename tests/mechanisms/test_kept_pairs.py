"""Which dependences a release kept: every pair is in one state, and the states are those of a search in the graph."""

from __future__ import annotations

import dataclasses
import json
from itertools import combinations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.mechanisms.kept_pairs import IMPLIED, INDEPENDENT, MEASURED, KeptPairs
from pgmest.mechanisms.made_up import made_up
from pgmest.mechanisms.registry import named_mechanism

DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 4, "d": 2, "one": 1})
DATA = made_up(DOMAIN, 2000)


@given(
    st.integers(0, 6),
    st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True), max_size=8),
    st.lists(st.lists(st.integers(0, 5), min_size=2, max_size=3, unique=True), max_size=2),
)
def test_states_are_those_of_the_graph(count, cliques, known):
    names = [f"x{i}" for i in range(count)]
    first, second = ([tuple(f"x{i}" for i in clique if i < count) for clique in group] for group in (cliques, known))
    kept = KeptPairs(names, first, second)
    graph = nx.Graph()
    graph.add_nodes_from(names)
    direct = {frozenset(pair) for clique in first for pair in combinations(clique, 2)}
    graph.add_edges_from(pair for clique in [*first, *second] for pair in combinations(clique, 2))
    counts = dict.fromkeys((MEASURED, IMPLIED, INDEPENDENT), 0)
    for pair in combinations(names, 2):
        joined = nx.has_path(graph, *pair)
        wanted = MEASURED if frozenset(pair) in direct else IMPLIED if joined else INDEPENDENT
        assert kept.state(pair) == wanted
        counts[wanted] += 1
    assert kept.counts == counts
    listed = kept.not_measured(100)
    assert len({frozenset(pair) for pair, _, _ in listed}) == len(listed) == counts[IMPLIED] + counts[INDEPENDENT]
    assert all(state == kept.state(pair) for pair, state, _ in listed)
    assert len(kept.not_measured(2)) == min(2, len(listed))


def test_the_largest_estimated_errors_come_first_and_numbers_of_pairs_are_right():
    names = [f"x{i}" for i in range(30)]
    errors = {frozenset(("x1", "x2")): 0.1, frozenset(("x3", "x9")): 0.4, frozenset(("x0", "x1")): 0.9}
    kept = KeptPairs(names, [("x0", "x1")], estimates=errors, matters=[("x3", "x9"), ("x0", "x1")])
    assert [pair for pair, _, _ in kept.not_measured(2)] == [("x3", "x9"), ("x1", "x2")]
    lines = kept.lines(3)
    assert lines[0].startswith("matters: x3 x x9: NOT measured, since the budget cannot tell it from noise")
    assert "scores estimate a loss of 40 % of the records" in lines[0]
    assert lines[1] == "matters: x0 x x1: measured"
    assert "1 of 435 pairs measured" in lines[2]
    assert "x3 x x9 (40 %), x1 x x2 (10 %), x0 x x2, and 431 more" in lines[3]
    json.dumps(kept.to_json())


def test_a_larger_table_that_matters_is_not_said_to_be_measured_if_only_its_pairs_were():
    kept = KeptPairs(["a", "b", "c"], [("a", "b"), ("b", "c")], matters=[("a", "b", "c"), ("b",)])
    assert kept.on_matters() == ["a x b x c: NOT measured as a whole; 2 of its 3 pairs were", "b: measured"]


def test_the_reason_depends_on_the_run():
    def reason(name, **parameters):
        mechanism = named_mechanism(name, epsilon=1.0, backend="simulation", **parameters)
        kept = KeptPairs.of(mechanism.fit(DATA, seed=0, progress=False))
        assert kept is not None
        return kept.reason

    assert reason("lamp", records=1000) == "the budget cannot tell it from noise"
    assert "size limits" in reason("aim")

    def stop(curator):
        curator.stopped = len(curator.ledger) >= 5

    ended = named_mechanism("lamp", epsilon=1.0, backend="simulation").fit(DATA, seed=0, progress=stop)
    kept = KeptPairs.of(dataclasses.replace(ended, details={**ended.details, "matters": [("a", "b")]}))
    assert kept is not None
    assert ended.interrupted
    assert "the run was ended early" in kept.on_matters()[0]


def test_a_column_of_one_value_that_matters_is_not_called_lost():
    kept = KeptPairs(["a", "b"], [("a",), ("b",)], matters=[("a", "one")])
    assert kept.on_matters() == ["a x one: a column with one value cannot depend on others"]


def test_independent_has_no_dependence_and_says_so():
    result = pg.mechanisms.Independent(rho=0.1, backend="simulation").fit(DATA, seed=0, progress=False)
    kept = KeptPairs.of(result)
    assert kept is not None
    assert kept.counts == {MEASURED: 0, IMPLIED: 0, INDEPENDENT: 6}
    assert kept.attributes == ["a", "b", "c", "d"]  # an attribute of one value cannot depend


@pytest.mark.parametrize("name", ["lamp", "aim", "mst", "hdmm", "privbayes"])
def test_each_mechanism_says_which_pairs_it_measured(name):
    mechanism = named_mechanism(name, epsilon=3.0, backend="simulation")
    result = mechanism.fit(DATA, seed=0, progress=False)
    kept = KeptPairs.of(result)
    assert kept is not None
    cliques = [set(measurement.clique) for measurement in result.measurements]
    for pair in combinations("abcd", 2):
        assert (kept.state(pair) == MEASURED) == any(set(pair) <= clique for clique in cliques)


def test_columns_that_no_round_measures_are_named():
    mechanism = pg.mechanisms.MWEM(epsilon=1.0, backend="simulation", rounds=1)
    result = mechanism.fit(DATA, seed=0, progress=False)
    kept, (pair,) = KeptPairs.of(result), result.details["chosen"]
    others = [name for name in "abcd" if name not in pair]
    assert kept is not None
    assert kept.unmeasured == others
    assert kept.lines(8)[-1] == f"nothing was measured of {', '.join(others)}, which are uniform in the table"
    assert kept.state((pair[0], others[0])) == INDEPENDENT


def test_pairs_of_structural_zeros_are_implied():
    zeros = pg.zeros.impossible(("a", "b"), [(0, 1)])
    mechanism = pg.mechanisms.Independent(rho=0.1, backend="simulation", structural_zeros=zeros)
    kept = KeptPairs.of(mechanism.fit(DATA, seed=0, progress=False))
    assert kept is not None
    assert kept.state(("a", "b")) == IMPLIED


def test_records_and_models_without_measurements_say_nothing():
    assert KeptPairs.of(DATA) is None
    assert KeptPairs.of(pg.Model(pg.CliqueVector.zeros(DOMAIN, []), 10.0)) is None
