"""Consistency: exact agreement, the weighted least-squares solution, and the projection onto non-negative tables."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import pgmest as pg
from pgmest.errors import ArgumentError, QueryError
from pgmest.synthesis import consistent_tables, norm_sub, shared_sets
from pgmest.synthesis.kernels import most_negative, onto_simplexes

DOMAIN = pg.Domain({"a": 2, "b": 3, "c": 2, "d": 2})


@st.composite
def noisy_tables(draw):
    """Measurements of a few overlapping cliques, in any axis order, with different noise."""
    sets = [c for k in (1, 2, 3) for c in itertools.combinations(DOMAIN, k)]
    cliques = draw(st.lists(st.sampled_from(sets), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    cliques = [tuple(rng.permutation(clique)) for clique in cliques]
    return [
        pg.LinearMeasurement(rng.normal(10, 8, DOMAIN.size(clique)), clique, stddev=float(rng.uniform(0.5, 4)))
        for clique in cliques
    ]


def least_squares(measurements, total):
    """The weighted projection onto all tables that are marginals of one signed table with this total."""
    weights = np.concatenate([np.full(m.rows, 1 / float(m.stddev)) for m in measurements])
    codes = dict(zip(DOMAIN, np.unravel_index(np.arange(DOMAIN.size()), DOMAIN.shape), strict=True))
    rows = []
    for m in measurements:
        place = np.ravel_multi_index([codes[name] for name in m.clique], DOMAIN.project(m.clique).shape)
        rows.append(np.eye(m.rows)[:, place])
    matrix = np.vstack(rows)
    flat = np.full(DOMAIN.size(), total / DOMAIN.size())
    inside = np.eye(DOMAIN.size()) - 1 / DOMAIN.size()  # signed tables that sum to 0
    target = np.concatenate([m.values for m in measurements]) - matrix @ flat
    solution = np.linalg.lstsq((weights[:, None] * matrix) @ inside, weights * target, rcond=None)[0]
    return matrix @ (flat + inside @ solution)


@given(noisy_tables())
@settings(max_examples=40, deadline=None)
def test_agreement_alone_is_the_weighted_least_squares_solution(measurements):
    tables = consistent_tables(measurements, DOMAIN, total=50.0, rounds=0)
    found = np.concatenate([table.datavector() for table in tables])
    assert found == pytest.approx(least_squares(measurements, 50.0), abs=1e-8)


@given(noisy_tables())
@settings(max_examples=40, deadline=None)
def test_tables_agree_exactly_and_are_hardly_negative(measurements):
    tables = consistent_tables(measurements, DOMAIN, total=50.0, rounds=3000)
    for one, other in itertools.combinations(tables, 2):
        shared = tuple(name for name in one.domain if name in other.domain)
        assert one.project(shared).values == pytest.approx(other.project(shared).values, abs=1e-8)
    for table, measurement in zip(tables, measurements, strict=True):
        assert table.domain.attributes == measurement.clique
        assert table.values.sum() == pytest.approx(50.0)
        assert table.values[table.values < 0].sum() >= -0.05 - 1e-9


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=5), st.floats(0, 30))
@settings(max_examples=60, deadline=None)
def test_norm_sub_is_the_projection(values, total):
    values = np.array(values)
    found = norm_sub(values, total)
    assert found.sum() == pytest.approx(total, abs=1e-9)
    assert (found >= 0).all()
    # Nearest of a convex set: no direction into the set leads nearer to the values.
    for corner in np.eye(len(values)) * total:
        assert (values - found) @ (corner - found) <= 1e-7 * (1 + total)


def test_norm_sub_agrees_with_a_general_solver():
    values = np.array([[5.0, -3.0], [2.5, 0.5]])
    found = minimize(
        lambda x: ((x - values.reshape(-1)) ** 2).sum(),
        np.ones(4),
        bounds=[(0, None)] * 4,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 4},
    )
    assert norm_sub(values, 4.0).reshape(-1) == pytest.approx(found.x, abs=1e-4)
    with pytest.raises(ArgumentError, match="total=-1"):
        norm_sub(values, -1)


def test_the_more_exact_table_counts_for_more():
    sure, unsure = (
        pg.LinearMeasurement([6.0, 4.0], "a", 0.01),
        pg.LinearMeasurement([[2.0, 2.0], [3.0, 3.0]], ("a", "c"), 10),
    )
    first, second = consistent_tables([sure, unsure], DOMAIN, total=10)
    assert first.values == pytest.approx([6, 4], abs=1e-3)
    assert second.project(("a",)).values == pytest.approx([6, 4], abs=1e-3)


def test_the_total_is_estimated_where_it_is_not_known():
    tables = consistent_tables([pg.LinearMeasurement([6.0, 4.0], "a"), pg.LinearMeasurement([7.0, 7.0], "c")], DOMAIN)
    assert [table.values.sum() for table in tables] == pytest.approx([12, 12])


def test_shared_sets_are_closed_under_intersection():
    assert shared_sets(["ab"]) == [()]
    found = {frozenset(clique) for clique in shared_sets(["abc", "bcd", "acd", "cde"])}
    assert found == {frozenset(s) for s in ("", "bc", "ac", "cd", "c")}
    assert shared_sets(["ab", "ab"]) == [(), ("a", "b")]


def test_errors():
    with pytest.raises(QueryError, match="answers prefix"):
        consistent_tables([pg.LinearMeasurement([1.0, 2.0], "a", query=pg.queries.prefix(2))], DOMAIN)
    with pytest.raises(ArgumentError, match="rounds=-1"):
        consistent_tables([pg.LinearMeasurement([1.0, 2.0], "a")], DOMAIN, rounds=-1)


@given(
    st.lists(st.lists(st.floats(-50, 50), min_size=1, max_size=9), min_size=1, max_size=5), st.sampled_from([0.0, 7.5])
)
def test_many_projections_onto_simplexes_are_those_one_by_one(rows, total):
    starts = np.cumsum([0, *map(len, rows)])
    flat = np.concatenate([np.array(row) for row in rows])
    negative = most_negative(flat, starts)
    assert negative == pytest.approx(max(-sum(min(x, 0.0) for x in row) for row in rows))
    onto_simplexes(flat, starts, total)
    expected = np.concatenate([norm_sub(np.array(row), total) for row in rows])
    assert np.allclose(flat, expected, rtol=0, atol=1e-9)
    assert (flat >= 0).all()


def test_a_projection_ends_where_rounding_lets_an_entry_come_back():
    codes = np.minimum([2, 2, 1], np.random.default_rng(1).geometric(0.6, (7, 3)) - 1)
    data = pg.Dataset.from_codes(codes, {"a": 3, "b": 3, "c": 2})
    for seed in range(40):
        pg.mechanisms.PrivSyn(rho=0.05, backend="simulation").fit(data, seed=seed, progress=False)


def test_a_negative_total_is_refused():
    with pytest.raises(ArgumentError, match="total=-1"):
        consistent_tables([pg.LinearMeasurement([-9.0, 2.0], "a", 3.0)], {"a": 2}, total=-1)
