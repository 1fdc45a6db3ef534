"""Candidates of a selection: what measuring an item of a workload would cost and bring, computed without the data."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pgmest.privacy.budgets import Budget
from pgmest.privacy.neighbors import Neighbors
from pgmest.privacy.noise import noise_for
from pgmest.queries import LinearQuery
from pgmest.queries.workloads import Item
from pgmest.tables.domain import Domain


@dataclass(frozen=True, eq=False)
class Candidate:
    """An item of a workload, and how it would be measured.

    Attributes:
        item: what the error is about.
        measured: the query to measure on the item's clique; None for the marginal's cells.
        norm: the largest l1 norm of a column of the item's queries.
        expected_error: the l1 error that the measurement would leave in the item's answers, in counts.
        sensitivity: how far neighbors move the score.
    """

    item: Item
    measured: LinearQuery | None
    norm: float
    expected_error: float
    sensitivity: float

    @property
    def name(self) -> str:
        """The clique as the ledger names it."""
        return " x ".join(self.item.clique)

    def score(self, error: float) -> float:
        """What measuring would gain: weight * (l1 error of the model - expected error) / norm."""
        return self.item.weight * (error - self.expected_error) / self.norm


def candidates_of(
    items: Iterable[Item], domain: Domain, spend: Budget, neighbors: Neighbors, penalty: bool
) -> list[Candidate]:
    """A candidate for each item with a weight and with a query that is not zero.

    Args:
        items: the workload.
        domain: the attributes.
        spend: what each measurement would cost.
        neighbors: which datasets must be hard to tell apart.
        penalty: whether to expect an error; without, scores do not depend on the noise.
    """
    found = []
    for item in items:
        norm = item.max_column_norm(1)
        if item.weight > 0 and norm > 0:
            measured, expected = _measured(item, domain, spend, neighbors)
            sensitivity = item.weight * neighbors.l1_sensitivity(item.query) / norm
            found.append(Candidate(item, measured, norm, expected if penalty else 0.0, sensitivity))
    return found


def _measured(item: Item, domain: Domain, spend: Budget, neighbors: Neighbors) -> tuple[LinearQuery | None, float]:
    """The better of the marginal's cells and the item's own queries, and its expected l1 error in the answers.

    Noise of standard deviation sigma on cells leaves sigma ||w||_2 in a query w, and a normal error is sqrt(2 / pi)
    standard deviations on average.
    """
    cells, scale = noise_for(spend, neighbors).stddev, math.sqrt(2 / math.pi)
    if item.query is None:
        return None, scale * cells * domain.size(item.clique)
    row_norms = np.sqrt(item.query.squared().apply(np.ones(item.query.cells)))
    from_cells = cells * float(row_norms.sum())
    from_queries = noise_for(spend, neighbors, item.query).stddev * row_norms.size
    return (None, scale * from_cells) if from_cells <= from_queries else (item.query, scale * from_queries)
