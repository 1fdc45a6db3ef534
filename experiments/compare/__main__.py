"""python -m experiments.compare [--only PATTERN] [--fresh] [--report] [--workers N] [--most-seconds S].

Every mechanism on every table. A run that was made before is not made again (`experiments.kept_runs`); with more
--most-seconds what took too long is. Where the first seed was refused or stopped others are not run. The table and the
report go to experiments/results/compare.{csv,md}. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
from functools import partial

from experiments.compare.cells import all_cells
from experiments.compare.report import write
from experiments.compare.store import KEPT, ended, measure, start_worker
from experiments.kept_runs import add_options, made_by, wanted


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.compare", description=__doc__)
    add_options(parser, "adult-MST-*")
    parser.add_argument("--most-seconds", type=float, default=60.0, help="stop longer runs (default 60)")
    options = parser.parse_args()
    cells, most = all_cells(), options.most_seconds
    missing = wanted(cells, options, lambda cell: ended(cell, most))
    for _, row in made_by(missing, partial(measure, most_seconds=most), options.workers, start_worker):
        print(row["note"] or f"{row['seconds']:.1f} s, error {row['error']:.4f}", flush=True)
    write(KEPT.table(cells))


if __name__ == "__main__":
    main()
