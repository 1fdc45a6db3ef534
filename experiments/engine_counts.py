"""All one- and two-way marginals of a table larger than memory allows, counted by the engine that holds it.

`python -m experiments.engine_counts` samples a Parquet file of 14 attributes (10 million rows; `--rows 100000000` for
the target) from a model of the embedded census table into build/, then counts its 14 one-way and 91 two-way marginals
through DuckDB (2 threads, memory limit 1 GB) and, on request, a polars LazyFrame (`--engines duckdb polars`). Each
engine runs in a process of its own, whose peak memory is reported. Writes experiments/results/engine_counts.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pgmest as pg
from pgmest._base.files import write_atomically
from pgmest.sampling.writing import write_batches

OUT = Path(__file__).parent / "results" / "engine_counts.md"
THREADS = 2


def make_table(path: Path, rows: int) -> None:
    """Write records sampled from a chain of pairs of the census table."""
    census = pg.datasets.load("census")
    tables = census.project_many(itertools.pairwise(census.domain))
    model = pg.estimate([pg.LinearMeasurement(t.values, t.domain.attributes, 10.0) for t in tables], census.domain)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_batches(model.sample_batches(rows, seed=0), census.domain, rows, path)


def opened(engine: str, path: Path) -> Any:
    """The file as that engine refers to it."""
    if engine == "polars":
        import polars as pl

        return pl.scan_parquet(path)
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"set threads = {THREADS}; set memory_limit = '1GB'")
    return connection.from_parquet(str(path))


def count(engine: str, path: Path) -> dict[str, float]:
    """Count in this process; seconds and megabytes."""
    domain = pg.datasets.load("census").domain
    start = time.perf_counter()
    data = pg.Dataset.from_frame(opened(engine, path), domain)
    checked = time.perf_counter()
    cliques = [*itertools.combinations(domain, 1), *itertools.combinations(domain, 2)]
    tables = data.project_many(cliques)
    counted = time.perf_counter()
    if any(table.values.sum() != data.records for table in tables):
        raise RuntimeError(f"{engine} lost records")
    return {
        "checking": checked - start,
        "counting": counted - checked,
        "cpu": time.process_time(),
        "peak": peak_memory(),
    }


def peak_memory() -> float:
    """The largest resident memory of this process, in MB (Linux). That of getrusage would include its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


def main() -> None:
    """Make the table if it is not there, count with each engine, write the results."""
    parser = argparse.ArgumentParser(description="count marginals in engines")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--engines", nargs="+", default=["duckdb"], choices=["duckdb", "polars"])
    parser.add_argument("--folder", type=Path, default=Path("build"))
    parser.add_argument("--count", choices=["duckdb", "polars"], help=argparse.SUPPRESS)  # in a process of its own
    options = parser.parse_args()
    path = options.folder / f"census-{options.rows}.parquet"
    if options.count:
        print(json.dumps(count(options.count, path)))
        return
    if not path.exists():
        make_table(path, options.rows)
    size = f"{path.stat().st_size / 1e9:.2f} GB"
    lines = [
        "# Marginals counted by engines",
        "",
        f"Made by `python -m experiments.engine_counts --rows {options.rows}`; not edited.",
        f"A Parquet file of {options.rows:,} rows, 14 attributes of 2 to 100 values, {size}.",
        "All 14 one-way and 91 two-way marginals.",
        f"{THREADS} cores, shared with other work: the CPU time is what counting took, the rest waiting.",
        "Peak: the resident memory of the whole process.",
        "",
        "| engine | checking the codes | counting | CPU time of both | peak memory |",
        "|---|---:|---:|---:|---:|",
    ]
    for engine in options.engines:
        command = [sys.executable, "-m", "experiments.engine_counts", *sys.argv[1:], "--count", engine]
        result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        times = f"{result['checking']:.1f} s | {result['counting']:.1f} s | {result['cpu']:.1f} s"
        lines.append(f"| {engine} | {times} | {result['peak']:,.0f} MB |")
    OUT.parent.mkdir(exist_ok=True)
    write_atomically(OUT, "\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
