"""Belief propagation on a junction tree: the plan, the kernels that run it, and the oracle built on both."""
