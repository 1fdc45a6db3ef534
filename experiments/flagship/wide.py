"""python -m experiments.flagship.wide [--attributes 300] [--records 1000000] [--epsilon 1]: LAMP on a wide table.

The table is synthetic. The attributes have 2, 3, 4, 6, 8, 12, 16 or 24 values, in turn. The first attribute is drawn
from Zipf's law. Each other attribute has a random parent among the twenty before it. With probability s, from 0.1 to
0.8 by attribute, its code is the code of the parent, scaled to its number of values; otherwise it is drawn from Zipf's
law. So there are strong chains, and many pairs depend on each other only through other attributes.

One run measures processor seconds, peak memory, and the error on 1,000 pairs. The result goes to
experiments/results/flagship_wide.md. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import numpy as np

from experiments.compare.cells import DELTA
from experiments.compare.workloads import error
from pgmest._base.files import write_atomically
from pgmest.data.dataset import Dataset
from pgmest.mechanisms import LAMP, Independent

RESULTS = Path(__file__).resolve().parents[1] / "results"
SIZES = (2, 3, 4, 6, 8, 12, 16, 24)
REACH = 20


def made(attributes: int, records: int, seed: int = 0) -> Dataset:
    """Return the synthetic table that the module describes."""
    rng = np.random.default_rng(seed)
    columns: list[np.ndarray] = []
    for place in range(attributes):
        size = SIZES[place % len(SIZES)]
        odds = 1 / np.arange(1, size + 1)
        own = rng.choice(size, records, p=odds / odds.sum()).astype(np.uint8)
        if place:
            parent = place - 1 - int(rng.integers(min(place, REACH)))
            scaled = (columns[parent].astype(np.int64) * size // SIZES[parent % len(SIZES)]).astype(np.uint8)
            own = np.where(rng.random(records, dtype=np.float32) < rng.uniform(0.1, 0.8), scaled, own)
        columns.append(own)
    return Dataset.from_codes(columns, {f"x{i}": SIZES[i % len(SIZES)] for i in range(attributes)})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.flagship.wide", description=__doc__)
    parser.add_argument("--attributes", type=int, default=300)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    options = parser.parse_args()
    data = made(options.attributes, options.records)
    before, start, clock = _megabytes(), time.process_time(), time.perf_counter()
    result = LAMP(epsilon=options.epsilon, delta=DELTA, backend="simulation").fit(data, seed=0, progress=False)
    seconds, wall, peak = time.process_time() - start, time.perf_counter() - clock, _megabytes()
    pairs = len({p.clique for p in result.details["measured_marginals"] if len(p.clique) == 2})
    baseline = Independent(epsilon=options.epsilon, delta=DELTA, backend="simulation").fit(data, seed=0)
    lines = [
        "# LAMP on a wide table",
        "",
        "`python -m experiments.flagship.wide`. The table is made: see the module. Errors are average total variation",
        "distances of 1,000 pairs; seconds are of a processor; memory is the peak of the process, the table included.",
        "",
        "| attributes | records | epsilon | seconds | wall clock | MB | MB before | pairs | error | Independent |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        f"| {options.attributes} | {options.records:,} | {options.epsilon:g} | {seconds:.0f} | {wall:.0f} | "
        f"{peak:.0f} | {before:.0f} | {pairs} | {error(data, result.model):.4f} | {error(data, baseline.model):.4f} |",
    ]
    write_atomically(RESULTS / "flagship_wide.md", "\n".join(lines) + "\n")
    print("\n".join(lines[-3:]))


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
