"""Keep the results of cells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from experiments.compare.cells import SEEDS, Cell, TooSlow, run
from experiments.kept_runs import KeptRuns
from pgmest._base.threads import set_threads

KEPT = KeptRuns("compare", Cell)


def kept(cell: Cell, most_seconds: float = 0.0) -> dict[str, Any] | None:
    """The result of a cell that was run before; not one that was stopped sooner than after `most_seconds`."""
    row = KEPT.row(cell)
    stopped = row is not None and str(row["note"]).startswith(TooSlow.__name__) and row["most_seconds"] < most_seconds
    return None if stopped else row


def ended(cell: Cell, most_seconds: float = 0.0) -> bool:
    """Return whether nothing is left to run: a result exists, or the run with the first seed was refused or stopped."""
    first = None if cell.seed == SEEDS[0] else kept(replace(cell, seed=SEEDS[0]), most_seconds)
    return kept(cell, most_seconds) is not None or (first is not None and bool(first["note"]))


def measure(cell: Cell, most_seconds: float) -> dict[str, Any]:
    """Run a cell and keep its result."""
    return KEPT.keep(cell, {"most_seconds": most_seconds, **run(cell, most_seconds)})


def start_worker() -> None:
    """Set a process up: one thread, and the kernels loaded before anything is timed."""
    set_threads(1)
    run(Cell("titanic", "MST", 1.0), most_seconds=60.0)
