"""A run of LAMP on one table for one workload, and its measured errors and costs."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from typing import Any

from experiments.compare.cells import DELTA
from experiments.compare.workloads import asked, error, errors
from experiments.data import load
from experiments.kept_runs import KeptRuns
from pgmest.mechanisms import LAMP


@dataclass(frozen=True)
class Run:
    """One run of LAMP."""

    workload: str
    table: str
    epsilon: float
    seed: int

    @property
    def name(self) -> str:
        """The name of the file of the row."""
        asked_for = "" if self.workload == "pairs" else f"-{self.workload}"
        return f"{self.table.replace('/', '_')}-{self.epsilon:g}-{self.seed}{asked_for}"


KEPT = KeptRuns("flagship", Run)


def measure(run: Run) -> dict[str, Any]:
    """Run LAMP; keep its errors, processor seconds, and the numbers of measured pairs and triples."""
    data = load(run.table)
    start = time.process_time()
    mechanism = LAMP(epsilon=run.epsilon, delta=DELTA, backend="simulation")
    result = mechanism.fit(data, asked(data.domain, run.workload), seed=run.seed, progress=False)
    seconds = time.process_time() - start
    found = {
        **errors(data, result.model),
        "records": error(data, result.sample(seed=run.seed)),
        "seconds": seconds,
        "pairs": len({p.clique for p in result.details["measured_marginals"] if len(p.clique) == 2}),
        "threes": len({p.clique for p in result.details["measured_marginals"] if len(p.clique) == 3}),
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    return KEPT.keep(run, found)
