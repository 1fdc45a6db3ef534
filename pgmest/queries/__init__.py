"""Linear queries: queries on one attribute (PGM Table 2), and Kron, which combines them to queries on several.

Every query is a `LinearQuery`: a matrix that can be applied and transposed without being materialized.
"""

from pgmest.queries.base import MatrixQuery
from pgmest.queries.kron import Kron
from pgmest.queries.linear_query import LinearQuery
from pgmest.queries.matrices import as_matrix_query, as_query
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
    "LinearQuery",
    "MatrixQuery",
    "all_range",
    "as_matrix_query",
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
