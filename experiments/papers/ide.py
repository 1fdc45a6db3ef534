"""The entries of IDE, and the experiments that make its numbers."""

from __future__ import annotations

from experiments.papers.paper import Paper

PAPER = Paper(
    key="ide",
    short="IDE",
    title="Tao, Bater, Machanavajjhala: *Prior-aware distribution estimation for differential privacy*",
    steps=(),
    entries=(),
)
