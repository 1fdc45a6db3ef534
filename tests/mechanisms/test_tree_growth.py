"""TreeGrowth against junction trees made along the same order."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.mechanisms.tree_growth import TreeGrowth


def with_clique(growth, domain, clique):
    least = np.full(1, np.inf)
    row = np.array([[domain.attributes.index(name) for name in clique]], dtype=np.int32).reshape(1, -1)
    growth.lower(row, np.zeros(1, dtype=np.int64), least)
    return float(least[0])


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=8),
    edges=st.integers(0, 12),
    added=st.integers(1, 4),
    seed=st.integers(0, 10_000),
)
def test_cells_are_those_of_the_tree_along_the_same_order(sizes, edges, added, seed):
    rng = np.random.default_rng(seed)
    domain = pg.Domain({f"x{i}": size for i, size in enumerate(sizes)})
    pairs = list(combinations(domain, 2))
    measured = [pairs[i] for i in rng.permutation(len(pairs))[:edges]]
    tree = pg.JunctionTree.from_cliques(domain, measured, order=rng.permutation(domain.attributes))
    clique = tuple(rng.permutation(domain.attributes)[:added].tolist())
    grown = pg.JunctionTree.from_cliques(domain, [*measured, clique], order=tree.elimination_order)
    growth = TreeGrowth(tree)
    assert growth.cells == tree.total_cells
    assert with_clique(growth, domain, clique) == grown.total_cells
    assert with_clique(growth, domain, ()) == tree.total_cells


def test_a_tree_that_the_search_found():
    domain = pg.Domain({name: 3 for name in "abcdefg"})
    tree = pg.JunctionTree.from_cliques(domain, map(tuple, ("ab", "bc", "cd", "de", "ef", "fa", "cg")))
    growth = TreeGrowth(tree)
    assert growth.cells == tree.total_cells
    for clique in combinations(domain, 3):
        grown = pg.JunctionTree.from_cliques(domain, [*tree.measured, clique], order=tree.elimination_order)
        assert with_clique(growth, domain, clique) == grown.total_cells
