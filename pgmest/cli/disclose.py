"""`pgmest disclose`: the cells that published tables would disclose, before they are published."""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
from typing import Any

from pgmest.cli.cliques import CLIQUES, clique_of
from pgmest.cli.command import Add, Command, say
from pgmest.cli.paths import InputFile, output, overwrite_option
from pgmest.cli.streams import write_text
from pgmest.errors import ArgumentError

DETAILS = f"""\
examples:
  pgmest disclose published.json --domain domain.json --cells age,sex district,income
  pgmest disclose published.json --domain domain.json --cells age,sex --width 2 --out disclosed.csv

The output has, for each cell of the tables named by --cells, the least and the largest count among all data compatible
with everything published; the tables themselves need not be published. A cell is disclosed if these counts are at most
--width apart (default 0: the count is certain). The bounds are proven by linear programs. The output is CSV: a column
per attribute, low, high and disclosed; with --json it is one object. The exit code is 3 if a cell is disclosed.

published.json is a measurement file; exact, rounded, suppressed and noisy tables may be mixed:
  {{"format": "pgmest-measurements", "version": 2, "measurements": [
    {{"clique": ["age"], "values": [12, 30, null], "suppressed": 10}},
    {{"clique": ["age", "sex"], "values": [[5, 5], [15, 15], [5, 0]], "rounded": 5, "random": true}}]}}
python -c "help('pgmest.measurements.files')" describes the format. If no data are compatible, the error names the
answers that contradict each other.
{CLIQUES}"""

DISCLOSED = 3
"""The exit code if a cell is disclosed, so that a script can stop the publication."""


def _options(add: Add) -> None:
    add("published", metavar="FILE", type=InputFile, help="the published tables, a measurement file, .json or .npz")
    add("--domain", metavar="FILE", type=InputFile, help="the domain, .json")
    add("--schema", metavar="FILE", type=InputFile, help="a schema, .yaml, .json or .toml, instead of the domain")
    add("--cells", nargs="+", required=True, metavar="CLIQUE", help="attributes separated by commas, or a JSON list")
    add("--width", type=float, default=0.0, metavar="X", help="disclosed: high - low at most this (default: 0)")
    text = "the confidence level of the intervals of noisy tables (default: 0.95)"
    add("--level", type=float, default=0.95, metavar="X", help=text)
    add("--total", type=float, metavar="N", help="the number of records, if it is known")
    add("--max-megabytes", type=float, default=100.0, metavar="X", help="refuse larger programs (default: 100)")
    add("--all", action="store_true", help="list every cell, not only those disclosed")
    add("--json", action="store_true", help="JSON instead of CSV")
    add("--out", metavar="FILE", type=output, help="write there instead of to standard output")
    overwrite_option(add)


def _disclose(options: argparse.Namespace) -> int | None:
    from pgmest.measurements.files import load_measurements
    from pgmest.models.bounds import TableBounds
    from pgmest.schema import Schema
    from pgmest.tables.domain import Domain

    if (options.domain is None) == (options.schema is None):
        raise ArgumentError("give either --domain or --schema: the attributes and their numbers of values.")
    domain = Domain.load(options.domain) if options.schema is None else Schema.load(options.schema).domain
    measurements = load_measurements(options.published, domain)
    compatible = TableBounds(
        measurements, domain, level=options.level, total=options.total, max_megabytes=options.max_megabytes
    )
    tables = [_cells(compatible, clique_of(text), options.width) for text in options.cells]
    disclosed = sum(row["disclosed"] for _, rows in tables for row in rows)
    cells = sum(len(rows) for _, rows in tables)
    text = _as_json(tables, disclosed, cells) if options.json else _as_csv(tables, options.all)
    write_text(text, options.out)
    say(f"{disclosed:,} of {cells:,} cells are known to within {options.width:g}.")
    return DISCLOSED if disclosed else None


def _cells(compatible: Any, clique: tuple[str, ...], width: float) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    low, high = compatible.of(clique)
    codes = itertools.product(*(range(size) for size in low.domain.shape))
    ends = zip(low.datavector().tolist(), high.datavector().tolist(), strict=True)
    rows = [
        {"codes": list(cell), "low": below, "high": above, "disclosed": above - below <= width}
        for cell, (below, above) in zip(codes, ends, strict=True)
    ]
    return low.domain.attributes, rows


def _as_csv(tables: list[tuple[tuple[str, ...], list[dict[str, Any]]]], every: bool) -> str:
    """Return the tables as CSV, with an empty line between two tables."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for position, (names, rows) in enumerate(tables):
        if position:
            text.write("\n")
        writer.writerow([*names, "low", "high", "disclosed"])
        for row in rows:
            if every or row["disclosed"]:
                ends = [f"{row['low']:.10g}", f"{row['high']:.10g}"]
                writer.writerow([*row["codes"], *ends, "yes" if row["disclosed"] else "no"])
    return text.getvalue()


def _as_json(tables: list[tuple[tuple[str, ...], list[dict[str, Any]]]], disclosed: int, cells: int) -> str:
    listed = [{"attributes": list(names), "cells": rows} for names, rows in tables]
    return json.dumps({"disclosed": disclosed, "cells": cells, "tables": listed}) + "\n"


DISCLOSE = Command(
    "disclose",
    "Find the cells that published tables disclose: certain bounds on any cell, published or not.",
    DETAILS,
    _options,
    _disclose,
)
