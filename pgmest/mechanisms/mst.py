"""MST: measure the marginals along a maximum spanning tree of the attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import networkx as nx
import numpy as np

from pgmest.mechanisms.estimation import estimate_measured, lifted, mergeable
from pgmest.mechanisms.mechanism import Mechanism, cliques_of
from pgmest.mechanisms.parameters import DEVIATIONS, METHOD, parameter
from pgmest.mechanisms.result import Outcome
from pgmest.models.exact import Model
from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.privacy.scores import Distance, Distances
from pgmest.solvers.solver import Solver
from pgmest.tables.domain import Clique, Domain
from pgmest.transforms.learned import rare_values
from pgmest.workloads import Item, Workload


@dataclass(frozen=True, kw_only=True)
class MST(Mechanism):
    r"""A maximum spanning tree of pairs (McKenna, Miklau, Sheldon 2021), the winner of the NIST contest of 2018.

    1. A third of the budget measures the one-way marginals. Values of an attribute whose noisy counts are below
       `threshold` standard deviations are merged into one value.
    2. A third selects pairs one by one until they connect all attributes. The exponential mechanism selects among the
       pairs that close no cycle, with the score $\lVert M_{ab}(x) - M_a M_b / N \rVert_1$, the distance from the
       product of the measured one-way marginals.
    3. A third measures these pairs. The model is estimated from all measurements.

    With a workload, the candidates are the pairs within its cliques, and the tree connects the attributes that they can
    connect.

    Under (epsilon, delta) the budget is in rho: choices are a third of it, and cost more in mu than noise gains.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["age", "sex", "income>50K", "relationship"])
    >>> result = MST(epsilon=1.0, delta=1e-9, backend="simulation").fit(data, seed=0)
    >>> len(result.details["tree"]), result.ledger.remaining / result.ledger.budget < 1e-9
    (3, True)

    Args:
        threshold: the least noisy count of a value that is not merged, in standard deviations; -inf merges no values.
        method: the solver of the last estimate (`pgmest.estimate`). "mirror_flow" stops early, which is closer to the
            truth than the optimum.

    Raises:
        ArgumentError: if a parameter is out of its range.
    """

    threshold: float = parameter(3.0, DEVIATIONS)
    method: str | Solver[Any] = parameter("mirror_flow", METHOD)

    definition: ClassVar[str] = "zcdp"
    uses: ClassVar[str] = "pairs"

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        candidates = _candidates(curator.domain, workload)
        first, second, third = curator.budget.split(3)
        one_way = curator.measure_all([(name,) for name in curator.domain], first)
        zeros, merged = curator.structural_zeros, mergeable(curator, one_way)
        transform = rare_values(curator.domain, merged, self.threshold, structural_zeros=zeros)
        recoded = curator.through(transform)
        compressed = [transform.push(measurement) for measurement in one_way if measurement.noisy]
        independent = estimate_measured(recoded, measurements=compressed)
        tree = _spanning_tree(recoded, independent, candidates, second)
        pairs = recoded.measure_all(tree, third)
        model = estimate_measured(recoded, independent, measurements=[*compressed, *pairs], method=self.method)
        return Outcome(lifted(curator, transform, model), {"tree": tree})


def _candidates(domain: Domain, workload: Workload | None) -> list[Clique]:
    """Return the pairs of attributes within the cliques of a workload, each once."""
    pairs = (pair for clique in cliques_of(workload, domain) for pair in combinations(clique, 2))
    return list({frozenset(pair): pair for pair in pairs}.values())


def _selections(candidates: Sequence[Clique], known: Sequence[Clique]) -> int:
    """Return the number of edges of a spanning forest of these pairs, besides those of known marginals."""
    graph: Any = nx.Graph()
    graph.add_nodes_from(name for pair in candidates for name in pair)
    graph.add_edges_from(known)
    before = nx.number_connected_components(graph)
    graph.add_edges_from(candidates)
    return before - nx.number_connected_components(graph)


def _spanning_tree(curator: Curator, independent: Model, candidates: Sequence[Clique], spend: Budget) -> list[Clique]:
    """Select the pairs of a spanning forest privately, each among the candidates that close no cycle.

    The curator scores every pair once. A selection then takes a few array operations on the pairs between components.
    Pairs that invariants determine connect their attributes without a selection.
    """
    known = [pair for pair in candidates if curator.known(pair) is not None]
    selections = _selections(candidates, known)
    if not selections:
        return []
    expected = independent.datavectors(candidates)
    distances = Distances({pair: Distance(Item(pair), x) for pair, x in zip(candidates, expected, strict=True)})
    axis = {name: number for number, name in enumerate(curator.domain)}
    ends = np.array([[axis[one], axis[other]] for one, other in candidates])
    component = np.arange(len(curator.domain))
    for one, other in known:
        component[component == component[axis[other]]] = component[axis[one]]
    open_places = np.flatnonzero(component[ends[:, 0]] != component[ends[:, 1]])
    tree: list[Clique] = []
    for part in spend.split(selections):
        options = distances.candidates.some(open_places)
        tree.append(curator.select(options, distances, curator.neighbors.l1_sensitivity(), part))
        one, other = (component[axis[name]] for name in tree[-1])
        component[component == other] = one
        open_places = open_places[component[ends[open_places, 0]] != component[ends[open_places, 1]]]
    return tree
