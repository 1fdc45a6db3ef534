"""TreeLimit: what fits is what the searched tree holds, and long searches are few."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import pgmest as pg
from pgmest.graph.junction_tree import JunctionTree
from pgmest.mechanisms import tree_limit
from pgmest.mechanisms.tree_limit import TreeLimit

DOMAIN = pg.Domain({f"x{i}": 2 + i % 4 for i in range(14)})


@pytest.fixture
def searches(monkeypatch):
    """The efforts of the searches from here on."""
    efforts: list[str] = []
    original = JunctionTree.from_cliques.__func__

    def counted(cls, *arguments, effort="auto", **options):
        efforts.append(effort)
        return original(cls, *arguments, effort=effort, **options)

    monkeypatch.setattr(JunctionTree, "from_cliques", classmethod(counted))
    return efforts


def grow(limit: TreeLimit, seed: int = 0) -> None:
    """Random pairs, as long as they fit."""
    pairs = list(combinations(DOMAIN, 2))
    for place in np.random.default_rng(seed).permutation(len(pairs)):
        for clique in limit.fitting([pairs[place]]):
            limit.add(clique)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("megabytes", [0.002, 0.02, 0.2])
def test_what_was_added_keeps_to_the_limit_as_estimate_will_find_it(seed, megabytes):
    limit = TreeLimit(DOMAIN, [(name,) for name in DOMAIN], megabytes)
    grow(limit, seed)
    found = JunctionTree.from_cliques(DOMAIN, limit.cliques)
    assert found.megabytes <= megabytes
    assert limit.tree.megabytes <= megabytes
    assert all(limit.tree.containing(clique) is not None for clique in limit.cliques)


def test_long_searches_are_few(searches):
    limit = TreeLimit(DOMAIN, [(name,) for name in DOMAIN], 0.2)
    grow(limit)
    assert searches.count("low") > 20
    assert searches.count("auto") <= 2 + np.log(1 / tree_limit.SMALL) / np.log(tree_limit.WORTH_A_SEARCH)


def test_a_covered_clique_always_fits():
    limit = TreeLimit(DOMAIN, [("x0", "x1", "x2")], 1e-9)
    assert limit.fitting([("x1",), ("x2", "x0"), ("x3", "x4")]) == [("x1",), ("x2", "x0")]


@pytest.mark.parametrize("seed", range(3))
def test_many_at_once_are_as_one_at_a_time(seed):
    cliques = [*combinations(DOMAIN, 2), *list(combinations(DOMAIN, 3))[:60]]
    together, alone = (TreeLimit(DOMAIN, [(name,) for name in DOMAIN], 0.02) for _ in range(2))
    order = np.random.default_rng(seed).permutation(len(cliques))
    for turn, place in enumerate(order[:12]):
        share = 0.3 + 0.05 * turn
        fitting = together.fitting(cliques, share)
        assert fitting == [clique for clique in cliques if alone.fitting([clique], share)]
        if cliques[place] in fitting:
            together.add(cliques[place])
            alone.add(cliques[place])
