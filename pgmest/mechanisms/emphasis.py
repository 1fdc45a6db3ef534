"""Emphasis: the marginals of a workload that matter, which adaptive mechanisms measure first and without a score.

The scores of all marginals together can be noisier than a dependence that matters. So whether an emphasized marginal is
measured does not depend on its score, but on whether the budget could show a strong dependence: that is known before
any record is seen. `pgmest.workloads.emphasized` makes such workloads; weights alone emphasize nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.privacy.noise import noise_for
from pgmest.queries import Kron
from pgmest.queries.levels import named_levels, ordered_levels
from pgmest.tables.domain import Clique, Domain
from pgmest.workloads import Item, Workload

EMPHASIS_SHARE = 1 / 3
"""The part of the budget, after the first one-way marginals, that measures emphasized marginals before all others."""

STRONG = 0.25
"""A strong dependence, as a total variation from independence. One pair in twenty of typical tables has as much: it is
the median over nine tables of censuses, surveys, health and credit records and emergency calls."""


def emphasized_cliques(workload: Workload | None, domain: Domain) -> list[Clique]:
    """Return the attributes or levels of the items that matter, without those of one value and single attributes."""
    if workload is None:
        return []
    several = [tuple(n for n in names if _size(domain, (n,)) > 1) for names in map(_named, workload) if names]
    return list(dict.fromkeys(ordered_levels(domain, names) for names in several if len(names) > 1))


def _named(item: Item) -> Clique:
    """Return the attributes of an item that matters, or the levels of which it asks for every group."""
    if not item.matters:
        return ()
    return item.query.axes if isinstance(item.query, Kron) and item.query.axes != item.query.attributes else item.clique


def _size(domain: Domain, names: Clique) -> int:
    """Return the number of cells of a table over attributes and levels."""
    return math.prod(one.size or domain[one.attribute] for one in named_levels(domain, names))


def measure_carried(curator: Curator, cliques: Sequence[Clique], spend: Budget, records: float) -> list[Clique]:
    """Measure those marginals that the budget can carry, cell by cell, and return them.

    A marginal is left out if the expected l1 error of its noise exceeds a strong dependence; then the others share the
    budget. Nothing is spent if no marginal is left.

    Args:
        curator: the curator of the records.
        cliques: the marginals, of attributes or levels.
        spend: the cost of all of them together.
        records: an estimate of the number of records, from public knowledge or from paid answers.
    """
    kept, domain, kind = list(cliques), curator.domain, type(curator.budget)
    while kept:
        weights = np.array(least_error_weights(domain, kept, kind))
        stddevs = [noise_for(spend * float(part), curator.neighbors).stddev for part in weights / weights.sum()]
        errors = [MEAN_ABSOLUTE * _size(domain, c) * stddev for c, stddev in zip(kept, stddevs, strict=True)]
        if max(errors) <= 2 * STRONG * records:
            curator.measure_all(kept, spend, weights=list(weights))
            return kept
        del kept[int(np.argmax(errors))]
    return []
