"""Marginals of a log-linear model: junction trees, the kernels of their messages, and the oracles built on both."""
