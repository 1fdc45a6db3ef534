"""CliqueVector: a vector space on one flat array, and where each table lies in it."""

from __future__ import annotations

import operator
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmest import CliqueVector, Domain, Factor
from pgmest.errors import ArgumentError, DomainError, ShapeError, UnknownAttributeError
from pgmest.tables.clique_vector import Layout

INF = np.inf
DOMAIN = Domain({"a": 2, "b": 3, "c": 2, "d": 1})
CLIQUES = [("a", "b"), ("c",), (), ("b", "a"), ("d", "c")]
CLIQUE = st.lists(st.sampled_from(sorted(DOMAIN)), unique=True, max_size=3).map(tuple)


def vector(*cells: float) -> CliqueVector:
    """A vector over a and b."""
    return CliqueVector({"a": 2, "b": 3}, {("a",): cells[:2], ("b",): cells[2:]})


# -- layout -----------------------------------------------------------------------------------------------------------


def test_a_layout_by_hand():
    layout = Layout.of(DOMAIN, [*CLIQUES, ("c",), ["a", "b"]])
    assert layout.cliques == tuple(CLIQUES)
    assert layout.sizes == (6, 2, 1, 6, 2)
    assert layout.offsets.tolist() == [0, 6, 8, 9, 15, 17]
    assert layout.cells == 17
    assert layout.domains[3] == Domain({"b": 3, "a": 2})
    assert layout.index[("d", "c")] == 4
    assert layout.find("c") == (1, ("c",))
    assert layout.find(("b", "a")) == (3, ("b", "a"))
    assert layout.find(("c", "d")) == (4, ("c", "d"))


def test_an_empty_layout():
    layout = Layout.of(DOMAIN, [])
    assert (layout.cells, layout.offsets.tolist()) == (0, [0])
    assert len(CliqueVector.zeros(DOMAIN, [])) == 0


def test_layouts_are_values():
    assert Layout.of(DOMAIN, CLIQUES) == Layout.of(DOMAIN, CLIQUES)
    assert hash(Layout.of(DOMAIN, CLIQUES)) == hash(Layout.of(DOMAIN, CLIQUES))
    assert Layout.of(DOMAIN, CLIQUES) != Layout.of(DOMAIN, CLIQUES[::-1])
    layout = Layout.of(DOMAIN, CLIQUES)
    assert layout.cells == 17
    assert pickle.loads(pickle.dumps(layout)) == layout


def test_an_unknown_clique_is_named():
    layout = Layout.of(DOMAIN, [("a", "b"), ("c",)])
    with pytest.raises(UnknownAttributeError) as raised:
        layout.find(("a", "c"))
    assert str(raised.value) == (
        "('a', 'c') is not one of the 2 cliques here (('a', 'b'), ('c',)). "
        "Use one of these cliques, or model.project(...) for any other marginal."
    )
    with pytest.raises(UnknownAttributeError):
        layout.find(("z",))


def test_a_clique_is_covered_by_the_smallest_that_holds_it():
    layout = Layout.of(DOMAIN, [("a", "b", "c"), ("b", "a"), ("a", "b"), ("c", "a")])
    assert [layout.cover(clique) for clique in [("a",), ("b",), ("a", "b"), ("b", "a"), ("a", "c"), ()]] == [
        3,
        1,
        2,
        1,
        3,
        3,
    ]
    with pytest.raises(UnknownAttributeError):
        layout.cover(("d",))
    with pytest.raises(UnknownAttributeError):
        Layout.of(DOMAIN, []).cover(())


# -- tables -----------------------------------------------------------------------------------------------------------


def test_tables_lie_one_after_the_other():
    theta = vector(1, 2, 3, 4, 5)
    assert theta.flat.tolist() == [1, 2, 3, 4, 5]
    assert theta[("b",)].values.tolist() == [3, 4, 5]
    assert theta["b"].domain == Domain({"b": 3})
    assert theta.table(1).tolist() == [3, 4, 5]
    assert theta.cliques == (("a",), ("b",))
    assert list(theta) == [("a",), ("b",)]
    assert len(theta) == 2


def test_a_table_can_be_asked_for_in_any_order():
    values = np.arange(6.0).reshape(2, 3)
    theta = CliqueVector(DOMAIN, {("a", "b"): values, ("c",): Factor({"c": 2}, [1, 2])})
    assert theta[("b", "a")].values.tolist() == values.T.tolist()
    assert theta[("b", "a")].domain.attributes == ("b", "a")
    assert ("b", "a") in theta
    assert ["a", "b"] in theta
    assert "c" in theta
    assert ("a",) not in theta
    assert ("z",) not in theta
    assert 3 not in theta
    with pytest.raises(UnknownAttributeError):
        theta[("a",)]


