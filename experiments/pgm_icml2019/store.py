"""Results as they come: a JSON file for each cell, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from experiments.pgm_icml2019.cases import Cell
from pgmest._base.files import write_atomically

ROOT = Path(__file__).resolve().parents[2]
CELLS = ROOT / "build" / "pgm_icml2019"
RESULTS = ROOT / "experiments" / "results"


def rows_of(cells: Iterable[Cell], fresh: bool) -> Iterator[dict[str, Any]]:
    """The row of each cell: the stored one, or a new one."""
    CELLS.mkdir(parents=True, exist_ok=True)
    missing: set[str] = set()
    for cell in cells:
        path = CELLS / f"{cell.name}.json"
        if path.is_file() and not fresh:
            yield json.loads(path.read_text())
        elif cell.available:
            start = time.perf_counter()
            row = cell.row()
            write_atomically(path, json.dumps(row, indent=1))
            said = row["note"] or f"error {row['error']:.4f}"
            print(f"{cell.name}: {said}, {time.perf_counter() - start:.1f} s", flush=True)
            yield row
        elif cell.mechanism not in missing:
            missing.add(cell.mechanism)
            print(f"{cell.mechanism}: not in this version of pgmest, skipped", flush=True)


def stored_rows(cells: Iterable[Cell]) -> Iterator[dict[str, Any]]:
    """The rows that are there."""
    for cell in cells:
        path = CELLS / f"{cell.name}.json"
        if path.is_file():
            yield json.loads(path.read_text())
