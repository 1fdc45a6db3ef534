"""Where the results of cells are kept, one JSON file each."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.compare.cells import Cell, TooSlow, run
from pgmest._base.files import write_atomically
from pgmest.inference.exact.threads import set_threads

KEPT = Path(__file__).resolve().parents[2] / "build" / "compare"


def kept(cell: Cell, most_seconds: float = 0.0) -> dict[str, Any] | None:
    """The result of a cell that was run before; not one that was stopped sooner than after `most_seconds`."""
    path = KEPT / f"{cell.name}.json"
    row = json.loads(path.read_text()) if path.exists() else None
    stopped = row is not None and row["note"].startswith(TooSlow.__name__) and row["most_seconds"] < most_seconds
    return None if stopped else row


def measure(cell: Cell, most_seconds: float) -> dict[str, Any]:
    """Run a cell and keep its result."""
    row = {**asdict(cell), "most_seconds": most_seconds, **run(cell, most_seconds)}
    KEPT.mkdir(parents=True, exist_ok=True)
    write_atomically(KEPT / f"{cell.name}.json", json.dumps(row) + "\n")
    return row


def start_worker() -> None:
    """Set a process up: one thread, and the kernels loaded before anything is timed."""
    set_threads(1)
    run(Cell("titanic", "MST", 1.0), most_seconds=60.0)