def test_permuted_cliques_are_tables_of_their_own():
    theta = CliqueVector(DOMAIN, {("a", "b"): np.zeros((2, 3)), ("b", "a"): np.ones((3, 2))})
    assert theta[("a", "b")].values.sum() == 0
    assert theta[("b", "a")].values.sum() == 6


def test_a_factor_is_laid_out_in_the_order_of_its_clique():
    f = Factor({"b": 3, "a": 2}, np.arange(6.0).reshape(3, 2))
    assert CliqueVector(DOMAIN, {("a", "b"): f}).flat.tolist() == [0, 2, 4, 1, 3, 5]


def test_tables_must_fit_their_clique():
    with pytest.raises(ShapeError) as raised:
        CliqueVector(DOMAIN, {("a", "b"): np.zeros((3, 2))})
    assert str(raised.value) == "the table of clique ('a', 'b'): expected shape (2, 3), got (3, 2)."
    for other in ({"b": 1}, {"a": 2}, {"a": 2, "b": 3}):
        with pytest.raises(DomainError) as raised:
            CliqueVector(DOMAIN, {("b",): Factor.ones(other)})
        assert str(raised.value) == f"the table of clique ('b',) must be over Domain({{'b': 3}}), got Domain({other})."


def test_two_keys_for_one_clique_are_refused():
    with pytest.raises(ArgumentError) as raised:
        CliqueVector(DOMAIN, {("a",): [1, 2], "a": [1, 2]})  # type: ignore[dict-item]
    assert str(raised.value) == ("tables has two keys for the same clique ([('a',), 'a']); give each clique once.")


def test_flat_values_are_read_only_and_not_copied():
    layout = Layout.of(DOMAIN, [("b",)])
    values = np.zeros(3)
    theta = CliqueVector.of(layout, values)
    values[0] = 7
    assert theta["b"].values.tolist() == [7, 0, 0]
    for array in (theta.flat, theta.table(0), theta["b"].values, vector(1, 2, 3, 4, 5).flat):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_other_layouts_in_memory_are_copied_to_contiguous_float64():
    layout = Layout.of(DOMAIN, [("b",)])
    layouts: list[Any] = [np.arange(6)[::2], np.arange(0, 6, 2, dtype=np.float32), [0, 2, 4]]
    for values in layouts:
        theta = CliqueVector.of(layout, values)
        assert theta.flat.dtype == np.float64
        assert theta.flat.flags.c_contiguous
        assert theta.flat.tolist() == [0, 2, 4]


@pytest.mark.parametrize("shape", [(2,), (4,), (1, 3), ()])
def test_flat_values_must_fit(shape):
    with pytest.raises(ShapeError) as raised:
        CliqueVector.of(Layout.of(DOMAIN, [("b",)]), np.zeros(shape))
    assert str(raised.value) == f"the values of a clique vector: expected shape (3,), got {shape}."


def test_constructors():
    assert CliqueVector.zeros(DOMAIN, CLIQUES).flat.tolist() == [0] * 17
    assert CliqueVector.ones({"a": 2}, ["a"]).flat.tolist() == [1, 1]
    assert CliqueVector.random(DOMAIN, CLIQUES, seed=3) == CliqueVector.random(DOMAIN, CLIQUES, seed=3)
    assert CliqueVector.random(DOMAIN, CLIQUES, seed=3) != CliqueVector.random(DOMAIN, CLIQUES, seed=4)


def test_repr_and_pickle():
    theta = CliqueVector.zeros(DOMAIN, CLIQUES)
    assert repr(theta) == ("CliqueVector(5 cliques, 17 cells: [('a', 'b'), ('c',), (), ('b', 'a'), ('d', 'c')])")
    assert pickle.loads(pickle.dumps(theta)) == theta


# -- algebra ----------------------------------------------------------------------------------------------------------


@given(st.lists(CLIQUE, min_size=1, max_size=4), st.integers(0, 9), st.floats(-10, 10))
def test_it_is_a_vector_space(cliques, seed, scale):
    x, y = CliqueVector.random(DOMAIN, cliques, seed), CliqueVector.random(DOMAIN, cliques, seed + 10)
    assert np.array_equal((x + y).flat, x.flat + y.flat)
    assert np.array_equal((x - y).flat, x.flat - y.flat)
    assert np.array_equal((x * y).flat, x.flat * y.flat)
    assert np.array_equal((scale * x).flat, scale * x.flat)
    assert (x * scale) == (scale * x)
    assert (-x) == x * -1.0
    assert np.isclose(x.dot(y), sum(float((x[c] * y[c]).sum()) for c in x.cliques))
    assert x - x == CliqueVector.zeros(DOMAIN, cliques)


