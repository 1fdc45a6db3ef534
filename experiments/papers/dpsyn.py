"""The entries of DPSyn, and the experiments that make its numbers."""

from __future__ import annotations

from experiments.papers.paper import Paper

PAPER = Paper(
    key="dpsyn",
    short="DPSyn",
    title="Li, Zhang, Wang: *DPSyn: experiences in the NIST differential privacy data synthesis challenges*",
    steps=(),
    entries=(),
)
