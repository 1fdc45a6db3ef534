"""Rounding: every protected class up or down, unbiased, and tables that agree on their separators."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest.sampling.clique_tables import CliqueTable, clique_tables, project
from pgmest.sampling.rounding import Network, nested_margins, round_tables
from pgmest.tables.domain import Domain


def state(seed):
    return np.array([seed], dtype=np.uint64)


def is_rounded(count, expected):
    """Return whether each count is its expectation rounded up or down, up to floating point."""
    slack = 1e-6 * (1 + np.abs(expected))
    return ((count >= np.floor(expected - slack)) & (count <= np.ceil(expected + slack))).all()


def test_chains_are_nested_and_take_what_fits_in_order():
    first, second = nested_margins((), "abcd", ["ab", "bc", "abc", "c", "d", "abcd"])
    assert list(map(set, first)) == [set(), set("ab"), set("abc")]
    assert list(map(set, second)) == [set("c"), set("bc")]


def test_margins_of_the_separator_need_no_protection():
    first, second = nested_margins("ab", "abc", ["a", "b", "ab", "ac"])
    assert list(map(set, first)) == [set("ab")]
    assert list(map(set, second)) == [set("ac")]


def test_whole_expectations_are_kept():
    domain = Domain({"a": 2, "b": 3})
    weights = np.array([[0.1, 0.2, 0.3], [0.0, 0.2, 0.2]])
    table = CliqueTable(0, ("a",), ("b",), weights, (("b",),))
    counts = Network.of(domain, table).round(weights, np.array([6.0, 4.0]), state(1))
    assert counts.tolist() == [[1, 2, 3], [0, 2, 2]]


@st.composite
def clique_to_round(draw):
    """A clique's table with any separator, zero cells and protected margins, and row totals."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    domain = Domain(dict(zip("abcd", sizes, strict=False)))
    names = domain.attributes
    split = draw(st.integers(0, len(names) - 1))
    margins = st.lists(st.sampled_from(names), min_size=1, unique=True).map(tuple)
    protected = tuple(draw(st.lists(margins, max_size=4)))
    shape = (domain.size(names[:split]), domain.size(names[split:]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    weights = rng.gamma(0.5, 1.0, shape) * (rng.random(shape) < draw(st.sampled_from([0.5, 0.9, 1.0])))
    totals = np.where(weights.any(axis=1), rng.integers(0, draw(st.sampled_from([2, 10, 10**6])), shape[0]), 0)
    return domain, CliqueTable(0 if split else -1, names[:split], names[split:], weights, protected), totals * 1.0


@settings(max_examples=300, deadline=None)
@given(clique_to_round(), st.integers(0, 2**64 - 1))
def test_cells_and_protected_margins_are_rounded_up_or_down(clique, seed):
    domain, table, totals = clique
    counts = Network.of(domain, table).round(table.weights, totals, state(seed))
    mass = table.weights.sum(axis=1, keepdims=True)
    expected = table.weights / np.where(mass > 0, mass, 1) * totals[:, None]
    assert (counts.sum(axis=1) == totals).all()
    assert (counts[table.weights == 0] == 0).all()
    assert is_rounded(counts, expected)
    for margin in itertools.chain(*nested_margins(table.separator, table.attributes, table.protected)):
        names = tuple(name for name in table.attributes if name in margin)
        assert is_rounded(
            project(domain, table.attributes, counts, names), project(domain, table.attributes, expected, names)
        )


def test_counts_are_unbiased():
    domain = Domain({"a": 3, "b": 4})
    weights = np.random.default_rng(0).random((3, 4))
    table = CliqueTable(0, ("a",), ("b",), weights, (("b",),))
    totals, network, numbers, draws = np.array([1.0, 3.0, 2.0]), Network.of(domain, table), state(5), 20_000
    mean = sum(network.round(weights, totals, numbers) for _ in range(draws)) / draws
    expected = weights / weights.sum(axis=1, keepdims=True) * totals[:, None]
    assert np.abs(mean - expected).max() < 5 * 0.5 / np.sqrt(draws)  # a rounded count has at most variance 1/4


def test_a_margin_across_rows_is_not_a_random_walk():
    """Without protection the column sums of 400 rows would be off by about sqrt(400 / 6)."""
    domain = Domain({"a": 400, "b": 5})
    weights = np.random.default_rng(1).random((400, 5))
    totals = np.full(400, 7.0)
    expected = (weights / weights.sum(axis=1, keepdims=True) * 7).sum(axis=0)
    off = {}
    for protected in ((("b",),), ()):
        network = Network.of(domain, CliqueTable(0, ("a",), ("b",), weights, protected))
        off[protected] = np.abs(network.round(weights, totals, state(0)).sum(axis=0) - expected).max()
    assert off[(("b",),)] < 1
    assert off[()] > 3


def test_counts_beyond_the_precision_of_fractions_still_add_up():
    domain = Domain({"a": 2, "b": 50})
    weights = np.random.default_rng(0).random((2, 50))
    table = CliqueTable(0, ("a",), ("b",), weights, (("b",),))
    totals = np.array([1e15 + 1, 3e15 + 7])
    counts = Network.of(domain, table).round(weights, totals, state(0))
    assert (counts.sum(axis=1) == totals).all()
    assert (counts >= 0).all()


@pytest.mark.parametrize("n", [0, 1, 17, 12_345])
def test_tables_agree_on_separators(calibrated, n):
    sizes = {"a": 3, "b": 4, "c": 2, "d": 5, "e": 1, "f": 3}
    model = calibrated(sizes, ["ab", "bc", "cd", "da", "de"])
    tables = clique_tables(model.oracle)
    networks = [Network.of(model.domain, table) for table in tables]
    counts = round_tables(model.domain, tables, networks, [table.weights for table in tables], n, state(3))
    for table, cells in zip(tables, counts, strict=True):
        assert cells.sum() == n
        if table.parent >= 0:
            parent = tables[table.parent]
            above = project(model.domain, parent.attributes, counts[table.parent], table.separator)
            assert (cells.sum(axis=1) == above).all()
