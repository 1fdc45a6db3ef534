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

from pgmest.data.dataset import Dataset
from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.privacy.ledger import Entry
from pgmest.privacy.records import RecordTransform
from pgmest.privacy.requests import Request

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
    >>> one, two = (Dataset.from_codes([[0] * records], {"sex": 2}) for records in (9, 10))
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

    def _look(self, request: Request, entry: Entry) -> Any:
        answer, tables = super()._look(request, entry), (self._data, self._neighbor)
        charged = len(self.ledger) > len(self.answers) and self.ledger[-1] is entry
        loss, ratio = request.loss(*tables), request.log_ratio(answer, *tables)
        self.answers.append(AnswerLoss(entry.label, entry.cost if charged else None, loss, ratio))
        return answer


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
