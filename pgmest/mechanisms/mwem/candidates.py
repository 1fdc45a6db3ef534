"""Candidates of MWEM: what measuring an item of a workload would cost and bring, computed without the data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pgmest.mechanisms.exponential_selection import MEAN_ABSOLUTE, Candidate
from pgmest.privacy.budgets import Budget
from pgmest.privacy.neighbors import Neighbors
from pgmest.privacy.noise import noise_for
from pgmest.queries import LinearQuery
from pgmest.queries.workloads import Item
from pgmest.tables.domain import Domain


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasurableItem(Candidate):
    """An item of a workload, and how it would be measured.

    Its score is weight * (l1 error of the model - expected error) / norm, with the largest l1 norm of a column of the
    item's queries.

    Attributes:
        query: to be asked on the item's clique; None for the marginal's cells.
    """

    query: LinearQuery | None

    @property
    def measured(self) -> LinearQuery | None:
        """The query."""
        return self.query


def candidates_of(
    items: Iterable[Item], domain: Domain, spend: Budget, neighbors: Neighbors, penalty: bool
) -> list[MeasurableItem]:
    """A candidate for each item with a weight and with a query that is not zero.

    Args:
        items: the workload.
        domain: the attributes.
        spend: what each measurement would cost.
        neighbors: which datasets must be hard to tell apart.
        penalty: whether to expect an error; without, scores do not depend on the noise.
    """
    found = []
    for item in filter(measurable, items):
        norm = item.max_column_norm(1)
        query, expected = _measured(item, domain, spend, neighbors)
        found.append(
            MeasurableItem(
                item=item,
                query=query,
                weight=item.weight / norm,
                expected_error=expected if penalty else 0.0,
                sensitivity=item.weight * neighbors.l1_sensitivity(item.query) / norm,
            )
        )
    return found


def measurable(item: Item) -> bool:
    """Whether an item has a weight, and a query that is not zero."""
    return item.weight > 0 and item.max_column_norm(1) > 0


def _measured(item: Item, domain: Domain, spend: Budget, neighbors: Neighbors) -> tuple[LinearQuery | None, float]:
    """The better of the marginal's cells and the item's own queries, and its expected l1 error in the answers.

    Noise of standard deviation sigma on cells leaves sigma ||w||_2 in a query w, and a normal error is sqrt(2 / pi)
    standard deviations on average.
    """
    cells, scale = noise_for(spend, neighbors).stddev, MEAN_ABSOLUTE
    if item.query is None:
        return None, scale * cells * domain.size(item.clique)
    row_norms = np.sqrt(item.query.squared().apply(np.ones(item.query.cells)))
    from_cells = cells * float(row_norms.sum())
    from_queries = noise_for(spend, neighbors, item.query).stddev * row_norms.size
    return (None, scale * from_cells) if from_cells <= from_queries else (item.query, scale * from_queries)
