"""Counting cells of a marginal, against counting records in a dictionary."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmest.data import counting
from pgmest.data.counting import count_cells, count_tables
from pgmest.errors import ModelTooLarge
from pgmest.tables.domain import Domain


@st.composite
def columns_and_domain(draw):
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 7, 300]), min_size=1, max_size=3))
    records = draw(st.integers(0, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    columns = [rng.integers(0, size, records).astype(np.min_scalar_type(size - 1)) for size in shape]
    weights = rng.random(records) if draw(st.booleans()) else None
    return columns, Domain({f"a{i}": size for i, size in enumerate(shape)}), weights


@given(columns_and_domain(), st.integers(1, 50))
def test_counts_equal_a_dictionary_of_records(case, rows_at_once):
    columns, domain, weights = case
    expected: Counter = Counter()
    for row, record in enumerate(zip(*columns, strict=True)):
        expected[tuple(map(int, record))] += 1 if weights is None else weights[row]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "ROWS_AT_ONCE", rows_at_once)
        counts = count_cells(columns, domain, weights)
    assert counts.shape == domain.shape
    assert counts.dtype == np.float64
    nonzero = {tuple(map(int, cell)): counts[tuple(cell)] for cell in np.argwhere(counts)}
    assert nonzero == pytest.approx(dict(expected))


@pytest.mark.parametrize("shape", [(256,), (256, 256), (257, 255), (256, 257), (65536,), (2**16, 2**9), (1, 65537)])
def test_the_last_cell_is_reached_at_the_edges_of_the_integer_types(shape):
    domain = Domain({f"a{i}": size for i, size in enumerate(shape)})
    columns = [np.array([size - 1], dtype=np.min_scalar_type(size - 1)) for size in shape]
    counts = count_cells(columns, domain)
    assert counts.reshape(-1)[-1] == counts.sum() == 1


def test_a_table_of_too_many_cells_is_refused_before_it_is_allocated():
    domain = Domain({"a": 2**16, "b": 2**16})
    column = np.zeros(3, dtype=np.uint16)
    with pytest.raises(ModelTooLarge) as caught:
        count_cells([column, column], domain)
    assert str(caught.value) == (
        "the marginal over a, b has 4,294,967,296 cells, which take 34.4 GB. "
        "Ask for fewer attributes at a time, or give them fewer values."
    )


def test_a_table_that_does_not_fit_in_memory_is_the_same_error(monkeypatch):
    def no_memory(*_):
        raise MemoryError

    column = np.zeros(1, dtype=np.uint8)
    monkeypatch.setattr(counting.np, "zeros", no_memory)
    with pytest.raises(ModelTooLarge, match=r"over a has 2 cells, which take 16 bytes\."):
        count_cells([column], Domain({"a": 2}))


@pytest.mark.parametrize(("attributes", "cells", "memory"), [(300, "10^300", "10^301"), (5000, "10^5000", "10^5001")])
def test_a_domain_beyond_any_number_type_is_refused_the_same_way(attributes, cells, memory):
    domain = Domain({f"a{i}": 10 for i in range(attributes)})
    with pytest.raises(ModelTooLarge) as caught:
        count_cells([np.zeros(1, dtype=np.uint8)] * attributes, domain)
    assert f"({attributes} in all) has {cells} cells, which take {memory} bytes." in str(caught.value)


@given(st.lists(st.sampled_from([1, 2, 3, 7, 300]), min_size=2, max_size=4), st.integers(0, 60), st.integers(1, 50))
def test_many_tables_counted_together_are_those_counted_one_by_one(shape, records, rows_at_once):
    rng = np.random.default_rng(records)
    columns = [rng.integers(0, size, records).astype(np.min_scalar_type(size - 1)) for size in shape]
    cliques = [c for k in range(2, len(shape) + 1) for c in itertools.permutations(range(len(shape)), k)]
    cliques = [c for c in cliques if np.prod([shape[axis] for axis in c]) <= 1 << 18]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "TABLE_ROWS_AT_ONCE", rows_at_once)
        found = count_tables(columns, shape, cliques)
    for clique, table in zip(cliques, found, strict=True):
        domain = Domain({str(axis): shape[axis] for axis in clique})
        np.testing.assert_array_equal(table, count_cells([columns[axis] for axis in clique], domain))
        assert table.dtype == np.float64
