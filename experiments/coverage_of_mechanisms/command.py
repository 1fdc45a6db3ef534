"""python -m experiments.coverage mechanisms [--only PATTERN] [--intervals | --records] [--fresh] [--report]

Fits that are missing are made and saved in build/coverage/fits, then the intervals of all fits are judged that have no
rows yet. After a change of how intervals are made, --fresh judges again; it does not fit again, which --refit does.
With --intervals or --records, only intervals or regressions of released records are judged; the other rows of the
runs, if there are any, stay as they were.
Rows are kept in build/coverage/rows; the rows of the committed table count as kept, too, unless they are about an
earlier version of the intervals (`scores.VERSION`), which the report leaves out. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import json
import os
import time
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.coverage_of_mechanisms import records, scores
from experiments.coverage_of_mechanisms.fits import FITS, Run, fit, runs
from experiments.coverage_of_mechanisms.questions import COMBINED, NAIVE
from experiments.coverage_of_mechanisms.report import write
from experiments.coverage_of_mechanisms.tables import ALL
from experiments.kept_runs import add_options, made_by
from pgmest._base.files import write_atomically

ROWS = FITS.with_name("rows")
OF_RECORDS = (COMBINED, NAIVE)
"""The classes of regressions of released records."""
RESULTS = Path(__file__).resolve().parents[1] / "results"
SEEDS = 3
EPSILON_OF_LEVELS = 1.0
"""The budget whose intervals are judged at several levels with the first seed."""


def main() -> None:
    """Fit what is missing, judge what is missing, and write the report."""
    parser = argparse.ArgumentParser(prog="python -m experiments.coverage mechanisms", description=__doc__)
    parser.add_argument("mechanisms")
    add_options(parser, "LAMP-titanic-1-*")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"runs of each kind on the small tables ({SEEDS})")
    parser.add_argument("--refit", action="store_true", help="run the mechanisms again, too")
    parser.add_argument("--fits", action="store_true", help="only run the mechanisms")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--intervals", action="store_true", help="judge only intervals")
    part.add_argument("--records", action="store_true", help="judge only regressions of released records")
    options = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    every = list(runs(options.seeds))
    chosen = [run for run in every if not options.only or any(fnmatch.fnmatch(run.name, p) for p in options.only)]
    if not options.report:
        make("fit", [run for run in chosen if options.refit or not run.saved.exists()], fit, options.workers)
        if options.fits:
            return None
        parts = {
            "intervals": options.refit or not options.records,
            "of_records": options.refit or not options.intervals,
        }
        again = [run for run in chosen if options.fresh or options.refit or not _is_made(run, **parts)]
        make("judge", again, functools.partial(judge, **parts), options.workers)
    return write(pd.DataFrame([{**asdict(run), **row} for run in every for row in made(run)]), RESULTS)


def make(step: str, missing: list[Run], measure: Any, workers: int) -> None:
    """Make a step of the runs, and say how each of them went."""
    print(f"{step}: {len(missing)} to do", flush=True)
    for run, found in made_by(missing, functools.partial(_tried, measure), workers) if missing else ():
        print(f"{run.name} {found}", flush=True)


def _tried(measure: Any, run: Run) -> dict[str, Any]:
    """Return what a run found, or its error, with which the others go on."""
    try:
        return measure(run)
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}


def judge(run: Run, intervals: bool = True, of_records: bool = True) -> dict[str, Any]:
    """Keep the rows of a fit, of which the parts that are asked for are made again; returns how long that took."""
    start = time.process_time()
    found = [] if intervals else _part(run, of_records=False)
    joined = [] if of_records else _part(run, of_records=True)
    found = found or scores.rows(run, levels=run.epsilon == EPSILON_OF_LEVELS and not run.seed)
    if not joined and run.table not in ALL:
        joined = records.rows(run)
    ROWS.mkdir(parents=True, exist_ok=True)
    write_atomically(ROWS / f"{run.name}.json", json.dumps(found + joined))
    return {"classes": len(found + joined), "seconds": round(time.process_time() - start, 1)}


def made(run: Run) -> list[dict[str, Any]]:
    """Return the rows of a run that was judged before, from its file or the committed table; none where it was not."""
    path = ROWS / f"{run.name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else _committed().get(run, [])


def _part(run: Run, of_records: bool) -> list[dict[str, Any]]:
    return [row for row in made(run) if (row["class"] in OF_RECORDS) == of_records]


@functools.cache
def _committed() -> dict[Run, list[dict[str, Any]]]:
    found: dict[Run, list[dict[str, Any]]] = defaultdict(list)
    path = RESULTS / "coverage_mechanisms.csv"
    for row in pd.read_csv(path).to_dict("records") if path.exists() else ():
        run = Run(*(row.pop(name) for name in ("table", "mechanism", "epsilon", "seed")))
        found[run].append(dict(row))
    return found


def _is_made(run: Run, intervals: bool = True, of_records: bool = True) -> bool:
    """Return whether the parts of a run that are asked for were judged before with the intervals of today."""
    asked = {False: intervals, True: of_records}
    rows = [row for part, wanted in asked.items() if wanted for row in _part(run, part)]
    return bool(rows) and all(row.get("version") == scores.VERSION for row in rows)
