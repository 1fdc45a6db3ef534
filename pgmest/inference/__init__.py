"""Marginals of a log-linear model: propagation plans, the kernels that run them, and the oracles built on both."""
