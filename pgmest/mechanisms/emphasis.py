"""Emphasis: the marginals of a workload that matter, which adaptive mechanisms measure first and without a score.

The scores of all marginals together can be noisier than a dependence that matters. So whether an emphasized marginal is
measured does not depend on its score, but on whether the budget could show a strong dependence: that is known before
any record is seen. `pgmest.workloads.emphasized` makes such workloads; weights alone emphasize nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pgmest.mechanisms.exponential_selection import MEAN_ABSOLUTE
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.privacy.noise import noise_for
from pgmest.tables.domain import Clique
from pgmest.workloads import Workload

EMPHASIS_SHARE = 1 / 3
"""The part of the budget, after the first one-way marginals, that measures emphasized marginals before all others."""

STRONG = 0.25
"""A strong dependence, as a total variation from independence. One pair in twenty of typical tables has as much: it is
the median over nine tables of censuses, surveys, health and credit records and emergency calls."""


def emphasized_cliques(workload: Workload | None, curator: Curator) -> list[Clique]:
    """Return the cliques of the items that matter, without attributes of one value and single attributes."""
    if workload is None:
        return []
    domain = curator.domain
    chosen = [item.clique for item in workload if item.matters]
    cliques = [domain.ordered(name for name in clique if domain[name] > 1) for clique in chosen]
    return list(dict.fromkeys(clique for clique in cliques if len(clique) > 1))


def measure_carried(curator: Curator, cliques: Sequence[Clique], spend: Budget, records: float) -> list[Clique]:
    """Measure those marginals that the budget can carry, code by code, and return them.

    A marginal is left out if the expected l1 error of its noise exceeds a strong dependence; then the others share the
    budget. Nothing is spent if no marginal is left.

    Args:
        curator: the curator of the records.
        cliques: the marginals.
        spend: the cost of all of them together.
        records: an estimate of the number of records, from public knowledge or from paid answers.
    """
    kept, domain, kind = list(cliques), curator.domain, type(curator.budget)
    while kept:
        weights = np.array(least_error_weights(domain, kept, kind))
        stddevs = [noise_for(spend * float(part), curator.neighbors).stddev for part in weights / weights.sum()]
        errors = [MEAN_ABSOLUTE * domain.size(c) * stddev for c, stddev in zip(kept, stddevs, strict=True)]
        if max(errors) <= 2 * STRONG * records:
            curator.measure_all(kept, spend, weights=list(weights))
            return kept
        del kept[int(np.argmax(errors))]
    return []
