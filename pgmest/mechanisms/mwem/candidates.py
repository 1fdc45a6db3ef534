"""Candidates of MWEM: the items of a workload with the expected error of measuring each, computed without the data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.mechanisms.exponential_selection import Candidate
from pgmest.privacy.budgets import Budget
from pgmest.privacy.neighbors import Neighbors
from pgmest.privacy.noise import noise_for
from pgmest.queries import LinearQuery
from pgmest.tables.domain import Domain
from pgmest.workloads import Item


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasurableItem(Candidate):
    """An item of a workload, and the query that would measure the item.

    The score is weight * (l1 error of the model - expected error) / norm, where norm is the largest l1 norm of a column
    of the item's queries.

    Attributes:
        query: the query on the item's clique; None for the marginal's cells.
    """

    query: LinearQuery | None

    @property
    def measured(self) -> LinearQuery | None:
        """The query that measures the item; None for the marginal's cells."""
        return self.query


def candidates_of(
    items: Iterable[Item], domain: Domain, spend: Budget, neighbors: Neighbors, penalty: bool
) -> list[MeasurableItem]:
    """Return a candidate for each item that has a positive weight and a nonzero query.

    Args:
        items: the items of the workload.
        domain: the attributes.
        spend: the cost of each measurement.
        neighbors: the neighboring relation.
        penalty: whether the scores subtract the expected error of the noise.
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
    """Return whether an item has a positive weight and a nonzero query."""
    return item.weight > 0 and item.max_column_norm(1) > 0


def _measured(item: Item, domain: Domain, spend: Budget, neighbors: Neighbors) -> tuple[LinearQuery | None, float]:
    """Return the query with the less expected error, cells (None) or the item's queries, and its expected l1 error.

    Noise of standard deviation sigma on the cells gives a query w the standard deviation sigma ||w||_2. The mean
    absolute value of a normal error is sqrt(2 / pi) standard deviations.
    """
    cells, scale = noise_for(spend, neighbors).stddev, MEAN_ABSOLUTE
    if item.query is None:
        return None, scale * cells * domain.size(item.clique)
    row_norms = np.sqrt(item.query.squared().apply(np.ones(item.query.cells)))
    from_cells = cells * float(row_norms.sum())
    from_queries = noise_for(spend, neighbors, item.query).stddev * row_norms.size
    return (None, scale * from_cells) if from_cells <= from_queries else (item.query, scale * from_queries)
