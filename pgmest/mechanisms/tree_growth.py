"""TreeGrowth: how many cells a junction tree would have with one more clique, found without a search."""

from __future__ import annotations

import numpy as np

from pgmest.graph.elimination_order import LARGEST_SIZE, as_matrix
from pgmest.graph.junction_tree import JunctionTree
from pgmest.graph.triangulation import bits, interaction_graph
from pgmest.tables.domain import Clique


class TreeGrowth:
    """The cells of a junction tree with one more clique, for a fixed elimination order.

    Eliminating an attribute joins its later neighbors, its separator. A new clique adds its other attributes to the
    separator of its first attribute. The first attribute of that separator receives the rest of the separator in turn,
    and so on, until a separator does not change. This follows a path in the elimination tree and takes microseconds (it
    is the symbolic factorization of a sparse matrix with one more entry; Liu 1990, The role of elimination trees in
    sparse factorization). Another order may be better, so the result is an upper bound on the cells of the best tree.

    >>> import pgmest as pg
    >>> tree = pg.JunctionTree.from_cliques(pg.Domain({"a": 2, "b": 3, "c": 4}), [("a", "b"), ("b", "c")])
    >>> growth = TreeGrowth(tree)
    >>> least = np.full(1, np.inf)
    >>> growth.lower(np.array([[0, 2]], dtype=np.int32), np.array([0]), least)
    >>> growth.cells, float(least[0])
    (18.0, 24.0)

    Args:
        tree: the junction tree.
        last: the attribute to be eliminated last, without more fill than the tree has; None for the order of the tree.
        graph: the adjacency matrix of the measured cliques, if the caller has it already.

    Attributes:
        cells: the number of cells of the tree along this order, a float like all numbers of cells here.
    """

    def __init__(self, tree: JunctionTree, last: str | None = None, graph: np.ndarray | None = None):
        from pgmest.mechanisms.growth_kernels import eliminate_in_order

        order = tree.elimination_order if last is None else order_ending_with(tree, last)
        number = {name: vertex for vertex, name in enumerate(tree.domain)}
        n = len(number)
        self._place = np.empty(n, dtype=np.int64)
        places = np.array([number[name] for name in order], dtype=np.int64)
        self._place[places] = np.arange(n)
        self._work = np.empty((n + 63) // 64, dtype=np.uint64)
        self._tables = np.empty(n), np.empty((n, len(self._work)), np.uint64), np.empty(n), np.empty(n, np.uint8)
        sizes = np.array([min(size, LARGEST_SIZE) for size in tree.domain.shape], dtype=np.float64)
        graph = as_matrix(interaction_graph(tree.domain, tree.measured)) if graph is None else graph
        self.cells: float = eliminate_in_order(graph, places, sizes, *self._tables, self._work)

    def lower(self, rows: np.ndarray, asked: np.ndarray, least: np.ndarray) -> None:
        """Lower each entry of `least` to the cells of the tree with one more clique, where that is less.

        Args:
            rows: the cliques as positions in the domain, padded with -1, shape (cliques, most attributes).
            asked: the rows to evaluate.
            least: the least number of cells found so far, shape (cliques,); changed in place.
        """
        from pgmest.mechanisms.growth_kernels import cells_with

        cells_with(rows, asked, self.cells, self._place, *self._tables, self._work, least)


def order_ending_with(tree: JunctionTree, attribute: str) -> Clique:
    """Return an elimination order that ends with an attribute and creates only cliques inside those of the tree.

    The order is built from its end: it visits the tree from a clique that holds the attribute, neighbors next.

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
