"""Pairs counted several by one increment equal pairs counted one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.data import dataset as dataset_module
from pgmest.data import pair_counting
from pgmest.data.counting import count_tables
from pgmest.data.dataset import Dataset
from pgmest.data.pair_counting import GROUP_CELLS, PairTasks, packed


def by_hand(columns, shape, clique):
    table = np.zeros([shape[axis] for axis in clique])
    for record in zip(*(columns[axis] for axis in clique), strict=True):
        table[record] += 1
    return table


@st.composite
def tables_asked(draw):
    """Columns of codes, their sizes, and cliques of two or three of them, some asked for twice or in both orders."""
    shape = draw(st.lists(st.sampled_from([1, 2, 2, 3, 10, 17, 250, 300]), min_size=2, max_size=8))
    records, seed = draw(st.integers(0, 40)), draw(st.integers(0, 9))
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, size, records).astype(np.uint8 if size <= 256 else np.uint16) for size in shape]
    orders = [
        list(clique) for k in (2, 3) if k <= len(shape) for clique in itertools.permutations(range(len(shape)), k)
    ]
    small = [clique for clique in orders if np.prod([shape[axis] for axis in clique]) <= 100_000]
    return columns, shape, draw(st.lists(st.sampled_from(small), max_size=12))


@given(tables_asked(), st.sampled_from([1, 3]), st.sampled_from([7, 1 << 17]))
def test_tables_counted_together_are_those_counted_by_hand(asked, threads, rows):
    columns, shape, cliques = asked
    pg.set_threads(threads)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pair_counting, "ROWS_AT_ONCE", rows)
        found = count_tables(columns, shape, cliques)
    pg.set_threads(None)
    for clique, table in zip(cliques, found, strict=True):
        np.testing.assert_array_equal(table, by_hand(columns, shape, clique))


@given(tables_asked(), st.data())
def test_marginals_of_up_to_three_attributes_do_not_depend_on_how_they_are_counted(asked, draw):
    columns, shape, _ = asked
    domain = {f"a{axis}": size for axis, size in enumerate(shape)}
    data = Dataset.from_codes(columns, domain)
    subsets = st.lists(st.sampled_from(sorted(domain)), unique=True, max_size=3).map(tuple)
    cliques = draw.draw(st.lists(subsets.filter(lambda c: data.domain.size(c) <= 100_000), max_size=10))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(dataset_module, "TOGETHER_STEPS", 0)
        tables = data.project_many(cliques)
    for clique, table in zip(cliques, tables, strict=True):
        assert table.domain.attributes == clique
        np.testing.assert_array_equal(table.values, data.project(clique).values)


def test_attributes_of_few_codes_share_a_byte():
    shape = [10, 2, 10, 300, 2, 10, 2, 200]
    groups = packed(shape, range(8))
    assert groups == [[1, 4, 6, 0], [2, 5], [7]]
    assert all(np.prod([shape[axis] for axis in group]) <= GROUP_CELLS for group in groups)


def test_only_pairs_that_share_an_increment_are_counted_by_groups():
    shape = [10] * 6  # groups of two: 0 1, 2 3, 4 5
    work = PairTasks.of(shape, np.array([[0, 2], [3, 1], [4, 0], [5, 4]]))
    assert sorted(work.positions.tolist()) == [0, 1, 3]
    assert work.tasks[:, :2].tolist() == [[0, 1], [2, 2]]
