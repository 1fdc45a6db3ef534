"""The runs that test causes of PPSyn's differences: each changes one thing of a run of `cells.py`.

`experiments/papers/ppsyn_causes.py` reads their tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from experiments.ppsyn import problems
from experiments.ppsyn.cells import (
    DIMENSION_EPSILON,
    EPSILONS,
    INDEPENDENT,
    LETTER_EPSILONS,
    PLAIN,
    PUBLISHED,
    VARIANTS,
    Cell,
    SvmCell,
)
from pgmest.evaluation import workload_error
from pgmest.mechanisms.result import Result
from pgmest.workloads import Workload

UNLIMITED = 10**7
"""More cells than any marginal of five attributes of BR2000 has."""
LOANS_SEEDS, SEEDS = 2, 3
SMALL_EPSILONS = (0.05, 0.2)
"""Budgets of Figure 6 beside those of `SVM_EPSILONS`."""
LETTERS = tuple(name for name in VARIANTS if name.startswith("to the letter"))
CANDIDATES = "to the letter, AIM's candidates"
LARGER_PRIVMRF = "PrivMRF, plain, 16 MB"
NO_LIMITS = "PPSyn as published, no limits"
EVERY_CELL = "PPSyn, every cell"


@dataclass(frozen=True)
class CauseCell(Cell):
    """A run whose workload may have larger marginals.

    Attributes:
        max_cells: the most cells of a marginal of the workload.
    """

    max_cells: int = problems.MAX_CELLS

    @property
    def name(self) -> str:
        """Return the name under which the result is kept."""
        cells = "" if self.max_cells == problems.MAX_CELLS else f"-cells{self.max_cells:.0e}"
        return f"cause-{super().name}{cells}"

    def workload(self) -> Workload:
        """The marginals that are asked for."""
        return problems.workload(self.table, self.d, self.marginals, self.max_cells)

    def more(self, result: Result) -> dict[str, Any]:
        """The limit on the workload, and the error of the model itself, without that of drawing records from it."""
        error = workload_error(problems.table(self.table), result.model, self.workload(), norm="l1", per="record")
        return {"max_cells": self.max_cells, "model_error": error}


def runs(quick: bool) -> Iterator[CauseCell]:
    """All of them but Figure 6's, each once."""
    if quick:
        yield CauseCell("BR2000", EVERY_CELL, DIMENSION_EPSILON, marginals=8)
    else:
        yield from dict.fromkeys([*private_form(), *figure_9(), *letters()])


def private_form() -> Iterator[CauseCell]:
    """Our private PPSyn without partitions, and AIM as published, at all budgets of Figure 3 or some of them."""
    for table, epsilons in (("BR2000", EPSILONS), ("adult14", LETTER_EPSILONS["adult14"])):
        for epsilon in epsilons:
            for name in (EVERY_CELL, "AIM, plain"):
                yield from (CauseCell(table, name, epsilon, seed=seed) for seed in range(SEEDS))


def figure_9() -> Iterator[CauseCell]:
    """Comparators as published, and workloads of marginals of any size."""
    for max_cells in (problems.MAX_CELLS, UNLIMITED):
        for d in (2, 3, 4, 5):
            for name in (PUBLISHED, *PLAIN, INDEPENDENT):
                for seed in range(SEEDS):
                    yield CauseCell("BR2000", name, DIMENSION_EPSILON, d=d, seed=seed, max_cells=max_cells)
    for seed in range(SEEDS):
        for d in (2, 3, 4, 5):
            yield CauseCell("BR2000", LARGER_PRIVMRF, DIMENSION_EPSILON, d=d, seed=seed)
        for d in (4, 5):
            yield CauseCell("BR2000", NO_LIMITS, DIMENSION_EPSILON, d=d, seed=seed, max_cells=UNLIMITED)


def letters() -> Iterator[CauseCell]:
    """The letter with other candidates, weights and limits; with AIM's candidates it is judged by all ranges.

    With these and 1 / sigma at epsilon 2 a run was stopped after 100 s of processor, and is left out; `sweep` has them
    with 1 / sigma^2.
    """
    for epsilon in LETTER_EPSILONS["BR2000"]:
        for name in LETTERS:
            for seed in range(SEEDS if name != CANDIDATES or epsilon < 2 else 0):
                yield CauseCell("BR2000", name, epsilon, seed=seed, drawn_again=name == CANDIDATES)
    for epsilon in (0.1, 0.5):
        yield from (CauseCell("adult14", CANDIDATES, epsilon, seed=seed, drawn_again=True) for seed in range(SEEDS))
    yield from (CauseCell("loans", CANDIDATES, 0.5, seed=seed, drawn_again=True) for seed in range(LOANS_SEEDS))


def support_vectors(quick: bool) -> Iterator[SvmCell]:
    """Figure 6 on BR2000 at smaller budgets, and with another seed where the published form is not ahead."""
    for name in () if quick else (PUBLISHED, "PrivMRF", "AIM"):
        yield from (SvmCell("BR2000", name, epsilon) for epsilon in SMALL_EPSILONS)
        yield SvmCell("BR2000", name, 0.5, seed=1)
