"""Where the results of cells are kept, one JSON file each."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.compare.cells import Cell, run
from pgmest.files import write_atomically
from pgmest.inference.threads import set_threads

KEPT = Path(__file__).resolve().parents[2] / "build" / "compare"


def kept(cell: Cell) -> dict[str, Any] | None:
    """The result of a cell that was run before."""
    path = KEPT / f"{cell.name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def measure(cell: Cell) -> dict[str, Any]:
    """Run a cell and keep its result."""
    set_threads(1)
    row = {**asdict(cell), **run(cell)}
    KEPT.mkdir(parents=True, exist_ok=True)
    write_atomically(KEPT / f"{cell.name}.json", json.dumps(row) + "\n")
    return row
