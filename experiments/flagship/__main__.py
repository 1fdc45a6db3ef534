"""python -m experiments.flagship [--only PATTERN] [--seeds N] [--fresh] [--report] [--workers N]: PGM and all others.

On all pairs, on triples, and on prefix sums of pairs; for each PGM is told what is asked, and run again. The errors of
the others are read from experiments/results/compare.csv, which `python -m experiments.compare` makes.
A run that was made before is not made again (`experiments.kept_runs`). Each is made by a process of its own, whose peak
of memory is noted. The tables and the picture go to experiments/results/flagship.{csv,md,png}. Set
OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import dataclass
from typing import Any

from experiments.compare.cells import DELTA, EPSILONS, TABLES
from experiments.compare.store import start_worker
from experiments.compare.workloads import NAMES as WORKLOADS
from experiments.compare.workloads import asked, error, errors
from experiments.data import load
from experiments.flagship.report import write
from experiments.kept_runs import KeptRuns, add_options, made_by, wanted
from pgmest.mechanisms import PGM


@dataclass(frozen=True)
class Run:
    """One run of PGM."""

    workload: str
    table: str
    epsilon: float
    seed: int

    @property
    def name(self) -> str:
        """Names the file of the row."""
        asked_for = "" if self.workload == "pairs" else f"-{self.workload}"
        return f"{self.table.replace('/', '_')}-{self.epsilon:g}-{self.seed}{asked_for}"


KEPT = KeptRuns("flagship", Run)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.flagship", description=__doc__)
    add_options(parser, "adult-1-*")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each (default 3)")
    options = parser.parse_args()
    runs = [
        Run(workload, table, epsilon, seed)
        for workload in WORKLOADS
        for seed in range(options.seeds)
        for table in TABLES
        for epsilon in EPSILONS
    ]
    missing = wanted(runs, options, lambda run: KEPT.row(run) is not None)
    for _, row in made_by(missing, measure, options.workers, start_worker, processes_of_their_own=True):
        said = ", ".join(f"{name} {row[name]:.4f}" for name in ("error", "triples", "prefixes"))
        print(f"{said}, {row['seconds']:.1f} s", flush=True)
    write(KEPT.table(runs))


def measure(run: Run) -> dict[str, Any]:
    """Errors of the model and of as many records, processor seconds, and how many pairs and triples were bought."""
    data = load(run.table)
    start = time.process_time()
    mechanism = PGM(epsilon=run.epsilon, delta=DELTA, backend="simulation")
    result = mechanism.fit(data, asked(data.domain, run.workload), seed=run.seed, progress=False)
    seconds = time.process_time() - start
    found = {
        **errors(data, result.model),
        "records": error(data, result.sample(seed=run.seed)),
        "seconds": seconds,
        "pairs": len({p.clique for p in result.details["purchases"] if len(p.clique) == 2}),
        "threes": len({p.clique for p in result.details["purchases"] if len(p.clique) == 3}),
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    return KEPT.keep(run, found)


if __name__ == "__main__":
    main()
