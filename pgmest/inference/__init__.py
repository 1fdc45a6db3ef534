"""Marginals of a log-linear model: plans, the kernels that run them, and the oracles built on both.

`combine`, of combining_rules.py, is inference in the statistician's sense: from analyses of synthetic tables to an
estimate with a standard error.
"""

from pgmest.inference.combining_rules import combine

__all__ = ["combine"]
