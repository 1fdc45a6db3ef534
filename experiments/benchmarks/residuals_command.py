"""`python -m experiments.benchmarks residuals`: measure what has no current result, then write the table."""

from __future__ import annotations

from argparse import Namespace

from experiments.benchmarks.report import heading, markdown, number, outdated
from experiments.benchmarks.residuals import CASES, RHO, SLOW, run_case
from experiments.benchmarks.runner import chosen, kept, measure_all
from experiments.benchmarks.store import Store
from pgmest._base.files import write_atomically

MEASURED = (
    "pgmest/strategies/residual.py",
    "pgmest/synthesis/*.py",
    "pgmest/mechanisms/hdmm.py",
    "pgmest/models/view.py",
    "experiments/benchmarks/residuals.py",
)
COMMAND = "python -m experiments.benchmarks residuals"
NOTES = f"""\
All pairs of attributes of 10 values, of records that walk along a chain of them, measured by `HDMM` at rho = {RHO} with
simulated noise. "Least squares" and "local" are the whole mechanism: count, noise, reconstruct. Expected error: root
mean squared, in counts a cell, known before anything is spent. Distances are mean total variation distances over pairs,
between 0 and 1. Records, 100,000 of them, start from a tree of the local tables and are changed code by code until they
have all of these; "to the tables" is how far they are from them. No junction tree holds these pairs."""


def run(options: Namespace) -> None:
    """Measure, print the table, and write residuals.md."""
    store = Store.of("residuals", options.quick, MEASURED)
    names = [name for name in chosen(CASES, options.only) if options.slow or name not in SLOW]
    measure_all(store, names, lambda name: run_case(name, options.quick), options.fresh)
    records = kept(store, CASES)
    if not records:
        raise SystemExit("nothing was measured.")
    results = [record["result"] for record in records]
    old = outdated(store, records, lambda result: result["problem"])
    rows = [
        [result["problem"], f"{result['records']:,}", f"{result['pairs']:,}"]
        + [number(result[key]) for key in ("plan_seconds", "original_seconds", "local_seconds", "records_seconds")]
        + [number(result["megabytes"]), number(result["expected_error"])]
        + [number(result["errors"][key]) for key in ("original", "local")]
        + [number(result[key]) for key in ("records_to_model", "records_to_truth")]
        for result in results
    ]
    columns = ["problem", "records", "pairs", "plan, s", "least squares, s", "local, s", "records, s", "peak, MB"]
    columns += ["expected error", "distance: least squares", "local", "records to the tables", "records to the truth"]
    title = heading("All pairs of many attributes", COMMAND, records, old)
    text = f"{title}\n\n{NOTES}\n\n{markdown(columns, rows)}\n"
    store.folder.mkdir(parents=True, exist_ok=True)
    write_atomically(store.folder / "residuals.md", text)
    print(text)
