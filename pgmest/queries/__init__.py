"""Linear queries: those on one attribute (PGM Table 2), and Kron, which joins them to queries on several.

Every query is a `LinearQuery`: a matrix that is applied to a table and transposed, but never densified.
"""

from pgmest._base.deprecation import Lookup, renamed_names
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

__getattr__: Lookup = renamed_names(__name__, {"Query": "pgmest.queries.MatrixQuery"})
