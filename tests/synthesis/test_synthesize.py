"""Records from tables: GUM, flows, appending, separate parts."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest._base.errors import ArgumentError, UnknownAttributeError
from pgmest.sampling.systematic import random_round, systematic
from pgmest.synthesis import GradualUpdate, MinCostFlow, synthesize
from pgmest.synthesis.appending import _maximal, peel
from pgmest.synthesis.min_cost_flow import cheapest_flow

CENSUS = pg.datasets.load("census").select(["age", "sex", "race", "relationship", "income>50K"]).take(slice(0, 5000))
PAIRS = [CENSUS.project(pair) for pair in itertools.combinations(CENSUS.domain, 2)]


def off(records, tables):
    """The mean total-variation error of the records in the tables."""
    return np.mean(
        [
            np.abs(records.project(t.domain).values / records.records - t.values / t.values.sum()).sum() / 2
            for t in tables
        ]
    )


@pytest.mark.parametrize("method", ["gum", "mcf"])
def test_the_error_decreases(method):
    errors = []
    tables = PAIRS if method == "gum" else [table for table in PAIRS if "age" not in table.domain]
    domain = CENSUS.domain if method == "gum" else CENSUS.domain.without(["age"])
    records = synthesize(tables, domain, 5000, method=method, seed=0, callback=lambda _, error: errors.append(error))
    assert errors[-1] < errors[0] / 3
    assert off(records, tables) < 0.02
    assert records.records == 5000


def test_one_way_tables_are_met_exactly():
    tables = [CENSUS.project((name,)) for name in CENSUS.domain]
    records = synthesize(tables, CENSUS.domain, 5000, seed=0)
    for table in tables:
        assert np.array_equal(records.project(table.domain).values, table.values)


def test_flows_meet_the_last_table_and_gum_settles_between_all():
    cycle = [CENSUS.project(pair) for pair in (("sex", "race"), ("race", "income>50K"), ("income>50K", "sex"))]
    small = CENSUS.domain.project(("sex", "race", "income>50K"))
    flows = synthesize(cycle, small, 5000, method=MinCostFlow(iterations=3), seed=0)
    worst = [np.abs(flows.project(table.domain).values - table.values).sum() for table in cycle]
    assert min(worst) == 0
    assert off(synthesize(cycle, small, 5000, seed=0), cycle) < 0.005


@pytest.mark.parametrize("cliques", [["ab", "bc", "cd"], ["abc", "bcd"], ["ab", "ac", "ad", "a"], ["ab", "cd"]])
def test_tables_along_a_junction_tree_are_met_up_to_rounding(cliques):
    domain = pg.Domain({"a": 3, "b": 2, "c": 4, "d": 2})
    rng = np.random.default_rng(0)
    joint = pg.Factor(domain, rng.gamma(1.0, size=domain.shape)).normalize(100_000)
    tables = [joint.project(tuple(clique)) for clique in cliques]
    records = synthesize(tables, domain, 100_000, seed=0)
    assert off(records, tables) < 1e-3
    model = pg.estimate([pg.LinearMeasurement(t.values, t.domain.attributes) for t in tables], domain, tolerance=1e-9)
    independent = model.project(tuple("abcd")).values
    sampled = records.project(tuple("abcd")).values
    assert np.abs(sampled - independent).sum() / 2e5 < 0.01  # a sample of 100,000 from 48 cells: 0.0087 at most


def test_parts_that_share_nothing_are_independent():
    domain = pg.Domain({name: 2 for name in "abcdef"})
    odd = pg.Factor({"a": 2, "b": 2, "c": 2}, np.array([9, 1, 1, 9, 1, 9, 9, 1]).reshape(2, 2, 2) * 100.0)
    tables = [odd.project(pair) + np.eye(2) * 500 for pair in (("a", "b"), ("b", "c"), ("a", "c"))]
    again = [
        pg.Factor(dict(zip(pair, (2, 2), strict=True)), t.values)
        for t, pair in zip(tables, ("de", "ef", "df"), strict=True)
    ]
    records = synthesize(tables + again, domain, 20_000, seed=0)
    assert off(records, tables + again) < 0.01
    across = records.project(("a", "d")).values / 20_000
    assert across == pytest.approx(0.25, abs=0.02)


def test_attributes_in_no_table_are_uniform():
    records = synthesize([pg.Factor({"a": 2}, [3, 1])], {"a": 2, "z": 5}, 100, seed=0)
    assert records.project("z").values.tolist() == [20] * 5
    assert records.project("a").values.tolist() == [75, 25]


@given(st.lists(st.sampled_from(["ab", "bc", "ca", "cd", "de", "abc", "f", "ef"]), min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_peeling_keeps_every_attribute_once(cliques):
    core, appended = peel([tuple(clique) for clique in cliques])
    kept = {name for clique, _ in core for name in clique}
    added = [step.attribute for step in appended]
    assert sorted([*kept, *added]) == sorted(set("".join(cliques)))
    for position, step in enumerate(appended):  # what it is drawn given is there already
        assert set(step.given) <= kept | set(added[:position])
        assert set(step.given) | {step.attribute} <= set(cliques[step.table])


@given(st.lists(st.floats(0, 10), min_size=1, max_size=8), st.integers(0, 50), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_systematic_rounding(weights, n, seed):
    found = systematic(np.array(weights), n, np.random.default_rng(seed))
    expected = n * np.array(weights) / sum(weights) if any(weights) else np.full(len(weights), n / len(weights))
    assert found.sum() == n
    assert (np.abs(found - expected) < 1 + 1e-6).all()
    assert (found >= 0).all()


def test_random_rounding_is_unbiased():
    found = random_round(np.full(40_000, 2.25), np.random.default_rng(0))
    assert set(found) == {2, 3}
    assert found.mean() == pytest.approx(2.25, abs=0.01)


def test_the_cheapest_flow_beats_every_other():
    rng = np.random.default_rng(1)
    cost = rng.integers(1, 4, (3, 3))
    supply = demand = np.array([1, 1, 1])
    best = min(cost[np.arange(3), list(order)].sum() for order in itertools.permutations(range(3)))
    flow = cheapest_flow(cost, supply, demand)
    assert (flow * cost).sum() == best
    assert flow.sum(axis=0).tolist() == flow.sum(axis=1).tolist() == [1, 1, 1]


def test_seeds_reproduce():
    first, second, other = (synthesize(PAIRS, CENSUS.domain, 500, seed=seed) for seed in (1, 1, 2))
    assert first == second
    assert first != other


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        (GradualUpdate, {"iterations": 0}, "iterations=0"),
        (GradualUpdate, {"alpha": 1.5}, r"alpha=1\.5"),
        (GradualUpdate, {"duplicate": -0.1}, r"duplicate=-0\.1"),
        (MinCostFlow, {"iterations": 0}, "iterations=0"),
    ],
)
def test_parameters_out_of_range_are_refused(kind, parameters, message):
    with pytest.raises(ArgumentError, match=message):
        kind(**parameters)


def test_arguments_that_cannot_be_are_refused():
    with pytest.raises(ArgumentError, match="method='gumm'"):
        synthesize(PAIRS, CENSUS.domain, 10, method="gumm")
    with pytest.raises(ArgumentError, match="n=-1"):
        synthesize(PAIRS, CENSUS.domain, -1)
    with pytest.raises(UnknownAttributeError):
        synthesize(PAIRS, {"age": 85}, 10)
    wide = [pg.Factor({a: 600, b: 600}, np.eye(600)) for a, b in itertools.combinations("abc", 2)]
    with pytest.raises(ArgumentError, match="smaller ones for flows"):
        synthesize(wide, {name: 600 for name in "abc"}, 20_000, method="mcf", seed=0)


def test_no_records_are_fine():
    assert synthesize(PAIRS, CENSUS.domain, 0, seed=0).records == 0


def test_records_that_start_from_a_tree_are_nearer_at_once():
    starts = {
        start: off(synthesize(PAIRS, CENSUS.domain, 5000, method=GradualUpdate(start=start, iterations=1), seed=0), PAIRS)
        for start in ("independent", "tree")
    }
    assert starts["tree"] < 0.7 * starts["independent"]
    with pytest.raises(ArgumentError, match="start='chain' is not valid"):
        GradualUpdate(start="chain")


@pytest.mark.parametrize("n", [0, 1, 37])
def test_a_tree_start_takes_any_tables(n):
    """Empty and negative tables, larger ones, several parts, sizes of one."""
    domain = pg.Domain({"a": 2, "b": 3, "c": 1, "d": 2})
    rng = np.random.default_rng(0)
    tables = [pg.Factor(domain.project(c), rng.normal(size=domain.project(c).shape)) for c in map(tuple, ("ab", "bc", "ca", "da"))]
    tables += [pg.Factor.zeros(domain.project(("b", "d")))]
    records = synthesize(tables, domain, n, method=GradualUpdate(start="tree", iterations=2), seed=0)
    assert records.records == n


@given(st.lists(st.lists(st.sampled_from("abcde"), max_size=4, unique=True), max_size=8))
def test_maximal_cliques_are_those_inside_no_other(cliques):
    left = [(tuple(clique), place) for place, clique in enumerate(cliques)]
    expected = [
        (clique, place)
        for clique, place in left
        if clique
        and not any(set(clique) < set(other) or (set(clique) == set(other) and number < place) for other, number in left)
    ]
    assert _maximal(left) == expected
