"""Elimination orders: which attribute to sum out next, so that the tables built on the way stay small.

The cost of an order is the number of cells of the maximal cliques it leaves. Finding the best order is NP-hard, so:
simplicial vertices, which are safe, go first; what is left falls into connected components, and each is searched by
greedy heuristics and randomized restarts of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

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


LARGEST_SIZE = 1e300
"""Of an attribute, in the floats in which cells are counted; products of them are infinite, and still compared."""


class QuickSearch:
    """How many cells the tree of a graph has along the order that `find_elimination` finds with "low", and no more.

    For the many graphs that a mechanism considers in each round: no step is kept, and memory is allocated once.

    Args:
        sizes: number of values of each vertex.
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
        """Of the graph with one more clique each; where at most `enough`, maybe of fewer heuristics than three.

        They are exact up to 2^53.

        Args:
            graph: zeros and ones, a row for each vertex.
            rows: cliques as vertices, filled up with -1, shape (cliques, most vertices).
            asked: which of them to look at.
            enough: cells.

        Returns:
            shape (cliques,); 0 for those not asked for.
        """
        from pgmest.graph import kernels

        found = np.zeros(len(rows))
        limits = *self._limits, float(enough)
        kernels.best_with_each(rows, asked, found, graph, graph.copy(), self._sizes, *limits, *self._space)
        return found


def _space(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What steps leave, transposed, and the same with the number of vertices at the end, and the neighbors of each."""
    return np.empty((n, n), dtype=np.uint8), np.empty((n, n + 1), dtype=np.int32), np.empty((n, n), dtype=np.int32)


def as_matrix(graph: Sequence[int]) -> np.ndarray:
    """The neighbors of each vertex as zeros and ones, a row for each vertex, from masks."""
    n, width = len(graph), (len(graph) + 7) // 8
    masks = np.frombuffer(b"".join(near.to_bytes(width, "little") for near in graph), dtype=np.uint8)
    return np.unpackbits(masks.reshape(n, width), axis=1, count=n, bitorder="little")


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
    """A greedy rule: eliminate the vertex of lowest score.

    Attributes:
        weighted: a fill edge counts as the product of its ends' sizes, not as 1.
        by_cells: the score is the log of the cells of the new clique, or 0 for a simplicial vertex, which comes first
            because it is safe. Otherwise it is the fill.
    """

    weighted: bool
    by_cells: bool


HEURISTICS = {
    "min_fill": _Heuristic(weighted=False, by_cells=False),
    "min_weight": _Heuristic(weighted=False, by_cells=True),
    "weighted_min_fill": _Heuristic(weighted=True, by_cells=False),
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
    outcome: _Outcome | None = None

    @property
    def cost(self) -> float:
        """The cells of the maximal cliques."""
        return math.inf if self.outcome is None else self.outcome.cost


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
        outcome = games[rule.weighted].play(rule.by_cells, trial.factors, best.cost)
        work += outcome.work
        if outcome.cost >= 0 and (outcome.cost < best.cost or best.outcome is None):
            best, last_gain = replace(trial, outcome=outcome), run
    assert best.outcome is not None
    return best.outcome.steps


def _next_trial(run: int, best: _Trial, n: int, rng: np.random.Generator) -> _Trial:
    """Plain heuristics first; then in turn new random factors, and the best trial with a quarter of its redrawn."""
    name = list(HEURISTICS)[run % len(HEURISTICS)]
    if run < len(HEURISTICS):
        return _Trial(name, np.ones(n))
    factors = rng.uniform(1, 3, n)
    if run % 2:
        return _Trial(best.heuristic, np.where(rng.random(n) < 0.25, factors, best.factors))
    return _Trial(name, factors)


class _Outcome(NamedTuple):
    """What a run of the elimination game comes to.

    Attributes:
        cost: the cells of the maximal cliques; negative where they would have reached the bound.
        order: what was eliminated, one after the other.
        left: the neighbors that each of these had then, as zeros and ones.
        work: units of work.
    """

    cost: float
    order: np.ndarray
    left: np.ndarray
    work: int

    @property
    def steps(self) -> list[Elimination]:
        """The eliminations; the last one joins all the others, which then go in any order."""
        masks = [
            int.from_bytes(row.tobytes(), "little") for row in np.packbits(self.left != 0, axis=1, bitorder="little")
        ]
        steps = [Elimination(1 << vertex, near) for vertex, near in zip(self.order.tolist(), masks, strict=True)]
        return [*steps, Elimination(masks[-1], 0)]


@dataclass(frozen=True)
class _EliminationGame:
    """The elimination game on a kernel: its graph, and every vertex's fill and clique size.

    A run keeps both current, following the edges that come and go: that is what makes a restart cheap.

    Attributes:
        graph: zeros and ones, a row for each vertex.
        near, degree: the neighbors of each vertex, and how many there are.
        sizes: number of values of each vertex.
        weights: of each vertex; a fill edge weighs the product of its ends'.
        fill, cells: weight of the missing edges between a vertex's neighbors, and cells of the clique they make.
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
        from pgmest.graph import kernels

        n, graph = len(kernel.sizes), as_matrix(kernel.graph)
        sizes = np.array([min(size, LARGEST_SIZE) for size in kernel.sizes], dtype=np.float64)
        weights = np.minimum(sizes, 1e9) if weighted else np.ones(n)  # so that the score of a large one is a float
        near, degree = np.empty((n, n), dtype=np.int32), np.empty(n, dtype=np.int64)
        game = cls(graph, near, degree, sizes, weights, np.empty(n), np.empty(n))
        kernels.start(graph, near, degree, sizes, weights, game.fill, game.cells)
        return game

    def play(self, by_cells: bool, factors: np.ndarray, bound: float) -> _Outcome:
        """Eliminate by lowest score times factor, as long as the cells of the maximal cliques stay below `bound`."""
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
