"""Blocks and pairings: the products of a work list of marginals, which routes.py builds and propagation.py computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pgmest.tables.domain import Clique


class Part(NamedTuple):
    """The position of one attribute set in a block: its index, its shape, and the attributes of its axes."""

    index: tuple[slice, ...]
    shape: tuple[int, ...]
    labels: Clique


@dataclass(frozen=True)
class Block:
    """Attribute sets that one product computes.

    Attributes:
        clique: the clique that computes it; -1 for a product of branches of unconnected trees.
        own: the clique's own attributes in each of the sets.
        local: the attributes of the clique's table in the product: its own ones and those of separators.
        branches: the children with the rows of their stacks.
        parts: the sets with their positions in the result.
    """

    clique: int
    own: Clique
    local: Clique
    branches: tuple[tuple[int, slice | np.ndarray], ...]
    parts: tuple[tuple[frozenset[str], Part], ...]


@dataclass(frozen=True)
class Pairing:
    """Attribute sets of two branches each, where all branches have one separator, computed by one matrix product.

    Attributes:
        clique: the clique that computes it; -1 for branches of unconnected trees.
        separator: the attributes of the common separator.
        left, right: the children with the rows of their stacks; the rows of each side are stacked.
        parts: the sets with their positions in the result.
    """

    clique: int
    separator: Clique
    left: tuple[tuple[int, slice], ...]
    right: tuple[tuple[int, slice], ...]
    parts: tuple[tuple[frozenset[str], Part], ...]


@dataclass(frozen=True)
class Routes:
    """The work list of many marginals.

    Attributes:
        inside: the attribute sets inside a clique, with this clique.
        by_elimination: the attribute sets that variable elimination answers with less work, one at a time.
        upward: the cliques with the blocks of their upward messages, children first.
        joined: the blocks that compute other attribute sets.
        paired: the pairings that compute the remaining attribute sets.
    """

    inside: tuple[tuple[frozenset[str], int], ...]
    by_elimination: tuple[frozenset[str], ...]
    upward: tuple[tuple[int, tuple[Block, ...]], ...]
    joined: tuple[Block, ...]
    paired: tuple[Pairing, ...] = ()
