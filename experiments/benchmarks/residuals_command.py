"""`python -m experiments.benchmarks residuals`: measure what has no current result, then write the table."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from experiments.benchmarks.report import heading, markdown, number, outdated, section
from experiments.benchmarks.residuals import (
    CASES,
    PEER_CASES,
    PEER_ITERATIONS,
    PEER_SECONDS,
    RHO,
    SLOW,
    run_case,
    run_peers,
)
from experiments.benchmarks.runner import chosen, kept, measure_all
from experiments.benchmarks.store import Store
from pgmest._base.files import write_atomically

MEASURED = (
    "pgmest/strategies/residual.py",
    "pgmest/synthesis/*.py",
    "pgmest/mechanisms/hdmm.py",
    "pgmest/mechanisms/priview/view.py",
    "pgmest/data/*count*.py",
    "pgmest/privacy/counted_ahead.py",
    "experiments/benchmarks/residuals.py",
)
COMMAND = "python -m experiments.benchmarks residuals"
NOTES = f"""\
All pairs of attributes of 10 values, of records that walk along a chain of them, measured by `HDMM` at rho = {RHO} with
simulated noise. "Least squares" and "local" are the whole mechanism: count, noise, reconstruct; "counting" is that
part of it, measured by itself. Seconds are those of processors, on two threads where there is work for them, so that a
busy machine inflates them less. Expected error: root mean squared, in counts a cell, known before anything is spent.
Distances are mean total variation distances over pairs,
between 0 and 1. Records, 100,000 of them, of 1,000 attributes 20,000, start from a tree of the local tables and are
changed code by code until they have all of these; "to the tables" is how far they are from them. No junction tree
holds these pairs."""

PEER_NOTES = f"""\
The same noisy pairs, each with the noise that residuals would leave in it: local non-negativity beside mbi's mirror
descent with its convex oracle, {PEER_ITERATIONS} iterations at a fixed step, in units of the variance of the noise over
the total. A process is stopped after {PEER_SECONDS:g} s. Distances to the truth, over all pairs."""
SECONDS = tuple(f"{step}_processor_seconds" for step in ("plan", "counting", "original", "local", "records"))


def _beside(peers: list[dict[str, Any]]) -> str:
    """The comparison with mbi; nothing where it was not measured."""
    rows = []
    for result in (record["result"] for record in peers):
        problem = result["problem"].split(",")[0]
        rows.append([problem, "the noisy pairs themselves", "", "", number(result["noisy"])])
        rows.append([problem, "local non-negativity", number(result["seconds"]), "", number(result["error"])])
        for step, found in result["mbi"].items():
            name = f"mbi, step {step}"
            if "ended" in found:
                rows.append([problem, name, "", found["ended"], ""])
                continue
            times = [number(found["seconds"]), number(found["compiled_seconds"])]
            rows.append([problem, name, *times, number(found["error"])])
    columns = ["problem", "estimate", "seconds", "with compilation", "distance"]
    return section("Beside mbi's convex oracle", f"{PEER_NOTES}\n\n{markdown(columns, rows)}") if rows else ""


def run(options: Namespace) -> None:
    """Measure, print the table, and write residuals.md."""
    store = Store.of("residuals", options.quick, MEASURED)
    names = [name for name in chosen([*CASES, *PEER_CASES], options.only) if options.slow or name not in SLOW]
    measure_all(
        store, names, lambda name: (run_case if name in CASES else run_peers)(name, options.quick), options.fresh
    )
    records, peers = kept(store, CASES), kept(store, PEER_CASES)
    if not records:
        raise SystemExit("nothing was measured.")
    results = [record["result"] for record in records]
    old = outdated(store, [*records, *peers], lambda result: result["problem"])
    rows = [
        [result["problem"], f"{result['records']:,}", f"{result['pairs']:,}"]
        + [number(result.get(key)) for key in SECONDS]
        + [number(result["megabytes"]), number(result["expected_error"])]
        + [number(result["errors"][key]) for key in ("original", "local")]
        + [number(result.get(key)) for key in ("records_to_model", "records_to_truth")]
        for result in results
    ]
    columns = [
        "problem",
        "records",
        "pairs",
        "plan, s",
        "counting, s",
        "least squares, s",
        "local, s",
        "records, s",
        "peak, MB",
    ]
    columns += ["expected error", "distance: least squares", "local", "records to the tables", "records to the truth"]
    title = heading("All pairs of many attributes", COMMAND, [*records, *peers], old)
    store.folder.mkdir(parents=True, exist_ok=True)
    parts = [title, NOTES, markdown(columns, rows), _beside(peers)]
    text = "\n\n".join(filter(None, parts)) + "\n"
    write_atomically(store.folder / "residuals.md", text)
    print(text)
