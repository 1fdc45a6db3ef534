"""The estimators of MWEM as published: multiplicative weights, factored or basic."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Protocol

import numpy as np

from pgmest.mechanisms.adaptive import RoundEstimator
from pgmest.mechanisms.estimation import known_total
from pgmest.mechanisms.mwem.multiplicative_weights import MultiplicativeWeights
from pgmest.mechanisms.tree_limit import MEGABYTES_PER_CELL
from pgmest.models.exact import Model
from pgmest.privacy.curator import Curator
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor


class LimitedEstimator(RoundEstimator, Protocol):
    """A round estimator with a limit on the size of its tables."""

    def admissible(self, cliques: Iterable[Clique]) -> list[Clique]:
        """Return the cliques whose measurement keeps the tables within the limit."""
        ...


class ReplayedWeights:
    """Factored multiplicative weights: each round updates several times with all measurements so far.

    The weights start uniform and learn the measurements that the curator already has.

    Args:
        curator: the curator with the measurements.
        max_megabytes: the largest size of the components' tables.
        replays: the number of passes over the measurements in a round.
    """

    def __init__(self, curator: Curator, max_megabytes: float, replays: int):
        self.model: Model
        self._limit, self._replays = max_megabytes, replays
        single = combinations(curator.domain.attributes, 1)
        self._weights = MultiplicativeWeights(curator.domain, single, known_total(curator))
        self.learn(curator, last=False)

    def admissible(self, cliques: Iterable[Clique]) -> list[Clique]:
        """Return the cliques whose measurement keeps the components' tables within the limit."""
        cells = {clique: self._weights.cells_with(clique) for clique in cliques}
        return [clique for clique in cells if cells[clique] * MEGABYTES_PER_CELL <= self._limit]

    def learn(self, curator: Curator, last: bool) -> None:
        """Update `replays` times with every measurement."""
        about = [measurement for measurement in curator.measurements if measurement.clique]
        for _ in range(self._replays):
            for measurement in about:
                self._weights.update(measurement)
        self.model = self._weights.model()


class AveragedWeights:
    """Basic multiplicative weights on the vector of all cells: one update per round; the result is the average.

    The weights start uniform and learn the measurements that the curator already has.
    """

    def __init__(self, curator: Curator):
        self._domain = curator.domain
        self._weights = MultiplicativeWeights(self._domain, [self._domain.attributes], known_total(curator))
        self._sum, self._learned = np.zeros(self._domain.shape), 0
        self.model: Model = self._weights.model()
        self.learn(curator, last=True)

    def admissible(self, cliques: Iterable[Clique]) -> list[Clique]:
        """Return all cliques: the vector of all cells contains every marginal."""
        return list(dict.fromkeys(cliques))

    def learn(self, curator: Curator, last: bool) -> None:
        """Update once with each new measurement; after the last round, average the weights of all updates."""
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
