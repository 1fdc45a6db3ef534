"""Basis sets hold what they must, and are merged only where that helps."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmest.mechanisms.privbasis.basis import average_variance, basis_set, merged

PAIRS = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)).filter(lambda pair: pair[0] != pair[1]), max_size=40)


def sets(*words):
    return [frozenset(word) for word in words]


def test_the_example_of_dpsyn():
    # Maximal frequent itemsets abc, bd, ce, abg, gh: a basis set holds each of them in one basis.
    frequent = sets("abc", "bd", "ce", "abg", "gh")
    pairs = {frozenset(pair) for one in frequent for pair in itertools.combinations(sorted(one), 2)}
    bases = basis_set("abcdegh", pairs, largest=5)
    assert all(any(one <= basis for basis in bases) for one in frequent)
    assert max(map(len, bases)) <= 5


@given(PAIRS, st.integers(2, 6), st.sampled_from([1.0, 2.0]))
def test_every_item_and_every_pair_is_in_a_basis(pairs, largest, power):
    names = [f"i{place:02}" for place in range(16)]
    wanted = {frozenset((names[a], names[b])) for a, b in pairs}
    bases = basis_set(names, wanted, power, largest)
    assert max(map(len, bases)) <= largest
    for one in [frozenset([name]) for name in names] + list(wanted):
        assert any(one <= basis for basis in bases)
    assert not any(one < other for one, other in itertools.permutations(bases, 2))


def test_the_variance_by_hand():
    bases = sets("abc", "cd")
    assert average_variance(bases, sets("ab"), 1.0) == 2 * 2  # two cells, of noise for one of two bases
    assert average_variance(bases, sets("ab"), 2.0) == 4 * 2
    assert average_variance(bases, sets("c"), 1.0) == pytest.approx(2 / (1 / 4 + 1 / 2))  # two answers averaged
    assert average_variance(bases, sets("ad"), 1.0) == float("inf")


def test_bases_are_merged_where_fewer_are_less_noisy():
    small = sets("a", "b")  # apart 4 x 1, joined 1 x 2
    assert merged(small, small, 2.0, 12) == sets("ab")
    long = sets("abcdef", "ghijkl")
    assert merged(long, sets("ab", "gh"), 1.0, 12) == long  # 2 x 16 against 1 x 1024
    assert merged(small, small, 2.0, 1) == small


def test_no_items_need_no_basis():
    assert basis_set([], []) == []
