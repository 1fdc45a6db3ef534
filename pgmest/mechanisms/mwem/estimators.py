"""What MWEM estimates with between rounds: a graphical model, or multiplicative weights, factored or basic."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Protocol

import numpy as np

from pgmest.graph.tree_limit import TreeLimit
from pgmest.inference.exact.structural_zeros import zero_potentials
from pgmest.mechanisms.estimation import estimate_measured
from pgmest.mechanisms.mechanism import ModelLike
from pgmest.mechanisms.mwem.multiplicative_weights import MultiplicativeWeights
from pgmest.models.exact import Model
from pgmest.privacy.curator import Curator
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

TOLERANCE, FINAL_TOLERANCE = 1e-2, 1e-3
"""How exactly the graphical model is fitted between rounds, and at the end."""


class RoundEstimator(Protocol):
    """A model that learns from a curator's measurements, round after round."""

    @property
    def model(self) -> ModelLike:
        """The present one."""
        ...

    def admissible(self, cliques: Sequence[Clique]) -> list[Clique]:
        """Those that could be measured next without the tables outgrowing the limit."""
        ...

    def start(self, curator: Curator) -> None:
        """Begin with a uniform distribution, and with what was measured already."""
        ...

    def learn(self, curator: Curator, last: bool) -> None:
        """Take in what was measured since; at the end with more care."""
        ...


def known_total(curator: Curator) -> float:
    """The number of records: public, or the first answer, at least 1."""
    return curator.public_total or max(1.0, float(curator.measurements[0].values.item()))


class GraphicalModel:
    """The model of all measurements (PGM), estimated anew in each round from where the last one was.

    The last estimate, from which no round starts, is by "mirror_flow" where all measurements are of cells: on Adult and
    Titanic its error on the workload was a quarter to a third below that of the optimum of the loss.
    """

    def __init__(self, curator: Curator, max_megabytes: float):
        ruled = [rule.attributes for rule in curator.structural_zeros]
        self._limit = TreeLimit(curator.domain, ruled, max_megabytes)

    def admissible(self, cliques: Sequence[Clique]) -> list[Clique]:
        """Those that can be measured while the junction tree stays within the limit."""
        return self._limit.fitting(dict.fromkeys(cliques))

    def start(self, curator: Curator) -> None:
        """Begin with a uniform distribution on what can occur."""
        self.model = Model(zero_potentials(curator.structural_zeros, curator.domain), known_total(curator))

    def learn(self, curator: Curator, last: bool) -> None:
        """Estimate with what was measured since.

        Raises:
            KeyboardInterrupt: Ctrl-C.
        """
        self._limit.add(curator.measurements[-1].clique)
        if last and all(measurement.query is None for measurement in curator.measurements):
            self.model = estimate_measured(curator, method="mirror_flow")
        else:
            self.model = estimate_measured(curator, self.model, tolerance=FINAL_TOLERANCE if last else TOLERANCE)


class ReplayedWeights:
    """Factored multiplicative weights: in each round all measurements so far are gone through several times."""

    def __init__(self, domain: Domain, max_megabytes: float, replays: int):
        self._domain, self._limit, self._replays = domain, max_megabytes, replays
        self._weights = MultiplicativeWeights(domain, combinations(domain.attributes, 1), 1.0)

    def admissible(self, cliques: Sequence[Clique]) -> list[Clique]:
        """Those that can be measured while the components' tables stay within the limit."""
        return [clique for clique in dict.fromkeys(cliques) if self._weights.cells_with(clique) * 8e-6 <= self._limit]

    def start(self, curator: Curator) -> None:
        """Begin with a uniform distribution, and with what was measured already."""
        self._weights.total = known_total(curator)
        self.learn(curator, last=False)

    def learn(self, curator: Curator, last: bool) -> None:
        """Replay everything."""
        about = [measurement for measurement in curator.measurements if measurement.clique]
        for _ in range(self._replays):
            for measurement in about:
                self._weights.update(measurement)
        self.model = self._weights.model()


class AveragedWeights:
    """Basic multiplicative weights on the vector of all cells: one update a round, and at the end the average."""

    def __init__(self, domain: Domain, max_megabytes: float):
        self._domain = domain
        self._fits = domain.size() * 8e-6 <= max_megabytes

    def admissible(self, cliques: Sequence[Clique]) -> list[Clique]:
        """All, if the vector is within the limit."""
        return list(dict.fromkeys(cliques)) if self._fits else []

    def start(self, curator: Curator) -> None:
        """Begin with a uniform distribution, and with what was measured already."""
        self._weights = MultiplicativeWeights(self._domain, [self._domain.attributes], known_total(curator))
        self._sum, self._learned = np.zeros(self._domain.shape), 0
        self.model = self._weights.model()
        self.learn(curator, last=True)

    def learn(self, curator: Curator, last: bool) -> None:
        """One update with each new measurement."""
        about = [measurement for measurement in curator.measurements if measurement.clique]
        for measurement in about[self._learned :]:
            self._weights.update(measurement)
            self._sum += self._weights.tables[0]
            self._learned += 1
        if last and self._learned:
            average = Factor(self._domain, np.log(self._sum / self._learned))
            self.model = Model(CliqueVector(self._domain, {self._domain.attributes: average}), self._weights.total)
        else:
            self.model = self._weights.model()
