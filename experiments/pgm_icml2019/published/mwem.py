"""MWEM with single queries (Hardt, Ligett, McSherry 2012; PGM section 4), by multiplicative weights or by PGM.

In each of `rounds` rounds half of the round's budget selects a query of the workload by the exponential mechanism, its
score |q(x) - q(p)| in counts (sensitivity 1), and half measures it with the Laplace mechanism; then the distribution is
estimated anew. As many rounds as attributes, as in the authors' published script.

Plain MWEM needs a table over all attributes that the measured queries connect. `FactoredWeights` has it and makes one
update after the other. `WeightsAtOnce` makes the updates of all queries at once (PGM E.2), as the authors' script does;
that is Algorithm 1 with steps of 1 / 2m, which a graphical model computes without the table, so that a run can go on
past any memory, and say what the table would have taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import networkx as nx
import numpy as np
from scipy import sparse

import pgmest as pg
from experiments.pgm_icml2019.problem import Problem
from experiments.pgm_icml2019.published import algorithm2
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.queries import Kron, interval
from pgmest.solvers import MirrorDescent
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor
from pgmest.workloads import Projectable

REPLAYS = 100
MEMORY = 16e9
"""Bytes: the paper's computer has 16 GB."""


@dataclass(frozen=True)
class BoxQuery:
    """One counting query: how many records have, in each attribute of a clique, a code within the bounds."""

    clique: Clique
    bounds: tuple[tuple[int, int], ...]

    @property
    def slices(self) -> tuple[slice, ...]:
        """Its cells in a table over the clique."""
        return tuple(slice(start, stop) for start, stop in self.bounds)

    def kron(self, domain: Domain) -> Kron:
        """Return the query as a query of pgmest, with one row."""
        pairs = zip(self.clique, self.bounds, strict=True)
        return Kron({name: interval(domain[name], *bounds) for name, bounds in pairs})


def query_at(problem: Problem, index: int) -> BoxQuery:
    """The query of the workload with a number, items one after the other, rows in order."""
    for item in problem.workload:
        rows = item.rows(problem.domain)
        if index < rows:
            codes = np.unravel_index(index, [problem.domain[name] for name in item.clique])
            numeric = [name in problem.numeric for name in item.clique]
            return BoxQuery(
                item.clique,
                tuple((0 if prefixed else int(c), int(c) + 1) for c, prefixed in zip(codes, numeric, strict=True)),
            )
        index -= rows
    raise IndexError(index)


class Estimator(Protocol):
    """A model that learns from the measured queries."""

    @property
    def model(self) -> Projectable: ...

    def learn(self, queries: Sequence[BoxQuery], values: Sequence[float], scale: float) -> bool:
        """Take them all in, the last of which is new; False where there is no room to."""
        ...


@dataclass(frozen=True)
class Outcome:
    """The estimate, the rounds that were made and those planned, and the queries chosen."""

    model: Projectable
    rounds: int
    planned: int
    queries: tuple[BoxQuery, ...]


def mwem(
    problem: Problem,
    estimator: Estimator,
    epsilon: float,
    seed: int,
    rounds: int | None = None,
    after: Callable[[Projectable], None] = lambda model: None,
) -> Outcome:
    """Run it until the rounds are over or the estimator has no room; `after` is called with the model of each round."""
    generator = np.random.default_rng(seed)
    planned = rounds or len(problem.domain)
    each = epsilon / (2 * planned)
    truth = np.concatenate(problem.truth)
    queries: list[BoxQuery] = []
    values: list[float] = []
    for made in range(planned):
        answers = np.concatenate([i.answer(estimator.model.project(i.clique)) for i in problem.workload])
        chosen = exponential_mechanism(np.abs(truth - answers), each, generator)
        queries.append(query_at(problem, chosen))
        values.append(float(truth[chosen] + generator.laplace(0.0, 2.0 / each)))
        if not estimator.learn(queries, values, 2.0 / each):
            return Outcome(estimator.model, made, planned, tuple(queries))
        after(estimator.model)
    return Outcome(estimator.model, planned, planned, tuple(queries))


def exponential_mechanism(scores: np.ndarray, epsilon: float, generator: np.random.Generator) -> int:
    """A place, with probability proportional to exp(epsilon * score / 2); the scores' sensitivity is 1."""
    weights = np.exp(epsilon * (scores - scores.max()) / 2)
    return int(generator.choice(len(scores), p=weights / weights.sum()))


