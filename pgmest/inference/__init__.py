"""Marginals of a log-linear model: propagation plans, the kernels that run them, and the oracles built on both.

`combine`, which is inference in the statistical sense, is implemented in `pgmest.combining_rules`.
"""

from pgmest.combining_rules import combine

__all__ = ["combine"]