def test_numbers_and_arrays_act_on_each_cell():
    x = vector(1, 2, 3, 4, 5)
    assert (x + 1).flat.tolist() == (1 + x).flat.tolist() == [2, 3, 4, 5, 6]
    assert (x - 1).flat.tolist() == [0, 1, 2, 3, 4]
    assert (1 - x).flat.tolist() == [0, -1, -2, -3, -4]
    assert (x / 2).flat.tolist() == [0.5, 1, 1.5, 2, 2.5]
    assert (x / x).flat.tolist() == [1] * 5
    assert (np.float64(2) * x).flat.tolist() == (np.full(5, 2) * x).flat.tolist() == [2, 4, 6, 8, 10]
    assert sum([x, x]) == 2 * x
    assert np.array_equal(x.exp().flat, np.exp(x.flat))
    assert np.array_equal(x.log().flat, np.log(x.flat))


def test_the_order_of_cliques_does_not_matter():
    x = CliqueVector({"a": 2, "b": 3}, {("a",): [1, 2], ("b",): [3, 4, 5]})
    y = CliqueVector({"a": 2, "b": 3}, {("b",): [3, 4, 5], ("a",): [1, 2]})
    assert (x + y).flat.tolist() == [2, 4, 6, 8, 10]
    assert (y - x).flat.tolist() == [0] * 5
    assert x.dot(y) == 55


def test_other_cliques_cannot_be_combined():
    x, y = CliqueVector.zeros(DOMAIN, [("a",), ("b",)]), CliqueVector.zeros(DOMAIN, [("a",)])
    with pytest.raises(DomainError) as raised:
        x + y
    assert str(raised.value) == (
        "clique vectors over different cliques (2 and 1) cannot be combined; "
        "bring both to the same cliques with expand(...)."
    )
    with pytest.raises(DomainError):
        y + CliqueVector.zeros({"a": 3}, [("a",)])


@pytest.mark.parametrize("other", ["x", None, [1, 2], Factor({"a": 2}, [1, 2])])
def test_other_types_are_refused(other):
    x = CliqueVector({"a": 2}, {("a",): [1, 2]})
    for operation in (operator.add, operator.sub, operator.mul, operator.truediv):
        with pytest.raises(TypeError, match=r"unsupported operand type|can't multiply"):
            operation(x, other)
    with pytest.raises(ArgumentError, match="it must be a CliqueVector over the same cliques"):
        x.dot(other)


@pytest.mark.filterwarnings("error")
def test_structural_zeros_never_become_nan():
    theta, mu = vector(-INF, 1, 2, -INF, 3), vector(0, 1, 0.5, 0, 0.5)
    assert (theta - theta).flat.tolist() == [-INF, 0, 0, -INF, 0]
    assert (theta * 0.0).flat.tolist() == [0] * 5
    assert theta.dot(mu) == mu.dot(theta) == 3.5
    assert mu.log().flat.tolist() == [-INF, 0, np.log(0.5), -INF, np.log(0.5)]
    assert theta.exp().flat[0] == 0
    assert theta.dot(vector(1, 0, 0, 0, 0)) == -INF
    assert (mu / mu).flat.tolist() == [0, 1, 1, 0, 1]


def test_equality_is_of_layout_and_values():
    assert vector(1, 2, 3, 4, 5) == vector(1, 2, 3, 4, 5)
    assert vector(1, 2, 3, 4, 5) != vector(1, 2, 3, 4, 6)
    assert vector(1, 2, 3, 4, 5) != 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(vector(1, 2, 3, 4, 5))


# -- expand -----------------------------------------------------------------------------------------------------------


def total_potential(theta: CliqueVector) -> np.ndarray:
    total = Factor.zeros(DOMAIN)
    for factor in theta.values():
        total = total + factor
    return total.values


@given(st.lists(CLIQUE, max_size=4), st.lists(CLIQUE, max_size=3), st.integers(0, 9))
def test_expanding_keeps_the_function(cliques, others, seed):
    theta = CliqueVector.random(DOMAIN, cliques, seed)
    expanded = theta.expand([*others, ("d", "c", "b", "a")])
    assert np.allclose(total_potential(expanded), total_potential(theta))


def test_expanding_prefers_the_clique_itself():
    theta = CliqueVector(DOMAIN, {("a", "b"): np.full((2, 3), -INF), ("c",): [1, 2]})
    expanded = theta.expand([("b", "a"), ("a", "b"), ("c", "a"), ("b", "c")])
    assert expanded[("a", "b")].values.tolist() == [[-INF] * 3] * 2
    assert expanded.table(0).tolist() == [[0, 0]] * 3
    assert expanded.table(2).tolist() == [[1, 1], [2, 2]]


def test_expanding_needs_a_clique_that_holds_each_table():
    with pytest.raises(UnknownAttributeError, match=r"\('a', 'b'\) is not one of the 1 clique here"):
        CliqueVector.zeros(DOMAIN, [("a", "b")]).expand([("a", "c")])
