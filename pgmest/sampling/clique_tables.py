"""The cliques of a calibrated junction tree as tables of conditional probabilities, in sampling order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from pgmest.errors import ImpossibleModelError
from pgmest.graph.junction_tree import JunctionTree
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.sampling.facts import Facts
from pgmest.tables.domain import Clique, Domain


@dataclass(frozen=True, eq=False)
class CliqueTable:
    """A clique as a table with a row for each cell of its separator and a column for each cell of its new attributes.

    Attributes:
        parent: the position of the clique's parent; -1 for a root.
        separator: the attributes of the rows, which the parent has, too.
        new: the attributes of the columns; each attribute is new in exactly one clique.
        weights: shape (rows, columns), the clique's marginal; each row is proportional to a conditional distribution.
        protected: attribute sets inside the clique whose margins rounding should preserve, most important first.
        facts: the facts about margins of the clique that are not facts about its separator.
        margins: what is known about margins of the clique besides the separator, from its facts and those of other
            cliques; no cell is in two rows.
    """

    parent: int
    separator: Clique
    new: Clique
    weights: np.ndarray
    protected: tuple[Clique, ...]
    facts: tuple[Facts, ...] = ()
    margins: tuple[Facts, ...] = ()

    @property
    def attributes(self) -> Clique:
        """The attributes of the axes of the cells in row-major order."""
        return self.separator + self.new


@dataclass(frozen=True, eq=False)
class ColumnMap:
    """The positions of a clique's attributes among the columns of records, for the record kernels.

    Attributes:
        separator: the positions of the separator's attributes.
        strides: for each of them, the distance in the clique's table between the rows of adjacent codes.
        new: the positions of the new attributes, which are to be filled.
        codes: shape (columns of the clique's table, new attributes), the new attributes' codes for each table column.
    """

    separator: np.ndarray
    strides: np.ndarray
    new: np.ndarray
    codes: np.ndarray

    @classmethod
    def of(cls, domain: Domain, table: CliqueTable, codes_type: np.dtype[Any]) -> ColumnMap:
        """Return the map for records that have one column per attribute of the domain, of the given type."""
        strides = [domain.size(table.separator[position + 1 :]) for position in range(len(table.separator))]
        shape = domain.project(table.new).shape
        codes = np.indices(shape, dtype=codes_type).reshape(len(shape), domain.size(table.new))
        return cls(
            separator=np.array(domain.axes(table.separator), dtype=np.int64),
            strides=np.array(strides, dtype=np.int64),
            new=np.array(domain.axes(table.new), dtype=np.int64),
            codes=np.ascontiguousarray(codes.T),
        )

    @property
    def arguments(self) -> tuple[np.ndarray, ...]:
        """The four arrays, in the order in which the record kernels take them."""
        return self.separator, self.strides, self.new, self.codes


def clique_tables(oracle: ExactOracle, facts: Sequence[Facts] = ()) -> list[CliqueTable]:
    """Return the cliques of a calibrated oracle's junction tree, parents first, from a root with the most facts.

    The protected sets are those of facts, the separators to the children, whose errors the children would inherit, then
    the measured cliques, then single attributes.

    Args:
        oracle: an exact oracle after a run.
        facts: facts about tables; those inside no clique of the tree are left out.

    Raises:
        ImpossibleModelError: a table sums to 0, so it defines no distribution.
    """
    tree = oracle.plan.tree
    domain = tree.domain
    order, parents = _rooted(tree, facts)
    separators: list[Clique] = [()] * len(order)
    children: list[list[Clique]] = [[] for _ in order]
    for index in order:
        if parents[index] >= 0:
            above = set(tree.cliques[parents[index]])
            separators[index] = tuple(name for name in tree.cliques[index] if name in above)
            children[parents[index]].append(separators[index])
    own = _facts_of_cliques(tree, order, facts)
    between = set(held([bool(own[index]) for index in order], [parents[index] for index in order]))
    place = {index: position for position, index in enumerate(order)} | {-1: -1}
    tables = []
    for index in order:
        clique, separator = tree.cliques[index], separators[index]
        margins = _margins(domain, clique, separator, facts) if place[index] in between else ()
        measured = [margin for margin in oracle.layout.cliques if set(margin) <= set(clique)]
        known = [margin.clique for margin in margins]
        protected = (*known, *children[index], *measured, *((name,) for name in clique))
        new = tuple(name for name in clique if name not in separator)
        values = oracle.clique_table(index).transpose(separator + new).values
        weights = np.ascontiguousarray(values).reshape(-1, domain.size(new))
        if not weights.any():
            raise ImpossibleModelError(
                f"the table over {clique} sums to 0, so records cannot be sampled from it. "
                "Run the oracle with a positive total before sampling."
            )
        tables.append(CliqueTable(place[parents[index]], separator, new, weights, protected, own[index], margins))
    return tables


def held(known: Sequence[bool], parents: Sequence[int]) -> list[int]:
    """Return the positions of the tables with facts and of those between them and their root, parents first."""
    found: set[int] = set()
    for index in reversed(range(len(parents))):
        if known[index] or index in found:
            found.update({index, parents[index]} - {-1})
    return sorted(found)


def _rooted(tree: JunctionTree, facts: Sequence[Facts]) -> tuple[Sequence[int], Sequence[int]]:
    """Return an order of the cliques, parents first, and the parent of each, from roots with the most facts."""
    if not facts:
        return range(len(tree.cliques)), tree.parents
    scores = [sum(len(one.values) for one in facts if set(one.clique) <= set(clique)) for clique in tree.cliques]
    best, component = {}, {}
    for index, parent in enumerate(tree.parents):
        component[index] = root = index if parent < 0 else component[parent]
        if scores[index] > scores[best.setdefault(root, root)]:
            best[root] = index
    order, parents = list(best.values()), [-1] * len(tree.cliques)
    for index in order:
        for near in tree.neighbors[index]:
            if near != parents[index]:
                parents[near] = index
                order.append(near)
    return order, parents


def _facts_of_cliques(tree: JunctionTree, order: Sequence[int], facts: Sequence[Facts]) -> list[tuple[Facts, ...]]:
    """Return for each clique the facts that it is the first to hold; each fact has one such clique, if any."""
    own: list[list[Facts]] = [[] for _ in order]
    for one in facts:
        about = set(one.clique)
        holding = (index for index in order if about <= set(tree.cliques[index]))
        first = next(holding, None)
        if first is not None:
            own[first].append(one)
    return [tuple(found) for found in own]


def _margins(domain: Domain, clique: Clique, separator: Clique, facts: Sequence[Facts]) -> tuple[Facts, ...]:
    """Return what facts of any clique say about margins of this one, other than of its separator."""
    inside = ((one, set(one.clique) & set(clique)) for one in facts)
    found = (one.margin(domain, names) for one, names in inside if not names <= set(separator))
    return tuple(sorted((one for one in found if one is not None and one.groups is not None), key=_rank))


def _rank(facts: Facts) -> tuple[int, int]:
    return -len(facts.values), len(facts.clique)


def project(domain: Domain, clique: Clique, cells: np.ndarray, attributes: Clique) -> np.ndarray:
    """Return the sums of a clique's cells (row-major) over all but `attributes`; flat, row-major in `attributes`."""
    values = cells.reshape(domain.project(clique).shape)
    dropped = tuple(axis for axis, name in enumerate(clique) if name not in attributes)
    kept = [name for name in clique if name in attributes]
    return values.sum(axis=dropped).transpose([kept.index(name) for name in attributes]).reshape(-1)


def sampling_kernels() -> ModuleType:
    """Return the compiled kernels, which are imported when first needed."""
    from pgmest.sampling import kernels as sampling_kernels

    return sampling_kernels
