"""PPSyn as it was published, which is not private: for comparison only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.mechanisms.adaptive import Adaptive, Round, planned_rounds
from pgmest.mechanisms.aim import relevant_cliques
from pgmest.mechanisms.exponential_selection import MEAN_ABSOLUTE, Candidate
from pgmest.mechanisms.mechanism import Outcome
from pgmest.mechanisms.parameters import parameter
from pgmest.mechanisms.ppsyn.partitions import MergingPath, Partition, splitting_path, squared_error
from pgmest.mechanisms.ppsyn.ppsyn import UP_TO_ONE, PartitionedMarginal, PPSyn
from pgmest.models.distribution import Distribution
from pgmest.privacy.budgets import Budget, Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import Neighbors
from pgmest.privacy.scores import Prepared, release_remembering
from pgmest.queries.workloads import Item, Workload
from pgmest.tables.domain import Clique

LABEL = "NOT PRIVATE: chosen from the true marginals, without noise; no budget pays for it"

FINER = 1.5
"""Of a splitting path the grids are tried that have this many times the boxes of the one before."""


@dataclass(frozen=True, kw_only=True)
class PPSynAsPublishedNotPrivate(PPSyn):
    r"""PPSyn (Zhang, Deng, Yin, Algorithms 1-4) as published. **It is not differentially private.**

    For every candidate marginal and every grid P on its splitting path, the uniformity error ||M - M_P||_1 of the true
    marginal M and the noise error sqrt(2 / pi) sigma |P| are added up. The budget asked for is the least one at which
    some grid brings the sum to `eta` times the model's true error; the candidate with the largest error per unit of
    that budget is measured, on that grid, for that budget.

    Grid, budget and choice are functions of the true marginals, and all three can be read off what is released: one
    record more changes the budget asked for, exactly and without noise. The ledger says so in each round, where it
    charges what the paper would have charged for the selection; its total is therefore not a privacy guarantee. `PPSyn`
    is the private mechanism.

    >>> import pgmest as pg
    >>> data = pg.datasets.load("census").select(["age", "sex", "income>50K"])
    >>> result = PPSynAsPublishedNotPrivate(epsilon=1.0, delta=1e-9, backend="simulation").fit(data, seed=0)
    >>> any("NOT PRIVATE" in entry.label for entry in result.ledger)
    True

    Args and errors as for `PPSyn`; `fineness` is not used.
    """

    eta: float = parameter(0.5, UP_TO_ONE)

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        relevance = relevant_cliques(curator.domain, workload, self.max_cells, self.dimensions)
        estimator = self._started(curator, relevance)
        least = curator.remaining / planned_rounds(self.rounds, curator.domain)
        truth = TrueMarginals(relevance, self.eta, curator.neighbors)

        def candidates(turn: Round, model: Distribution) -> list[Candidate]:
            spent = 1 - curator.remaining / curator.budget
            return [Candidate(item=Item(clique)) for clique in estimator.admissible(relevance, spent)]

        def most_contributing(
            curator: Curator, model: Distribution, options: Sequence[Candidate], spend: Budget, *, label: str
        ) -> Asked:
            cliques = [option.clique for option in options]
            question = cliques, [marginal.values for marginal in model.project_many(cliques)]
            found = release_remembering(curator, truth, question, spend, label=LABEL)
            partition = Partition(np.array(found["boxes"]), found["count"])
            budget = max(Rho(found["rho"]), least * self.measuring)
            return Asked(item=Item(cliques[found["candidate"]]), partition=partition, asked=budget)

        loop = Adaptive(candidates, _AsAsked(least), estimator, self.measuring, most_contributing)
        chosen = loop.run(curator)
        return Outcome(estimator.model, {"chosen": chosen, "private": False})


@dataclass(frozen=True, eq=False, kw_only=True)
class Asked(PartitionedMarginal):
    """What is to be measured, and the budget asked for it.

    Attributes:
        asked: the budget.
    """

    asked: Budget

    @property
    def spend(self) -> Budget:
        """The budget asked for."""
        return self.asked


class _AsAsked:
    """Rounds that cost what is asked for, as long as that leaves the least that another round needs."""

    def __init__(self, least: Budget):
        self._least, self._number = least, 0

    def following(self, curator: Curator) -> Round:
        self._number += 1
        return Round(self._number, self._least, last=False, reserve=self._least)

    def observe(self, measurement: Any, before: Any, after: Any) -> None:
        """Nothing changes."""


@dataclass(frozen=True, eq=False)
class TrueMarginals(Prepared):
    """What the published algorithm reads off the true marginals. Nothing of it is private, and nothing is kept here.

    Attributes:
        relevance: how much each candidate matters.
        eta: the share of the model's error that may remain.
        neighbors: the relation that noise is made for.
    """

    relevance: Mapping[Clique, float]
    eta: float
    neighbors: Neighbors

    def prepare(self, data: Dataset) -> Tables:
        """The true marginals, the paths made of them, and how far from uniform the boxes of each grid are."""
        cliques = list(self.relevance)
        tables = dict(zip(cliques, (marginal.values for marginal in data.project_many(cliques)), strict=True))
        one_way = [clique for clique in cliques if len(clique) == 1]
        paths = {clique[0]: MergingPath.of(tables[clique], squared_error) for clique in one_way}
        return Tables(tables, paths, {clique: _tried(table, clique, paths) for clique, table in tables.items()})

    def answer(self, prepared: Tables, question: tuple[Sequence[Clique], Sequence[np.ndarray]]) -> dict[str, Any]:
        """The candidate with the largest error per budget asked for, its grid and that budget; in JSON's types.

        Args:
            prepared: the tables.
            question: the candidates, and what the model says their marginals are.
        """
        candidates, estimated = question
        errors = [float(np.abs(prepared.tables[c] - m).sum()) for c, m in zip(candidates, estimated, strict=True)]
        plans = [
            self._cheapest(prepared.grids[clique], self.eta * error)
            for clique, error in zip(candidates, errors, strict=True)
        ]
        gains = [
            self.relevance[clique] * error / rho if rho else 0.0
            for clique, error, (_, rho) in zip(candidates, errors, plans, strict=True)
        ]
        best = int(np.argmax(gains))
        counts, rho = plans[best]
        partition = Partition.of_grid(prepared.paths, candidates[best], counts)
        return {"candidate": best, "rho": rho, "boxes": partition.boxes.tolist(), "count": partition.count}

    def _cheapest(self, grids: Sequence[TriedGrid], allowed: float) -> tuple[tuple[int, ...], float]:
        """The grid that reaches an error for the least budget, and that budget in rho (0: the error is none)."""
        best = grids[-1].counts, 0.0
        for grid in grids:
            if grid.uniformity_error < allowed:
                stddev = (allowed - grid.uniformity_error) / (MEAN_ABSOLUTE * grid.boxes)
                rho = 0.5 * (self.neighbors.l2_sensitivity() / stddev) ** 2
                if not best[1] or rho < best[1]:
                    best = grid.counts, rho
        return best


def _tried(table: np.ndarray, clique: Clique, paths: Mapping[str, MergingPath]) -> list[TriedGrid]:
    """Ever finer grids of a marginal, and how much error the uniformity assumption makes on each."""
    tried: list[TriedGrid] = []
    for counts in splitting_path(paths, clique):
        boxes = math.prod(counts)
        if boxes >= FINER * (tried[-1].boxes if tried else 0) or boxes == table.size:
            uniform = Partition.of_grid(paths, clique, counts).uniform_within(table)
            tried.append(TriedGrid(counts, boxes, float(np.abs(table - uniform).sum())))
    return tried


class TriedGrid(NamedTuple):
    """A grid of a marginal: buckets along each attribute, boxes, and the true l1 error of assuming them uniform."""

    counts: tuple[int, ...]
    boxes: int
    uniformity_error: float


class Tables(NamedTuple):
    """The true marginals, a merging path for each attribute, and the grids tried for each marginal: not private."""

    tables: dict[Clique, np.ndarray]
    paths: dict[str, MergingPath]
    grids: dict[Clique, list[TriedGrid]]
