"""A run of a design on one table, and its errors and seconds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from experiments.households.designs import DESIGNS
from experiments.households.tables import errors, load
from experiments.kept_runs import KeptRuns
from pgmest.mechanisms.linked.families import Families


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


@dataclass(frozen=True)
class LinkedRun:
    """One run of LinkedLAMP whose intervals or analyses are judged."""

    table: str
    epsilon: float
    seed: int

    @property
    def name(self) -> str:
        """The name of the file of the row."""
        return f"{self.table}-{self.epsilon:g}-{self.seed}"


KEPT = KeptRuns("households", Run)


def measured(run: Run) -> dict[str, Any]:
    """Make linked tables like those of a file by a design; return their errors and processor seconds."""
    return measure(run, load(run.table))


def measure(run: Run, true: Families) -> dict[str, Any]:
    """Make linked tables like true ones by a design; return their errors and processor seconds."""
    start = time.process_time()
    made = DESIGNS[run.design](true, run.epsilon, run.seed)
    return {**errors(true, made), "seconds": time.process_time() - start}
