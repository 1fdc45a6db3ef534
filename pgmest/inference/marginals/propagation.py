"""Many marginals at once, measured or not, by propagation on the calibrated tree.

A marginal inside one clique is summed from that clique. Any other marginal is computed at the lowest clique that has
each of its attributes in itself or below. Let K be those of its attributes that lie below a child E. The upward message
of E for K is P(K | separator of E). routes.py lists the sets K of each clique; here all messages of E are stacked:

                       s0  s1  s2      one column per value of the separator
    K = (a)     a0  |   .   .   .      one row per value of K
                a1  |   .   .   .
    K = (a, b) a0 b0|   .   .   .
               ...

One product moves a whole stack one clique up, and one product joins the stacks of two branches, so that marginals share
both the work and the calls. pairs.py computes very many pairs in a specialized way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pgmest.inference.marginals.blocks import Block, Pairing, Routes
from pgmest.inference.marginals.calibrated_tree import CalibratedTree
from pgmest.inference.marginals.contraction import Label, Table, contract
from pgmest.inference.marginals.pairs import propagate_pairs, small_pairs
from pgmest.inference.marginals.routes import find_routes
from pgmest.inference.marginals.variable_elimination import eliminate
from pgmest.tables.domain import Clique


def propagate(calibrated: CalibratedTree, cliques: Sequence[Clique], total: float = 1.0) -> list[np.ndarray]:
    """Return the marginals of the cliques, each scaled to `total`, with axes in the order of the clique.

    The arrays may be read-only, and may be views of larger arrays.

    Raises:
        ModelTooLarge: a marginal, or an intermediate table of every way to compute it, has too many cells.
    """
    pairs, others = _cells_of_pairs(calibrated, cliques, total)
    if not pairs:
        return _shared(calibrated, cliques, total)
    sizes = calibrated.domain
    found = {pair: cells.reshape(sizes[pair[0]], sizes[pair[1]]) for pair, cells in pairs.items()}
    found |= zip(others, _shared(calibrated, others, total), strict=True)
    return [found[clique] for clique in cliques]


def propagate_cells(calibrated: CalibratedTree, cliques: Sequence[Clique], total: float = 1.0) -> list[np.ndarray]:
    """Return the marginals of `propagate` as flat arrays, row-major in the order of the clique, shape (cells,).

    Raises:
        ModelTooLarge: as for `propagate`.
    """
    found, others = _cells_of_pairs(calibrated, cliques, total)
    found |= {
        clique: table.reshape(-1) for clique, table in zip(others, _shared(calibrated, others, total), strict=True)
    }
    return [found[clique] for clique in cliques]


def _cells_of_pairs(
    calibrated: CalibratedTree, cliques: Sequence[Clique], total: float
) -> tuple[dict[Clique, np.ndarray], list[Clique]]:
    """Return the marginals of pairs, if they are many and so computed together, and all other cliques."""
    pairs = small_pairs(calibrated, cliques)
    if not pairs:
        return {}, list(cliques)
    flat, offsets = propagate_pairs(calibrated, np.array(list(pairs.values()), dtype=np.int64), total)
    ends = pairwise(offsets.tolist())
    found = {pair: flat[start:end] for pair, (start, end) in zip(pairs, ends, strict=True)}
    return found, [clique for clique in cliques if clique not in found]


def _shared(calibrated: CalibratedTree, cliques: Sequence[Clique], total: float) -> list[np.ndarray]:
    """Return the marginals of any cliques, by the work list of routes.py."""
    routes = find_routes(calibrated.tree, tuple(frozenset(clique) for clique in cliques))
    found: dict[frozenset[str], Table] = {}
    for names, position in routes.inside:
        found[names] = Table(calibrated.ordered(names), calibrated.marginal(position, names) * total)
    for names in routes.by_elimination:
        order = calibrated.ordered(names)
        found[names] = Table(order, eliminate(calibrated, dict.fromkeys(order)) * total)
    found |= _Propagation(calibrated, routes).run(total)
    return [_arranged(found[frozenset(clique)], clique) for clique in cliques]


def _arranged(table: Table, clique: Clique) -> np.ndarray:
    if table.labels == clique:
        return table.values
    return table.values.transpose([table.labels.index(name) for name in clique])


@dataclass(frozen=True)
class _Branch:
    """The label of the axis of the rows of a clique's stack."""

    clique: int


@dataclass(frozen=True)
class _Propagation:
    calibrated: CalibratedTree
    routes: Routes

    def run(self, total: float) -> dict[frozenset[str], Table]:
        """Return the marginals that span several cliques."""
        stacks: dict[int, np.ndarray] = {}
        for clique, blocks in self.routes.upward:
            rows = [self.rows(block, self.multiply(block, stacks, clique)) for block in blocks]
            stacks[clique] = rows[0] if len(rows) == 1 else np.concatenate(rows)
        found: dict[frozenset[str], Table] = {}
        for block in self.routes.joined:
            values = self.multiply(block, stacks, None, total)
            for names, part in block.parts:
                found[names] = Table(part.labels, values[part.index].reshape(part.shape))
        for pairing in self.routes.paired:
            values = self.paired(pairing, stacks, total)
            for names, part in pairing.parts:
                found[names] = Table(part.labels, values[part.index].reshape(part.shape))
        return found

    def paired(self, pairing: Pairing, stacks: dict[int, np.ndarray], scale: float) -> np.ndarray:
        """Return P(left, right) = sum over s of P(left | s) P(s) P(right | s), for all rows of both stacks.

        Here s runs over the values of the common separator.
        """
        left, right = (
            np.concatenate([stacks[child][rows] for child, rows in side]) for side in (pairing.left, pairing.right)
        )
        if pairing.clique >= 0:
            left = left * self.calibrated.marginal(pairing.clique, pairing.separator).reshape(-1)
        return (left * scale) @ right.T

    def multiply(self, block: Block, stacks: dict[int, np.ndarray], up: int | None, scale: float = 1.0) -> np.ndarray:
        """Return the rows of a block: the stacks of its branches times the table of its clique.

        The axes are the rows of each branch, the clique's own attributes, and for an upward message its separator.
        """
        calibrated = self.calibrated
        separator = () if up is None else calibrated.separators[up]
        output: list[Label] = [_Branch(child) for child, _ in block.branches]
        output += [*block.own, *separator]
        tables = [self.stack(child, stacks[child], rows) for child, rows in block.branches]
        if block.clique >= 0:
            local = calibrated.conditional(block.clique, block.local, separator)
            tables.append(Table(block.local, local if scale == 1.0 else local * scale))
        elif scale != 1.0:
            tables.append(Table((), np.array(scale)))
        return contract(tables, output)

    def stack(self, child: int, stack: np.ndarray, rows: slice | np.ndarray) -> Table:
        """Return rows of a branch's stack, with an axis for each attribute of the separator."""
        separator = self.calibrated.separators[child]
        shape = [self.calibrated.domain[name] for name in separator]
        return Table((_Branch(child), *separator), stack[rows].reshape(-1, *shape))

    def rows(self, block: Block, values: np.ndarray) -> np.ndarray:
        """Return a block as rows of the stack of an upward message, in the order of its parts."""
        cells = self.calibrated.cells(self.calibrated.separators[block.clique])
        if len(block.branches) < 2:
            return values.reshape(-1, cells)
        return np.concatenate([values[part.index].reshape(-1, cells) for _, part in block.parts])
