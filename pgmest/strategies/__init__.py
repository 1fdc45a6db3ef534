"""Strategies: the queries to measure so that least squares answers a workload with the least expected error (HDMM).

`p_identity` optimizes the queries on one attribute. `shared` optimizes weighted marginals that use the same queries on
each attribute. `selection` compares these with a union of products and chooses the best. `residual` measures residuals,
which is optimal for weighted marginals with Gaussian noise, even for hundreds of attributes.
"""

from pgmest.strategies.demand import Demand, demands_of
from pgmest.strategies.p_identity import p_identity
from pgmest.strategies.reconstruction import least_squares_parts
from pgmest.strategies.residual import ResidualStrategy
from pgmest.strategies.selection import Strategy, select_strategy
from pgmest.strategies.shared import SharedStrategy

__all__ = [
    "Demand",
    "ResidualStrategy",
    "SharedStrategy",
    "Strategy",
    "demands_of",
    "least_squares_parts",
    "p_identity",
    "select_strategy",
]
