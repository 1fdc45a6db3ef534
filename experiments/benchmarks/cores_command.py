"""`python -m experiments.benchmarks cores`: measure what has no current result, then write the table."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.benchmarks.cores import CASES, run_case
from experiments.benchmarks.report import heading, markdown, milliseconds, number, outdated
from experiments.benchmarks.runner import chosen, kept, measure_all
from experiments.benchmarks.store import Store
from pgmest._base.files import write_atomically

MEASURED = ("pgmest/inference/exact/*.py", "experiments/benchmarks/cores.py", "experiments/benchmarks/timing.py")
COMMAND = "python -m experiments.benchmarks cores"
NOTES = """\
Milliseconds of a call on 1, 2, 4, ... threads, the least of some; each number of threads in a process of its own, which
BLAS may use as well. "per core" is how many times faster all threads are than one, divided by their number.
"processes, per core" is what the processors allow: as many processes as there are, each on one thread, run the same at
the same time, and the number is the time of a call of one process alone over that of one among all (medians). Where
processors are two threads of one core, it is about a half."""

Result = Mapping[str, Any]


def run(options: Namespace) -> None:
    """Measure, print the table, and write cores.md."""
    store = Store.of("cores", options.quick, MEASURED)
    measure_all(store, chosen(CASES, options.only), lambda name: run_case(name, options.quick), options.fresh)
    records = kept(store, CASES)
    if not records:
        raise SystemExit("nothing was measured.")
    results = [record["result"] for record in records]
    old = outdated(store, records, lambda result: result["problem"])
    title = heading("The oracle on several threads", COMMAND, records, old)
    text = f"{title}\n\n{NOTES}\n\n{table(results)}\n"
    store.folder.mkdir(parents=True, exist_ok=True)
    write_atomically(store.folder / "cores.md", text)
    print(text)


def table(results: Sequence[Result]) -> str:
    """A row for each problem."""
    counts = sorted({int(count) for result in results for count in result["seconds"]})
    rows = []
    for result in results:
        seconds = {int(count): value for count, value in result["seconds"].items()}
        most = max(seconds)
        per_core = seconds[1] / seconds[most] / most
        allowed = result["one_process"] / result["one_of_many_processes"]
        times = (milliseconds(seconds.get(count)) for count in counts)
        rows.append([result["problem"], *times, number(per_core, 2), number(allowed, 2)])
    return markdown(["problem", *map(str, counts), "per core", "processes, per core"], rows)
