"""Factor: its algebra against numpy on the aligned tables, and its conventions for structural zeros."""

from __future__ import annotations

import copy
import operator
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmest import Domain, Factor
from pgmest.errors import CodeRangeError, DomainError, ShapeError, UnknownAttributeError
from pgmest.tables.factor import divide, multiply, subtract_logs

INF = np.inf
SIZES = {"a": 2, "b": 3, "c": 1, "d": 4}
AB = Factor(Domain({"a": 2, "b": 3}), [[1, 2, 3], [4, 5, 6]])
CELLS = st.sampled_from([0.0, 1.0, -1.0, 2.5, -INF, 1e300])


@st.composite
def factors(draw: st.DrawFn, cells: st.SearchStrategy[float] = CELLS) -> Factor:
    """A factor over some of the attributes, in any order."""
    names = draw(st.permutations(sorted(SIZES)))[: draw(st.integers(0, len(SIZES)))]
    domain = Domain({name: SIZES[name] for name in names})
    values = draw(st.lists(cells, min_size=domain.size(), max_size=domain.size()))
    return Factor(domain, np.reshape(values, domain.shape))


def joint(factor: Factor) -> np.ndarray:
    """The factor as a function of all four attributes, by einsum rather than by Factor's own code."""
    axes = "".join(factor.domain.attributes)
    ones = np.ones(tuple(SIZES.values()))
    finite = np.where(np.isinf(factor.values), -12345.0, factor.values)
    result = np.einsum(f"{axes},abcd->abcd", finite, ones)
    return np.where(result == -12345.0, -INF, result)


# -- values -----------------------------------------------------------------------------------------------------------


def test_values_are_read_only_float64():
    f = Factor({"a": 2}, [1, 2])
    assert f.domain == Domain({"a": 2})
    assert f.values.dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        f.values[0] = 3
    with pytest.raises(ValueError, match="read-only"):
        f.transpose(("a",)).datavector()[0] = 3


def test_the_callers_array_stays_writable_and_is_not_the_factors():
    values = np.zeros(2)
    factor = Factor({"a": 2}, values)
    values[0] = 1
    assert factor.values.tolist() == [0, 0]
    transposed = np.zeros((3, 2)).T
    factor = Factor({"a": 2, "b": 3}, transposed)
    transposed[0, 0] = 1
    assert not factor.values.any()


def test_an_array_that_is_handed_over_is_not_copied():
    values = np.zeros(2)
    assert np.shares_memory(Factor.owning({"a": 2}, values).values, values)
    values.flags.writeable = False
    assert np.shares_memory(Factor({"a": 2}, values).values, values)
    with pytest.raises(ShapeError, match="expected shape"):
        Factor.owning({"a": 3}, values)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_are_read_only_and_separate(copied):
    factor = Factor({"a": 2, "b": 2}, [[1, 2], [3, -np.inf]])
    other = copied(factor)
    assert other.domain == factor.domain
    assert np.array_equal(other.values, factor.values)
    assert not np.shares_memory(other.values, factor.values)
    with pytest.raises(ValueError, match="read-only"):
        other.values[0, 0] = 3


def test_a_wrong_shape_is_named():
    with pytest.raises(ShapeError) as raised:
        Factor({"a": 2, "b": 3}, np.zeros((3, 2)))
    assert str(raised.value) == ("factor over ('a', 'b'): expected shape (2, 3), got (3, 2). Reshape or transpose it.")


def test_constructors():
    domain = Domain({"a": 2, "b": 3})
    assert np.array_equal(Factor.zeros(domain).values, np.zeros((2, 3)))
    assert np.array_equal(Factor.ones({"a": 2}).values, [1, 1])
    assert np.array_equal(Factor.random(domain, seed=1).values, Factor.random(domain, seed=1).values)
    assert not np.array_equal(Factor.random(domain, seed=1).values, Factor.random(domain, seed=2).values)
    assert float(Factor.zeros({})) == 0


def test_the_datavector_is_row_major_in_domain_order():
    assert AB.datavector().tolist() == [1, 2, 3, 4, 5, 6]
    assert AB.transpose(("b", "a")).datavector().tolist() == [1, 4, 2, 5, 3, 6]
    assert Factor({}, 7).datavector().tolist() == [7]


def test_repr():
    assert repr(Factor({"a": 2}, [1, 2.5])) == "Factor({'a': 2}, values=[1.  2.5])"
    assert repr(Factor({}, 7)) == "Factor({}, values=7.)"
    assert repr(Factor({"a": 99}, np.arange(99))) == "Factor({'a': 99}, values=[ 0.  1. ... 97. 98.])"


def test_a_factor_of_one_cell_is_a_number():
    assert float(Factor({"a": 1}, [3])) == 3
    with pytest.raises(ShapeError) as raised:
        float(AB)
    assert str(raised.value) == (
        "a factor over ('a', 'b') has 6 cells, so it is not one number; use sum(), max() or project(...)."
    )


