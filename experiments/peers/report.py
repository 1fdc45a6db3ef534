"""The rows of the comparison as a file, and what they say in words and tables."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from pgmest._base.files import write_atomically

RESULTS = Path(__file__).resolve().parents[1] / "results"
ROWS, REPORT = RESULTS / "peers.csv", RESULTS / "peers.md"
KEPT = ("table", "library", "method", "seed")
FIELDS = (*KEPT, "processor_seconds", "error_1", "error_2", "versions", "note")

HEAD = """\
# Beside its peers

Epsilon 1, delta 1e-9; one thread; a process for each run, imports left out; *runs* says how many of the three seeds
have been run, and a table or method that is not here has not been run. Every library gets the same codes of the same
records and the same declared sizes. Errors are mean total variation distances between synthetic and true marginals, of
all attributes and of all pairs (0: the same; 1: nothing in common); means of the seeds, with the least and the largest
for pairs. Seconds are of a processor, all threads together, since other work ran on the machine; so is the limit after
which a run was stopped. Made by `make peers` (experiments/peers); all rows are in peers.csv.

On *messy, fine codes* numbers have hundreds of codes, and errors are counted in the bins that are declared for *messy*.
dpmm buys bins with a tenth of its budget (PrivTree, its default), smartnoise-synth makes 20 equal ones between the
declared ends, pgmest's MST, AIM and PrivBayes take codes as they are, and its LAMP groups them as it goes.
"""


def read_rows() -> list[dict[str, Any]]:
    """The rows that are kept, numbers as numbers; earlier ones, with seconds by the clock, are run again."""
    if not ROWS.exists():
        return []
    with ROWS.open(encoding="utf-8", newline="") as file:
        rows = [{**row, "seed": int(row["seed"])} for row in csv.DictReader(file)]
    return [row for row in rows if "processor_seconds" in row]


def write_rows(rows: Iterable[dict[str, Any]]) -> None:
    """Keep them."""
    text = io.StringIO()
    writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(ROWS, text.getvalue())


def write_report(rows: list[dict[str, Any]]) -> None:
    """Write peers.md."""
    versions = sorted({part for row in rows for part in row["versions"].split()})
    parts = [HEAD, f"Versions: {', '.join(v.replace('=', ' ') for v in versions)}.\n"]
    for table in dict.fromkeys(row["table"] for row in rows):
        parts.append(section(table, [row for row in rows if row["table"] == table]))
    parts.append(lost(rows))
    write_atomically(REPORT, "\n".join(parts))


def grouped(rows: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """(library, method) -> its rows."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["library"], row["method"]), []).append(row)
    return found


def section(table: str, rows: list[dict[str, Any]]) -> str:
    """A table of one table's rows, the most accurate on pairs first."""
    lines = [
        f"## {table}\n",
        "| library | method | runs | seconds | error | error of pairs |",
        "|---|---|---|---|---|---|",
    ]
    ranked = sorted(grouped(rows).items(), key=lambda item: mean(item[1], "error_2"))
    for (library, method), found in ranked:
        done = [row for row in found if not row["note"]]
        if not done:
            lines.append(f"| {library} | {method} | {len(found)} | {found[0]['note']} | | |")
            continue
        pairs = [float(row["error_2"]) for row in done]
        spread = f"{np.mean(pairs):.3f} ({min(pairs):.3f} to {max(pairs):.3f})"
        means = f"{mean(done, 'processor_seconds'):.1f} | {mean(done, 'error_1'):.3f}"
        lines.append(f"| {library} | {method} | {len(found)} | {means} | {spread} |")
    return "\n".join(lines) + "\n"


def mean(rows: list[dict[str, Any]], name: str) -> float:
    """The mean of a field over the runs that ended, infinite without any."""
    values = [float(row[name]) for row in rows if not row["note"]]
    return float(np.mean(values)) if values else np.inf


def lost(rows: list[dict[str, Any]]) -> str:
    """Return the cases in which a peer's run of the same method, or of any, is more accurate or faster than ours."""
    lines = ["## What pgmest loses\n"]
    for table in dict.fromkeys(row["table"] for row in rows):
        groups = grouped([row for row in rows if row["table"] == table])
        ours = {method: found for (library, method), found in groups.items() if library == "pgmest"}
        theirs = {key: found for key, found in groups.items() if "pgmest" not in key[0]}
        for (library, method), found in theirs.items():
            same = ours.get(method, [])
            for what, name in (("error", "error_1"), ("error of pairs", "error_2")):
                if mean(found, name) < mean(same, name) < np.inf:
                    lines.append(_line(table, library, method, what, found, same, name, ".3f"))
            seconds = mean(same, "processor_seconds")
            if mean(found, "processor_seconds") < seconds < np.inf:
                lines.append(_line(table, library, method, "seconds", found, same, "processor_seconds", ".1f"))
        best = min((mean(found, "error_2") for found in ours.values()), default=np.inf)
        for (library, method), found in theirs.items():
            if mean(found, "error_2") < best:
                lines.append(f"- {table}: {library}'s {method} is more accurate than any of ours.")
    if len(lines) == 1:
        lines.append("Nothing in the runs above.")
    return "\n".join(lines) + "\n"


def _line(table: str, library: str, method: str, what: str, found: Any, ours: Any, name: str, form: str) -> str:
    return f"- {table}, {method}: {what} {mean(found, name):{form}} by {library}, {mean(ours, name):{form}} by pgmest."


if __name__ == "__main__":
    write_report(read_rows())
