"""JunctionTree: the cliques on which the marginals of a model are computed, and the cost of that computation.

The measured cliques form a graph, which an elimination order triangulates. Its maximal cliques form a tree on which
the MARGINAL-ORACLE passes messages. Memory and time grow with the cells of the tree, so the tree is built, and can be
printed or refused, before any table is allocated.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real

from pgmest._base.widths import shortened
from pgmest.errors import ArgumentError, ModelTooLarge, count_text, listed, memory_text, plural
from pgmest.graph.elimination_order import find_elimination
from pgmest.graph.triangulation import (
    Elimination,
    bits,
    center_rooted,
    interaction_graph,
    join_cliques,
    maximal_cliques,
    triangulate,
)
from pgmest.tables.domain import Clique, Domain, as_domain

_ROWS_SHOWN = 6


@dataclass(frozen=True, repr=False)
class JunctionTree:
    """A junction forest of measured cliques; build it with `from_cliques`. Printing it shows its cost.

    >>> tree = JunctionTree.from_cliques(Domain({"a": 2, "b": 3, "c": 4}), [("a", "b"), ("b", "c")])
    >>> tree.cliques, tree.edges, tree.separators, tree.total_cells
    ((('b', 'c'), ('a', 'b')), ((0, 1),), (('b',),), 18)

    Attributes:
        domain: the attributes. Each is in some clique; an attribute that was not measured forms a clique by itself.
        measured: the measured cliques, without duplicates.
        cliques: the maximal cliques of the triangulated graph, attributes in domain order, parents before children.
        parents: the position of each clique's parent, -1 for a root; connected attributes make one tree.
        elimination_order: the order of the attributes along which the graph was triangulated.
    """

    domain: Domain
    measured: tuple[Clique, ...]
    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]
    elimination_order: Clique

    @classmethod
    def from_cliques(
        cls,
        domain: Domain | Mapping[str, int],
        cliques: Iterable[Iterable[str]],
        *,
        order: Iterable[str] | None = None,
        effort: str = "auto",
        max_cells: float | None = None,
        max_megabytes: float | None = None,
    ) -> JunctionTree:
        """Return the tree with the fewest cells that the search finds; the same input gives the same tree.

        Args:
            domain: the attributes.
            cliques: the measured cliques; they may repeat, nest, be empty or leave attributes out.
            order: an elimination order of all the attributes, which replaces the search.
            effort: the effort of the search: "low" (three greedy orders), "auto" (longer when the tree is large, up to
                about a second) or "high" (up to about ten seconds).
            max_cells: the most cells that the tree may have in all.
            max_megabytes: the most memory that its tables may take (8 bytes a cell, 10^6 bytes a megabyte).

        Raises:
            UnknownAttributeError: a clique or the order has an attribute that is not in the domain.
            DuplicateAttributeError: a clique or the order repeats an attribute.
            ArgumentError: the order leaves attributes out, the effort is unknown, or a limit is not positive.
            ModelTooLarge: the tree exceeds a limit; the error names the cliques that cause it.
        """
        domain = as_domain(domain)
        measured = tuple(dict.fromkeys(domain.clique(clique) for clique in cliques))
        graph = interaction_graph(domain, measured)
        if order is None:
            steps = find_elimination(graph, domain.shape, effort)
        else:
            position = {name: vertex for vertex, name in enumerate(domain)}
            steps = triangulate(graph, [position[name] for name in _whole_order(domain, order)])
        names = domain.attributes
        eliminated = tuple(names[vertex] for step in steps for vertex in bits(step.group))
        tree = cls(domain, measured, *_rooted_forest(domain, steps), eliminated)
        if max_cells is not None:
            tree._check_limit("max_cells", max_cells, tree.total_cells)
        if max_megabytes is not None:
            tree.check_size(max_megabytes)
        return tree

    # -- the tree -----------------------------------------------------------------------------------------------------

    @cached_property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """The (parent, child) positions in `cliques`, in order of the child."""
        return tuple((parent, child) for child, parent in enumerate(self.parents) if parent >= 0)

    @cached_property
    def neighbors(self) -> tuple[tuple[int, ...], ...]:
        """The positions of the neighbors of each clique."""
        near: list[list[int]] = [[] for _ in self.cliques]
        for parent, child in self.edges:
            near[parent].append(child)
            near[child].append(parent)
        return tuple(map(tuple, near))

    @cached_property
    def separators(self) -> tuple[Clique, ...]:
        """The attributes that the two cliques of each edge share, in domain order."""
        shared = ((self.cliques[child], set(self.cliques[parent])) for parent, child in self.edges)
        return tuple(tuple(name for name in clique if name in above) for clique, above in shared)

    @cached_property
    def fill_edges(self) -> tuple[tuple[str, str], ...]:
        """The pairs of attributes that share a clique of the tree but no measured clique."""
        names = self.domain.attributes
        return tuple((names[u], names[v]) for u, fill in enumerate(self._fill) for v in bits(fill) if v > u)

    @cached_property
    def _fill(self) -> list[int]:
        measured = interaction_graph(self.domain, self.measured)
        return [
            near & ~given for near, given in zip(interaction_graph(self.domain, self.cliques), measured, strict=True)
        ]

    @cached_property
    def holders(self) -> dict[str, int]:
        """The positions of the cliques that hold each attribute, as a bit mask."""
        holders = dict.fromkeys(self.domain, 0)
        for position, clique in enumerate(self.cliques):
            for name in clique:
                holders[name] |= 1 << position
        return holders

    def containing(self, attributes: Iterable[str]) -> int | None:
        """Return the position of the smallest clique that holds all these attributes, None if no clique does."""
        everywhere = (1 << len(self.cliques)) - 1
        holding = [self.holders[name] for name in self.domain.clique(attributes)]
        return min(bits(functools.reduce(operator.and_, holding, everywhere)), key=self.sizes.__getitem__, default=None)

    def holds(self, attributes: Iterable[str]) -> bool:
        """Return whether some clique holds all these attributes of the domain."""
        everywhere = (1 << len(self.cliques)) - 1
        return functools.reduce(operator.and_, map(self.holders.__getitem__, attributes), everywhere) != 0

    # -- its cost -----------------------------------------------------------------------------------------------------

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each clique."""
        return tuple(math.prod([self.domain[name] for name in clique]) for clique in self.cliques)

    @cached_property
    def total_cells(self) -> int:
        """The number of cells of all cliques together, an exact integer of any size."""
        return sum(self.sizes)

    @property
    def treewidth(self) -> int:
        """The width of this tree: one less than the most attributes in a clique; an upper bound for the graph."""
        return max(map(len, self.cliques)) - 1

    @property
    def megabytes(self) -> float:
        """The memory of one set of tables, 8 bytes a cell and 10^6 bytes a megabyte; inf beyond floating point."""
        return math.inf if self.total_cells > 10**300 else self.total_cells * 8 / 1e6

    def check_size(self, max_megabytes: float) -> None:
        """Raise ModelTooLarge if one set of tables would take more than `max_megabytes`; no table is allocated.

        Raises:
            ModelTooLarge: with the memory needed, the largest cliques, and the measured cliques that overlap them.
            ArgumentError: the limit is not a positive number.
        """
        self._check_limit("max_megabytes", max_megabytes, 8 * self.total_cells, unit=10**6)

    def _check_limit(self, name: str, limit: float, needed: int, unit: int = 1) -> None:
        if not (isinstance(limit, Real) and limit > 0):
            raise ArgumentError.of(name, limit, "a positive number")
        if needed > limit * unit:
            largest = sorted(range(len(self.cliques)), key=lambda position: -self.sizes[position])[:3]
            culprits = [(_names_text(self.cliques[i], 90), self.sizes[i], self._overlapping(i)) for i in largest]
            least = -(-needed // unit)
            raise ModelTooLarge.of_tree(self.total_cells, len(self.measured), f"{name}={limit:,}", least, culprits)

    def _overlapping(self, position: int) -> list[str]:
        """Return the measured cliques with at least two attributes in a clique of the tree, largest overlap first."""
        inside = set(self.cliques[position])
        shared = {clique: inside.intersection(clique) for clique in self.measured}
        overlapping = [clique for clique in self.measured if len(shared[clique]) > 1]
        overlapping.sort(key=lambda clique: -self.domain.size(shared[clique]))
        return [f"({_names_text(clique, 60)})" for clique in overlapping]

    def __repr__(self) -> str:
        """Return a cost report of at most a dozen lines."""
        trees = self.parents.count(-1)
        fill = sum(mask.bit_count() for mask in self._fill) // 2
        lines = [
            f"JunctionTree: {plural(len(self.cliques), 'clique')} and {plural(len(self.edges), 'separator')} in "
            f"{plural(trees, 'component')}, over {plural(len(self.domain), 'attribute')}",
            f"  cells        {count_text(self.total_cells)} ({memory_text(8 * self.total_cells)})",
            f"  treewidth    {self.treewidth}, with {plural(fill, 'fill edge')}",
            f"  time         about {self._milliseconds()} ms a call of the marginal oracle (an estimate)",
            *self._table(),
        ]
        return "\n".join(lines)

    def _milliseconds(self) -> str:
        """Return the expected time of an oracle call as text: 1.5 ns a cell and 300 ns a clique."""
        nanoseconds = self.total_cells * 3 // 2 + 300 * len(self.cliques)
        return f"{nanoseconds / 1e6:.2g}" if nanoseconds < 10**8 else count_text(nanoseconds // 10**6)

    def _table(self) -> list[str]:
        """Return the lines of the report on the largest cliques."""
        separators = dict(zip((child for _, child in self.edges), self.separators, strict=True))
        largest = sorted(range(len(self.cliques)), key=lambda position: -self.sizes[position])
        rows = [("cells", "largest cliques", "separator from parent")] + [
            (count_text(self.sizes[i]), _names_text(self.cliques[i], 56), _names_text(separators.get(i, ()), 36))
            for i in largest[:_ROWS_SHOWN]
        ]
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        lines = [f"  {cells:>{widths[0]}}  {clique:<{widths[1]}}  {above}".rstrip() for cells, clique, above in rows]
        more = len(largest) - _ROWS_SHOWN
        return lines if more <= 0 else [*lines, f"  and {plural(more, 'smaller clique')}"]


def _rooted_forest(domain: Domain, steps: Sequence[Elimination]) -> tuple[tuple[Clique, ...], tuple[int, ...]]:
    """Return the cliques, parents first, and the position of each parent. An empty domain has one empty clique."""
    cliques, separators = maximal_cliques(steps) if steps else ([0], [])
    cells = [math.prod([domain.shape[vertex] for vertex in bits(clique)]) for clique in cliques]
    order = center_rooted(join_cliques(cliques, separators, cells), cells)
    position = {node: place for place, (node, _) in enumerate(order)}
    names = domain.attributes
    return (
        tuple(tuple(names[vertex] for vertex in bits(cliques[node])) for node, _ in order),
        tuple(position.get(parent, -1) for _, parent in order),
    )


def _whole_order(domain: Domain, order: Iterable[str]) -> Clique:
    names = domain.clique(order)
    if len(names) < len(domain):
        missing = domain.without(names)
        raise ArgumentError(f"order leaves out {listed(missing)}; name every attribute of the domain once.")
    return names


def _names_text(names: Sequence[str], width: int) -> str:
    """Return the names joined by commas; if that is wider than `width`, the names that fit and the number of all."""
    text = ", ".join(shortened(name) for name in names)
    if len(text) <= width:
        return text
    ending = f"... ({len(names):,} in all)"
    whole, comma, _ = text[: width - len(ending)].rpartition(", ")
    return (whole + comma or text[: width - len(ending)]) + ending
