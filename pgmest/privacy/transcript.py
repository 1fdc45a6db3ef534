"""Witness: a curator of two neighbors at once, which answers about one and notes what each answer tells of the other.

An audit by experiment sees a privacy loss when it is large; this one computes it. After a run it is known, request by
request, how far the neighbor would have moved the answer, and so what it cost between these two, which must never be
more than was charged. Nothing is random about that, so one run catches a sensitivity, noise, a recoding or an account
that is wrong by any factor, where the two datasets are a worst case. The sum of the log likelihood ratios is, for
audits by experiment, the best statistic that there is (Neyman, Pearson).
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
from pgmest.privacy.bounded_range import MARGIN, choice_mu
from pgmest.privacy.budgets import GDP, Budget, Rho
from pgmest.privacy.curator import Curator, RecordTransform
from pgmest.privacy.ledger import Entry

ROUNDING = 1e-9
"""The share by which a loss computed in floats may be too large."""


@dataclass(frozen=True)
class AnswerLoss:
    """What one answer cost between the two datasets.

    Attributes:
        label: what it was for.
        cost: what was charged for it; None where nothing was.
        loss: what it cost between the two datasets, in the amount that `cost` has: rho, mu^2 or epsilon. Not a number
            where that is not known (`release`).
        log_ratio: how much likelier the answer was about the one than about the other, as a log.
    """

    label: str
    cost: Budget | None
    loss: float
    log_ratio: float

    @property
    def excessive(self) -> bool:
        """Whether it cost more than was charged."""
        return self.cost is None or self.loss > float(self.cost.exact[0]) * (1 + ROUNDING)


class Witness(Curator):
    """A curator of `data` that knows a neighbor, too. Its answers may not be published: it is for tables made up.

    >>> from pgmest.privacy import Rho
    >>> one, two = (Dataset.from_codes(np.zeros((records, 1), int), {"sex": 2}) for records in (9, 10))
    >>> witness = Witness(one, two, Rho(0.5), backend="simulation", seed=0)
    >>> answer = witness.measure("sex", Rho(0.5))
    >>> round(witness.answers[0].loss, 6), witness.excessive
    (0.5, [])

    Args:
        data: a dataset.
        neighbor: another, its neighbor under the relation of the curator.
        budget, options: as for `Curator`.
    """

    def __init__(self, data: Dataset, neighbor: Dataset, budget: Budget, **options: Any):
        super().__init__(data, budget, **options)
        self._neighbor = neighbor.remembering()
        self.answers: list[AnswerLoss] = []
        """What each answer cost, in order."""

    @property
    def log_ratio(self) -> float:
        """How much likelier all answers together were about the data than about the neighbor, as a log."""
        return math.fsum(answer.log_ratio for answer in self.answers)

    @property
    def loss(self) -> float:
        """What all answers together cost between the two, in the amount that the budget has."""
        return math.fsum(answer.loss for answer in self.answers)

    @property
    def excessive(self) -> list[AnswerLoss]:
        """The answers that cost more than was charged."""
        return [answer for answer in self.answers if answer.excessive]

    def through(self, transform: RecordTransform) -> Curator:
        """See `Curator.through`; the neighbor is recoded on its own, as it would be in a run of its own."""
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
    """What an access costs between two datasets, in the amount that a cost has: rho, mu^2 or epsilon.

    Gaussian noise: half the square of how far the answers move, in standard deviations, for rho; that square for mu^2.
    Laplace noise: how far they move, in scales. Choices and draws: of the logs of their probabilities the largest
    change for epsilon; for rho an eighth of the square of their range, which is what a choice by the exponential
    mechanism costs at most (Cesar, Rogers 2021). Frequent labels: as noise on the counts of those that both have; what
    is told of others is in the delta that was charged.
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
    """A function for `audit`: it runs on one of the two, and gives how much likelier the answers are about `data`.

    Args:
        run: asks a curator.
        data, neighbor: the two datasets.
        budget: of each run.
        options: of the curators, such as the backend. The seed is that of the trial.
    """

    def private(records: Dataset, seed: int) -> float:
        swapped = records is neighbor
        witness = Witness(records, data if swapped else neighbor, budget, seed=seed, **options)
        run(witness)
        return -witness.log_ratio if swapped else witness.log_ratio

    return private
