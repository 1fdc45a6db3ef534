"""Strategies: what to measure so that least squares answers a workload with the least expected error (HDMM).

`p_identity` optimises the queries on one attribute, `shared` a set of weighted marginals that use the same queries on
each attribute, `selection` compares these with a union of products and takes the best.
"""

from pgmest.strategies.demand import Demand as Demand
from pgmest.strategies.demand import demands_of as demands_of
from pgmest.strategies.p_identity import p_identity as p_identity
from pgmest.strategies.reconstruction import LeastSquaresAnswers as LeastSquaresAnswers
from pgmest.strategies.selection import Strategy as Strategy
from pgmest.strategies.selection import select_strategy as select_strategy
from pgmest.strategies.shared import SharedStrategy as SharedStrategy
