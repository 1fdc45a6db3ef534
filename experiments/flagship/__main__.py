"""python -m experiments.flagship [--only PATTERN] [--seeds N] [--fresh]: PGM against all other mechanisms.

On all pairs, on triples, and on prefix sums of pairs; for each PGM is told what is asked, and run again. The errors of
the others are read from experiments/results/compare.csv, which `python -m experiments.compare` makes.
Each run of PGM is kept in build/flagship at once, so that a command that was stopped goes on where it was. The tables
and the picture go to experiments/results/flagship.{csv,md,png}. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import resource
import time
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.compare.cells import DELTA, EPSILONS, TABLES
from experiments.compare.workloads import NAMES as WORKLOADS
from experiments.compare.workloads import asked, error, errors
from experiments.data import load
from experiments.flagship.report import write
from pgmest._base.files import write_atomically
from pgmest.mechanisms import PGM

KEPT = Path(__file__).resolve().parents[2] / "build" / "flagship"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.flagship", description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="runs whose name fits, such as 'adult-1-*'")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each (default 3)")
    parser.add_argument("--fresh", action="store_true", help="run again what was run before")
    parser.add_argument("--report", action="store_true", help="write the report of what there is, and run nothing")
    options = parser.parse_args()
    runs = [
        (table, epsilon, seed, workload)
        for workload in WORKLOADS
        for seed in range(options.seeds)
        for table in TABLES
        for epsilon in EPSILONS
    ]
    for run in [] if options.report else runs:
        path = _path(*run)
        fits = not options.only or any(fnmatch.fnmatch(path.stem, pattern) for pattern in options.only)
        if fits and (options.fresh or not path.exists()):
            row = measure(*run)
            KEPT.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(row) + "\n")
            said = ", ".join(f"{name} {row[name]:.4f}" for name in ("error", "triples", "prefixes"))
            print(f"{path.stem}: {said}, {row['seconds']:.1f} s", flush=True)
    kept = [_path(*run) for run in runs]
    rows = [{"workload": "pairs", **json.loads(path.read_text())} for path in kept if path.exists()]
    write(pd.DataFrame(rows))


def measure(table: str, epsilon: float, seed: int, workload: str) -> dict[str, Any]:
    """One run: errors of the model and of as many records, processor seconds, and how many pairs were bought."""
    data = load(table)
    start = time.process_time()
    mechanism = PGM(epsilon=epsilon, delta=DELTA, backend="simulation")
    result = mechanism.fit(data, asked(data.domain, workload), seed=seed, progress=False)
    seconds = time.process_time() - start
    return {
        "table": table,
        "epsilon": epsilon,
        "seed": seed,
        "workload": workload,
        **errors(data, result.model),
        "records": error(data, result.sample(seed=seed)),
        "seconds": seconds,
        "pairs": len({p.clique for p in result.details["purchases"] if len(p.clique) == 2}),
        "threes": len({p.clique for p in result.details["purchases"] if len(p.clique) == 3}),
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _path(table: str, epsilon: float, seed: int, workload: str) -> Path:
    told = "" if workload == "pairs" else f"-{workload}"
    return KEPT / f"{table.replace('/', '_')}-{epsilon:g}-{seed}{told}.json"


if __name__ == "__main__":
    main()
