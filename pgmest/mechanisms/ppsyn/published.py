"""PPSyn as it was published, which is not private: for comparison only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.graph.tree_limit import TreeLimit
from pgmest.mechanisms.exponential_selection import MEAN_ABSOLUTE
from pgmest.mechanisms.mechanism import Outcome
from pgmest.mechanisms.ppsyn.partitions import MergingPath, Partition, splitting_path, squared_error
from pgmest.mechanisms.ppsyn.ppsyn import PPSyn
from pgmest.models.exact import Model
from pgmest.privacy.budgets import Budget, Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import Neighbors
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
    that budget is measured, on that grid, at that price.

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

    eta: float = 0.5

    def run(self, curator: Curator, workload: Any, rng: np.random.Generator) -> Outcome:
        relevance = self.relevance(curator.domain, workload)
        ruled = [rule.attributes for rule in curator.structural_zeros]
        one_way = [clique for clique in relevance if len(clique) == 1]
        limit = TreeLimit(curator.domain, [*one_way, *ruled], self.max_megabytes)
        used = self.measure_one_ways(curator, relevance)
        model = self.estimate(curator, used)
        least = curator.remaining / (self.rounds or 16 * len(curator.domain))
        truth = TrueMarginals(relevance, self.eta, curator.neighbors)
        chosen: list[Clique] = []
        last = False
        while not last:
            spent = 1 - curator.remaining / curator.budget
            asked = self._asked(curator, truth, model, limit.fitting(relevance, spent), least)
            spend = max(Rho(asked.rho), least * self.measuring)
            last = curator.remaining <= spend + least
            spend = curator.remaining if last else spend
            used.append(curator.measure(asked.clique, spend, asked.partition.query))
            limit.add(asked.clique)
            chosen.append(asked.clique)
            model = self.estimate(curator, used, model, last)
        return Outcome(model, {"chosen": chosen, "private": False})

    def _asked(
        self, curator: Curator, truth: TrueMarginals, model: Model, candidates: Sequence[Clique], least: Budget
    ) -> Asked:
        estimated = [marginal.values for marginal in model.project_many(candidates)]

        def choose(data: Dataset, generator: np.random.Generator) -> dict[str, Any]:
            return truth.most_contributing(data, candidates, estimated)

        found = curator.release(choose, least * (1 - self.measuring), label=LABEL)
        partition = Partition(np.array(found["boxes"]), found["count"])
        return Asked(candidates[found["candidate"]], partition, found["rho"])


class TrueMarginals:
    """The true marginals, the paths made of them, and how far from uniform the boxes of each grid are.

    Only a curator may call it; what it returns is not private.

    Args:
        relevance: how much each candidate matters.
        eta: the share of the model's error that may remain.
        neighbors: the relation that noise is made for.
    """

    def __init__(self, relevance: Mapping[Clique, float], eta: float, neighbors: Neighbors):
        self._relevance, self._eta, self._neighbors = relevance, eta, neighbors
        self._tables: dict[Clique, np.ndarray] = {}
        self._grids: dict[Clique, list[Grid]] = {}
        self._paths: dict[str, MergingPath] = {}

    def most_contributing(
        self, data: Dataset, candidates: Sequence[Clique], estimated: Sequence[np.ndarray]
    ) -> dict[str, Any]:
        """The candidate with the largest error per budget asked for, its grid and that budget; in JSON's types."""
        if not self._tables:
            self._read(data)
        errors = [float(np.abs(self._tables[c] - m).sum()) for c, m in zip(candidates, estimated, strict=True)]
        plans = [self._cheapest(clique, self._eta * error) for clique, error in zip(candidates, errors, strict=True)]
        gains = [
            self._relevance[clique] * error / rho if rho else 0.0
            for clique, error, (_, rho) in zip(candidates, errors, plans, strict=True)
        ]
        best = int(np.argmax(gains))
        counts, rho = plans[best]
        partition = Partition.of_grid(self._paths, candidates[best], counts)
        return {"candidate": best, "rho": rho, "boxes": partition.boxes.tolist(), "count": partition.count}

    def _read(self, data: Dataset) -> None:
        cliques = list(self._relevance)
        self._tables = dict(zip(cliques, (marginal.values for marginal in data.project_many(cliques)), strict=True))
        for clique in cliques:
            if len(clique) == 1:
                self._paths[clique[0]] = MergingPath.of(self._tables[clique], squared_error)
        self._grids = {clique: self._tried(clique) for clique in cliques}

    def _tried(self, clique: Clique) -> list[Grid]:
        """Ever finer grids of a marginal, and how much error the uniformity assumption makes on each."""
        table, tried = self._tables[clique], []
        for counts in splitting_path(self._paths, clique):
            boxes = math.prod(counts)
            if boxes >= FINER * (tried[-1].boxes if tried else 0) or boxes == table.size:
                uniform = Partition.of_grid(self._paths, clique, counts).uniform_within(table)
                tried.append(Grid(counts, boxes, float(np.abs(table - uniform).sum())))
        return tried

    def _cheapest(self, clique: Clique, allowed: float) -> tuple[tuple[int, ...], float]:
        """The grid that reaches an error for the least budget, and that budget in rho (0: the error is none)."""
        best = self._grids[clique][-1].counts, 0.0
        for grid in self._grids[clique]:
            if grid.uniformity_error < allowed:
                stddev = (allowed - grid.uniformity_error) / (MEAN_ABSOLUTE * grid.boxes)
                rho = 0.5 * (self._neighbors.l2_sensitivity() / stddev) ** 2
                if not best[1] or rho < best[1]:
                    best = grid.counts, rho
        return best


class Grid(NamedTuple):
    """A grid of a marginal: buckets along each attribute, boxes, and the true l1 error of assuming them uniform."""

    counts: tuple[int, ...]
    boxes: int
    uniformity_error: float


class Asked(NamedTuple):
    """What is to be measured: a marginal, its boxes, and the budget asked for."""

    clique: Clique
    partition: Partition
    rho: float
