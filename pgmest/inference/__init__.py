"""Marginals of a log-linear model: junction trees, the kernels of their messages, and the oracles built on both.

`combine`, which is inference in the statistical sense, is implemented in `pgmest.analyses.combine`.
"""

from pgmest.analyses.combine import combine

__all__ = ["combine"]
