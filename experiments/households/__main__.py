"""python -m experiments.households [--only PATTERN] [--fresh] [--report] [--workers N]: LinkedLAMP on households.

Three tables of households and persons, four budgets, and three seeds for each design, more for the fast ones. Earlier
runs are reused (`experiments.kept_runs`). Designs that were not run are quoted from
experiments/results/households_quoted.csv. The tables go to experiments/results/households.{csv,md}. Set
OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

from functools import partial

from experiments.households.designs import DESIGNS
from experiments.households.report import HEAD, report
from experiments.households.runs import KEPT, Run, measured
from experiments.households.tables import NAMES
from experiments.kept_runs import run_and_report

EPSILONS = 0.3, 1.0, 3.0, 10.0
SEEDS, MORE_SEEDS = 3, {"independent": 8, "pair": 6}
FAST, FAST_SEEDS = "anytown", 8


def _seeds(run: Run) -> int:
    """Return the number of seeds of a run's design on its table."""
    return FAST_SEEDS if (run.table, run.design) == (FAST, "linked") else MORE_SEEDS.get(run.design, SEEDS)


RUNS = [Run(t, d, e, s) for d in DESIGNS for s in range(FAST_SEEDS) for t in NAMES for e in EPSILONS]

if __name__ == "__main__":
    runs = [run for run in RUNS if run.seed < _seeds(run)]
    run_and_report(KEPT, runs, measured, partial(report, HEAD), __doc__, "linked-eusilc-1-*")
