"""python -m experiments.households [--only PATTERN] [--fresh] [--report] [--workers N]: LinkedLAMP on households.

Three tables of households and persons, four budgets, and three seeds for each design, more for the fast ones. Earlier
runs are reused (`experiments.kept_runs`). Designs that were not run are quoted from
experiments/results/households_quoted.csv. The tables go to experiments/results/households.{csv,md}. Set
OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse

from experiments.households.designs import DESIGNS
from experiments.households.report import HEAD, write
from experiments.households.runs import KEPT, Run, measured
from experiments.households.tables import NAMES
from experiments.kept_runs import add_options, made_by, wanted

EPSILONS = 0.3, 1.0, 3.0, 10.0
SEEDS, MORE_SEEDS = 3, {"independent": 8, "pair": 6}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.households", description=__doc__)
    add_options(parser, "linked-eusilc-1-*")
    options = parser.parse_args()
    seeds = {design: range(MORE_SEEDS.get(design, SEEDS)) for design in DESIGNS}
    runs = [Run(t, d, e, s) for d in DESIGNS for s in seeds[d] for t in NAMES for e in EPSILONS]
    for _, row in made_by(wanted(runs, options, lambda run: KEPT.row(run) is not None), measured, options.workers):
        print(", ".join(f"{name} {row[name]:.3f}" for name in ("size", "person", "within")), flush=True)
    write(KEPT.table(runs), KEPT.name, HEAD)


if __name__ == "__main__":
    main()
