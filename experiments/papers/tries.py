"""Record how long `--quick` takes for each paper: measured by `--record`, kept in a table, shown on the page."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from experiments.papers.entry import ROOT
from pgmest._base.files import write_atomically

TABLE = ROOT / "experiments" / "results" / "papers_quick.csv"


def record(key: str, seconds: float, table: Path = TABLE) -> None:
    """Keep the seconds of processor that the try of a paper took, in the place of an older number."""
    known = seconds_of(table) | {key: round(seconds)}
    rows = pd.DataFrame({"paper": list(known), "seconds": list(known.values())})
    write_atomically(table, rows.to_csv(index=False))


def seconds_of(table: Path = TABLE) -> dict[str, int]:
    """What is known, by paper."""
    if not table.is_file():
        return {}
    rows = pd.read_csv(table)
    return {str(row.paper): int(row.seconds) for row in rows.itertuples()}
