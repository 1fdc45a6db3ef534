"""`python -m experiments.benchmarks bulk`: measure what has no current result, then write the table."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.benchmarks.bulk import CASES, run_case
from experiments.benchmarks.report import markdown, milliseconds, number, write_comparison
from experiments.benchmarks.runner import chosen, kept, measure_all
from experiments.benchmarks.store import Store

MEASURED = (
    "pgmest/models/exact.py",
    "pgmest/inference/*.py",
    "experiments/problems.py",
    "experiments/benchmarks/bulk.py",
    "experiments/benchmarks/peers.py",
    "experiments/benchmarks/timing.py",
)
COMMAND = "python -m experiments.benchmarks bulk"
NOTES = """\
All marginals of two or of three attributes of a model, measured or not. pgmest starts from the potentials and a plan,
runs the oracle and projects; "calibrated" is a model whose oracle has run. Times are medians, in milliseconds; both
sides took turns in one process. A difference is the largest of any cell, as a fraction of the total."""


def run(options: Namespace) -> None:
    """Measure, print the table, and write bulk.md and bulk.csv."""
    store = Store.of("bulk", options.quick, MEASURED)

    def enough(name: str, result: dict[str, Any]) -> bool:
        done = {*result["mbi"], *result["errors"]}
        return not options.slow or done.issuperset(CASES[name].if_slow)

    names = chosen(CASES, options.only)
    measure_all(store, names, lambda name: run_case(name, options.quick, options.slow), options.fresh, enough)
    title = "Many marginals of one model: pgmest and mbi"
    write_comparison("bulk", title, COMMAND, NOTES, store, kept(store, CASES), table, _rows)


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """One row per model, size of marginals, and function of mbi."""
    columns = ["model, attributes a marginal", "marginals", "cells", "plan", "pgmest, first", "pgmest", "calibrated"]
    columns += ["mbi's function", "first", "later", "mbi / pgmest", "mbi / calibrated", "difference"]
    rows = []
    for result in results:
        own = [result["plan_seconds"], result["first_seconds"], *result["median_seconds"].values()]
        left = [result["problem"], f"{result['marginals']:,}", f"{result['cells']:,}", *map(milliseconds, own)]
        for name, theirs in result["mbi"].items() or [("-", None)]:
            right = ["-"] * 5
            if theirs:
                right = [milliseconds(theirs["first_seconds"]), milliseconds(theirs["median_seconds"])]
                right += [number(ratio) for ratio in theirs["ratios"].values()] + [number(theirs["difference"], 2)]
            rows.append([*left, name, *right])
    return markdown(columns, rows)


def _rows(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    shared = {key: result[key] for key in ("problem", "marginals", "cells")}
    own = {
        **shared,
        "subject": "pgmest",
        "first_seconds": result["first_seconds"],
        "median_seconds": result["median_seconds"]["pgmest"],
    }
    keys = ("first_seconds", "median_seconds", "difference")
    rows = [own]
    for name, theirs in result["mbi"].items():
        measured = {key: theirs[key] for key in keys}
        rows.append({**shared, "subject": f"mbi {name}", **measured, "times pgmest": theirs["ratios"]["pgmest"]})
    return rows
