"""The published PPSyn with its leaks closed, one or both, and otherwise unchanged.

The published algorithm releases functions of the true counts in two ways: the partition of the selected marginal, and
its required budget, which reveals the distance of the model from the marginal. Both can be computed from released
answers instead: the partition from the model's marginals, and the contribution from a noisy answer, paid with the
budget that the paper reserves for the selection. With both leaks closed the algorithm is private.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.ppsyn.marginal_partition import Merges, Steps, partition_steps
from experiments.ppsyn.published import (
    LARGEST_RHO,
    PartSele,
    PPSynAsPublishedNotPrivate,
    Selected,
    TrueMarginals,
    contribution,
)
from pgmest.mechanisms.exponential_selection import Candidate, distances
from pgmest.mechanisms.parameters import choice, parameter
from pgmest.mechanisms.ppsyn.partitions import Partition
from pgmest.models.exact import Model
from pgmest.privacy.budgets import Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.scores import noisy_scores
from pgmest.tables.domain import Clique
from pgmest.workloads import Item

LABEL = "NOT PRIVATE: a part of the published algorithm that reads true marginals"


@dataclass(frozen=True, kw_only=True)
class PPSynPublishedPartlyClosed(PPSynAsPublishedNotPrivate):
    """The published algorithm with other inputs of Algorithm 2.

    It is private if `partitions` is "model" or "cells" and `contributions` is "noisy" or "chosen".

    Args:
        partitions: "records", as published; "model", partitions of the model's marginals; "cells", no partition.
        contributions: "records", as published; "noisy", the contributions of all candidates with Gaussian noise, for
            rho_exp; or "chosen". With "chosen", the exponential mechanism selects a candidate for half of rho_exp, with
            the score contribution / |P|^(2/3), the cube root of the published score up to the reconstruction error. P
            is the partition for the last measured contribution. The other half measures the candidate's contribution.
    """

    partitions: str = parameter("model", choice(("records", "model", "cells")))
    contributions: str = parameter("noisy", choice(("records", "noisy", "chosen")))

    def selection(self, curator: Curator, cliques: Sequence[Clique], rng: np.random.Generator) -> PartSele:
        """Return Algorithm 2 for this run, with the other inputs unless both are the records."""
        if self.partitions == self.contributions == "records":
            return super().selection(curator, cliques, rng)
        truth = TrueMarginals(tuple(cliques), self.eta, curator.neighbors)
        return ClosedSele(curator, truth, rng, self.partitions, self.contributions, {}, [])


@dataclass(frozen=True, eq=False)
class ClosedSele(PartSele):
    """Algorithm 2 with other inputs than the true marginals.

    Attributes:
        partitions, contributions: as for `PPSynPublishedPartlyClosed`.
        known: the partitions of each of the model's marginals, with the number of measurements that they depend on.
        last: the measured contributions, in order.
    """

    partitions: str
    contributions: str
    known: dict[Clique, tuple[int, Steps]]
    last: list[float]

    def selected(self, candidates: Sequence[Clique], model: Model, rho_exp: Rho) -> Selected:
        """Return the candidate to measure next, its partition and its required budget."""
        if self.contributions == "chosen":
            return self._chosen_first(candidates, model, rho_exp)
        found = self._contributions(candidates, model, rho_exp)
        steps = [self._steps(clique, model) for clique in candidates]
        stops = [one.first_increase(self.truth.eta * max(c, 0.0)) for one, c in zip(steps, found, strict=True)]
        scores = np.array([max(c, 0.0) / rho for c, (_, rho) in zip(found, stops, strict=True)])
        best = int(np.argmax(scores))
        return self._asked(candidates[best], steps[best], *stops[best])

    def _chosen_first(self, candidates: Sequence[Clique], model: Model, rho_exp: Rho) -> Selected:
        usual = self.truth.eta * (self.last[-1] if self.last else model.total)
        steps = [self._steps(clique, model) for clique in candidates]
        intervals = [one.intervals[one.first_increase(usual)[0]] for one in steps]
        options = [
            Candidate(item=Item(clique), weight=float(count) ** (-2 / 3))
            for clique, count in zip(candidates, intervals, strict=True)
        ]
        sensitivity = max(option.weight for option in options) * self.truth.neighbors.l1_sensitivity()
        label = f"one of {len(options)}"
        one = self.curator.select(options, distances(options, model), sensitivity, rho_exp / 2, label=label)
        best = options.index(one)
        measured = self._contributions([candidates[best]], model, rho_exp / 2)[0]
        least = 1 / np.sqrt(rho_exp.rho)  # the standard deviation of its noise
        self.last.append(max(float(measured), least))
        return self._asked(candidates[best], steps[best], *steps[best].first_increase(self.truth.eta * self.last[-1]))

    def _contributions(self, candidates: Sequence[Clique], model: Model, spend: Rho) -> np.ndarray:
        if self.contributions == "records":
            marginals = zip(candidates, model.project_many(list(candidates)), strict=True)
            truth = self._truth(spend).tables
            return np.array([contribution(truth[clique], marginal.values) for clique, marginal in marginals])
        options = [Candidate(item=Item(clique)) for clique in candidates]
        moved = self.truth.neighbors.l1_sensitivity()
        label = f"the contribution of {len(options)} marginals"
        return noisy_scores(self.curator, options, distances(options, model), moved, spend, label=label)

    def _steps(self, clique: Clique, model: Model) -> Steps:
        """Return the partitions of a marginal, updated if two of its attributes were measured together since."""
        if self.partitions == "records":
            return self._truth(None).steps_of(clique)
        if self.partitions == "cells":
            cells = model.domain.size(clique)
            return Merges(np.array([cells]), np.array([0.0]), np.arange(cells), np.zeros(0, dtype=np.int64))
        measured = [set(m.clique) & set(clique) for m in self.curator.measurements]
        version = sum(len(shared) >= min(2, len(clique)) for shared in measured)
        if clique not in self.known or self.known[clique][0] != version:
            self.known[clique] = version, partition_steps(np.maximum(model.project(clique).values, 0.0))
        return self.known[clique][1]

    def _truth(self, spend: Rho | None) -> TrueMarginals:
        """Return the true marginals, for the parts that stay open. This is not private, and the ledger says so."""
        if spend is not None:
            self.curator.release(lambda data, rng: None, spend, label=LABEL)
        self.truth.count(self.curator._data)
        return self.truth

    @staticmethod
    def _asked(clique: Clique, steps: Steps, step: int, rho: float) -> Selected:
        boxes = steps.partition(step)
        return Selected(clique, Partition(boxes, int(boxes.max()) + 1), min(rho, LARGEST_RHO))
