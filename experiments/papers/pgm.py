"""The entries of PGM, and the experiments that make its numbers."""

from __future__ import annotations

from experiments.papers.paper import Paper

PAPER = Paper(
    key="pgm",
    short="PGM",
    title=(
        "McKenna, Sheldon, Miklau: *Graphical-model based estimation and inference for differential privacy*, ICML 2019"
    ),
    steps=(),
    entries=(),
)
