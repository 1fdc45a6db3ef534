"""TreeGrowth: how many cells a junction tree would have with one more clique, found without a search."""

from __future__ import annotations

import numpy as np

from pgmest.graph.elimination_order import LARGEST_SIZE, as_matrix
from pgmest.graph.junction_tree import JunctionTree
from pgmest.graph.triangulation import bits, interaction_graph
from pgmest.tables.domain import Clique


class TreeGrowth:
    """What one more clique adds to a junction tree whose attributes are eliminated in a given order.

    Along the order each attribute leaves some of the later ones joined. A new clique adds the others to what its first
    attribute leaves, that to what the first of these leaves, and so on, until one leaves what it left before: a path in
    the elimination tree, and microseconds (the symbolic factorization of a sparse matrix with one more entry; Liu 1990,
    The role of elimination trees in sparse factorization). Another order may do better, so the cells are an upper bound
    on those of the best tree.

    >>> import pgmest as pg
    >>> tree = pg.JunctionTree.from_cliques(pg.Domain({"a": 2, "b": 3, "c": 4}), [("a", "b"), ("b", "c")])
    >>> growth = TreeGrowth(tree)
    >>> growth.cells, growth.with_clique(("a", "c"))
    (18.0, 24.0)

    Args:
        tree: the junction tree.
        last: the attribute to be eliminated last, without more fill than the tree has; None for the tree's own order.
        graph: the graph of what was measured as zeros and ones, where it is at hand.

    Attributes:
        cells: of the tree as it is, along this order; a float, as are all numbers of cells here.
    """

    def __init__(self, tree: JunctionTree, last: str | None = None, graph: np.ndarray | None = None):
        from pgmest.graph.growth_kernels import eliminate_in_order

        order = tree.elimination_order if last is None else order_ending_with(tree, last)
        number = {name: vertex for vertex, name in enumerate(tree.domain)}
        n = len(number)
        self._number, self._place = number, np.empty(n, dtype=np.int64)
        places = np.array([number[name] for name in order], dtype=np.int64)
        self._place[places] = np.arange(n)
        self._work = np.empty((n + 63) // 64, dtype=np.uint64)
        self._tables = np.empty(n), np.empty((n, len(self._work)), np.uint64), np.empty(n), np.empty(n, np.uint8)
        sizes = np.array([min(size, LARGEST_SIZE) for size in tree.domain.shape], dtype=np.float64)
        graph = as_matrix(interaction_graph(tree.domain, tree.measured)) if graph is None else graph
        self.cells: float = eliminate_in_order(graph, places, sizes, *self._tables, self._work)

    def with_clique(self, clique: Clique) -> float:
        """The cells of the tree with this clique, too."""
        least = np.full(1, np.inf)
        row = np.array([[self._number[name] for name in clique]], dtype=np.int32).reshape(1, -1)
        self.lower(row, np.zeros(1, dtype=np.int64), least)
        return float(least[0])

    def lower(self, rows: np.ndarray, asked: np.ndarray, least: np.ndarray) -> None:
        """Lower numbers of cells to those of the tree with one more clique each, where that is less.

        Args:
            rows: cliques as positions in the domain, filled up with -1, shape (cliques, most attributes).
            asked: which of them to look at.
            least: the numbers, shape (cliques,).
        """
        from pgmest.graph.growth_kernels import cells_with

        cells_with(rows, asked, self.cells, self._place, *self._tables, self._work, least)


def order_ending_with(tree: JunctionTree, attribute: str) -> Clique:
    """An elimination order that ends with an attribute and leaves no clique that is not inside one of the tree's.

    Backwards from a clique that holds the attribute: each clique is followed by those next to it in the tree.

    >>> import pgmest as pg
    >>> tree = pg.JunctionTree.from_cliques(pg.Domain({"a": 2, "b": 3, "c": 4}), [("a", "b"), ("b", "c")])
    >>> order_ending_with(tree, "a")
    ('c', 'b', 'a')
    """
    start = next(bits(tree.holders[attribute]))
    waiting = [*(position for position, parent in enumerate(tree.parents) if parent < 0), start]
    seen, backwards = [False] * len(tree.cliques), {attribute: None}
    while waiting:
        position = waiting.pop()
        if not seen[position]:
            seen[position] = True
            backwards |= dict.fromkeys(tree.cliques[position])
            waiting += tree.neighbors[position]
    return tuple(reversed(backwards))
