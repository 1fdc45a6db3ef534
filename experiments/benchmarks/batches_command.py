"""`python -m experiments.benchmarks batches`: measure what has no current result, then write the table."""

from __future__ import annotations

from argparse import Namespace

from experiments.benchmarks.batches import CASES, run_case
from experiments.benchmarks.report import heading, markdown, number, outdated
from experiments.benchmarks.runner import chosen, kept, measure_all
from experiments.benchmarks.store import Store
from pgmest._base.files import write_atomically

MEASURED = ("pgmest/inference/exact/*.py", "experiments/benchmarks/batches.py", "experiments/benchmarks/timing.py")
COMMAND = "python -m experiments.benchmarks batches"
NOTES = """\
Microseconds a parameter vector, medians; the subjects took turns in one process. "times" columns say how many times
longer than `run_many` on one thread, the median over rounds of the ratio in a round. `np.exp` takes the exponential of
all potentials, and does nothing else."""


def run(options: Namespace) -> None:
    """Measure, print the table, and write batches.md."""
    store = Store.of("batches", options.quick, MEASURED)
    measure_all(store, chosen(CASES, options.only), lambda name: run_case(name, options.quick), options.fresh)
    records = kept(store, CASES)
    if not records:
        raise SystemExit("nothing was measured.")
    results = [record["result"] for record in records]
    old = outdated(store, records, lambda result: result["problem"])
    labels = list(results[0]["seconds"])
    rows = [
        [result["problem"], result["vectors"], f"{result['cells']:,}", f"{result['tree_cells']:,}"]
        + [number(1e6 * result["seconds"][label]) for label in labels]
        + [number(result["ratios"][label]) for label in labels[1:]]
        for result in results
    ]
    columns = ["problem", "vectors", "cells", "tree cells", *labels, *(f"times: {label}" for label in labels[1:])]
    title = heading("Many parameter vectors on one plan", COMMAND, records, old)
    text = f"{title}\n\n{NOTES}\n\n{markdown(columns, rows)}\n"
    store.folder.mkdir(parents=True, exist_ok=True)
    write_atomically(store.folder / "batches.md", text)
    print(text)
