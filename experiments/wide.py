"""Wide tables: seconds, memory and error of LAMP, MST and AIM against the number of columns.

`python -m experiments.wide` runs each mechanism at epsilon = 1 on synthetic tables of 30 to 1,000 columns and 50,000
records, and of 30 to 300 columns and a million records. Each run is a process of its own, and is kept as it ends: a
command that was stopped goes on where it was, smallest tables first. A run that takes more than `--most-seconds` of a
processor is stopped and kept as such, and larger tables of the same mechanism and number of records are left out. It
writes experiments/results/wide.md and .csv of the runs that there are. Set OPENBLAS_NUM_THREADS=1.

The attributes have 2, 3, 4, 6, 8, 12, 16 or 24 values, in turn. The first attribute is drawn from Zipf's law. Each
other attribute has a random parent among the twenty before it. With probability s, from 0.1 to 0.8 by attribute, its
code is the code of the parent, scaled to its number of values; otherwise it is drawn from Zipf's law. So there are
strong chains, and many pairs depend on each other only through other attributes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.benchmarks.machine import describe, in_words, load_average
from experiments.benchmarks.report import markdown
from experiments.compare.cells import DELTA
from experiments.kept_runs import KeptRuns, add_options, wanted
from pgmest import mechanisms
from pgmest._base.files import write_atomically
from pgmest._base.threads import get_threads
from pgmest.data.dataset import Dataset
from pgmest.tables.distances import total_variation
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor

RESULTS = Path(__file__).parent / "results"
MECHANISMS = ("LAMP", "MST", "AIM", "Independent")
SIZES = {50_000: (30, 60, 100, 200, 500, 1000), 1_000_000: (30, 60, 100, 300)}
"""The numbers of columns by the number of records."""
VALUES, REACH = (2, 3, 4, 6, 8, 12, 16, 24), 20
EPSILON, PAIRS = 1.0, 1000
"""The budget, and the number of pairs whose error is measured, drawn at random."""
FITTED_FROM = 60
"""The exponent of growth is fitted to tables of at least this many columns, since shorter runs are mostly overhead."""


@dataclass(frozen=True)
class Run:
    """A mechanism on a table."""

    mechanism: str
    columns: int
    records: int

    @property
    def name(self) -> str:
        """The name of the file of its row."""
        return f"{self.mechanism}-{self.columns}-{self.records}"


KEPT = KeptRuns("wide", Run)
RUNS = sorted(
    (
        Run(mechanism, columns, records)
        for records, all_ in SIZES.items()
        for columns in all_
        for mechanism in MECHANISMS
    ),
    key=lambda run: (run.columns * run.records, MECHANISMS[::-1].index(run.mechanism)),
)


def made(columns: int, records: int, seed: int = 0) -> Dataset:
    """Return the synthetic table that the module describes."""
    rng = np.random.default_rng(seed)
    found: list[np.ndarray] = []
    for place in range(columns):
        size = VALUES[place % len(VALUES)]
        odds = 1 / np.arange(1, size + 1)
        own = rng.choice(size, records, p=odds / odds.sum()).astype(np.uint8)
        if place:
            parent = place - 1 - int(rng.integers(min(place, REACH)))
            scaled = (found[parent].astype(np.int64) * size // VALUES[parent % len(VALUES)]).astype(np.uint8)
            own = np.where(rng.random(records, dtype=np.float32) < rng.uniform(0.1, 0.8), scaled, own)
        found.append(own)
    return Dataset.from_codes(found, {f"x{i}": VALUES[i % len(VALUES)] for i in range(columns)})


def fitted(run: Run) -> dict[str, Any]:
    """Run a mechanism in this process; return seconds, megabytes and errors."""
    data = made(run.columns, run.records)
    mechanism = getattr(mechanisms, run.mechanism)(epsilon=EPSILON, delta=DELTA, backend="simulation")
    getattr(mechanisms, run.mechanism)(epsilon=EPSILON, delta=DELTA, backend="simulation").fit(
        data.select(list(data.domain)[:8]).take(slice(0, 2000)), seed=0, progress=False
    )  # compiles what is not compiled yet
    before, start, clock = _megabytes(), time.process_time(), time.perf_counter()
    result = mechanism.fit(data, seed=0, progress=False)
    seconds, wall, peak = time.process_time() - start, time.perf_counter() - clock, _megabytes()
    rng, pairs = np.random.default_rng(0), list(itertools.combinations(data.domain, 2))
    pairs = [pairs[place] for place in rng.permutation(len(pairs))[:PAIRS]]
    singles: list[Clique] = [(name,) for name in data.domain]
    truth = data.project_many(pairs)
    return {
        "cpu": seconds,
        "wall": wall,
        "peak": peak,
        "before": before,
        "one_way": _mean_error(data.project_many(singles), result.model.project_many(singles)),
        "two_way": _mean_error(truth, result.model.project_many(pairs)),
        "independent": _mean_error(truth, [_independent(table) for table in truth]),
    }


def _mean_error(truth: list[Factor], found: list[Factor]) -> float:
    return float(np.mean([total_variation(one, other) for one, other in zip(truth, found, strict=True)]))


def _independent(table: Factor) -> Factor:
    """Return the table of the same one-way marginals without dependence."""
    rows, columns = table.values.sum(axis=1), table.values.sum(axis=0)
    return Factor(table.domain, np.outer(rows, columns) / rows.sum())


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(run: Run, most_seconds: float) -> dict[str, Any]:
    """Return the row of a run, made by a process of its own; its numbers are missing if it exceeded the limit."""
    load, command = load_average(), [sys.executable, "-m", "experiments.wide", "--measure", json.dumps(asdict(run))]
    about = {"load": load, "threads": get_threads(), "most_seconds": most_seconds}
    limit = round(most_seconds)
    ended = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 10)),
    )
    if ended.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return about
    ended.check_returncode()
    return {**json.loads(ended.stdout.splitlines()[-1]), **about}


def stopped_before(run: Run, most_seconds: float) -> bool:
    """Return whether the mechanism was stopped on a smaller table of as many records within as much time."""
    rows = KEPT.table(
        Run(run.mechanism, columns, run.records) for columns in SIZES[run.records] if columns < run.columns
    )
    return bool(len(rows)) and bool(((rows["most_seconds"] >= most_seconds) & ~_ended(rows)).any())


def _ended(table: pd.DataFrame) -> pd.Series:
    return table["cpu"].notna() if "cpu" in table else pd.Series(False, index=table.index)


def exponents(table: pd.DataFrame, column: str) -> dict[tuple[str, int], float]:
    """Return for each mechanism and number of records the slope of log(column) against log(columns)."""
    found = {}
    for (mechanism, records), rows in table[table["columns"] >= FITTED_FROM].groupby(["mechanism", "records"]):
        if len(rows) > 1:
            found[mechanism, records] = float(np.polyfit(np.log(rows["columns"]), np.log(rows[column]), 1)[0])
    return found


def report(table: pd.DataFrame) -> None:
    """Write the tables of the runs that there are."""
    table.to_csv(RESULTS / "wide.csv", index=False)
    ended, stopped = table[_ended(table)], table[~_ended(table)]
    ended = ended.sort_values(["records", "columns", "mechanism"])
    lines = [
        [
            f"{row.columns:,}",
            f"{row.records:,}",
            row.mechanism,
            f"{row.cpu:,.1f}",
            f"{row.wall:,.1f}",
            f"{row.peak:,.0f}",
            f"{row.one_way:.4f}",
            f"{row.two_way:.4f}",
            f"{row.independent:.4f}",
            f"{row.load:.1f}",
        ]
        for row in ended.itertuples()
    ]
    names = ["columns", "records", "", "CPU s", "wall s", "peak MB", "one-way", "two-way", "independent", "load"]
    of_cpu, of_peak = exponents(ended, "cpu"), exponents(ended.assign(peak=ended["peak"] - ended["before"]), "peak")
    growth = [
        [name, f"{records:,}", f"{of_cpu[name, records]:.1f}", f"{of_peak[name, records]:.1f}"]
        for name in MECHANISMS
        for records in SIZES
        if (name, records) in of_cpu
    ]
    text = [
        "# Wide tables",
        f"Made by `python -m experiments.wide` on {in_words(describe())}; not edited.",
        f"Columns of 2 to 24 values, epsilon = {EPSILON:g}, delta = {DELTA:g}. Errors are mean total variation "
        f"distances from the data: of all one-way marginals, and of {PAIRS:,} random pairs; `independent` is the error "
        "of the exact one-way marginals without any dependence on these pairs. `Independent` is the mechanism that "
        "measures one-way marginals only. CPU seconds are those of all threads "
        f"(at most {int(table['threads'].max())}); compiling is not included. Memory is the largest resident memory of "
        "the process, Python and the table included. Load is the number of processes running or waiting before the "
        "run, on average over a minute: where others had the processors, wall seconds are mostly waiting.",
        markdown(names, lines),
        *(
            f"{row.mechanism} did not end within {row.most_seconds:,.0f} s of a processor on {row.columns:,} columns, "
            f"{row.records:,} records."
            for row in stopped.itertuples()
        ),
        f"The exponents of growth with the number of columns, fitted to tables of {FITTED_FROM} columns and more:",
        markdown(["", "records", "CPU seconds", "memory beyond the table's"], growth),
    ]
    write_atomically(RESULTS / "wide.md", "\n\n".join(text) + "\n")


def main() -> None:
    """Make the runs that are missing and write the report."""
    parser = argparse.ArgumentParser(prog="python -m experiments.wide", description=__doc__)
    add_options(parser, "LAMP-100-*")
    parser.add_argument("--most-seconds", type=float, default=900.0, help="processor time of a run (default 900)")
    parser.add_argument("--measure", help=argparse.SUPPRESS)  # in a process of its own
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(fitted(Run(**json.loads(options.measure)))))
        return
    for run in wanted(RUNS, options, lambda run: KEPT.row(run) is not None):
        if not stopped_before(run, options.most_seconds):
            row = KEPT.keep(run, measure(run, options.most_seconds))
            print(f"{run.name}: {row.get('cpu', float('nan')):.1f} s", flush=True)
    report(KEPT.table(RUNS))


if __name__ == "__main__":
    main()
