"""Belief propagation of a plan on a graphics processor: a schedule of passes, the kernels that run it, the oracle."""
