"""A private choice of the candidate that a model gets most wrong, beyond the noise that measuring it would bring.

The error of a candidate is the l1 distance between the answers of the records and of the model to its queries. A
mechanism states it (`Candidate`); the curator computes it of the records (`pgmest.privacy.scores`), and shows nobody.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.privacy.scores import Distance, Distances, answers_of
from pgmest.queries import LinearQuery
from pgmest.queries.workloads import Item
from pgmest.queries.workloads.answers import Projectable
from pgmest.tables.domain import Clique

MEAN_ABSOLUTE = math.sqrt(2 / math.pi)
"""The mean absolute value of normal noise, in standard deviations."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidate:
    r"""What could be measured in a round. Its score is $w (\lVert W (x - \hat x) \rVert_1 - e)$.

    Attributes:
        item: the clique and the queries W in whose answers the error is; None for the marginal's cells.
        weight: w: how much a count of error matters.
        expected_error: e: the l1 error, in counts, that measuring would leave by its noise alone.
        sensitivity: the most that neighbors move the score.
    """

    item: Item
    weight: float = 1.0
    expected_error: float = 0.0
    sensitivity: float = 1.0

    @property
    def clique(self) -> Clique:
        """The attributes."""
        return self.item.clique

    @property
    def measured(self) -> LinearQuery | None:
        """What is asked when it is measured; None for the marginal's cells."""
        return self.item.query

    @property
    def groups(self) -> np.ndarray | None:
        """The group of each answer, where errors are summed within groups first (`Distance.groups`)."""
        return None

    @property
    def spend(self) -> Budget | None:
        """What measuring it is to cost, where that is not the round's to say."""
        return None


AnyCandidate = TypeVar("AnyCandidate", bound=Candidate)


def distances(candidates: Sequence[AnyCandidate], model: Projectable) -> Distances[AnyCandidate]:
    """The candidates' scores against a model: a statement of what the curator is to compute, without the records."""
    expected = answers_of(model, [candidate.item for candidate in candidates])
    return Distances(
        {
            candidate: Distance(candidate.item, values, candidate.groups, candidate.weight, candidate.expected_error)
            for candidate, values in zip(candidates, expected, strict=True)
        }
    )


def exponential_selection(
    curator: Curator, model: Any, candidates: Sequence[AnyCandidate], spend: Budget, *, label: str = ""
) -> AnyCandidate:
    """The candidate with nearly the largest score: the exponential mechanism, or permute-and-flip under pure DP.

    Args:
        curator: has the records.
        model: what is known so far.
        candidates: at least one.
        spend: what the choice may cost.
        label: what the ledger says it was for.
    """
    sensitivity = max(candidate.sensitivity for candidate in candidates)
    return curator.select(candidates, distances(candidates, model), sensitivity, spend, label=label)
