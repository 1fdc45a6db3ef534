"""PrivBayes: a Bayesian network chosen greedily and privately, and noisy marginals of its families."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.graph.junction_tree import JunctionTree
from pgmest.mechanisms.estimation import estimate_measured
from pgmest.mechanisms.exponential_selection import MEAN_ABSOLUTE
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.parameters import (
    ACCOUNTINGS,
    COUNT,
    COUNT_SHARE,
    ESTIMATOR,
    MEGABYTES,
    POSITIVE,
    SHARE,
    TREE_MEGABYTES,
    choice,
    parameter,
)
from pgmest.mechanisms.privbayes.parent_scores import SCORES, Family, sensitivity
from pgmest.mechanisms.privbayes.parent_sets import maximal_parent_sets
from pgmest.mechanisms.result import Outcome
from pgmest.models.bayesian_network import BayesianNetwork
from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import Replace
from pgmest.privacy.noise import Noise, noise_for
from pgmest.privacy.plans import Plan
from pgmest.privacy.scores import TableScores
from pgmest.queries.workloads import Workload
from pgmest.solvers.total import estimate_total
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor


@dataclass(frozen=True, kw_only=True)
class PrivBayes(Mechanism):
    r"""PrivBayes (Zhang, Cormode, Procopiuc, Srivastava, Xiao, TODS 2017).

    A first attribute at random; then, in each round, an attribute and its parents among those that the network has
    already, selected by a score of their dependence. Parents are sets as large as they may be: a table of c cells is
    theta-useful if the average count, n / c, is at least theta times the average noise. Then the marginals of each
    attribute with its parents are measured, with equal shares of the budget; one that another contains is not measured,
    but summed from that.

    estimator="original" takes the conditional distributions from the noisy marginals, without their negative counts;
    its records are drawn attribute by attribute. estimator="pgm" estimates a graphical model of the same measurements.

    It learns the joint distribution; a workload makes no difference to it. Published for epsilon-DP with Laplace noise
    and the exponential mechanism; here also under zCDP, with Gaussian noise.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["sex", "race", "income>50K", "relationship"])
    >>> result = PrivBayes(epsilon=1.0, backend="simulation").fit(data, seed=0)
    >>> len(result.details["parents"]), result.ledger.remaining / result.ledger.budget < 1e-9
    (4, True)

    Args:
        estimator: "pgm" or "original".
        theta: how useful a table must be.
        structure: the share of the budget that chooses the network (beta of the paper).
        score: "I", "F" (binary domains) or "R" (`pgmest.mechanisms.privbayes.parent_scores`); "auto" is F where all
            attributes are binary, else R.
        max_candidates: the most families to choose among in a round; where there are more, some at random.
        max_megabytes: the largest junction tree. A network with a larger one loses parents before it is measured.

    Raises:
        ArgumentError: a parameter that is not valid; before anything is spent, score="F" on other domains.
    """

    estimator: str = parameter("pgm", ESTIMATOR)
    theta: float = parameter(4.0, POSITIVE)
    structure: float = parameter(0.3, SHARE)
    score: str = parameter("auto", choice(("auto", *SCORES)))
    max_candidates: int = parameter(2000, COUNT)
    max_megabytes: float = parameter(TREE_MEGABYTES, MEGABYTES)

    definition: ClassVar[str] = "either"
    accountings: ClassVar[tuple[str, ...]] = ACCOUNTINGS

    def plan(self, domain: Domain, workload: Workload | None) -> Plan:
        rest = 1.0 if isinstance(self.neighbors, Replace) else 1 - COUNT_SHARE
        choices = len(domain) - 1
        if not choices:
            return Plan(1)
        return Plan(1 - rest * self.structure, choices, rest * self.structure / choices)

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        domain = curator.domain
        score = self._score(domain)
        records = float(curator.public_total or 0)
        if curator.public_total is None:
            records = max(1.0, float(curator.count(curator.budget * COUNT_SHARE).values.item()))
        choosing = curator.remaining * self.structure
        noise = noise_for((curator.remaining - choosing) / len(domain), curator.neighbors)
        max_cells = records / (self.theta * mean_absolute(noise))
        network = self._network(curator, choosing, score, max_cells, rng)
        parents = within(domain, network, self.max_megabytes, [rule.attributes for rule in curator.structural_zeros])
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
        """Attribute -> parents, in the order in which they were chosen (Algorithm 4)."""
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
        limit = max(1, self.max_candidates // len(rest))
        by_size = {
            size: maximal_parent_sets(domain, inside, max_cells / size, limit, rng)
            for size in dict.fromkeys(domain[name] for name in rest)
        }
        return [(name, *given) for name in rest for given in by_size[domain[name]]]

    def _estimate(self, curator: Curator, parents: dict[str, Clique]) -> Any:
        if self.estimator == "pgm":
            return estimate_measured(curator, method="mirror_flow")
        domain = curator.domain
        total = curator.public_total or max(1.0, estimate_total(curator.measurements, domain).value)
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
    """The mean absolute value of noise, in counts: sigma sqrt(2 / pi) for Gaussian, stddev / sqrt(2) for Laplace."""
    return noise.stddev * (MEAN_ABSOLUTE if "gaussian" in noise.kind else math.sqrt(0.5))


def within(
    domain: Domain, parents: Mapping[str, Clique], max_megabytes: float, others: Sequence[Clique] = ()
) -> dict[str, Clique]:
    """The same network, or where its junction tree exceeds the limit, with fewer parents, the last ones dropped first.

    `others` are cliques that the tree holds, too.

    It only reads what is public already, the network, so it costs nothing.
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
    """Those that no other contains, each once."""
    distinct = list(dict.fromkeys(sets))
    return [members for members in distinct if not any(members < other for other in distinct)]
