"""`python -m experiments.benchmarks precision`: measure what has no current result, then write the table."""

from __future__ import annotations

from argparse import Namespace

from experiments.benchmarks.precision import CASES, run_case
from experiments.benchmarks.report import heading, markdown, number, outdated
from experiments.benchmarks.runner import chosen, kept, measure_all
from experiments.benchmarks.store import Store
from pgmest._base.files import write_atomically

MEASURED = ("pgmest/inference/exact/*.py", "experiments/benchmarks/precision.py")
COMMAND = "python -m experiments.benchmarks precision"
NOTES = """\
Milliseconds of the processor for one call on one thread, the least of some; the two took turns in one process. Errors
of float32: the largest difference of a marginal's cell, as a share of the total and of the cell itself, and that of the
log-partition function. Potentials are standard normal."""


def run(options: Namespace) -> None:
    """Measure, print the table, and write precision.md."""
    store = Store.of("precision", options.quick, MEASURED)
    measure_all(store, chosen(CASES, options.only), lambda name: run_case(name, options.quick), options.fresh)
    records = kept(store, CASES)
    if not records:
        raise SystemExit("nothing was measured.")
    results = [record["result"] for record in records]
    old = outdated(store, records, lambda result: result["problem"])
    rows = [
        [result["problem"], f"{result['tree_cells']:,}"]
        + [number(1e3 * seconds) for seconds in result["seconds"]]
        + [number(result["seconds"][0] / result["seconds"][1])]
        + [number(result[key], 2) for key in ("error", "relative_error", "log_error")]
        for result in results
    ]
    columns = ["problem", "tree cells", "float64, ms", "float32, ms", "times", "error", "relative error", "of log A"]
    title = heading("The oracle in float32", COMMAND, records, old)
    text = f"{title}\n\n{NOTES}\n\n{markdown(columns, rows)}\n"
    store.folder.mkdir(parents=True, exist_ok=True)
    write_atomically(store.folder / "precision.md", text)
    print(text)
