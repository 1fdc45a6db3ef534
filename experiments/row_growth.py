"""Time and memory against rows: a synthetic table written to Parquet, and all its one- and two-way marginals counted.

`python -m experiments.row_growth` writes tables of 1e6 to 1e9 rows of 14 attributes (the model of `engine_counts`) to
build/, counts the 14 one-way and 91 two-way marginals of each by DuckDB (memory limit 1 GB), and deletes it. Each step
runs in a process of its own, and is kept as it ends: a command that was stopped goes on where it was. 1e9 rows take
8 GB of disk. It writes experiments/results/row_growth.md, .csv and .png.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from experiments import figure_style
from experiments.benchmarks.machine import describe, in_words, load_average
from experiments.benchmarks.report import markdown
from experiments.engine_counts import chain_model, count, spent
from experiments.kept_runs import KeptRuns
from pgmest._base.files import write_atomically
from pgmest._base.threads import get_threads
from pgmest.sampling import write_samples

RESULTS = Path(__file__).parent / "results"
ROWS = (10**6, 10**7, 10**8, 10**9)
STEPS = {"write": "written to Parquet", "duckdb": "counted by DuckDB"}


@dataclass(frozen=True)
class Run:
    """A step for a table of so many rows."""

    step: str
    rows: int

    @property
    def name(self) -> str:
        """Names the file of its row."""
        return f"{self.step}-{self.rows}"


KEPT = KeptRuns("row_growth", Run)


def table_path(rows: int) -> Path:
    """Return the path of the table, which is deleted after use."""
    return KEPT.folder / f"census-{rows}.parquet"


def written(rows: int) -> dict[str, float]:
    """Write the table in this process."""
    model = chain_model()
    model.sample(10)  # compiles what is not compiled yet
    table_path(rows).parent.mkdir(parents=True, exist_ok=True)
    start, before = time.perf_counter(), time.process_time()
    write_samples(model, rows, table_path(rows), seed=0)
    cpu = time.process_time() - before
    return {"seconds": time.perf_counter() - start, "cpu": cpu, "peak": spent()["peak"]}


def counted(rows: int) -> dict[str, float]:
    """Count its marginals in this process."""
    before = time.process_time()
    found = count("duckdb", table_path(rows))
    return {
        "seconds": found["checking"] + found["counting"],
        "cpu": time.process_time() - before,
        "peak": found["peak"],
    }


def measure(run: Run) -> dict[str, Any]:
    """The row of a run, made by a process of its own."""
    load = load_average()
    command = [sys.executable, "-m", "experiments.row_growth", "--measure", run.step, str(run.rows)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = json.loads(said.splitlines()[-1])
    return {**found, "bytes": table_path(run.rows).stat().st_size, "load": load, "threads": get_threads()}


def grow(rows: int, fresh: bool) -> None:
    """Make the runs of one size that are missing, and delete the table."""
    runs = [Run(step, rows) for step in STEPS]
    missing = [run for run in runs if fresh or KEPT.row(run) is None]
    if missing and missing[0].step != "write" and not table_path(rows).exists():
        measure(runs[0])  # its row is there already, the table is not
    for run in missing:
        found = KEPT.keep(run, measure(run))
        print(f"{run.name}: {found['seconds']:.1f} s", flush=True)
    table_path(rows).unlink(missing_ok=True)


def report(table: pd.DataFrame) -> None:
    """Write the table and the picture."""
    table.to_csv(RESULTS / "row_growth.csv", index=False)
    lines = [
        [
            f"{row.rows:,}",
            STEPS[row.step],
            f"{row.seconds:,.1f} s",
            f"{row.rows / row.seconds / 1e6:.2f}",
            f"{row.cpu:,.1f} s",
            f"{row.cpu / row.rows * 1e9:,.0f} ns",
            f"{row.peak:,.0f} MB",
            f"{row.bytes / 1e9:.3f} GB",
            f"{row.load:.1f}",
        ]
        for row in table.sort_values(["step", "rows"], ascending=[False, True]).itertuples()
    ]
    columns = ["rows", "", "time", "million rows a second", "CPU time", "CPU a row", "peak memory", "file", "load"]
    text = [
        "# Growth with the number of rows",
        f"Made by `python -m experiments.row_growth` on {in_words(describe())}; not edited.",
        "Synthetic tables of 14 attributes of 2 to 100 values, sampled from a chain of pairs and streamed to Parquet; "
        "then their 14 one-way and 91 two-way marginals by DuckDB, checks of all codes included, with a memory limit "
        f"of 1 GB. {int(table['threads'].max())} threads. Each step is a process of its own, and memory is the largest "
        "resident memory of it, Python and libraries included. Load: processes running or waiting before the step, on "
        "average over a minute. Where others had the processors, the CPU time is what the step took, and the rest is "
        "waiting.",
        markdown(columns, lines),
        "![time and memory against rows](row_growth.png)",
    ]
    write_atomically(RESULTS / "row_growth.md", "\n\n".join(text) + "\n")
    draw(table)


def draw(table: pd.DataFrame) -> None:
    """Time, CPU time and memory against rows, with both axes logarithmic."""
    figure, axes = figure_style.panels(3, width=3.4)
    for axis, (column, title, unit) in zip(
        axes,
        (("seconds", "Time", "seconds"), ("cpu", "CPU time", "seconds"), ("peak", "Peak memory", "MB")),
        strict=True,
    ):
        figure_style.lines(axis, table, "rows", column, "step", order=list(STEPS), labels=STEPS, log="xy")
        axis.set_xticks(ROWS, [f"1e{len(str(rows)) - 1}" for rows in ROWS])
        figure_style.titles(axis, title, x="rows", y=unit)
    axes[2].set_ylim(10, 10_000)
    figure_style.legend(figure, axes, where="below")
    figure_style.save(figure, RESULTS / "row_growth.png")


def main() -> None:
    """Make the runs that are missing and write the report."""
    parser = argparse.ArgumentParser(prog="python -m experiments.row_growth")
    parser.add_argument("--rows", type=float, nargs="+", default=ROWS, help="sizes of tables, such as 1e6 1e7")
    parser.add_argument("--fresh", action="store_true", help="make runs again that were made before")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)  # in a process of its own
    options = parser.parse_args()
    if options.measure:
        step, rows = options.measure
        print(json.dumps({"write": written, "duckdb": counted}[step](int(rows))))
        return
    for rows in map(int, options.rows):
        grow(rows, options.fresh)
    report(KEPT.table([Run(step, rows) for rows in ROWS for step in STEPS]))


if __name__ == "__main__":
    main()
