"""TreeGrowth: how many cells a junction tree would have with one more clique, found without a search."""

from __future__ import annotations

import math

from pgmest.graph.junction_tree import JunctionTree
from pgmest.graph.triangulation import bits, interaction_graph, mask_of, triangulate
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
    (18, 24)

    Args:
        tree: the junction tree.
        last: the attribute to be eliminated last, without more fill than the tree has; None for the tree's own order.

    Attributes:
        cells: of the tree as it is, along this order.
    """

    def __init__(self, tree: JunctionTree, last: str | None = None):
        ordered = tree.domain.project(tree.elimination_order if last is None else order_ending_with(tree, last))
        steps = triangulate(interaction_graph(ordered, tree.measured), range(len(ordered)))
        self._sizes = ordered.shape
        self._place = {name: place for place, name in enumerate(ordered)}
        self._left = [step.separator for step in steps]
        inside = set(self._left)
        cliques = [step.group | step.separator for step in steps]
        self._maximal = [clique not in inside for clique in cliques]
        self._known_cells: dict[int, int] = {}
        self.cells: int = sum(self._cells(clique) for clique in cliques if clique not in inside)

    def with_clique(self, clique: Clique) -> int:
        """The cells of the tree with this clique, too."""
        cells, first = self.cells, True
        arriving = mask_of(self._place[name] for name in clique)
        while arriving:
            attribute = arriving & -arriving
            place = attribute.bit_length() - 1
            left = self._left[place]
            grown = left | (arriving ^ attribute)
            whole = not first and arriving == grown | attribute  # then what arrives is a larger clique's part
            if self._maximal[place] and (grown != left or whole):
                cells -= self._cells(left | attribute)
            if grown == left:
                break
            if not whole:
                cells += self._cells(grown | attribute)
            arriving, first = grown, False
        return cells

    def _cells(self, mask: int) -> int:
        found = self._known_cells.get(mask)
        if found is None:
            found = self._known_cells[mask] = math.prod([self._sizes[place] for place in bits(mask)])
        return found


def order_ending_with(tree: JunctionTree, attribute: str) -> Clique:
    """An elimination order that ends with an attribute and leaves no clique that is not inside one of the tree's.

    Backwards from a clique that holds the attribute: each clique is followed by those next to it in the tree.

    >>> import pgmest as pg
    >>> tree = pg.JunctionTree.from_cliques(pg.Domain({"a": 2, "b": 3, "c": 4}), [("a", "b"), ("b", "c")])
    >>> order_ending_with(tree, "a")
    ('c', 'b', 'a')
    """
    neighbors: list[list[int]] = [[] for _ in tree.cliques]
    for parent, child in tree.edges:
        neighbors[parent].append(child)
        neighbors[child].append(parent)
    start = next(position for position, clique in enumerate(tree.cliques) if attribute in clique)
    waiting = [*(position for position, parent in enumerate(tree.parents) if parent < 0), start]
    seen, backwards = [False] * len(tree.cliques), {attribute: None}
    while waiting:
        position = waiting.pop()
        if not seen[position]:
            seen[position] = True
            backwards |= dict.fromkeys(tree.cliques[position])
            waiting += neighbors[position]
    return tuple(reversed(backwards))
