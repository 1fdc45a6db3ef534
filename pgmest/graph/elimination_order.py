"""Elimination orders: which attribute to sum out next, so that the tables built on the way stay small.

The cost of an order is the number of cells of the maximal cliques it leaves. Finding the best order is NP-hard, so:
simplicial vertices, which are safe, go first; what is left falls into connected components, and each is searched by
greedy heuristics and randomized restarts of them.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.graph.triangulation import (
    Elimination,
    bits,
    connected_components,
    eliminate_simplicial,
    mask_of,
)


def find_elimination(graph: Sequence[int], sizes: Sequence[int], effort: str = "auto") -> list[Elimination]:
    """The eliminations of the best order found; the same input gives the same order on any machine.

    Args:
        graph: the neighbors of each vertex, as masks.
        sizes: number of values of each vertex.
        effort: "low" tries the three heuristics once; "auto" adds restarts worth about a dozen calls of the
            MARGINAL-ORACLE on the best tree so far (a second or so at most), "high" a few hundred (ten seconds or so).

    Raises:
        ArgumentError: another effort.
    """
    if effort not in EFFORTS:
        raise ArgumentError.of("effort", effort, EFFORTS)
    rest = list(graph)
    steps = eliminate_simplicial(rest)
    left = (1 << len(rest)) - 1 - sum(step.group for step in steps)
    kernels = [_Kernel.of(component, rest, sizes) for component in connected_components(rest, left)]
    everything = sum(len(kernel.vertices) ** 2 for kernel in kernels)
    for kernel in kernels:  # a component's share of the work grows with its square
        found = _search(kernel, EFFORTS[effort], len(kernel.vertices) ** 2 / everything)
        steps += map(kernel.restore, found)
    return steps


# -- search on what has no simplicial vertex -------------------------------------------------------------------------

# A unit of work is one update of a vertex's score, about half a microsecond. An oracle call takes about 1.5 ns a cell,
# so a cell is worth this many units a call.
_WORK_PER_CELL = 0.003
_LEAST_WORK = 1_000


class _Effort(NamedTuple):
    """When to stop: work worth this many oracle calls, this much work, or restarts without gain (vertices squared)."""

    calls: float
    most_work: float
    patience: int

    def budget(self, cells: float, share: float) -> float:
        """Units of work for a component whose best tree has this many cells, given its share of the graph."""
        return max(share * _LEAST_WORK, min(share * self.most_work, self.calls * _WORK_PER_CELL * min(cells, 1e12)))


EFFORTS = {
    "low": _Effort(calls=12, most_work=1.5e6, patience=0),
    "auto": _Effort(calls=12, most_work=1.5e6, patience=2),
    "high": _Effort(calls=300, most_work=1.5e7, patience=20),
}


class _Heuristic(NamedTuple):
    """A greedy rule: eliminate the vertex of lowest score, given its fill and the cells of its clique.

    With `weighted`, a fill edge counts as the product of its ends' sizes, not as 1.
    """

    weighted: bool
    score: Callable[[int, int], float]


def min_fill(fill: int, cells: int) -> float:
    """Fewest fill edges."""
    return fill


def min_weight(fill: int, cells: int) -> float:
    """Smallest new clique; a simplicial vertex comes first, because it is safe."""
    return math.log(cells) if fill else 0.0


HEURISTICS = {
    "min_fill": _Heuristic(False, min_fill),
    "min_weight": _Heuristic(False, min_weight),
    "weighted_min_fill": _Heuristic(True, min_fill),
}


class _Kernel(NamedTuple):
    """A component with its vertices renumbered from 0, so that masks stay short."""

    vertices: list[int]
    graph: list[int]
    sizes: list[int]

    @classmethod
    def of(cls, component: int, graph: list[int], sizes: Sequence[int]) -> _Kernel:
        vertices = list(bits(component))
        number = {vertex: position for position, vertex in enumerate(vertices)}
        renumbered = [mask_of(number[other] for other in bits(graph[vertex])) for vertex in vertices]
        return cls(vertices, renumbered, [sizes[vertex] for vertex in vertices])

    def restore(self, step: Elimination) -> Elimination:
        """A step in the numbers of the whole graph."""
        return Elimination(*(mask_of(self.vertices[vertex] for vertex in bits(mask)) for mask in step))


@dataclass(frozen=True)
class _Trial:
    """One greedy run: the heuristic, the factors on its scores, and what came out."""

    heuristic: str
    factors: np.ndarray
    cost: float = math.inf
    steps: Sequence[Elimination] = ()


def _search(kernel: _Kernel, effort: _Effort, share: float) -> Sequence[Elimination]:
    """Each heuristic once, then restarts with perturbed scores; the cheapest order.

    Work is counted, not timed, so that the result does not depend on the machine.
    """
    games = {weighted: _EliminationGame.start(kernel, weighted) for weighted in (False, True)}
    rng = np.random.default_rng(0)
    best = _Trial("", np.ones(0))
    work = last_gain = 0
    for run in itertools.count():
        if run and work >= effort.budget(best.cost, share):
            break
        if run >= len(HEURISTICS) and run - last_gain >= effort.patience * len(kernel.vertices) ** 2:
            break
        trial = _next_trial(run, best, len(kernel.vertices), rng)
        rule = HEURISTICS[trial.heuristic]
        game = games[rule.weighted].copy()
        outcome = game.play(rule.score, trial.factors.tolist(), best.cost)
        work += game.work
        if outcome:
            best, last_gain = replace(trial, cost=outcome[0], steps=outcome[1]), run
    return best.steps


def _next_trial(run: int, best: _Trial, n: int, rng: np.random.Generator) -> _Trial:
    """Plain heuristics first; then in turn new random factors, and the best trial with a quarter of its redrawn."""
    name = list(HEURISTICS)[run % len(HEURISTICS)]
    if run < len(HEURISTICS):
        return _Trial(name, np.ones(n))
    factors = rng.uniform(1, 3, n)
    if run % 2:
        return _Trial(best.heuristic, np.where(rng.random(n) < 0.25, factors, best.factors))
    return _Trial(name, factors)


@dataclass(slots=True)
class _EliminationGame:
    """The elimination game on a kernel: the graph as it shrinks, with every vertex's fill and clique size kept current.

    Both follow the edges that come and go and are never recounted: that is what makes a restart cheap.

    Attributes:
        weights: of each vertex; a fill edge weighs the product of its ends'. `weigh` sums them over a set.
        graph, fill, cells: neighbors, weight of the missing edges between these, and cells of the clique they make.
        work: units of work so far.
    """

    kernel: _Kernel
    weights: list[int]
    weigh: Callable[[int], int]
    graph: list[int]
    fill: list[int]
    cells: list[int]
    work: int = 0

    @classmethod
    def start(cls, kernel: _Kernel, weighted: bool) -> _EliminationGame:
        sizes, graph = kernel.sizes, kernel.graph
        # Capped, so that the score of an absurdly large attribute still is a float.
        weights = [min(size, 10**9) if weighted else 1 for size in sizes]

        def weigh(mask: int) -> int:
            return sum([weights[vertex] for vertex in bits(mask)]) if weighted else mask.bit_count()

        def missing(near: int) -> int:
            return sum(weights[u] * weigh(near & ~graph[u] & ~(1 << u)) for u in bits(near)) // 2

        cells = [math.prod([sizes[u] for u in bits(near | 1 << vertex)]) for vertex, near in enumerate(graph)]
        return cls(kernel, weights, weigh if weighted else int.bit_count, graph, list(map(missing, graph)), cells)

    def copy(self) -> _EliminationGame:
        """The same position, to play on."""
        return replace(self, graph=self.graph[:], fill=self.fill[:], cells=self.cells[:])

    def play(
        self, score: Callable[[int, int], float], factors: Sequence[float], bound: float
    ) -> tuple[int, list[Elimination]] | None:
        """Eliminate by lowest score times factor: the cells of the maximal cliques, and the steps.

        None as soon as the cells reach `bound`.
        """
        fill, cells = self.fill, self.cells
        current: list[Any] = [(score(fill[v], cells[v]) * factors[v], cells[v], v) for v in range(len(cells))]
        heap = sorted(current)
        alive = mask_of(range(len(cells)))
        steps, cost = [], 0
        inside: set[int] = set()  # what a step leaves lies inside its clique, and is no maximal clique itself
        while True:
            entry = heapq.heappop(heap)
            vertex = entry[2]
            if current[vertex] is not entry:  # its score has changed since, or it is gone
                continue
            current[vertex] = None
            near = self.graph[vertex]
            clique = near | 1 << vertex
            cost += 0 if clique in inside else cells[vertex]
            if cost >= bound:
                return None
            steps.append(Elimination(1 << vertex, near))
            if clique == alive:  # this step joins all the others, which can then go in any order
                return cost, [*steps, Elimination(near, 0)]
            inside.add(near)
            alive ^= 1 << vertex
            for u in bits(self.eliminate(vertex)):
                current[u] = entry = (score(fill[u], cells[u]) * factors[u], cells[u], u)
                heapq.heappush(heap, entry)

    def eliminate(self, vertex: int) -> int:
        """Join the neighbors of a vertex and remove it; the vertices whose scores may have changed."""
        graph, weight, size = self.graph, self.weights[vertex], self.kernel.sizes[vertex]
        near = touched = graph[vertex]
        if self.fill[vertex]:
            for u in bits(near):
                for w in bits((near & ~graph[u]) >> u + 1):
                    touched |= self.join(u, w + u + 1)
        for u in bits(near):
            graph[u] ^= 1 << vertex
            self.fill[u] -= weight * self.weigh(graph[u] & ~near)
            self.cells[u] //= size
        touched &= ~(1 << vertex)
        self.work += 4 + touched.bit_count()
        return touched

    def join(self, u: int, w: int) -> int:
        """Add a fill edge; the vertices that see both ends."""
        graph, weights, fill, sizes = self.graph, self.weights, self.fill, self.kernel.sizes
        common = graph[u] & graph[w]
        pair = weights[u] * weights[w]
        for vertex in bits(common):
            fill[vertex] -= pair
        fill[u] += weights[w] * self.weigh(graph[u] & ~common)
        fill[w] += weights[u] * self.weigh(graph[w] & ~common)
        graph[u] |= 1 << w
        graph[w] |= 1 << u
        self.cells[u] *= sizes[w]
        self.cells[w] *= sizes[u]
        self.work += 2 + common.bit_count() // 2
        return common
