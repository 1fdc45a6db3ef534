"""`python -m experiments.benchmarks oracle`: measure what has no current result, then write the tables."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from experiments.benchmarks.oracle import CASES, run_case
from experiments.benchmarks.oracle_report import write_report
from experiments.benchmarks.runner import chosen, kept, measure_all
from experiments.benchmarks.store import Store

MEASURED = (
    "pgmest/inference/exact/*.py",
    "pgmest/tables/clique_vector.py",
    "pgmest/graph/elimination_order.py",
    "pgmest/graph/junction_tree.py",
    "pgmest/graph/triangulation.py",
    "experiments/problems.py",
    "experiments/benchmarks/memory.py",
    "experiments/benchmarks/oracle.py",
    "experiments/benchmarks/peers.py",
    "experiments/benchmarks/timing.py",
)


def run(options: Namespace) -> None:
    """Measure, print the tables, and write oracle.md and oracle.csv."""
    store = Store.of("oracle", options.quick, MEASURED)
    names = [name for name in chosen(CASES, options.only) if options.slow or not CASES[name].slow]

    def enough(name: str, result: dict[str, Any]) -> bool:
        return bool(result["first_seconds"]) or not (options.slow and CASES[name].mbi == "slow")

    measure_all(store, names, lambda name: run_case(CASES[name], options.quick, options.slow), options.fresh, enough)
    records = kept(store, CASES)
    if not records:
        raise SystemExit("nothing was measured.")
    print(write_report(store, records))
    print(f"The tables are in {store.folder}.")
