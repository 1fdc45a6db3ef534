"""A run of a design on one table, and its errors and seconds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from experiments.households.designs import DESIGNS
from experiments.households.tables import errors, load
from experiments.kept_runs import KeptRuns


@dataclass(frozen=True)
class Run:
    """One run of a design."""

    table: str
    design: str
    epsilon: float
    seed: int

    @property
    def name(self) -> str:
        """The name of the file of the row."""
        return f"{self.design}-{self.table}-{self.epsilon:g}-{self.seed}"


KEPT = KeptRuns("households", Run)


def measure(run: Run) -> dict[str, Any]:
    """Make linked tables by a design; keep their errors and processor seconds."""
    true = load(run.table)
    start = time.process_time()
    made = DESIGNS[run.design](true, run.epsilon, run.seed)
    return KEPT.keep(run, {**errors(true, made), "seconds": time.process_time() - start})
