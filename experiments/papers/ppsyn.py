"""The entries of PPSyn, and the experiments that make its numbers."""

from __future__ import annotations

from experiments.papers.paper import Paper

PAPER = Paper(
    key="ppsyn",
    short="PPSyn",
    title="Zhang, Deng, Yin: *Partition-based differentially private synthetic data generation*",
    steps=(),
    entries=(),
)
