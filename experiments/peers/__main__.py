"""pgmest beside dpmm, smartnoise-synth and mbi: seconds and errors at epsilon 1, for the same codes.

    python -m experiments.peers --python dpmm=PATH --python smartnoise-synth=PATH --python mbi=PATH --mbi CHECKOUT
    make peers                  makes an environment for each peer under build/peers, and runs this

Each run is a process of its own, on one thread, in the Python that is named for its library; what is not named is not
run, and its earlier rows stay. mbi's mechanisms are scripts in its repository: `--mbi` names a checkout. Rows are kept
in experiments/results/peers.csv as they come, so that a command that was stopped goes on where it was; peers.md and the
page "Benchmarks" are made of them.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from experiments.peers.cells import METHODS, SEEDS, Cell, run
from experiments.peers.report import KEPT, read_rows, write_report, write_rows
from experiments.peers.tables import Table, tables


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.peers", description=__doc__)
    parser.add_argument("--python", action="append", default=[], metavar="LIBRARY=PATH", help="the Python of a library")
    parser.add_argument("--mbi", type=Path, metavar="CHECKOUT", help="a checkout of mbi, for its mechanisms")
    parser.add_argument("--table", action="append", help="only this table")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="how many seeds (default 3)")
    parser.add_argument(
        "--most-seconds", type=float, default=150.0, help="stop a run after so many, of a processor (default 150)"
    )
    parser.add_argument("--stop-after", type=float, default=float("inf"), help="begin no run after so many seconds")
    parser.add_argument("--fresh", action="store_true", help="run again what was run before")
    options = parser.parse_args()
    named = (one.split("=", 1) for one in options.python)
    pythons = {"pgmest": sys.executable, **{library: os.path.abspath(path) for library, path in named}}  # runs move
    pythons["mbi on pgmest"] = pythons.get("mbi", "")
    checkout = options.mbi.resolve() if options.mbi else None
    started = time.monotonic()
    kept = [] if options.fresh else read_rows()
    rows = {tuple(row[name] for name in KEPT): row for row in kept if not sooner(row["note"], options.most_seconds)}
    for cell, table in _wanted(options, pythons, checkout):
        before = [rows.get((cell.table, cell.library, cell.method, seed)) for seed in range(cell.seed)]
        if any(row is not None and row["note"] for row in before):
            continue  # what took too long once is not tried with each seed
        key = tuple(vars(cell).values())
        if key in rows or time.monotonic() - started > options.stop_after:
            continue
        rows[key] = run(cell, table, pythons[cell.library], checkout, options.most_seconds)
        print("  ".join(str(value) for value in rows[key].values()), flush=True)
        write_rows(rows.values())
    write_report(list(rows.values()))


def sooner(note: str, most_seconds: float) -> bool:
    """Return whether a run was stopped sooner than it would be now."""
    found = re.fullmatch(r"not done after (\d+) s", note)
    return found is not None and float(found[1]) < most_seconds


def _wanted(
    options: argparse.Namespace, pythons: dict[str, str], checkout: Path | None
) -> Iterator[tuple[Cell, Table]]:
    """The method that all have first, with all seeds: so much is known when the command is stopped."""
    found = {name: table for name, table in tables().items() if options.table is None or name in options.table}
    for kind in dict.fromkeys(method for _, method in METHODS):
        for seed, (name, table) in itertools.product(range(options.seeds), found.items()):
            for library in (library for library, method in METHODS if method == kind):
                if pythons.get(library) and not (library.startswith("mbi") and checkout is None):
                    yield Cell(name, library, kind, seed), table


if __name__ == "__main__":
    main()
