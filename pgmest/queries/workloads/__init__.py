"""Workloads: the weighted linear queries that a release should answer well, and their answers from any source.

A workload tells a mechanism what matters, and an evaluation what to compare. Everything that has marginals answers
it: a Dataset exactly, a Model or a mechanism's result as an estimate.
"""

from pgmest.queries.workloads.answers import Projectable
from pgmest.queries.workloads.families import (
    all_kway,
    as_workload,
    extended_triples,
    marginals,
    prefixes,
    random_kway,
    random_ranges,
    random_triples,
    ranges,
)
from pgmest.queries.workloads.item import Item
from pgmest.queries.workloads.workload import Workload, closure

__all__ = [
    "Item",
    "Projectable",
    "Workload",
    "all_kway",
    "as_workload",
    "closure",
    "extended_triples",
    "marginals",
    "prefixes",
    "random_kway",
    "random_ranges",
    "random_triples",
    "ranges",
]
