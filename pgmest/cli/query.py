"""`pgmest query` and `pgmest sample`: marginals of a model, and records."""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import sys
from collections.abc import Iterable
from typing import TextIO

from pgmest._base.errors import SchemaError
from pgmest.cli.cliques import CLIQUES, clique_of
from pgmest.cli.command import Add, Command, count
from pgmest.cli.paths import InputFile, output, output_table, overwrite_option
from pgmest.cli.streams import is_csv, write_table, write_text
from pgmest.data.schema import Schema
from pgmest.tables.factor import Factor

QUERY_DETAILS = f"""\
examples:
  pgmest query model.npz age,income
  pgmest query model.npz age sex,income --json
  pgmest query model.npz age,income --schema people.yaml --out age-income.csv

The answer is CSV: a column per attribute and the count, in the order asked for; with several cliques an empty line
stands between tables. With --json it is a list of {{"attributes": [...], "counts": nested lists, an axis each}}.
Values are codes, or with --schema what they stand for.
{CLIQUES}"""

SAMPLE_DETAILS = """\
examples:
  pgmest sample model.npz --out synthetic.csv
  pgmest sample model.npz --rows 10000 --seed 0 --out synthetic.parquet
  pgmest sample model.npz --schema people.yaml --rows 1000 --out - | head

The ending of the file says its format: .csv, .csv.gz or .parquet; "-" is CSV on standard output. Values are codes
0..n-1, as in the domain, or with --schema values of the original types.
"""


def _query_options(add: Add) -> None:
    add("model", metavar="MODEL", type=InputFile, help="a model file, .npz")
    add("cliques", nargs="+", metavar="CLIQUE", help="attributes separated by commas, or a JSON list")
    add(
        "--schema",
        metavar="FILE",
        type=InputFile,
        help="the model's schema: shows values instead of codes",
    )
    add("--out", metavar="FILE", type=output, help="write there instead of to standard output")
    overwrite_option(add)
    add("--json", action="store_true", help="JSON instead of CSV")


def _query(options: argparse.Namespace) -> None:
    import pgmest as pg

    model = pg.load(options.model)
    schema = None if options.schema is None else _matching(Schema.load(options.schema), model)
    tables = model.project_many(clique_of(text) for text in options.cliques)
    if options.out is None:
        _write(tables, schema, options.json, sys.stdout)
    else:
        text = io.StringIO()
        _write(tables, schema, options.json, text)
        write_text(text.getvalue(), options.out)


def _write(tables: Iterable[Factor], schema: Schema | None, as_json: bool, stream: TextIO) -> None:
    if as_json:
        _write_json(tables, schema, stream)
    else:
        _write_csv(tables, schema, stream)


def _write_csv(tables: Iterable[Factor], schema: Schema | None, stream: TextIO) -> None:
    """One table after the other, an empty line between them: a column per attribute, then the count."""
    writer = csv.writer(stream, lineterminator="\n")
    for position, table in enumerate(tables):
        if position:
            stream.write("\n")
        writer.writerow([*table.domain.attributes, "count"])
        shown = [range(size) if schema is None else schema.labels(name) for name, size in table.domain.items()]
        for cell, number in zip(itertools.product(*shown), table.datavector(), strict=True):
            writer.writerow([*cell, f"{number:.10g}"])


def _write_json(tables: Iterable[Factor], schema: Schema | None, stream: TextIO) -> None:
    """A list of tables; the counts are nested lists with an axis per attribute."""
    listed = []
    for table in tables:
        entry = {"attributes": list(table.domain), "counts": table.values.tolist()}
        if schema is not None:
            entry["labels"] = {name: schema.labels(name) for name in table.domain}
        listed.append(entry)
    stream.write(json.dumps(listed) + "\n")


def _sample_options(add: Add) -> None:
    add("model", metavar="MODEL", type=InputFile, help="a model file, .npz")
    add("--rows", type=count, metavar="N", help="how many records (default: the model's total)")
    add("--out", required=True, metavar="FILE", type=output_table, help='.csv, .csv.gz or .parquet; "-" for CSV')
    add(
        "--schema",
        metavar="FILE",
        type=InputFile,
        help="the model's schema: writes values instead of codes",
    )
    overwrite_option(add)
    add("--method", default="round", help="round: as even as whole numbers allow; multinomial: independent records")
    add("--seed", type=int, metavar="N", help="the same seed gives the same records")


def _sample(options: argparse.Namespace) -> None:
    import numpy as np

    import pgmest as pg
    from pgmest.sampling import write_samples

    model = pg.load(options.model)
    if options.schema is None and options.out != "-":
        write_samples(model, options.rows, options.out, method=options.method, seed=options.seed)
        return
    generator = np.random.default_rng(options.seed)
    schema = None if options.schema is None else _matching(Schema.load(options.schema), model)
    records = model.sample(options.rows, options.method, generator)
    if schema is None:
        write_table(records.to_frame(), options.out)
    else:
        write_table(schema.decode(records, generator, written=is_csv(options.out)), options.out)


def _matching(schema: Schema, model: object) -> Schema:
    domain = getattr(model, "domain", None)
    if schema.domain != domain:
        raise SchemaError(f"{schema!r} is not the schema of this model, which is over {domain}.")
    return schema


QUERY = Command(
    "query",
    "Print marginals of a model, of measured cliques or any others, in counts.",
    QUERY_DETAILS,
    _query_options,
    _query,
)
SAMPLE = Command("sample", "Draw synthetic records from a model.", SAMPLE_DETAILS, _sample_options, _sample)
