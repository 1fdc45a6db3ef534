"""Division of a junction tree into subtrees for several threads, and the cliques above them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FEW_ABOVE = 0.1
"""The largest share of the total weight that may lie above the subtrees, where one thread works alone."""


@dataclass(frozen=True)
class Subtrees:
    """The cliques of a tree, divided between threads.

    Attributes:
        parents: the parent of each clique, -1 at a root. The root is in the middle, so that the tree can be divided.
        shares: the cliques of each thread, children first.
        above: the cliques that follow those of all threads, children first.
    """

    parents: tuple[int, ...]
    shares: tuple[tuple[int, ...], ...]
    above: tuple[int, ...]

    @classmethod
    def of(cls, parents: Sequence[int], weights: Sequence[float], threads: int) -> Subtrees:
        """Divide a forest of cliques with these weights (times); with one thread, all cliques are above.

        >>> path = Subtrees.of([-1, 0, 1, 2, 3], [5.0, 5.0, 1.0, 5.0, 5.0], threads=2)
        >>> path.parents, path.shares, path.above
        ((1, 2, -1, 2, 3), ((0, 1), (4, 3)), (2,))
        """
        if threads == 1:
            return cls(tuple(parents), (), tuple(_Forest(parents, weights).below(-1)))
        forest = _Forest(_rooted_in_the_middle(parents, weights), weights)
        roots, above = forest.divided(threads)
        shares: list[list[int]] = [[] for _ in range(threads)]
        for root in sorted(roots, key=lambda one: (-forest.total[one], one)):
            least = min(shares, key=lambda share: sum(forest.total[one] for one in share))
            least.append(root)
        if sum(map(bool, shares)) < 2:
            return cls(tuple(forest.parents), (), tuple(forest.below(-1)))
        divided = (tuple(one for root in share for one in forest.below(root)) for share in shares if share)
        order = [one for one in forest.below(-1) if one in above]
        return cls(tuple(forest.parents), tuple(divided), tuple(order))


class _Forest:
    """A forest with the weight of each subtree; node -1 is the parent of all roots."""

    def __init__(self, parents: Sequence[int], weights: Sequence[float]):
        self.parents = list(parents)
        self.children: dict[int, list[int]] = {}
        for clique, parent in enumerate(parents):
            self.children.setdefault(parent, []).append(clique)
        self.total = dict(enumerate(map(float, weights)))
        self.total[-1] = 0.0
        for clique in self.below(-1):
            self.total[self.parents[clique]] += self.total[clique]

    def below(self, root: int) -> list[int]:
        """Return the cliques of a subtree, children first."""
        order, waiting = [], [root] if root >= 0 else list(self.children.get(-1, ()))
        while waiting:
            clique = waiting.pop()
            order.append(clique)
            waiting.extend(self.children.get(clique, ()))
        return order[::-1]

    def divided(self, threads: int) -> tuple[list[int], set[int]]:
        """Return the roots of subtrees, and the cliques above them.

        The heaviest subtree is divided until it takes no longer than a thread's share, or cannot be divided.
        """
        roots, above, weight = list(self.children.get(-1, ())), set[int](), 0.0
        while roots:
            heaviest = max(roots, key=lambda root: (self.total[root], root))
            if self.total[heaviest] <= self.total[-1] / threads and len(roots) >= threads:
                break
            path = self._down_to_a_branch(heaviest)
            weight += self.total[heaviest] - sum(self.total[child] for child in self.children.get(path[-1], ()))
            if len(self.children.get(path[-1], ())) < 2 or weight > FEW_ABOVE * self.total[-1]:
                break
            roots.remove(heaviest)
            roots += self.children[path[-1]]
            above.update(path)
        return roots, above

    def _down_to_a_branch(self, clique: int) -> list[int]:
        path = [clique]
        while len(self.children.get(path[-1], ())) == 1:
            path += self.children[path[-1]]
        return path


def _rooted_in_the_middle(parents: Sequence[int], weights: Sequence[float]) -> list[int]:
    """Return the parents in the same forest, where each root is the clique whose heaviest subtree is lightest."""
    forest, rerooted = _Forest(parents, weights), list(parents)
    for root in forest.children.get(-1, ()):
        whole, at = forest.total[root], root
        while True:
            below = forest.children.get(at, ())
            heaviest = max(below, key=lambda child: (forest.total[child], child), default=-1)
            if heaviest < 0 or forest.total[heaviest] <= whole / 2:
                break
            rerooted[at], rerooted[heaviest] = heaviest, -1
            at = heaviest
    return rerooted
