"""Models of tables that agree, against iterative proportional fitting of the full joint table."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest.models.table_model import bearing_cells, connected, marginal_model, model_of_tables, reduced
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor

NAMES = "abcdef"
TREE = [tuple("ab"), tuple("bcd"), tuple("de"), tuple("bf")]
CYCLE = [tuple("ab"), tuple("bc"), tuple("cd"), tuple("ad"), tuple("de")]


def joint(sizes, seed, zeros=0.0):
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(int(np.prod(sizes)), 0.7)).reshape(sizes)
    table[rng.random(sizes) < zeros] = 0.0
    table.flat[0] += 0.1
    return Factor(Domain(dict(zip(NAMES, sizes, strict=False))), table / table.sum())


def most_entropy(tables, domain, rounds=3000):
    """Iterative proportional fitting of the full joint table, from the uniform one."""
    p = np.full(domain.shape, 1.0 / domain.size())
    for _ in range(rounds):
        before = p.copy()
        for clique, table in tables.items():
            ratio = table.normalize() / Factor(domain, p).project(clique)
            p = p * np.nan_to_num(ratio.expand(domain).values)
        if np.abs(p - before).max() < 1e-14:
            break
    return Factor(domain, p)


@st.composite
def problems(draw):
    sizes = draw(st.lists(st.integers(1, 3), min_size=2, max_size=5))
    names = NAMES[: len(sizes)]
    every = [clique for r in (1, 2, 3) for clique in itertools.combinations(names, r)]
    cliques = draw(st.lists(st.sampled_from(every), min_size=1, max_size=6, unique=True))
    cliques = [tuple(draw(st.permutations(clique))) for clique in cliques]
    truth = joint(sizes, draw(st.integers(0, 99)), draw(st.sampled_from([0.0, 0.3])))
    return truth.domain, {clique: truth.project(clique) * 7.0 for clique in cliques}


@settings(deadline=None, max_examples=60)
@given(problems())
def test_it_is_the_distribution_of_maximum_entropy(problem):
    domain, tables = problem
    model = model_of_tables(tables, domain, 50.0, 1e-12, 3000)
    expected = most_entropy(tables, domain)
    np.testing.assert_allclose(model.project(tuple(domain)).values, 50.0 * expected.values, atol=2e-3)
    for clique, table in tables.items():  # where zeros are approached only as 1 / rounds, as close as the joint table
        apart = np.abs(50.0 * expected.project(clique).values - 50.0 / 7.0 * table.values).max()
        np.testing.assert_allclose(model.project(clique).values, 50.0 / 7.0 * table.values, atol=max(1e-6, 2 * apart))


def test_zeros_that_tables_have_together_are_reached_though_slowly():
    """No table has a zero at (a, b, c, d) = (0, 1, 1, 0), but all together: fitting comes closer as 1 / rounds only."""
    domain = Domain({"a": 2, "b": 2, "c": 2, "d": 3})
    known = {
        ("c", "b", "d"): [1.839, 0.1897, 0.0211, 0.6391, 1.2489, 0.4972, 0, 0.5547, 0, 0.1607, 0.9431, 0.9065],
        ("c", "d", "a"): [0.9858, 1.4923, 0.5066, 0.932, 0.1031, 0.4152, 0, 0.1607, 0.5003, 0.9976, 0.0917, 0.8148],
        ("b", "c", "a"): [0.8414, 1.2084, 0.5003, 0.0544, 0.7541, 1.6311, 0.0917, 1.9187],
    }  # fmt: skip
    shaped = {clique: np.reshape(values, domain.project(clique).shape) for clique, values in known.items()}
    tables = {clique: Factor(domain.project(clique), values) for clique, values in shaped.items()}
    model = model_of_tables(tables, domain, 7.0, 1e-12, 3000)
    assert model.project(("a", "b", "c", "d")).values[0, 1, 1, 0] < 5e-4
    for clique, table in tables.items():
        np.testing.assert_allclose(model.project(clique).values, table.values, atol=5e-4)


@settings(deadline=None, max_examples=60)
@given(problems(), st.data())
def test_a_marginal_does_not_change_where_only_what_bears_on_it_is_fitted(problem, data):
    domain, tables = problem
    names = tuple(data.draw(st.lists(st.sampled_from(list(domain)), min_size=1, max_size=2, unique=True)))
    whole = model_of_tables(tables, domain, 50.0, 1e-12, 3000)
    part = marginal_model(tables, names, domain, 50.0, 1e-12, 3000)
    np.testing.assert_allclose(part.project(names).values, whole.project(names).values, atol=2e-3)
    assert set(names) <= set(part.domain)


def test_tables_that_form_a_junction_tree_need_no_round():
    truth = joint((2, 3, 2, 3, 2, 2), 1)
    tables = {clique: truth.project(clique) for clique in TREE}
    assert reduced(TREE, ())[0] == {}
    model = model_of_tables(tables, truth.domain, 1.0, 0.0, 0)
    for clique in TREE:
        np.testing.assert_allclose(model.project(clique).values, tables[clique].values, atol=1e-12)
    pair = marginal_model(tables, ("a", "e"), truth.domain, 1.0, 0.0, 0)
    np.testing.assert_allclose(pair.project(("a", "e")).values, model.project(("a", "e")).values, atol=1e-12)


def test_what_a_cycle_leaves():
    core, remains = reduced(CYCLE, ())
    assert set(core.values()) == {tuple("ab"), tuple("bc"), tuple("cd"), tuple("ad")}
    assert remains[tuple("de")] == ("d",)
    assert reduced(CYCLE, ("e",))[0][tuple("de")] == tuple("de")


def test_only_what_is_connected_bears():
    core = {clique: clique for clique in (tuple("ab"), tuple("bc"), tuple("de"))}
    assert set(connected(core, ("c",))) == {tuple("ab"), tuple("bc")}
    assert bearing_cells([tuple("ab"), tuple("bc"), tuple("de")], ("a", "c"), Domain(dict.fromkeys("abcde", 3))) == 18


def test_an_attribute_of_no_table_is_uniform_and_an_empty_clique_says_nothing():
    domain = Domain({"a": 2, "b": 4})
    tables = {("a",): Factor(domain.project(("a",)), [3.0, 1.0]), (): Factor(domain.project(()), 4.0)}
    model = model_of_tables(tables, domain, 8.0, 1e-9, 10)
    np.testing.assert_allclose(model.project(("a", "b")).values, [[1.5] * 4, [0.5] * 4])
    np.testing.assert_allclose(marginal_model(tables, ("b",), domain, 8.0, 1e-9, 10).project("b").values, [2.0] * 4)


@pytest.mark.parametrize("rounds", [1, 20])
def test_tables_whose_zeros_contradict_each_other_leave_a_model(rounds):
    domain = Domain({"a": 2, "b": 2, "c": 2})
    same, other = np.array([[0.5, 0.0], [0.0, 0.5]]), np.array([[0.0, 0.5], [0.5, 0.0]])
    tables = {
        clique: Factor(domain.project(clique), table)
        for clique, table in ((("a", "b"), same), (("b", "c"), same), (("a", "c"), other))
    }
    model = model_of_tables(tables, domain, 8.0, 1e-9, rounds)
    assert model.project(("a", "b", "c")).values.sum() == pytest.approx(8.0)
    assert marginal_model(tables, ("a", "b"), domain, 8.0, 1e-9, rounds).project(("a", "b")).values[0, 1] == 0.0
