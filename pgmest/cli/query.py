"""`pgmest query` and `pgmest sample`: marginals of a model, and records."""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import numpy as np

from pgmest._base.errors import SchemaError
from pgmest.cli.cliques import CLIQUES, clique_of
from pgmest.cli.command import Add, Command, count
from pgmest.cli.paths import InputFile, output, output_table, overwrite_option
from pgmest.cli.streams import WRITTEN_TABLE, is_csv, write_table, write_text
from pgmest.data.schema import Schema
from pgmest.tables.factor import Factor

REPLICATES = 20

QUERY_DETAILS = f"""\
examples:
  pgmest query model.npz age,income
  pgmest query model.npz age sex,income --json
  pgmest query model.npz age,income --schema people.yaml --out age-income.csv

The answer is CSV: a column per attribute and the count, in the order asked for; with several cliques an empty line
stands between tables. With --json it is a list of {{"attributes": [...], "counts": nested lists, an axis each}}.
Values are codes, or what they stand for where the model's file has its schema, or with --schema.

The column "+-" (in JSON "stddev") is the standard error of the count, where the file keeps what the model was estimated
from: a 95 % interval is about twice as far to either side. It covers the noise, not dependences that were not measured.
It is found by estimating the model anew --replicates times; 0 leaves it out, and is faster.
{CLIQUES}"""

SAMPLE_DETAILS = """\
examples:
  pgmest sample model.npz --out synthetic.csv
  pgmest sample model.npz --rows 10000 --seed 0 --out synthetic.parquet
  pgmest sample model.npz --schema people.yaml --rows 1000 --out - | head

The ending of the file says its format: .csv, .tsv (or .gz of these) or .parquet; "-" is CSV on standard output. Values
are codes 0..n-1, as in the domain; or of the original types where the model's file has its schema, or with --schema.
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
    add("--codes", action="store_true", help="codes, also where the model's file has its schema")
    add("--replicates", type=count, default=REPLICATES, metavar="N", help="for standard errors (default: %(default)s)")


def _query(options: argparse.Namespace) -> None:
    import pgmest as pg

    model = pg.load(options.model)
    schema = _schema_of(options, model)
    cliques = [clique_of(text) for text in options.cliques]
    tables = model.project_many(cliques)
    errors = _errors(model, cliques, options)
    if options.out is None:
        _write(tables, errors, schema, options.json, sys.stdout)
    else:
        text = io.StringIO()
        _write(tables, errors, schema, options.json, text)
        write_text(text.getvalue(), options.out)


def _schema_of(options: argparse.Namespace, model: Any) -> Schema | None:
    """The schema asked for, or the one in the model's file."""
    if options.schema is not None:
        return _matching(Schema.load(options.schema), model)
    kept = getattr(model, "about", {}).get("schema")
    return None if options.codes or kept is None else _matching(Schema.from_dict(kept), model)


def _errors(model: Any, cliques: Sequence[Any], options: argparse.Namespace) -> list[Factor] | None:
    """The standard errors of tables, where the model knows what it was estimated from; see Model.uncertainty."""
    if not options.replicates or getattr(model, "refit", None) is None:
        return None
    return [model.uncertainty(clique, replicates=options.replicates).stddev for clique in cliques]


def _write(
    tables: Iterable[Factor], errors: list[Factor] | None, schema: Schema | None, as_json: bool, stream: TextIO
) -> None:
    if as_json:
        _write_json(tables, errors, schema, stream)
    else:
        _write_csv(tables, errors, schema, stream)


def _write_csv(tables: Iterable[Factor], errors: list[Factor] | None, schema: Schema | None, stream: TextIO) -> None:
    """One table after the other, an empty line between them: a column per attribute, the count, its standard error."""
    writer = csv.writer(stream, lineterminator="\n")
    for position, table in enumerate(tables):
        if position:
            stream.write("\n")
        writer.writerow([*table.domain.attributes, "count", *(["+-"] if errors else [])])
        shown = [range(size) if schema is None else schema.labels(name) for name, size in table.domain.items()]
        spread = errors[position].datavector() if errors else np.zeros(table.values.size)
        for cell, number, error in zip(itertools.product(*shown), table.datavector(), spread, strict=True):
            writer.writerow([*cell, f"{number:.10g}", *([f"{error:.4g}"] if errors else [])])


def _write_json(tables: Iterable[Factor], errors: list[Factor] | None, schema: Schema | None, stream: TextIO) -> None:
    """A list of tables; the counts are nested lists with an axis per attribute."""
    listed = []
    for position, table in enumerate(tables):
        entry: dict[str, Any] = {"attributes": list(table.domain), "counts": table.values.tolist()}
        if errors:
            entry["stddev"] = errors[position].values.tolist()
        if schema is not None:
            entry["labels"] = {name: schema.labels(name) for name in table.domain}
        listed.append(entry)
    stream.write(json.dumps(listed) + "\n")


def _sample_options(add: Add) -> None:
    add("model", metavar="MODEL", type=InputFile, help="a model file, .npz")
    add("--rows", type=count, metavar="N", help="how many records (default: the model's total)")
    add("--out", required=True, metavar="FILE", type=output_table, help=WRITTEN_TABLE)
    add(
        "--schema",
        metavar="FILE",
        type=InputFile,
        help="the model's schema: writes values instead of codes",
    )
    overwrite_option(add)
    add("--codes", action="store_true", help="codes, also where the model's file has its schema")
    add("--method", default="round", help="round: as even as whole numbers allow; multinomial: independent records")
    add("--seed", type=int, metavar="N", help="the same seed gives the same records")


def _sample(options: argparse.Namespace) -> None:
    import numpy as np

    import pgmest as pg
    from pgmest.sampling import write_samples

    model = pg.load(options.model)
    schema = _schema_of(options, model)
    if schema is None and options.out != "-":
        write_samples(model, options.rows, options.out, method=options.method, seed=options.seed)
        return
    generator = np.random.default_rng(options.seed)
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
