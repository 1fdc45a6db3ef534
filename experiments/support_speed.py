"""python -m experiments.support_speed: what a sweep over the records of a support costs.

Distinct random records of 15 attributes with the sizes of Adult's (numeric ones in 32 bins), and the first 100 of
their two-way marginals: one call of the oracle computes all 100 from given potentials. Also one `np.bincount` with
weights for each marginal from index arrays that were made before, which is what the same sums cost in NumPy.

Writes experiments/results/support_speed.md, in about a minute on two cores. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pgmest as pg
from pgmest._base.files import write_atomically
from pgmest._base.threads import set_threads
from pgmest.inference.support.support_oracle import SupportOracle
from pgmest.priors import Support
from pgmest.tables.clique_vector import Layout

OUT = Path(__file__).resolve().parent / "results" / "support_speed.md"
SIZES = (32, 9, 32, 16, 16, 7, 15, 6, 5, 2, 32, 32, 32, 42, 2)
MARGINALS = 100
RECORDS = (10**5, 10**6, 10**7)
LARGEST_INDEXED = 10**6
"""Index arrays of more records than this, at 8 bytes each, would not fit in memory."""


def public_table(records: int) -> pg.Dataset:
    """Independent attributes with geometric shares."""
    rng = np.random.default_rng(0)
    columns = [np.minimum(rng.geometric(min(0.6, 2.5 / size), records) - 1, size - 1) for size in SIZES]
    return pg.Dataset.from_codes(columns, {f"x{i}": size for i, size in enumerate(SIZES)})


def seconds(task: Callable[[], Any], rounds: int) -> float:
    """The fastest of some rounds, after one for warming up: other work on the machine only ever adds."""
    task()
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        task()
        times.append(time.perf_counter() - started)
    return min(times)


def indexed(data: pg.Dataset, layout: Layout) -> Callable[[], Any]:
    """All marginals by `np.bincount`, the indices made beforehand."""
    cells = [data.column(a).astype(np.int64) * data.domain[b] + data.column(b) for a, b in layout.cliques]
    weights = np.full(data.records, 1.0 / data.records)
    sizes = layout.sizes
    return lambda: [np.bincount(index, weights, size) for index, size in zip(cells, sizes, strict=True)]


def row(records: int) -> str:
    """A line of the table."""
    data = public_table(records)
    started = time.perf_counter()
    support = Support(data)
    merging = time.perf_counter() - started
    layout = Layout.of(data.domain, list(itertools.combinations(data.domain, 2))[:MARGINALS])
    theta = np.random.default_rng(1).normal(0.0, 0.1, layout.cells)
    rounds = 3 if records >= 10**7 else 15
    times = []
    for threads in (1, 2):
        set_threads(threads)
        oracle = SupportOracle(support, layout)
        times.append(seconds(lambda oracle=oracle: oracle.run(theta), rounds))
    maximum = seconds(lambda: oracle.maximum(theta), rounds)
    set_threads(None)
    numpy = f"{seconds(indexed(support.records, layout), 3):.3g}" if records <= LARGEST_INDEXED else "-"
    held = (support.codes.nbytes + 2 * support.weights.nbytes) / 1e6
    cells = [f"{len(support):,}", f"{merging:.2g}", *(f"{t:.3g}" for t in (*times, maximum)), numpy, f"{held:,.0f}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    lines = [
        "# A sweep over the records of a support",
        "",
        f"Made by `python -m experiments.support_speed`; not edited. {MARGINALS} two-way marginals of 15 attributes.",
        "Seconds: to merge duplicates, once; of a call of the oracle (marginals and log-partition function) with one",
        "thread and two; of the largest score (the certificate's minimum) with two; and of `np.bincount` for the same",
        "marginals, with indices and weights at hand, without gathering potentials. Memory: codes and weights.",
        f"Of some rounds the fastest. {os.cpu_count()} processors, load average at the start {os.getloadavg()[0]:.1f}:",
        "with more work than processors all times are longer.",
        "",
        "| distinct records | merge | call, 1 thread | call, 2 threads | largest score | bincount | megabytes |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for records in RECORDS:
        lines.append(row(records))
        print(lines[-1], flush=True)
    write_atomically(OUT, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
