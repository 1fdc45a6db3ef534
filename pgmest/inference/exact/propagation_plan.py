"""PropagationPlan: the measured cliques of a model, and the junction tree on which the exact oracle runs."""

from __future__ import annotations

from dataclasses import dataclass

from pgmest._base.memory import check_room
from pgmest.errors import ArgumentError
from pgmest.graph.junction_tree import JunctionTree
from pgmest.tables.clique_vector import Layout


@dataclass(frozen=True)
class PropagationPlan:
    """A junction tree for one layout of potentials.

    Attributes:
        layout: the measured cliques, in the order of the flat potentials and marginals.
        tree: the junction tree that holds them.
    """

    layout: Layout
    tree: JunctionTree

    @classmethod
    def of(cls, layout: Layout, tree: JunctionTree | None = None) -> PropagationPlan:
        """Return the plan of `layout` on `tree` (by default a tree built for its cliques).

        Raises:
            ArgumentError: no clique of the tree holds a measured clique.
            ModelTooLarge: this machine cannot hold the tables.
        """
        tree = JunctionTree.from_cliques(layout.domain, layout.cliques) if tree is None else tree
        check_room("the junction tree", tree.total_cells)
        for clique in layout.cliques:
            if not tree.holds(clique):
                raise ArgumentError(
                    f"the junction tree has no clique that holds {clique}; build it from all cliques of the layout."
                )
        return cls(layout, tree)
