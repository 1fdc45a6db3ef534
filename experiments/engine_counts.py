"""All one- and two-way marginals of a table larger than memory allows, counted by the engine that holds it.

`python -m experiments.engine_counts` samples a Parquet file of 14 attributes (10 million rows; `--rows 100000000` for
the target) from a model of the embedded census table into build/, then counts its 14 one-way and 91 two-way marginals
through DuckDB (2 threads, memory limit 1 GB) and, on request, a polars LazyFrame or Spark (`--engines duckdb polars
spark`). Spark runs as a cluster of this machine (`--master local-cluster[2,1,1024]`: two workers, a core and 1024 MB
each; `local[2]`: threads of one process). Each engine runs in a process of its own; memory and CPU time are those of
the process and all that it started. Writes experiments/results/engine_counts.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pgmest as pg
from experiments.benchmarks.machine import load_average
from pgmest._base.files import write_atomically
from pgmest.sampling import write_samples

OUT = Path(__file__).parent / "results" / "engine_counts.md"
THREADS = 2
ENGINES = ("duckdb", "polars", "spark")
MASTER = "local-cluster[2,1,1024]"


def chain_model() -> pg.Model:
    """A chain of pairs of attributes of the census table, estimated from its own marginals."""
    census = pg.datasets.load("census")
    tables = census.project_many(itertools.pairwise(census.domain))
    return pg.estimate([pg.LinearMeasurement(t.values, t.domain.attributes, 10.0) for t in tables], census.domain)


def make_table(path: Path, rows: int) -> None:
    """Write records sampled from the chain."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_samples(chain_model(), rows, path, seed=0)


def opened(engine: str, path: Path, master: str = MASTER) -> Any:
    """The file as that engine refers to it."""
    if engine == "polars":
        import polars as pl

        return pl.scan_parquet(path)
    if engine == "spark":
        from pyspark.sql import SparkSession

        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(THREADS),  # by default 200, for clusters
        }
        spark = SparkSession.builder.master(master).config(map=settings).getOrCreate()
        return spark.read.parquet(str(path.resolve()))
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"set threads = {THREADS}; set memory_limit = '1GB'")
    return connection.from_parquet(str(path))


def count(engine: str, path: Path, master: str = MASTER) -> dict[str, float]:
    """Count in this process; seconds and megabytes."""
    domain = pg.datasets.load("census").domain
    frame = opened(engine, path, master)
    start = time.perf_counter()
    data = pg.Dataset.from_frame(frame, domain)
    checked = time.perf_counter()
    cliques = [*itertools.combinations(domain, 1), *itertools.combinations(domain, 2)]
    tables = data.project_many(cliques)
    counted = time.perf_counter()
    if any(table.values.sum() != data.records for table in tables):
        raise RuntimeError(f"{engine} lost records")
    return {
        "checking": checked - start,
        "counting": counted - checked,
        **spent(),
    }


def spent() -> dict[str, float]:
    """The CPU seconds of this process and all that it started, and the largest memory of each, summed, in MB (Linux).

    That of getrusage would include the memory of its parent.
    """
    everyone, found = _children(), {"cpu": 0.0, "peak": 0.0}
    waiting = [os.getpid()]
    while waiting:
        process = waiting.pop()
        waiting += everyone.get(process, [])
        try:
            status = Path(f"/proc/{process}/status").read_text()
            times = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[11:15]
        except FileNotFoundError:  # it has just ended
            continue
        found["cpu"] += sum(map(int, times)) / os.sysconf("SC_CLK_TCK")  # with those of children that ended
        if "VmHWM:" in status:
            found["peak"] += int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6
    return found


def _children() -> dict[int, list[int]]:
    """The processes that each process has started."""
    found: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        found.setdefault(parent, []).append(int(folder.name))
    return found


def main() -> None:
    """Make the table if it is not there, count with each engine, write the results."""
    parser = argparse.ArgumentParser(description="count marginals in engines")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--engines", nargs="+", default=["duckdb"], choices=ENGINES)
    parser.add_argument("--master", default=MASTER, help="of Spark")
    parser.add_argument("--folder", type=Path, default=Path("build"))
    parser.add_argument("--count", choices=ENGINES, help=argparse.SUPPRESS)  # in a process of its own
    options = parser.parse_args()
    path = options.folder / f"census-{options.rows}.parquet"
    if options.count:
        print(json.dumps(count(options.count, path, options.master)))
        return
    if not path.exists():
        make_table(path, options.rows)
    size = f"{path.stat().st_size / 1e9:.2f} GB"
    command = f"python -m experiments.engine_counts --rows {options.rows} --engines {' '.join(options.engines)}"
    lines = [
        "# Marginals counted by engines",
        "",
        f"Made by `{command}`; not edited.",
        f"A Parquet file of {options.rows:,} rows, 14 attributes of 2 to 100 values, {size}.",
        "All 14 one-way and 91 two-way marginals.",
        f"{THREADS} cores, shared with other work: the CPU time is what counting took, the rest waiting.",
        "CPU time and peak memory are of all processes of the engine, with their start.",
        *([f"Spark: master {options.master}."] if "spark" in options.engines else []),
        f"Load average before: {load_average()}.",
        "",
        "| engine | checking the codes | counting | CPU time | peak memory |",
        "|---|---:|---:|---:|---:|",
    ]
    for engine in options.engines:
        command = [sys.executable, "-m", "experiments.engine_counts", *sys.argv[1:], "--count", engine]
        result = json.loads(
            subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
        )
        times = f"{result['checking']:.1f} s | {result['counting']:.1f} s | {result['cpu']:.1f} s"
        lines.append(f"| {engine} | {times} | {result['peak']:,.0f} MB |")
    OUT.parent.mkdir(exist_ok=True)
    write_atomically(OUT, "\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
