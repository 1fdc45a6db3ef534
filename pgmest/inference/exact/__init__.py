"""Belief propagation on a junction tree: the steps of a contraction, their kernels, and the oracle built on both."""
