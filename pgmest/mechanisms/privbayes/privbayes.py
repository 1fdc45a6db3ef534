"""PrivBayes: select a Bayesian network greedily and privately, then measure the marginals of its families."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.graph.junction_tree import JunctionTree
from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.mechanisms.estimation import estimate_measured
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.parameters import (
    COUNT_SHARE,
    ESTIMATOR,
    MEGABYTES,
    POSITIVE,
    SHARE,
    TREE_MEGABYTES,
    choice,
    parameter,
)
from pgmest.mechanisms.privbayes.bayesian_network import BayesianNetwork
from pgmest.mechanisms.privbayes.parent_scores import SCORES, Family, sensitivity
from pgmest.mechanisms.privbayes.parent_sets import maximal_parent_sets
from pgmest.mechanisms.result import Outcome
from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.privacy.noise import Noise, noise_for
from pgmest.privacy.scores import TableScores
from pgmest.solvers.total import estimate_total
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor
from pgmest.workloads import Workload

MOST_CANDIDATES = 2000
"""The most candidate families in a round; a larger set is sampled."""


@dataclass(frozen=True, kw_only=True)
class PrivBayes(Mechanism):
    r"""PrivBayes (Zhang, Cormode, Procopiuc, Srivastava, Xiao, TODS 2017).

    The network starts with a random attribute. Each round selects an attribute and its parents among the attributes of
    the network by the exponential mechanism, with a score of their dependence (Algorithm 4). The candidates are the
    maximal theta-useful parent sets: a table of c cells is theta-useful if the mean count n / c is at least theta times
    the mean absolute noise. The marginals of each attribute with its parents are then measured with equal budgets. A
    marginal inside another one is summed from it.

    estimator="original" computes the conditional distributions from the noisy marginals, with negative counts set to
    zero, and draws records attribute by attribute. estimator="pgm" estimates a graphical model of the same
    measurements.

    The workload has no effect. The paper has epsilon-DP with Laplace noise; zCDP with Gaussian noise works, too.

    Under (epsilon, delta) the budget is in rho: choices are three tenths of it, and cost more in mu than noise gains.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["sex", "race", "income>50K", "relationship"])
    >>> result = PrivBayes(epsilon=1.0, delta=0, backend="simulation").fit(data, seed=0)
    >>> len(result.details["parents"]), result.ledger.remaining / result.ledger.budget < 1e-9
    (4, True)

    Args:
        estimator: "pgm" or "original".
        theta: the least mean count of a family's table, in units of the mean absolute noise.
        structure_share: the share of the budget that selects the network (beta of the paper).
        score: "I", "F" (binary domains) or "R" (`pgmest.mechanisms.privbayes.parent_scores`); "auto" is F where all
            attributes are binary, else R.
        max_megabytes: the largest junction tree, 8 bytes a cell. Parents are removed from a network with a larger one
            before it is measured.

    Raises:
        ArgumentError: if a parameter is not valid or, before anything is spent, if the score "F" is asked for and an
            attribute has more than two values.
    """

    estimator: str = parameter("pgm", ESTIMATOR)
    theta: float = parameter(4.0, POSITIVE)
    structure_share: float = parameter(0.3, SHARE)
    score: str = parameter("auto", choice(("auto", *SCORES)))
    max_megabytes: float = parameter(TREE_MEGABYTES, MEGABYTES)

    definition: ClassVar[str] = "either"
    uses: ClassVar[str] = "nothing"

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        domain = curator.domain
        score = self._score(domain)
        records = float(curator.fixed_total or 0)
        if curator.fixed_total is None:
            records = max(1.0, float(curator.count(curator.budget * COUNT_SHARE).values.item()))
        choosing = curator.remaining * self.structure_share
        noise = noise_for((curator.remaining - choosing) / len(domain), curator.neighbors)
        max_cells = records / (self.theta * mean_absolute(noise))
        network = self._network(curator, choosing, score, max_cells, rng)
        ruled = curator.constrained_cliques
        parents = limit_parents(domain, network, self.max_megabytes, ruled)
        measured = _maximal([frozenset((name, *given)) for name, given in parents.items()])
        cliques = [domain.ordered(members) for members in measured]
        curator.measure_all(cliques, curator.remaining)
        return Outcome(self._estimate(curator, parents), {"parents": parents, "max_cells": max_cells})

    def _score(self, domain: Domain) -> str:
        binary = all(size <= 2 for size in domain.shape)
        if self.score == "F" and not binary:
            raise ArgumentError.of("score", self.score, '"R" or "I" here; "F" is for attributes with two values each')
        return ("F" if binary else "R") if self.score == "auto" else self.score

    def _network(
        self, curator: Curator, choosing: Budget, score: str, max_cells: float, rng: np.random.Generator
    ) -> dict[str, Clique]:
        """Return the parents of each attribute, in the order of selection (Algorithm 4)."""
        domain = curator.domain
        rest = list(domain)
        parents: dict[str, Clique] = {rest.pop(int(rng.integers(len(rest)))): ()}
        scores = TableScores(SCORES[score])
        for spend in choosing.split(len(rest)) if rest else []:
            families = self._candidates(domain, list(parents), rest, max_cells, rng)
            binary = all(domain[name] <= 2 or domain.size(given) <= 2 for name, *given in families)
            moved = sensitivity(score, curator.neighbors, curator.public_total, binary)
            label = f"parents {len(parents)}: one of {len(families)}"
            name, *given = curator.select(families, scores, moved, spend, label=label)
            parents[name] = tuple(given)
            rest.remove(name)
        return parents

    def _candidates(
        self, domain: Domain, inside: list[str], rest: list[str], max_cells: float, rng: np.random.Generator
    ) -> list[Family]:
        """Return the families of an attribute of `rest` with a maximal parent set of `inside`."""
        limit = max(1, MOST_CANDIDATES // len(rest))
        by_size = {
            size: maximal_parent_sets(domain, inside, max_cells / size, limit, rng)
            for size in dict.fromkeys(domain[name] for name in rest)
        }
        return [(name, *given) for name in rest for given in by_size[domain[name]]]

    def _estimate(self, curator: Curator, parents: dict[str, Clique]) -> Any:
        if self.estimator == "pgm":
            return estimate_measured(curator, method="mirror_flow")
        domain = curator.domain
        total = curator.fixed_total or max(1.0, estimate_total(curator.measurements, domain).value)
        tables = {
            frozenset(table): Factor(table, measurement.values.reshape(table.shape))
            for measurement in curator.measurements
            if (table := domain.project(measurement.clique))
        }
        marginals = {
            name: next(table for members, table in tables.items() if members.issuperset((name, *given)))
            for name, given in parents.items()
        }
        return BayesianNetwork.of(domain, parents, marginals, total)


def mean_absolute(noise: Noise) -> float:
    """Return the mean absolute noise in counts: sigma sqrt(2 / pi) for Gaussian, stddev / sqrt(2) for Laplace noise."""
    return noise.stddev * (MEAN_ABSOLUTE if "gaussian" in noise.kind else math.sqrt(0.5))


def limit_parents(
    domain: Domain, parents: Mapping[str, Clique], max_megabytes: float, others: Sequence[Clique] = ()
) -> dict[str, Clique]:
    """Return the network without the last parents of attributes that make the junction tree exceed the limit.

    The network is public already, so the change costs no privacy.

    Args:
        domain: the attributes.
        parents: the parents of each attribute.
        max_megabytes: the largest junction tree, 8 bytes a cell.
        others: further cliques of the junction tree.
    """

    def megabytes(network: Mapping[str, Clique], effort: str = "low") -> float:
        families = [(name, *given) for name, given in network.items()]
        return JunctionTree.from_cliques(domain, [*families, *others], effort=effort).megabytes

    if megabytes(parents, "auto") <= max_megabytes:
        return dict(parents)
    kept: dict[str, Clique] = {}
    for name, given in parents.items():
        while given and megabytes({**kept, name: given}) > max_megabytes:
            given = given[:-1]
        kept[name] = given
    return kept


def _maximal(sets: list[frozenset[str]]) -> list[frozenset[str]]:
    """Return the maximal sets, each once."""
    distinct = list(dict.fromkeys(sets))
    return [members for members in distinct if not any(members < other for other in distinct)]
