"""Marginals of a log-linear model: propagation plans, the kernels that run them, and the oracles built on both.

`combine`, which is inference in the statistical sense, is implemented in `pgmest.analyses.combine`.
"""

from pgmest.analyses.combine import combine

__all__ = ["combine"]
