"""Queries on one attribute (PGM Table 2), and Kron, which joins them to queries on several."""

from pgmest.queries.base import Query as Query
from pgmest.queries.kron import Kron as Kron
from pgmest.queries.matrices import as_query as as_query
from pgmest.queries.table2 import all_range as all_range
from pgmest.queries.table2 import compress as compress
from pgmest.queries.table2 import haar as haar
from pgmest.queries.table2 import hierarchical as hierarchical
from pgmest.queries.table2 import identity as identity
from pgmest.queries.table2 import interval as interval
from pgmest.queries.table2 import mean as mean
from pgmest.queries.table2 import moments as moments
from pgmest.queries.table2 import point as point
from pgmest.queries.table2 import prefix as prefix
from pgmest.queries.table2 import subset as subset
from pgmest.queries.table2 import total as total
