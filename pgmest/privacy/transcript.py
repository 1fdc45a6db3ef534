"""A curator of two neighboring datasets at once: it answers about one, and records the privacy loss of each answer.

An audit by experiment detects a privacy loss only if it is large; this audit computes it. For each request it is
known how far the exact answer about the neighbor differs, and so what the answer cost between these two datasets, which
must never be more than was charged. Nothing about this comparison is random. If the two datasets are a worst case, a
single run therefore detects a sensitivity, noise, a recoding or an account that is wrong by any factor. The sum of the
log likelihood ratios is the best statistic for audits by experiment (Neyman, Pearson).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.privacy import exponential
from pgmest.privacy.accesses import Access, Choice, Draws, FrequentLabels, NoisyAnswers
from pgmest.privacy.account import RecordTransform
from pgmest.privacy.bounded_range import MARGIN, choice_mu
from pgmest.privacy.budgets import GDP, Budget, Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.ledger import Entry

ROUNDING = 1e-9
"""The relative rounding error that is accepted in a loss computed in floats."""


@dataclass(frozen=True)
class AnswerLoss:
    """The privacy loss of one answer between the two datasets.

    Attributes:
        label: the name of the request.
        cost: the charge; None if nothing was charged.
        loss: the loss between the two datasets, in the unit of `cost`: rho, mu^2 or epsilon. NaN if it is not known
            (`Curator.release`).
        log_ratio: the log of the probability of the answer given the data, less that given the neighbor.
    """

    label: str
    cost: Budget | None
    loss: float
    log_ratio: float

    @property
    def excessive(self) -> bool:
        """True if the loss exceeds the charge."""
        return self.cost is None or self.loss > float(self.cost.exact[0]) * (1 + ROUNDING)


class Witness(Curator):
    """A curator of `data` that also knows a neighbor. Its answers are not private; use it with artificial tables.

    >>> from pgmest.privacy import Rho
    >>> one, two = (Dataset.from_codes(np.zeros((records, 1), int), {"sex": 2}) for records in (9, 10))
    >>> witness = Witness(one, two, Rho(0.5), backend="simulation", seed=0)
    >>> answer = witness.measure("sex", Rho(0.5))
    >>> round(witness.answers[0].loss, 6), witness.excessive
    (0.5, [])

    Args:
        data: a dataset.
        neighbor: a neighbor of it under the curator's relation.
        budget, options: as for `Curator`.
    """

    def __init__(self, data: Dataset, neighbor: Dataset, budget: Budget, **options: Any):
        super().__init__(data, budget, **options)
        self._neighbor = neighbor.remembering()
        self.answers: list[AnswerLoss] = []
        """The losses of all answers, in order."""

    @property
    def log_ratio(self) -> float:
        """The log likelihood ratio of all answers together, the data against the neighbor."""
        return math.fsum(answer.log_ratio for answer in self.answers)

    @property
    def loss(self) -> float:
        """The loss of all answers together, in the unit of the budget."""
        return math.fsum(answer.loss for answer in self.answers)

    @property
    def excessive(self) -> list[AnswerLoss]:
        """The answers whose loss exceeds their charge."""
        return [answer for answer in self.answers if answer.excessive]

    def through(self, transform: RecordTransform) -> Curator:
        """Return a witness of the recoded records; the neighbor is recoded separately, as in a run on it."""
        recoded = super().through(transform)
        recoded.__dict__["_neighbor"] = transform.encode(self._neighbor).remembering()
        return recoded

    def _look(self, entry: Entry, access: Access) -> Any:
        answer = super()._look(entry, access)
        charged = len(self.ledger) > len(self.answers) and self.ledger[-1] is entry
        loss = loss_between(access, entry.cost, self._data, self._neighbor)
        ratio = access.log_ratio(answer, self._data, self._neighbor)
        self.answers.append(AnswerLoss(entry.label, entry.cost if charged else None, loss, ratio))
        return answer


def loss_between(access: Access, cost: Budget, data: Dataset, neighbor: Dataset) -> float:
    """Return the privacy loss of an access between two datasets, in the unit of a cost: rho, mu^2 or epsilon.

    - Gaussian noise: with d the distance of the exact answers in standard deviations, d^2 / 2 for rho and d^2 for mu^2.
    - Laplace noise: the distance in scales.
    - Choices and draws: for epsilon the largest change of a log probability; for rho an eighth of the squared range of
      these changes, the most that a choice by the exponential mechanism costs (Cesar, Rogers 2021).
    - Frequent labels: the loss of the noise on the counts of labels that both have. The delta covers the others.
    """
    if isinstance(access, NoisyAnswers | FrequentLabels):
        moved = access.moved(data, neighbor)
        if access.noise.kind == "discrete_laplace":
            return moved
        return moved**2 if isinstance(cost, GDP) else moved**2 / 2
    if isinstance(access, Choice):
        changes = access.log_probabilities(data) - access.log_probabilities(neighbor)
        return _of_choice(changes, cost)
    if isinstance(access, Draws):
        one, two = (exponential.log_probabilities(access.exponents(d), access.unit_power) for d in (data, neighbor))
        return access.draws * _of_choice(one - two, cost)
    return math.nan


def _of_choice(changes: np.ndarray, cost: Budget) -> float:
    if isinstance(cost, Rho):
        return float(np.ptp(changes)) ** 2 / 8
    if isinstance(cost, GDP):
        return choice_mu(float(np.ptp(changes))) ** 2 / (1 + 4 * MARGIN) ** 2
    return float(np.abs(changes).max())


def privacy_loss(
    run: Callable[[Curator], Any], data: Dataset, neighbor: Dataset, budget: Budget, **options: Any
) -> Callable[[Dataset, int], float]:
    """Return a function for `audit` that runs on one of the datasets and returns the log likelihood ratio.

    Args:
        run: a function that makes requests to a curator.
        data, neighbor: the two datasets.
        budget: the budget of each run.
        options: the options of the curators, such as the backend. The seed is that of the trial.
    """

    def private(records: Dataset, seed: int) -> float:
        swapped = records is neighbor
        witness = Witness(records, data if swapped else neighbor, budget, seed=seed, **options)
        run(witness)
        return -witness.log_ratio if swapped else witness.log_ratio

    return private
