"""Elimination orders: which attribute to sum out next, so that the intermediate tables stay small.

The cost of an order is the number of cells of the maximal cliques that it creates. Finding the best order is NP-hard.
So simplicial vertices, which are safe to eliminate, go first; the remaining graph falls into connected components, and
each component is searched by greedy heuristics and randomized restarts of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.graph.triangulation import (
    Elimination,
    bits,
    connected_components,
    eliminate_simplicial,
    mask_of,
)


def find_elimination(graph: Sequence[int], sizes: Sequence[int], effort: str = "auto") -> list[Elimination]:
    """Return the eliminations of the best order found; the same input gives the same order on any machine.

    Args:
        graph: the neighbors of each vertex, as bit masks.
        sizes: the number of values of each vertex.
        effort: "low" tries each of the three heuristics once; "auto" adds restarts that take as long as about a dozen
            calls of the MARGINAL-ORACLE on the best tree so far (a second at most), "high" a few hundred calls (about
            ten seconds at most).

    Raises:
        ArgumentError: `effort` is not one of these.
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


LARGEST_SIZE = 1e300
"""The largest number of values of an attribute in float arithmetic; products may overflow to inf, which still compares
correctly."""


class QuickSearch:
    """Counts the cells of the tree that `find_elimination` would find with effort "low", without building the tree.

    A mechanism considers many graphs in each round. For these the search keeps no steps and allocates memory once.

    Args:
        sizes: the number of values of each vertex.
    """

    def __init__(self, sizes: Sequence[int]):
        n = len(sizes)
        self._sizes = np.array([min(size, LARGEST_SIZE) for size in sizes], dtype=np.float64)
        effort = EFFORTS["low"]
        self._limits = float(effort.calls * _WORK_PER_CELL), float(_LEAST_WORK), float(effort.most_work)
        space = _space(n)
        tables = [
            np.empty((3, n), dtype=np.int64),
            np.empty((4, n)),
            np.empty((4, n), dtype=np.int64),
            np.empty((4, n)),
        ]
        vectors = [np.empty(n, dtype=np.uint8) for _ in range(2)]
        self._space = (*(np.empty((n, n), dtype=np.uint8) for _ in range(2)), *space, *vectors, *tables)

    def cells_with(self, graph: np.ndarray, rows: np.ndarray, asked: np.ndarray, enough: float) -> np.ndarray:
        """Return the cells of the tree of the graph with one more clique, for each candidate clique.

        The search tries no further heuristic once a tree has at most `enough` cells. Cells are exact up to 2^53.

        Args:
            graph: the adjacency matrix, zeros and ones.
            rows: the vertices of the candidate cliques, padded with -1, shape (cliques, most vertices).
            asked: the rows to evaluate.
            enough: the number of cells that needs no improvement.

        Returns:
            the cells, shape (cliques,); 0 for rows that are not asked for.
        """
        from pgmest.graph import kernels

        found = np.zeros(len(rows))
        limits = *self._limits, float(enough)
        kernels.best_with_each(rows, asked, found, graph, graph.copy(), self._sizes, *limits, *self._space)
        return found


