"""Benchmark tables as markdown and CSV, each under a heading that says what it was measured on and by which command."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.benchmarks.machine import in_words
from experiments.benchmarks.store import Store
from pgmest._base.files import write_atomically

MISSING = "-"


def number(value: float | None, digits: int = 3) -> str:
    """A few significant digits, without an exponent where that is readable."""
    if value is None:
        return MISSING
    if value == 0 or 1e-4 <= abs(value) < 1e7:
        decimals = max(0, digits - 1 - _exponent(value))
        return f"{value:,.{decimals}f}"
    return f"{value:.{digits - 1}e}"


def _exponent(value: float) -> int:
    return int(f"{value:e}".split("e")[1])


def milliseconds(seconds: float | None) -> str:
    return number(None if seconds is None else 1e3 * seconds)


def markdown(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table whose first column is text and whose others are aligned to the right; nothing if there are no rows."""
    rows = list(rows)
    if not rows:
        return ""
    cells = [[str(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    lines = []
    for first, *others in cells:
        aligned = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        lines.append(f"| {' | '.join(aligned)} |")
    rule = "|" + "|".join("-" * (w + 1) + (":" if i else "-") for i, w in enumerate(widths)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def section(title: str, body: str) -> str:
    """A part of a report; nothing if there is nothing in it."""
    return f"## {title}\n\n{body}" if body else ""


def outdated(store: Store, records: Iterable[Mapping[str, Any]], name: Callable[[Mapping[str, Any]], str]) -> list[str]:
    """The names of results that were measured with other code than today's."""
    return [name(record["result"]) for record in records if record["code"] != store.code]


def heading(title: str, command: str, records: Sequence[Mapping[str, Any]], old: Sequence[str]) -> str:
    """The title, the command, the machines and dates of the records, and which are of older code."""
    dates = sorted(record["measured"][:10] for record in records)
    span = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    machines = dict.fromkeys(in_words(record["machine"]) for record in records)
    lines = [
        f"# {title}",
        "",
        f"- Made by `{command}`; not edited.",
        *(f"- Measured on {machine}." for machine in machines),
        f"- Measured {span}; load of the machine before each measurement: at most "
        f"{max(record['load'] for record in records)} processes.",
    ]
    if old:
        lines.append(f"- Measured with an older version of the code: {', '.join(old)}. Run the command to renew them.")
    return "\n".join(lines)


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """One row per mapping; the columns are the keys, in the order in which they first appear."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, text.getvalue())


Results = Sequence[Mapping[str, Any]]


def write_comparison(
    name: str,
    title: str,
    command: str,
    notes: str,
    store: Store,
    records: Sequence[Mapping[str, Any]],
    table: Callable[[Results], str],
    rows: Callable[[Mapping[str, Any]], Iterable[Mapping[str, Any]]],
) -> None:
    """Print NAME.md, and write it and NAME.csv: heading, notes, table, and what of mbi's did not run.

    Args:
        name: of the files.
        title, command, notes: of the report.
        store: whose folder they go to.
        records: the kept records.
        table: makes the table of all results.
        rows: the CSV's rows of one result.

    Raises:
        SystemExit: there are no records.
    """
    if not records:
        raise SystemExit("nothing was measured.")
    old = outdated(store, records, lambda result: result["problem"])
    results = [record["result"] for record in records]
    errors = [f"- {r['problem']}, mbi {theirs}: {text}" for r in results for theirs, text in r["errors"].items()]
    parts = [
        heading(title, command, records, old),
        notes,
        table(results),
        section("What did not run", "\n".join(errors)),
    ]
    text = "\n\n".join(filter(None, parts)) + "\n"
    write_atomically(store.folder / f"{name}.md", text)
    write_csv(store.folder / f"{name}.csv", [row for result in results for row in rows(result)])
    print(text)
