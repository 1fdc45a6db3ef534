"""`pgmest compare`: the distances of the marginals of a table or a model from those of another table."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgmest._base.widths import joined, key_of_names
from pgmest.cli.cliques import CLIQUES, workload_of, workload_options
from pgmest.cli.command import Add, Command, count, say, show
from pgmest.cli.linked import FIXED_KEY, compare_linked, only_table, table_argument
from pgmest.cli.paths import InputFile, output_page, overwrite_option
from pgmest.cli.streams import TABLE, input_table, reader_choices, reader_options
from pgmest.data.chunked_reader import column_names
from pgmest.data.table_file import OPTIONS, TableFile, table_file
from pgmest.errors import ArgumentError, DomainError, PgmestError, plural
from pgmest.measurements.measured_tables import IN_GROUPS, MEASURED, MODELED, MeasuredCliques
from pgmest.queries.levels import named_levels
from pgmest.tables.domain import Domain

if TYPE_CHECKING:
    from pgmest.data.dataset import Dataset
    from pgmest.schema import Schema

COMPARE_DETAILS = f"""\
examples:
  pgmest compare people.csv synthetic.csv --schema people.yaml
  pgmest compare people.csv model.npz --schema people.yaml --way 3 --json
  pgmest compare codes.csv model.npz --workload age,income sex,income --report PRIVATE-comparison.html
  pgmest compare households=hh.csv persons=pp.csv synthetic/ --schema survey.yaml

The first table is the truth, the second a table or a model (.npz). Tables hold raw values, with --schema, or codes
0..n-1 over the attributes of --domain or of the model. --delimiter, --encoding and --sheet apply to the first table;
they apply to the second table only if it is not UTF-8 text with the delimiter of its suffix. If the schema has a unit,
at most its number of rows of a person count, of a table that has its column. The error of a marginal is its
total variation distance: the share of the records that would have to change cells, 0 to 1, with both tables scaled to
the same number of records. It is computed without noise: if the first table is private, so is the output. With a model,
the tables that were measured are listed apart from those that are only modeled. Columns with a hierarchy are compared
at each level, and --workload diagnosis@chapter,sex names one.

