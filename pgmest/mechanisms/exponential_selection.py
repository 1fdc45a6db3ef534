"""The private selection of the candidate whose error in the model most exceeds the noise of a measurement.

The error of a candidate is the l1 distance between the answers of the records and of the model to its queries. A
mechanism describes its candidates (`Candidate`). The curator computes the errors and never reveals them
(`pgmest.privacy.scores`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.privacy.scores import Distance, Distances, answers_of
from pgmest.queries import LinearQuery
from pgmest.tables.domain import Clique
from pgmest.workloads import Item
from pgmest.workloads.answers import Projectable


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidate:
    r"""A marginal or a set of queries that a round can measure. Its score is $w (\lVert W (x - \hat x) \rVert_1 - e)$.

    Attributes:
        item: the clique and the queries W whose answers are compared; without queries, the marginal's cells.
        weight: w, the weight of an error of one count.
        expected_error: e, the expected l1 error, in counts, of the noise of a measurement.
        sensitivity: the largest difference of the score between neighboring datasets.
    """

    item: Item
    weight: float = 1.0
    expected_error: float = 0.0
    sensitivity: float = 1.0

    @property
    def clique(self) -> Clique:
        """The attributes of the candidate."""
        return self.item.clique

    @property
    def measured(self) -> LinearQuery | None:
        """The query that is measured; None for the marginal's cells."""
        return self.item.query

    @property
    def groups(self) -> np.ndarray | None:
        """The group of each answer, if errors are summed within groups first (`Distance.groups`)."""
        return None

    @property
    def spend(self) -> Budget | None:
        """The cost of the measurement, if the candidate fixes it instead of the round."""
        return None


AnyCandidate = TypeVar("AnyCandidate", bound=Candidate)


def distances(candidates: Sequence[AnyCandidate], model: Projectable) -> Distances[AnyCandidate]:
    """Return the description of the candidates' scores against a model, from which the curator computes the scores."""
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
    """Return a candidate with nearly the largest score, by the exponential mechanism (pure DP: permute-and-flip)."""
    sensitivity = max(candidate.sensitivity for candidate in candidates)
    return curator.select(candidates, distances(candidates, model), sensitivity, spend, label=label)
