"""Queries on one attribute (PGM Table 2), and Kron, which joins them to queries on several."""

from pgmest.queries.base import Query
from pgmest.queries.kron import Kron
from pgmest.queries.matrices import as_query
from pgmest.queries.table2 import (
    all_range,
    compress,
    haar,
    hierarchical,
    identity,
    interval,
    mean,
    moments,
    point,
    prefix,
    subset,
    total,
)

__all__ = [
    "Kron",
    "Query",
    "all_range",
    "as_query",
    "compress",
    "haar",
    "hierarchical",
    "identity",
    "interval",
    "mean",
    "moments",
    "point",
    "prefix",
    "subset",
    "total",
]
