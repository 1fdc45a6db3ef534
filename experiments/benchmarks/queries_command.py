"""`python -m experiments.benchmarks queries`: measure what has no current result, then write the table."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.benchmarks.queries import CASES, rows, run_case
from experiments.benchmarks.report import markdown, milliseconds, number, write_comparison
from experiments.benchmarks.runner import chosen, kept, measure_all
from experiments.benchmarks.store import Store

MEASURED = (
    "pgmest/models/exact.py",
    "pgmest/answers.py",
    "pgmest/inference/marginals/calibrated_tree.py",
    "pgmest/inference/marginals/contraction.py",
    "pgmest/inference/marginals/variable_elimination.py",
    "pgmest/inference/marginals/propagation.py",
    "pgmest/inference/marginals/batches.py",
    "experiments/benchmarks/queries.py",
    "experiments/benchmarks/peers.py",
)
COMMAND = "python -m experiments.benchmarks queries"
NOTES = """\
Queries of one model that is calibrated already. "pgmest" answers the queries as one list; "one at a time" asks for each
alone; "marginal first" writes down the marginal that a query is about and applies the query to it. Times are
medians of later calls, in milliseconds, and the first call apart; the subjects of a case took turns in one process. A
difference is the largest of any answer to pgmest's, as a fraction of the total; "-" is NaN. mbi compiles in its first
call; its `kron_query` raises in 2.0.0 (it leaves the model's tables out), so its variable elimination is given the
query's matrices as further tables. It has no workloads of factored queries: that case is pgmest's own."""


def run(options: Namespace) -> None:
    """Measure, print the table, and write queries.md and queries.csv."""
    store = Store.of("queries", options.quick, MEASURED)
    measure_all(store, chosen(CASES, options.only), lambda name: run_case(name, options.quick), options.fresh)
    title = "Queries of one model: pgmest and mbi"
    write_comparison("queries", title, COMMAND, NOTES, store, kept(store, CASES), table, rows)


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """One row per case and subject."""
    columns = ["queries", "answered by", "first", "later", "later / pgmest", "difference"]
    lines = []
    for result in results:
        for label, kept_ in result["subjects"].items():
            times = [milliseconds(kept_["first_seconds"]), milliseconds(kept_["median_seconds"])]
            lines.append([result["title"], label, *times, number(kept_["ratio"]), number(kept_["difference"], 2)])
    return markdown(columns, lines)
