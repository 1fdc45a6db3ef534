"""Rooted trees: the arrays of a junction tree that the kernels of pairs read, and its branches."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from pgmest.graph.junction_tree import JunctionTree
from pgmest.tables.domain import Clique


@dataclass(frozen=True)
class Branch:
    """The children of a clique that have the same separator.

    Attributes:
        clique: the parent of the children; -1 for the roots of unconnected trees.
        separator: the attributes of the common separator, in domain order.
        children: the positions of the children.
    """

    clique: int
    separator: Clique
    children: tuple[int, ...]


@dataclass(frozen=True)
class RootedTree:
    """The arrays of a junction tree that the kernel reads; `pair_kernels.find` explains them."""

    home: np.ndarray
    parents: np.ndarray
    depth: np.ndarray
    first: np.ndarray
    last: np.ndarray
    members: np.ndarray
    cells: np.ndarray
    separators: np.ndarray
    sizes: np.ndarray
    branches: tuple[Branch, ...]

    @classmethod
    def of(cls, tree: JunctionTree) -> RootedTree:
        """Return the arrays of a tree."""
        domain, count = tree.domain, len(tree.cliques)
        rank = {name: position for position, name in enumerate(domain)}
        members = np.zeros((count, len(domain)), dtype=np.bool_)
        for position, clique in enumerate(tree.cliques):
            members[position, [rank[name] for name in clique]] = True
        depth, below = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.int64)
        first = np.zeros(count, dtype=np.int64)
        for position, parent in enumerate(tree.parents):
            depth[position] = depth[parent] + 1 if parent >= 0 else 0
        for position in reversed(range(count)):
            if tree.parents[position] >= 0:
                below[tree.parents[position]] += below[position]
        next_free, roots = first.copy(), 0  # preorder numbers
        for position, parent in enumerate(tree.parents):
            first[position] = next_free[parent] if parent >= 0 else roots
            if parent >= 0:
                next_free[parent] += below[position]
            else:
                roots += below[position]
            next_free[position] = first[position] + 1
        shared: list[Clique] = [()] * count
        for (_, child), separator in zip(tree.edges, tree.separators, strict=True):
            shared[child] = tuple(sorted(separator, key=rank.__getitem__))
        together: dict[tuple[int, Clique], list[int]] = defaultdict(list)
        for child, parent in enumerate(tree.parents):
            together[parent, shared[child]].append(child)
        return cls(
            members.argmax(axis=0),  # parents come before children
            np.array(tree.parents, dtype=np.int64),
            depth,
            first,
            first + below,
            members,
            np.array(tree.sizes, dtype=np.float64),
            np.array([float(domain.size(names)) for names in shared]),
            np.array(domain.shape, dtype=np.float64),
            tuple(Branch(*key, tuple(children)) for key, children in together.items()),
        )

    @cached_property
    def branch_of(self) -> np.ndarray:
        """The number of the branch that each clique belongs to."""
        found = np.zeros(len(self.parents) + 1, dtype=np.int64)
        for number, branch in enumerate(self.branches):
            found[list(branch.children)] = number
        found[-1] = len(self.branches)  # clique -1, without a branch: an attribute of the joining clique itself
        return found

    @cached_property
    def branches_below(self) -> dict[int, list[int]]:
        """The numbers of the branches of each clique."""
        found: dict[int, list[int]] = defaultdict(list)
        for number, branch in enumerate(self.branches):
            found[branch.clique].append(number)
        return found


@lru_cache(maxsize=4)
def rooted(tree: JunctionTree) -> RootedTree:
    """Return the arrays of a tree, from a cache if possible."""
    return RootedTree.of(tree)
