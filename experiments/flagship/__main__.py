"""python -m experiments.flagship [--only PATTERN] [--fresh] [--report] [--workers N]: LAMP against all others.

The workloads are all pairs, triples, and prefix sums of pairs; LAMP is run for each. The errors of the other mechanisms
are read from experiments/results/compare.csv, which `python -m experiments.compare` makes. Earlier runs are reused
(`experiments.kept_runs`). Each run has a separate process, whose peak of memory is recorded. The tables and the picture
go to experiments/results/flagship.{csv,md,png}. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse

from experiments.compare.cells import TABLES, problems
from experiments.compare.store import start_worker
from experiments.compare.workloads import NAMES as WORKLOADS
from experiments.compare.workloads import ordered
from experiments.data import load_domain
from experiments.flagship.report import write
from experiments.flagship.runs import KEPT, Run, measure
from experiments.kept_runs import add_options, made_by, wanted


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.flagship", description=__doc__)
    add_options(parser, "adult-1-*")
    options = parser.parse_args()
    asked = {
        (name, table) for name in WORKLOADS for table in TABLES if name != "prefixes" or ordered(load_domain(table))
    }
    runs = [
        Run(workload, table, epsilon, seed)
        for workload in WORKLOADS
        for table, seed, epsilon in problems()
        if (workload, table) in asked
    ]
    missing = wanted(runs, options, lambda run: KEPT.row(run) is not None)
    for _, row in made_by(missing, measure, options.workers, start_worker, processes_of_their_own=True):
        said = ", ".join(f"{name} {row[name]:.4f}" for name in ("error", "triples", "prefixes"))
        print(f"{said}, {row['seconds']:.1f} s", flush=True)
    write(KEPT.table(runs))


if __name__ == "__main__":
    main()
