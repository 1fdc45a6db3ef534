"""The projection onto tables that agree: least squares over all signed joint tables."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.solvers import shared_marginals
from pgmest.solvers.shared_marginals import SharedMarginals
from pgmest.tables.clique_vector import Layout
from tests.estimation.full_table import marginal_matrix

NAMES = "abcd"
SUBSETS = [subset for size in range(5) for subset in combinations(NAMES, size)]


@st.composite
def layouts(draw) -> Layout:
    domain = pg.Domain({name: draw(st.integers(1, 3)) for name in NAMES})
    return Layout.of(domain, draw(st.lists(st.sampled_from(SUBSETS), min_size=1, max_size=6, unique=True)))


def nearest(layout: Layout, scales: np.ndarray, tables: np.ndarray) -> np.ndarray:
    rows = [r * marginal_matrix(layout.domain, clique) for r, clique in zip(scales, layout.cliques, strict=True)]
    matrix = np.concatenate(rows)
    return matrix @ np.linalg.lstsq(matrix, tables, rcond=None)[0]


@given(layout=layouts(), seed=st.integers(0, 10))
@settings(max_examples=100, deadline=None)
def test_it_is_least_squares_over_joint_tables(layout, seed):
    rng = np.random.default_rng(seed)
    scales, tables = 10.0 ** rng.uniform(-2, 2, len(layout.cliques)), rng.normal(size=layout.cells)
    found = SharedMarginals(layout, scales).project(tables, np.empty_like(tables))
    np.testing.assert_allclose(found, nearest(layout, scales, tables), atol=1e-9)


def test_tables_without_common_attributes_share_their_total():
    layout = Layout.of(pg.Domain({"a": 2, "b": 3}), [("a",), ("b",)])
    tables = np.array([3.0, 1.0, 2.0, 2.0, 2.0])  # totals 4 and 6, of which a cell's share weighs by how many there are
    found = SharedMarginals(layout, np.ones(2)).project(tables, np.empty(5))
    assert found[:2].sum() == pytest.approx(found[2:].sum())
    np.testing.assert_allclose(found, nearest(layout, np.ones(2), tables))


def test_beyond_the_limit_small_sets_alone_agree(monkeypatch):
    monkeypatch.setattr(shared_marginals, "MAX_SHARED", 7)
    layout = Layout.of(pg.Domain(dict.fromkeys(NAMES, 2)), [("a", "b", "c"), ("b", "c", "d")])
    tables = np.random.default_rng(0).normal(size=16)
    found = SharedMarginals(layout, np.ones(2)).project(tables, np.empty(16)).reshape(2, 2, 2, 2)
    np.testing.assert_allclose(found[0].sum((0, 1)), found[1].sum((0, 2)))  # c
    assert not np.allclose(found[0].sum(0), found[1].sum(2))  # b and c together
    again = SharedMarginals(layout, np.ones(2)).project(found.reshape(-1), np.empty(16))
    np.testing.assert_allclose(again, found.reshape(-1), atol=1e-12)
