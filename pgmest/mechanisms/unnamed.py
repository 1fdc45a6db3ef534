"""Attributes that no item of a workload names: every mechanism measures their one-way marginals."""

from __future__ import annotations

from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.curator import Curator
from pgmest.tables.domain import Clique, Domain
from pgmest.workloads import Item, Workload

ONE_WAY_SHARE = 0.1
"""The share of the budget for the one-way marginals of all attributes, of which unnamed attributes get their part: as
much as PPSyn and PrivSyn spend on them. Where weights divide the budget, all unnamed attributes together have at most
this share of the workload's weight, because what was asked for comes first."""


def unnamed(domain: Domain, workload: Workload | None) -> list[Clique]:
    """Return the one-way cliques of the attributes that no item names, in domain order; none for None, all pairs."""
    if workload is None:
        return []
    named = {name for clique in workload.cliques for name in clique}
    return [(name,) for name in domain if name not in named]


def with_unnamed(domain: Domain, workload: Workload) -> Workload:
    """Return the workload with the one-way marginal of each attribute that no item names.

    Each has the least weight of the workload, but all together have at most a tenth of the workload's weight.
    """
    missing = unnamed(domain, workload)
    if not missing:
        return workload
    weight = min(*workload.weights, ONE_WAY_SHARE * sum(workload.weights) / len(missing))
    return workload + Workload(tuple(Item(clique, weight=weight) for clique in missing))


def unnamed_share(domain: Domain, workload: Workload | None) -> float:
    """Return the share of the budget that `measure_unnamed` spends."""
    return ONE_WAY_SHARE * len(unnamed(domain, workload)) / len(domain)


def measure_unnamed(curator: Curator, workload: Workload | None) -> None:
    """Measure the one-way marginals of the attributes that no item names, if there are any."""
    missing = unnamed(curator.domain, workload)
    if missing:
        weights = least_error_weights(curator.domain, missing, type(curator.budget))
        curator.measure_all(missing, curator.budget * unnamed_share(curator.domain, workload), weights=weights)