def _space(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return work space of a search: separators by vertex, separators by step with their sizes, neighbor lists."""
    return np.empty((n, n), dtype=np.uint8), np.empty((n, n + 1), dtype=np.int32), np.empty((n, n), dtype=np.int32)


def as_matrix(graph: Sequence[int]) -> np.ndarray:
    """Return the adjacency matrix (zeros and ones) of a graph given by the neighbors of each vertex as masks."""
    n, width = len(graph), (len(graph) + 7) // 8
    masks = np.frombuffer(b"".join(near.to_bytes(width, "little") for near in graph), dtype=np.uint8)
    return np.unpackbits(masks.reshape(n, width), axis=1, count=n, bitorder="little")


# -- search on a graph without simplicial vertices ------------------------------------------------------------------

# A unit of work is one update of a vertex's score, about half a microsecond. An oracle call takes about 1.5 ns a cell,
# so one cell in one call costs as much as this many units.
_WORK_PER_CELL = 0.003
_LEAST_WORK = 1_000


class _Effort(NamedTuple):
    """The stopping rule of a search.

    Attributes:
        calls: the work, in calls of the marginal oracle on the best tree so far.
        most_work: the most units of work.
        patience: the restarts without gain after which the search stops, as a multiple of the squared vertex count.
    """

    calls: float
    most_work: float
    patience: int

    def budget(self, cells: float, share: float) -> float:
        """Return the units of work for a component with this share of the graph, whose best tree has these cells."""
        return max(share * _LEAST_WORK, min(share * self.most_work, self.calls * _WORK_PER_CELL * min(cells, 1e12)))


EFFORTS = {
    "low": _Effort(calls=12, most_work=1.5e6, patience=0),
    "auto": _Effort(calls=12, most_work=1.5e6, patience=2),
    "high": _Effort(calls=300, most_work=1.5e7, patience=20),
}


class _Heuristic(NamedTuple):
    """A greedy rule: eliminate the vertex of lowest score.

    Attributes:
        weighted: whether a fill edge counts as the product of the sizes of its ends instead of 1.
        by_cells: whether the score is the log of the cells of the new clique, and 0 for a simplicial vertex, which is
            always safe to eliminate. Otherwise the score is the fill.
    """

    weighted: bool
    by_cells: bool


HEURISTICS = {
    "min_fill": _Heuristic(weighted=False, by_cells=False),
    "min_weight": _Heuristic(weighted=False, by_cells=True),
    "weighted_min_fill": _Heuristic(weighted=True, by_cells=False),
}


class _Kernel(NamedTuple):
    """A connected component with its vertices renumbered from 0, so that masks stay short."""

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
        """Return a step in the vertex numbers of the whole graph."""
        return Elimination(*(mask_of(self.vertices[vertex] for vertex in bits(mask)) for mask in step))


@dataclass(frozen=True)
class _Trial:
    """One greedy run: the heuristic, the random factors on its scores, and the outcome."""

    heuristic: str
    factors: np.ndarray
    outcome: _Outcome | None = None

    @property
    def cost(self) -> float:
        """The cells of the maximal cliques."""
        return math.inf if self.outcome is None else self.outcome.cost


def _search(kernel: _Kernel, effort: _Effort, share: float) -> Sequence[Elimination]:
    """Return the cheapest order among one run of each heuristic and restarts with perturbed scores.

    The limit is on counted work, not on time, so that the result does not depend on the machine.
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
        outcome = games[rule.weighted].play(rule.by_cells, trial.factors, best.cost)
        work += outcome.work
        if outcome.cost >= 0 and (outcome.cost < best.cost or best.outcome is None):
            best, last_gain = replace(trial, outcome=outcome), run
    assert best.outcome is not None
    return best.outcome.steps


def _next_trial(run: int, best: _Trial, n: int, rng: np.random.Generator) -> _Trial:
    """Return the plain heuristics first, then alternate: new factors, or the best trial with a quarter redrawn."""
    name = list(HEURISTICS)[run % len(HEURISTICS)]
    if run < len(HEURISTICS):
        return _Trial(name, np.ones(n))
    factors = rng.uniform(1, 3, n)
    if run % 2:
        return _Trial(best.heuristic, np.where(rng.random(n) < 0.25, factors, best.factors))
    return _Trial(name, factors)


class _Outcome(NamedTuple):
    """The outcome of a run of the elimination game.

    Attributes:
        cost: the cells of the maximal cliques; negative if the run stopped because they reached the bound.
        order: the vertices in the order of their elimination.
        left: the neighbors that each vertex had when it was eliminated, as zeros and ones.
        work: the units of work.
    """

    cost: float
    order: np.ndarray
    left: np.ndarray
    work: int

    @property
    def steps(self) -> list[Elimination]:
        """The eliminations; the last vertex eliminated is joined to all that remain, so that these form one group."""
        masks = [
            int.from_bytes(row.tobytes(), "little") for row in np.packbits(self.left != 0, axis=1, bitorder="little")
        ]
        steps = [Elimination(1 << vertex, near) for vertex, near in zip(self.order.tolist(), masks, strict=True)]
        return [*steps, Elimination(masks[-1], 0)]


@dataclass(frozen=True)
class _EliminationGame:
    """The elimination game on a component: its graph, and the fill and clique size of every vertex.

    A run updates fill and clique sizes for each edge that is added or removed, which makes a restart cheap.

    Attributes:
        graph: the adjacency matrix, zeros and ones.
        near, degree: the neighbor list of each vertex, and its length.
        sizes: the number of values of each vertex.
        weights: the weight of each vertex; the weight of a fill edge is the product of the weights of its ends.
        fill: the weight of the missing edges between the neighbors of each vertex.
        cells: the cells of the clique that each vertex and its neighbors would form.
    """

    graph: np.ndarray
    near: np.ndarray
    degree: np.ndarray
    sizes: np.ndarray
    weights: np.ndarray
    fill: np.ndarray
    cells: np.ndarray

    @classmethod
    def start(cls, kernel: _Kernel, weighted: bool) -> _EliminationGame:
        """Return the game before the first elimination."""
        from pgmest.graph import kernels

        n, graph = len(kernel.sizes), as_matrix(kernel.graph)
        sizes = np.array([min(size, LARGEST_SIZE) for size in kernel.sizes], dtype=np.float64)
        weights = np.minimum(sizes, 1e9) if weighted else np.ones(n)  # products of larger weights would lose precision
        near, degree = np.empty((n, n), dtype=np.int32), np.empty(n, dtype=np.int64)
        game = cls(graph, near, degree, sizes, weights, np.empty(n), np.empty(n))
        kernels.start(graph, near, degree, sizes, weights, game.fill, game.cells)
        return game

    def play(self, by_cells: bool, factors: np.ndarray, bound: float) -> _Outcome:
        """Eliminate by lowest score times factor, while the cells of the maximal cliques stay below `bound`."""
        from pgmest.graph import kernels

        n = len(self.sizes)
        graph, near, degree, fill, cells = (
            array.copy() for array in (self.graph, self.near, self.degree, self.fill, self.cells)
        )
        when, (lasting, left, _) = np.empty(n, dtype=np.int64), _space(n)
        cost, steps, work = kernels.play(
            graph, near, degree, self.sizes, self.weights, factors, by_cells, float(bound), fill, cells, np.empty(n),
            np.empty(n, dtype=np.uint8), when, left, lasting,
        )  # fmt: skip
        order = np.argsort(np.where(when < 0, n, when), kind="stable")[:steps]
        return _Outcome(cost, order, left[:steps, :n], work)
