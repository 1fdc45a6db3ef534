"""python -m experiments.compare [--only PATTERN] [--fresh] [--workers N] [--most-seconds S]: mechanisms on tables.

Each run is kept in build/compare as a JSON file at once, so that a command that was stopped goes on where it was, and
with more --most-seconds does again only what took too long. The table, the report and the plot go to
experiments/results/compare.{csv,md,png}. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import fnmatch
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

import pandas as pd

from experiments.compare.cells import all_cells
from experiments.compare.report import write
from experiments.compare.store import kept, measure, start_worker


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.compare", description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="cells whose name fits, such as 'adult-MST-*'")
    parser.add_argument("--fresh", action="store_true", help="run again what was run before")
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--most-seconds", type=float, default=60.0, help="stop longer runs (default 60)")
    options = parser.parse_args()
    cells = all_cells()
    wanted = [c for c in cells if not options.only or any(fnmatch.fnmatch(c.name, p) for p in options.only)]
    missing = [cell for cell in wanted if options.fresh or kept(cell, options.most_seconds) is None]
    print(f"{len(wanted)} runs, {len(missing)} to do", flush=True)
    with ProcessPoolExecutor(options.workers, get_context("spawn"), start_worker) as pool:
        waiting = {pool.submit(measure, cell, options.most_seconds): cell for cell in missing}
        for number, done in enumerate(as_completed(waiting), 1):
            row = done.result()
            said = row["note"] or f"{row['seconds']:.1f} s, error {row['error']:.4f}"
            print(f"{number}/{len(missing)} {waiting[done].name}: {said}", flush=True)
    write(pd.DataFrame([row for cell in cells if (row := kept(cell)) is not None]))


if __name__ == "__main__":
    main()
