"""Experiments and benchmarks, run beside the package; they use real tables that are not part of the repository."""
