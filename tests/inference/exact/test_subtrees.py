"""Subtrees for threads: every clique once, each after its children, and nothing of one share below another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pgmest.inference.exact.subtrees import Subtrees


@st.composite
def forests(draw):
    """Parents of up to 30 cliques, in any order, and their weights."""
    count = draw(st.integers(1, 30))
    parents = [draw(st.integers(-1, clique - 1)) for clique in range(count)]
    names = draw(st.permutations(range(count)))
    named = [-1] * count
    for clique, parent in enumerate(parents):
        named[names[clique]] = -1 if parent < 0 else names[parent]
    return named, [draw(st.integers(0, 9)) for _ in range(count)]


def _edges(parents):
    return {frozenset((clique, parent)) for clique, parent in enumerate(parents) if parent >= 0}


@given(forests(), st.integers(1, 5))
def test_the_tree_stays_and_every_clique_follows_its_children(forest, threads):
    parents, weights = forest
    found = Subtrees.of(parents, weights, threads)
    assert _edges(found.parents) == _edges(parents)
    order = [*(clique for share in found.shares for clique in share), *found.above]
    assert sorted(order) == list(range(len(parents)))
    for clique, parent in enumerate(found.parents):
        assert parent < 0 or order.index(clique) < order.index(parent)
    of = {clique: number for number, share in enumerate(found.shares) for clique in share}
    for clique, share in of.items():
        assert of.get(found.parents[clique], share) == share
    assert len(found.shares) != 1
    if threads == 1:
        assert found.parents == tuple(parents)


def test_a_path_of_a_thousand_is_halved_and_a_star_divided_by_all():
    path = Subtrees.of([-1, *range(999)], [1.0] * 1000, 16)
    assert [len(share) for share in path.shares] == [500, 499]
    star = Subtrees.of([-1, *[0] * 160], [1.0] * 161, 16)
    assert [len(share) for share in star.shares] == [10] * 16


def test_what_cannot_be_divided_stays_whole():
    assert Subtrees.of([-1, 0], [100.0, 1.0], 2).shares == ()