def test_numpy_sees_the_values():
    assert np.array_equal(np.asarray(AB), AB.values)
    assert np.asarray(AB, dtype=np.float32).dtype == np.float32
    copy = np.array(AB)
    copy[0, 0] = 9
    assert AB.values[0, 0] == 1


def test_a_factor_survives_pickling():
    again = pickle.loads(pickle.dumps(AB))
    assert again.domain == AB.domain
    assert np.array_equal(again.values, AB.values)


# -- reductions -------------------------------------------------------------------------------------------------------


def test_projection_by_hand():
    assert AB.project(("b",)).values.tolist() == [5, 7, 9]
    assert AB.project("a").values.tolist() == [6, 15]
    assert AB.project(name for name in ("b", "a")).values.tolist() == [[1, 4], [2, 5], [3, 6]]
    assert float(AB.project(())) == 21
    assert AB.sum(("b",)).values.tolist() == [6, 15]
    assert float(AB.sum()) == 21
    assert AB.max(("a",)).values.tolist() == [4, 5, 6]
    assert float(AB.max()) == 6
    assert np.allclose(AB.logsumexp("a").values, np.log(np.exp([1, 2, 3]) + np.exp([4, 5, 6])))


@given(factors(st.floats(-100, 100)), st.data())
def test_reductions_agree_with_numpy(factor, data):
    names = data.draw(st.permutations(factor.domain.attributes))
    kept = tuple(names[: data.draw(st.integers(0, len(names)))])
    gone = factor.domain.without(kept).attributes
    axes = factor.domain.axes(gone)
    assert np.allclose(factor.project(kept).transpose(factor.domain.without(gone)).values, factor.values.sum(axes))
    assert factor.project(kept).domain.attributes == kept
    assert np.array_equal(factor.sum(gone).values, factor.values.sum(axes))
    assert np.array_equal(factor.max(gone).values, factor.values.max(axes))
    assert np.allclose(factor.logsumexp(gone).values, np.log(np.exp(factor.values).sum(axes)), rtol=1e-12)


@pytest.mark.filterwarnings("error")
def test_logsumexp_of_extreme_values():
    table = Factor({"a": 2, "b": 2}, [[-INF, -INF], [-1e4, 0]])
    assert table.logsumexp("b").values.tolist() == [-INF, 0]
    assert table.logsumexp("a").values.tolist() == [-1e4, 0]
    assert float(table.logsumexp()) == 0
    assert float((table + 1e6).logsumexp()) == 1e6
    assert float(Factor({"a": 2}, [-INF, -INF]).logsumexp()) == -INF
    assert float(Factor({"a": 2}, [INF, 0]).logsumexp()) == INF
    assert table.logsumexp(()).values.tolist() == table.values.tolist()


# -- shape ------------------------------------------------------------------------------------------------------------


@given(factors(), st.data())
def test_transposing_and_expanding_keep_the_function(factor, data):
    order = data.draw(st.permutations(factor.domain.attributes))
    assert np.array_equal(joint(factor.transpose(order)), joint(factor))
    everything = Domain({name: SIZES[name] for name in data.draw(st.permutations(sorted(SIZES)))})
    expanded = factor.expand(everything)
    assert expanded.domain == everything
    assert np.array_equal(expanded.transpose(SIZES).values, joint(factor))


def test_expanding_by_hand():
    f = Factor({"a": 2}, [1, 2]).expand({"b": 3, "a": 2})
    assert f.values.tolist() == [[1, 2], [1, 2], [1, 2]]
    with pytest.raises(UnknownAttributeError, match="'a' is not an attribute of the domain"):
        AB.expand(Domain({"b": 3}))
    with pytest.raises(DomainError, match="'a' has 2 values in one domain and 3 in the other"):
        AB.expand(Domain({"a": 3, "b": 3}))


def test_transposing_names_each_axis():
    with pytest.raises(DomainError) as raised:
        AB.transpose(("a",))
    assert str(raised.value) == "cannot transpose a factor over ('a', 'b') to ('a',); name each axis."


def test_conditioning_takes_a_slice():
    assert AB.condition({"a": 1}).values.tolist() == [4, 5, 6]
    assert AB.condition({"b": np.int8(0)}).values.tolist() == [1, 4]
    assert float(AB.condition({"b": 2, "a": 0})) == 3
    assert AB.condition({}).values.tolist() == AB.values.tolist()
    assert AB.condition({"a": True}).values.tolist() == [4, 5, 6]


@pytest.mark.parametrize("code", [2, -1, 1.0, "1", None, [1]])
def test_conditioning_needs_a_code(code):
    with pytest.raises(CodeRangeError) as raised:
        AB.condition({"a": code})
    hint = " Schema.evidence({'a': '1'}) finds the codes of values." if code == "1" else ""
    assert str(raised.value) == f"evidence a={code!r} is not a code of 'a': give an integer in 0..1.{hint}"