class FactoredWeights:
    """Equation (2), p <- p * exp(-q (q p - y) / 2m) / Z, on a product of tables over disjoint sets of attributes.

    A query that touches several of them joins them first. Every round replays all queries `REPLAYS` times.
    """

    def __init__(self, domain: Domain, total: float, replays: int = REPLAYS, most_cells: float = MEMORY / 8):
        self.domain, self.total, self.replays, self.most_cells = domain, total, replays, most_cells
        self.tables: dict[Clique, np.ndarray] = {(name,): np.full(domain[name], 1.0 / domain[name]) for name in domain}

    @property
    def model(self) -> Projectable:
        """The model that answers: itself."""
        return self

    def project(self, attributes: Clique) -> Factor:
        """A marginal in counts."""
        table, held = np.array(self.total), ()
        for component, part in self.tables.items():
            kept = tuple(name for name in component if name in attributes)
            others = tuple(axis for axis, name in enumerate(component) if name not in attributes)
            table, held = np.multiply.outer(table, part.sum(axis=others)), (*held, *kept)
        order = [held.index(name) for name in attributes]
        return Factor(self.domain.project(attributes), table.transpose(order))

    def learn(self, queries: Sequence[BoxQuery], values: Sequence[float], scale: float) -> bool:
        """Join what the last query connects, and replay."""
        if not self._join(queries[-1].clique):
            return False
        places = [next(c for c in self.tables if set(query.clique) <= set(c)) for query in queries]
        boxes = [
            tuple(query.slices[query.clique.index(name)] if name in query.clique else slice(None) for name in place)
            for query, place in zip(queries, places, strict=True)
        ]
        for _ in range(self.replays):
            for place, box, value in zip(places, boxes, values, strict=True):
                self.update(place, box, value)
        return True

    def update(self, component: Clique, box: tuple[slice, ...], value: float) -> None:
        """Equation (2): only the query's cells change by the factor, all are normalized."""
        table = self.tables[component]
        inside = float(table[box].sum())
        factor = np.exp(-(self.total * inside - value) / (2 * self.total))
        table[box] *= factor
        table /= 1.0 + (factor - 1.0) * inside

    def _join(self, clique: Clique) -> bool:
        touched = [component for component in self.tables if set(component) & set(clique)]
        if len(touched) == 1:
            return True
        joined = tuple(name for component in touched for name in component)
        if self.domain.size(joined) > self.most_cells:
            return False
        table = np.array(1.0)
        for component in touched:
            table = np.multiply.outer(table, self.tables.pop(component))
        self.tables[joined] = np.ascontiguousarray(table)
        return True


class WeightsAtOnce:
    """Plain MWEM by E.2's updates, p <- p * exp(-Q^T (Q p - y) / 2m) / Z, `replays` of them from the uniform p.

    Attributes:
        cells: of the largest table that it needs, by round.
    """

    def __init__(self, domain: Domain, total: float, replays: int = REPLAYS):
        self.domain, self.total, self.replays = domain, total, replays
        self.cells: list[float] = []
        self.model = pg.estimate([], domain, total=total)

    def learn(self, queries: Sequence[BoxQuery], values: Sequence[float], scale: float) -> bool:
        """Update from all of them."""
        graph = nx.Graph()
        for query in queries:
            nx.add_path(graph, query.clique)
        parts = nx.connected_components(graph)
        self.cells.append(max(math.prod(float(self.domain[name]) for name in part) for part in parts))
        steps = MirrorDescent(rule="constant", size=1.0 / (2 * self.total**2))
        self.model = pg.estimate(
            measured(self.domain, queries, values, 1.0), self.domain, total=self.total, method=steps, tolerance=0.0,
            max_iterations=self.replays,
        )  # fmt: skip
        return True


class GraphicalModel:
    """PGM: the L2 estimate of all measured queries.

    By Algorithm 2 with the paper's constant where its `iterations` are given. Otherwise by pgmest's solver from the
    last estimate on, which takes few iterations, for it starts near.
    """

    def __init__(self, domain: Domain, total: float, iterations: int | None = None):
        self.domain, self.total, self.iterations = domain, total, iterations
        self.model: pg.Model = pg.estimate([], domain, total=total)

    def learn(self, queries: Sequence[BoxQuery], values: Sequence[float], scale: float) -> bool:
        """Estimate from all of them."""
        taken = measured(self.domain, queries, values, scale * 2**0.5)
        if self.iterations is not None:
            self.model = algorithm2.graphical_model(taken, self.domain, self.total, self.iterations)
        else:
            self.model = pg.estimate(
                taken, self.domain, total=self.total, init=self.model, tolerance=3e-3, max_iterations=50
            )
        return True


def measured(
    domain: Domain, queries: Sequence[BoxQuery], values: Sequence[float], stddev: float
) -> list[LinearMeasurement]:
    """All that was measured, a measurement for each clique with a row for each query, which saves a pass for each."""
    found = []
    for clique in dict.fromkeys(query.clique for query in queries):
        mine = [place for place, query in enumerate(queries) if query.clique == clique]
        rows = []
        for place in mine:
            table = np.zeros(domain.project(clique).shape)
            table[queries[place].slices] = 1.0
            rows.append(sparse.csr_array(table.reshape(1, -1)))
        answers = [values[place] for place in mine]
        found.append(LinearMeasurement(answers, clique, stddev, query=sparse.vstack(rows), noise="laplace"))
    return found
