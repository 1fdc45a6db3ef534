"""The runs that test causes of PPSyn's differences: each changes one thing of a run of `cells.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from experiments.ppsyn import problems
from experiments.ppsyn.cells import DIMENSION_EPSILON, DIMENSIONS, PLAIN, PUBLISHED, SEEDS, Cell
from pgmest.evaluation import workload_error
from pgmest.mechanisms.result import Result
from pgmest.workloads import Workload

UNLIMITED = 10**7
"""More cells than any marginal of five attributes of BR2000 has."""
LOANS_SEEDS = 2
CANDIDATES, WEIGHTS = "to the letter, AIM's candidates", "to the letter, 1 over sigma squared"


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


def runs() -> list[CauseCell]:
    """Figure 9 with comparators as published, also on marginals of any size; the letter with one thing changed.

    With AIM's candidates and 1 / sigma at epsilon 2 a run was stopped after 100 s of processor, and is left out;
    `sweep` has them with 1 / sigma^2.
    """
    found = [
        CauseCell("BR2000", name, DIMENSION_EPSILON, d=d, seed=seed, max_cells=max_cells)
        for max_cells in (problems.MAX_CELLS, UNLIMITED)
        for d in DIMENSIONS
        for name in (PUBLISHED, *PLAIN)
        for seed in range(SEEDS)
    ]
    for epsilon in (0.1, 0.5):
        for seed in range(SEEDS):
            found.append(CauseCell("BR2000", WEIGHTS, epsilon, seed=seed))
            found += [CauseCell(t, CANDIDATES, epsilon, seed=seed, drawn_again=True) for t in problems.TABLES[:2]]
    return found + [CauseCell("loans", CANDIDATES, 0.5, seed=seed, drawn_again=True) for seed in range(LOANS_SEEDS)]