def test_conditioning_needs_a_known_attribute():
    with pytest.raises(UnknownAttributeError, match="'z' is not an attribute of the domain"):
        AB.condition({"z": 0})


# -- algebra ----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
@given(factors(), factors(), st.sampled_from(["add", "subtract", "multiply", "divide"]))
def test_operations_broadcast_by_name(left, right, name):
    operation = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv}
    with np.errstate(over="ignore"):
        result = operation[name](left, right)
    x, y = joint(left), joint(right)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x, y)
    expected[np.isnan(expected) & (name == "subtract")] = -INF
    expected[np.isnan(expected) & ((x == 0) | (y == 0))] = 0
    assert set(result.domain) == set(left.domain) | set(right.domain)
    assert result.domain.attributes[: len(left.domain)] == left.domain.attributes
    assert np.array_equal(joint_of(result), expected, equal_nan=True)


def joint_of(factor: Factor) -> np.ndarray:
    """Like `joint`, for any values: each attribute that is missing becomes a new axis."""
    names = [name for name in SIZES if name in factor.domain]
    values = factor.values.transpose([factor.domain.attributes.index(name) for name in names])
    for axis, name in enumerate(SIZES):
        if name not in factor.domain:
            values = np.repeat(np.expand_dims(values, axis), SIZES[name], axis)
    return values


def test_sizes_must_agree():
    with pytest.raises(DomainError, match="'a' has 2 values in one domain and 3 in the other"):
        AB + Factor.ones({"a": 3})


def test_numbers_act_on_each_cell():
    f: Any = Factor({"a": 2}, [1, 2])
    for number in (2, 2.0, np.float64(2), np.int64(2)):
        results = [f + number, number + f, f - number, number - f, f * number, number * f, f / number, number / f]
        expected = [[3, 4], [3, 4], [-1, 0], [1, 0], [2, 4], [2, 4], [0.5, 1], [2, 1]]
        assert [result.values.tolist() for result in results] == expected
        assert all(isinstance(result, Factor) for result in results)
    assert (-f).values.tolist() == [-1, -2]
    assert (np.array([1, 2]) + f).values.tolist() == [2, 4]
    added: Any = sum([f, f])
    assert added.values.tolist() == [2, 4]


@pytest.mark.parametrize("other", ["x", None, [1, 2], {"a": 1}])
def test_other_types_are_refused(other):
    for operation in (operator.add, operator.sub, operator.mul, operator.truediv):
        with pytest.raises(TypeError, match=r"unsupported operand type|can't multiply"):
            operation(Factor({"a": 2}, [1, 2]), other)


def test_an_array_that_would_add_axes_is_refused():
    with pytest.raises(ShapeError):
        AB * np.ones((4, 2, 3))


@pytest.mark.filterwarnings("error")
def test_structural_zeros_never_become_nan():
    logs, zeros = Factor({"a": 3}, [-INF, 0, 1]), Factor({"a": 3}, [0, 0, 1])
    assert (logs - logs).values.tolist() == [-INF, 0, 0]
    assert (zeros / zeros).values.tolist() == [0, 0, 1]
    assert (logs * 0.0).values.tolist() == [0, 0, 0]
    assert (zeros * logs).values.tolist() == [0, 0, 1]
    assert (1 / zeros).values.tolist() == [INF, INF, 1]
    assert zeros.log().values.tolist() == [-INF, -INF, 0]
    assert logs.exp().values.tolist() == [0, 1, np.e]
    assert (0 - logs).values.tolist() == [INF, 0, -1]


@pytest.mark.filterwarnings("error")
def test_the_conventions_on_plain_arrays():
    x = np.array([-INF, -INF, 1.0, 1.0, INF])
    assert subtract_logs(x, np.array([-INF, 1, -INF, 0.5, 2])).tolist() == [-INF, -INF, INF, 0.5, INF]
    assert np.isnan(subtract_logs(np.array([INF]), INF))
    assert multiply(x, np.array([0, 0, 0, 2, 2])).tolist() == [0, 0, 0, 2, INF]
    assert divide(np.array([0.0, 1, 0]), np.array([0.0, 0, 2])).tolist() == [0, INF, 0]
    assert subtract_logs(-INF, -INF) == -INF
    assert np.isnan(subtract_logs(np.array([np.nan]), 1)).all()


def test_normalizing():
    assert Factor({"a": 2}, [1, 3]).normalize().values.tolist() == [0.25, 0.75]
    assert Factor({"a": 2}, [1, 3]).normalize(8).values.tolist() == [2, 6]
    assert Factor({"a": 2}, [1e-310, 0]).normalize().values.tolist() == [1, 0]
    for values, mass in (([0, 0], "0"), ([1, np.nan], "nan"), ([1, INF], "inf"), ([1, -1], "0")):
        with pytest.raises(DomainError) as raised:
            Factor({"a": 2}, values).normalize(10)
        assert str(raised.value) == (
            f"a factor over ('a',) that sums to {mass} cannot be normalized to 10; "
            "its values must be finite and not all zero."
        )
