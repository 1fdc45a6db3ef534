"""`python -m experiments.benchmarks solvers`: run the methods that have no current trace; write tables."""

from __future__ import annotations

from argparse import Namespace

from experiments.benchmarks.runner import chosen, kept, measure_all
from experiments.benchmarks.solvers import CASES, MBI_METHODS, PGMEST_METHODS, measure_method
from experiments.benchmarks.solvers_report import write_report
from experiments.benchmarks.store import Store

DATA = ("experiments/problems.py", "pgmest/simulation.py")
ENGINE = ("pgmest/solvers/*.py", "pgmest/inference/exact/*.py", "pgmest/losses/*.py", "pgmest/queries/*.py")
TREE = (
    "pgmest/tables/clique_vector.py",
    "pgmest/graph/elimination_order.py",
    "pgmest/graph/junction_tree.py",
    "pgmest/graph/triangulation.py",
)
MEASURED = {
    "pgmest": (*DATA, *ENGINE, *TREE, "experiments/benchmarks/solvers.py"),
    "mbi": (*DATA, "experiments/benchmarks/peers.py"),
}
METHODS = {"pgmest": PGMEST_METHODS, "mbi": MBI_METHODS}


def run(options: Namespace) -> None:
    """Run the methods, print the tables, and write solvers.md, solvers_pgmest.csv and solvers_mbi.csv."""
    stores = {side: Store.of("solvers", options.quick, files) for side, files in MEASURED.items()}
    cases = chosen(CASES, options.only)
    for case in cases:
        for side in ("pgmest", "mbi"):
            if side == "mbi" and CASES[case].slow and not options.slow:
                continue
            runs = {f"{case}-{side}-{method}": method for method in METHODS[side]}
            measure_all(
                stores[side],
                runs,
                lambda name, case=case, side=side, runs=runs: measure_method(case, side, runs[name], options.quick),
                options.fresh,
            )
    records = {
        side: kept(store, [f"{case}-{side}-{method}" for case in CASES for method in METHODS[side]])
        for side, store in stores.items()
    }
    if not any(records.values()):
        raise SystemExit("nothing was measured.")
    print(write_report(stores, records))
    print(f"The tables are in {stores['pgmest'].folder}.")
