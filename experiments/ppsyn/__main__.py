"""python -m experiments.ppsyn [--quick] [--fresh] [--workers N]: run every cell, write tables, pictures and report.

Each cell's result is kept as a JSON file at once, and a run that was stopped goes on where it was. Results go to
experiments/results/ppsyn.{csv,md} and experiments/results/ppsyn/, those of --quick to build/ppsyn/. Five minutes with
two workers on two idle cores. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.benchmarks.store import fingerprint
from experiments.ppsyn.cells import Cell, all_cells
from experiments.ppsyn.figures import draw_all
from experiments.ppsyn.report import write
from experiments.ppsyn.scores import misclassification_of_real, run
from pgmest._base.files import write_atomically
from pgmest.inference.exact.threads import set_threads

ROOT = Path(__file__).resolve().parents[2]
CELLS = ROOT / "build" / "ppsyn" / "cells"
MEASURED = ("ppsyn*", "partitions", "privmrf", "attribute_graph", "aim", "mst", "independent")
CODE = (
    *(f"pgmest/mechanisms/{name}.py" for name in MEASURED),
    *(f"experiments/ppsyn/{x}.py" for x in ("cells", "scores")),
)


def kept(cell: Cell, code: str) -> dict[str, Any] | None:
    """The result of a cell, if it was made with the code of today."""
    path = CELLS / f"{cell.name}.json"
    found = json.loads(path.read_text()) if path.exists() else None
    return found["result"] if found and found["code"] == code else None


def measure(cell: Cell, code: str) -> dict[str, Any]:
    """Run a cell and keep its result."""
    set_threads(1)
    result = run(cell)
    CELLS.mkdir(parents=True, exist_ok=True)
    write_atomically(CELLS / f"{cell.name}.json", json.dumps({"code": code, "result": result}) + "\n")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two tables, few values of each parameter")
    parser.add_argument("--fresh", action="store_true", help="measure again what has a current result")
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    options = parser.parse_args()
    code = fingerprint(CODE)
    cells = list(all_cells(options.quick))
    rows = {cell: None if options.fresh else kept(cell, code) for cell in cells}
    missing = [cell for cell, row in rows.items() if row is None]
    print(f"{len(cells)} cells, {len(missing)} to run", flush=True)
    started = time.perf_counter()
    with ProcessPoolExecutor(options.workers) as pool:
        waiting = {pool.submit(measure, cell, code): cell for cell in missing}
        for number, done in enumerate(as_completed(waiting), 1):
            cell = waiting[done]
            rows[cell] = row = done.result()
            spent = time.perf_counter() - started
            print(f"{number}/{len(missing)} {cell.name}: {row['seconds']:.1f} s, {spent:.0f} s in all", flush=True)
        real = dict(
            zip(
                names := sorted({cell.table for cell in cells}), pool.map(misclassification_of_real, names), strict=True
            )
        )
    folder = ROOT / ("build" if options.quick else "experiments/results") / "ppsyn"
    folder.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame([rows[cell] for cell in cells])
    frame.to_csv(folder.parent / "ppsyn.csv", index=False, float_format="%.4g")
    write(frame, real, draw_all(frame, real, folder), folder.parent / "ppsyn.md")


if __name__ == "__main__":
    main()
