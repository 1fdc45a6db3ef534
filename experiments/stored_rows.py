"""Rows of results as they come: a JSON file for each, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from pgmest._base.files import write_atomically


class Cell(Protocol):
    """One run of an experiment: `name` is unique and fit for a file, and says every setting; `row` runs it."""

    @property
    def name(self) -> str:
        """Names the file of the result."""
        ...

    def row(self) -> dict[str, Any]:
        """Run it: numbers and texts, fit for JSON."""
        ...


def rows_of(cells: Iterable[Cell], folder: Path, fresh: bool = False, stored: bool = False) -> Iterator[dict[str, Any]]:
    """The row of each cell: the stored one, or a new one, which is stored at once.

    Args:
        cells: the runs.
        folder: where rows are kept.
        fresh: run again what has a row.
        stored: run nothing, and leave out what has no row.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for cell in cells:
        path = folder / f"{cell.name}.json"
        if path.is_file() and not fresh:
            yield json.loads(path.read_text(encoding="utf-8"))
            continue
        if stored:
            continue
        start = time.perf_counter()
        row = cell.row()
        write_atomically(path, json.dumps(row, indent=1))
        print(f"{cell.name}: {time.perf_counter() - start:.1f} s", flush=True)
        yield row
