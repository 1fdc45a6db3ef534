"""Workloads: the weighted linear queries that a release should answer well, and their answers from any source.

A mechanism uses a workload to decide what to measure, and an evaluation to decide what to compare. Every object that
has marginals answers a workload: a Dataset exactly, a Model or a mechanism's result as an estimate.
"""

from pgmest.workloads.answers import Projectable
from pgmest.workloads.families import (
    all_kway,
    as_workload,
    by_level,
    emphasized,
    marginals,
    prefixes,
    random_kway,
    random_ranges,
    random_triples,
    ranges,
)
from pgmest.workloads.item import Item
from pgmest.workloads.workload import Workload, closure

__all__ = [
    "Item",
    "Projectable",
    "Workload",
    "all_kway",
    "as_workload",
    "by_level",
    "closure",
    "emphasized",
    "marginals",
    "prefixes",
    "random_kway",
    "random_ranges",
    "random_triples",
    "ranges",
]
