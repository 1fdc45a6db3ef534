"""Benchmarks: `python -m experiments.benchmarks`; experiments/README.md says which command makes which table."""