Linked tables are compared with the folder of others, such as the one that `pgmest synthesize` writes: sizes, tables of
households and of persons, tables between both and within households, and questions about whole households.
{CLIQUES}"""


def _options(add: Add) -> None:
    add("true", metavar="TABLE", nargs="+", type=table_argument, help=f"{TABLE}; or NAME=TABLE for linked tables")
    reader_options(add)
    add(
        "estimated",
        metavar="TABLE-OR-MODEL",
        type=InputFile,
        help="a table, a model, .npz, or a folder of linked tables",
    )
    add("--schema", metavar="FILE", type=InputFile, help="a schema, for tables of raw values")
    add("--domain", metavar="FILE", type=InputFile, help="a domain, .json, for tables of codes")
    workload_options(add, "all single attributes and pairs")
    add("--worst", type=count, default=10, metavar="N", help="number of marginals to list (default: %(default)s)")
    add("--report", metavar="FILE", type=output_page, help="a page with pictures, as private as the first table")
    overwrite_option(add)
    add("--json", action="store_true", help="print JSON, with every marginal")


def _run(options: argparse.Namespace) -> None:
    import pgmest as pg
    from pgmest.evaluation import level_errors, marginal_errors, report
    from pgmest.mechanisms.linked import LinkedModel
    from pgmest.schema import LinkedSchema

    schema = _schema(options)
    if isinstance(schema, LinkedSchema):
        compare_linked(options, schema)
        return
    options.true = only_table(options.true)
    model = pg.load(options.estimated) if Path(options.estimated).suffix == ".npz" else None
    if isinstance(model, LinkedModel):
        raise ArgumentError(f"{options.estimated} is of linked tables: give their schema as --schema, and the folder.")
    domain = _domain(options, schema, model)
    with input_table(options.true, options) as table:
        true, dropped = _encoded(table, schema, domain)
    _say_dropped("first", dropped, schema)
    estimated: Any = model
    if model is None:
        estimated, dropped_too = _second(options, schema, domain)
        _say_dropped("second", dropped_too, schema)
    asked = workload_of(options, domain)
    cliques = [c for k in (1, 2) if k <= len(domain) for c in pg.workloads.all_kway(domain, k).cliques]
    errors = marginal_errors(true, estimated, cliques if asked is None else asked.cliques, rescale=True, domain=domain)
    levels = level_errors(true, estimated, domain)
    if options.report:
        report(true, estimated, out=options.report, workload=asked, schema=schema)
        say(f"{options.report} shows the first table without protection: it is as private as that table.")
    totals = [float(true.project(())), float(estimated.project(()))]
    average = sum(errors.values()) / len(errors)
    known = None if model is None else MeasuredCliques.of(model)
    if options.json:
        listed = [{"attributes": list(clique), "error": error} for clique, error in errors.items()]
        if known is not None:
            listed = [{**one, "evidence": _evidence(known, domain, one["attributes"])} for one in listed]
        facts = {"records": totals, "rows_left_out": dropped, "average_error": average, "marginals": listed}
        by_level = {"levels": [one.to_json() for one in levels]} if levels else {}
        show(json.dumps(facts | by_level))
        return
    show(f"records:        {totals[0]:,.0f} and {f'{totals[1]:,.1f}'.removesuffix('.0')}")
    show(f"average error:  {average:.4f} over {plural(len(errors), 'marginal')} (total variation distance, 0 to 1)")
    evidence = {} if known is None else {clique: _evidence(known, domain, clique) for clique in errors}
    for kind in (MEASURED, IN_GROUPS, MODELED):
        some = [errors[clique] for clique, found in evidence.items() if found == kind]
        if some:
            show(f"  {kind + ':':13} {sum(some) / len(some):.4f} over {plural(len(some), 'marginal')}")
    shown = list(errors.items())[: options.worst]
    for clique, error in shown:
        kind = f"{evidence[clique]:9}  " if evidence else ""
        show(f"  {error:.4f}  {kind}{joined(clique, domain)}")
    for text, name in key_of_names({name: joined((name,), domain) for clique, _ in shown for name in clique}):
        show(f"  {text} = {name}")
    if levels:
        show("by level:       the table of the level, and the average over its tables with one other attribute")
        for one in levels:
            show(f"  {one.single:.4f}  {one.pairs:.4f}  {one.name} ({one.groups:,})")


def _evidence(known: MeasuredCliques, domain: Domain, clique: Iterable[str]) -> str:
    return known.evidence_by_level(named_levels(domain, clique))


def _schema(options: argparse.Namespace) -> Schema | None:
    from pgmest.schema import Schema

    if options.schema is not None and options.domain is not None:
        raise ArgumentError("compare takes --schema for raw values or --domain for codes, not both.")
    return None if options.schema is None else Schema.load(options.schema)


def _domain(options: argparse.Namespace, schema: Schema | None, model: Any) -> Domain:
    if options.domain is not None:
        domain = Domain.load(options.domain)
    elif schema is not None:
        domain = schema.domain
    elif model is not None:
        return model.domain
    else:
        raise ArgumentError("compare needs the domain of the tables: give --schema for raw values, --domain for codes.")
    if model is not None and dict(model.domain) != dict(domain):
        raise DomainError(f"the model is over {model.domain}, not over {domain}.")
    return domain


def _encoded(table: TableFile, schema: Schema | None, domain: Domain) -> tuple[Dataset, int]:
    """Return a table as codes, and how many of its rows the schema's unit leaves out.

    A table without the column of the unit is synthetic: its rows belong to no person, and all of them count.
    """
    import pgmest as pg

    if schema is None:
        return pg.Dataset.load(table, domain), 0
    if schema.unit is None:
        return schema.encode(table), 0
    rows = replace(schema, unit=None).encode(table)
    if schema.unit.column not in column_names(schema.table_file(table)):
        return rows, 0
    counted = schema.encode(table, key=FIXED_KEY)
    return counted, rows.records - counted.records


def _say_dropped(which: str, rows: int, schema: Schema | None) -> None:
    if rows and schema is not None and schema.unit is not None:
        say(
            f"{plural(rows, 'row')} of the {which} table left out, as the schema's unit says: at most "
            f"{schema.unit.at_most} of a person count, and none without a value of '{schema.unit.column}'."
        )


def _second(options: argparse.Namespace, schema: Schema | None, domain: Domain) -> tuple[Dataset, int]:
    """Return the second table, read in the format that pgmest writes if possible, else in that of the first table."""
    with input_table(options.estimated, argparse.Namespace(**dict.fromkeys(OPTIONS))) as table:
        like = _like_first(table, options, schema)
        if like.header_rows > 1 and like.is_text:  # pgmest writes as many rows of names
            return _encoded(like, schema, domain)
        return _encoded(_plain(table, domain) or _plain(like, domain) or like, schema, domain)


def _plain(table: TableFile, domain: Domain) -> TableFile | None:
    """Return the file as text with one header, by default in UTF-8; None if it is not so, or lacks the columns."""
    if not table.is_text:
        return None
    plain = replace(table, delimiter=table.separator, encoding=table.encoding or "utf-8", skip=0, header=1)
    try:
        with plain.text() as text:
            while text.read(1 << 20):
                pass
        return plain if set(domain) <= set(column_names(plain)) else None
    except (PgmestError, OSError, ValueError):
        return None


def _like_first(table: TableFile, options: argparse.Namespace, schema: Schema | None) -> TableFile:
    like = table_file(table, **reader_choices(options))
    return like if schema is None else schema.table_file(like)


COMPARE = Command(
    "compare",
    "Compare the marginals of a table with those of another, or of a model.",
    COMPARE_DETAILS,
    _options,
    _run,
    "pgmest compare TABLE [NAME=TABLE ...] TABLE-OR-MODEL [--schema FILE | --domain FILE] [options]",
)
