"""Belief propagation on a junction tree: the propagation plan, its kernels, and the oracle built on both."""
