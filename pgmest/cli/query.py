"""`pgmest query` and `pgmest sample`: the marginals of a model, and synthetic records."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pgmest._base.widths import joined
from pgmest.cli.answers import Answer, write_answers
from pgmest.cli.cliques import CLIQUES, clique_of
from pgmest.cli.command import Add, Command, count, say
from pgmest.cli.given import GIVEN, read_conditions
from pgmest.cli.linked import sample_linked
from pgmest.cli.linked_query import HELP, check_flat, linked_options, query_linked
from pgmest.cli.paths import InputFile, OutputFolder, output, output_tables, overwrite_option
from pgmest.cli.streams import WRITTEN_TABLE, is_csv, write_table, written_table
from pgmest.errors import ArgumentError, ModelTooLarge, QueryError, SchemaError
from pgmest.measurements.measured_tables import IN_GROUPS, MODELED, MeasuredCliques
from pgmest.models.intervals import KINDS, Interval, check_level
from pgmest.queries.levels import named_levels
from pgmest.schema import Schema
from pgmest.schema.given import read_given
from pgmest.synthesizer.completion import codes_schema, conditional, drawn
from pgmest.synthesizer.expansion import expanded_table, weight_of
from pgmest.synthesizer.selected_counts import counts_of, domain_of, ends_of
from pgmest.tables.factor import Factor

QUERY_DETAILS = f"""\
examples:
  pgmest query model.npz age,income
  pgmest query model.npz age sex,income --json
  pgmest query model.npz age,income --schema people.yaml --out age-income.csv
  pgmest query model.npz income --given sex=F age=30..40
  pgmest query model.npz diagnosis@chapter,sex --given region@province=Tirol

A level of a hierarchy stands in place of its attribute: diagnosis@chapter. Values are then the labels of its groups.
The output is CSV: a column per attribute and the count, in the order of the clique; tables are separated by an empty
line. Values are codes, or labels if the model's file has its schema or --schema is given. The true count is within "+-"
of the count with a probability of --level; "low" and "high" are the ends of this interval.
{GIVEN}"""

QUERY_MORE = f"""\
With --json the output is a list of {{"attributes": [...], "counts": nested lists, an axis each}}.

If a table was not measured, or only with values merged, a line on standard error says so (in JSON "evidence" is
"measured", "in groups" or "modeled"): its counts then rest on the structure of the model.

Intervals end at 0 at the earliest. The standard error is "+-" divided by 1.96 at 95 %, 1.645 at 90 %; in JSON,
"stddev", "margin", "low" and "high". The intervals cover the noise, what the estimate smooths away, and dependence that
was not measured, as far as the measured tables show how strong it may be. --interval chooses another kind: "noise" is
noise only, "bounds" holds without any assumption about dependence, "none" leaves intervals out. A model that does not
know its noisy answers has none.

--about says whom intervals are about: "table" is the records that were measured; "population" is what they are a sample
of, and adds the error of drawing them, as of independent draws. With --weighted, "population" is the default, as in
Python, where design_effect= is for samples in clusters or strata. In JSON, "about" has it.

On standard output the margin has three significant digits, and the other numbers of its row end at the same decimal;
the file of --out and JSON have more digits.
{CLIQUES}
{HELP}"""

CHOICES = (*KINDS, "none")
"""The kinds of intervals, and none."""

NUMBER = "table"
"""The column with the number of a record's table."""

HOW = {
    IN_GROUPS: "was measured with some values merged: within these, the counts are only modeled.",
    MODELED: "was not measured: the model has its counts from the measured tables, and +- assumes that columns whose "
    "dependence was not measured depend about as much as the measured ones.",
}
"""A sentence about each kind of table that was not measured as it is shown."""

ABOUT = {
    "table": "intervals are about the records that were measured (--about table), without the error of sampling them.",
    "population": "intervals are about the population (--about population), with the error of sampling, as of "
    "independent draws.",
}
"""A sentence about whom intervals are about."""

SAMPLE_DETAILS = f"""\
examples:
  pgmest sample model.npz --out synthetic.csv
  pgmest sample model.npz --rows 10000 --seed 0 --out synthetic.parquet
  pgmest sample model.npz --schema people.yaml --rows 1000 --out - | head
  pgmest sample model.npz --rows 100 --given sex=F age=30..40 --out women.csv
  pgmest sample model.npz --expanded --rows 100000 --out population.parquet
  pgmest sample model.npz --tables 20 --attributes age,income,sex --out tables.csv
  pgmest sample synthetic/model.npz --rows 1000 --out smaller/          (linked tables: 1,000 households)
  pgmest sample synthetic/model.npz --rows 100 --given region=North size=2.. --out north/

With --tables M the file has M tables, one below the other, and a column "table" with their numbers from 1. Run the same
analysis on each, and join the results by pg.combine, whose standard errors are then valid; those of one
table leave out the noise and all that was not measured. The model must have the answers from which it was made.

The suffix of the file is its format: .csv, .tsv (or .gz of these) or .parquet; "-" is CSV on standard output. Values
are codes 0..n-1 of the domain, or have their original types if the model's file has its schema or --schema is given.
{GIVEN}"""


def _query_options(add: Add) -> None:
    add("model", metavar="MODEL", type=InputFile, help="a model file, .npz")
    text = "attributes or levels separated by commas, or a JSON list; of linked tables also TABLE:ATTRIBUTES or TABLE"
    add("cliques", nargs="+", metavar="CLIQUE", help=text)
    add("--schema", metavar="FILE", type=InputFile, help="the model's schema: shows values instead of codes")
    add("--out", metavar="FILE", type=output, help="write there instead of to standard output")
    overwrite_option(add)
    add("--json", action="store_true", help="JSON instead of CSV")
    add("--codes", action="store_true", help="codes, even if the model's file has its schema")
    add("--given", nargs="+", metavar="NAME=VALUE", help="count only records with these values; see below")
    add("--weighted", action="store_true", help="sums of the weights, of which the schema has the attribute")
    text = "the probability that a true count is between low and high (default: %(default)s)"
    add("--level", type=float, default=0.95, metavar="P", help=text)
    text = f"the kind of interval, one of {', '.join(CHOICES)} (default: auto)"
    add("--interval", choices=CHOICES, default="auto", metavar="KIND", help=text)
    text = (
        "whom intervals are about: the table that was measured (default), or the population (default with --weighted)"
    )
    add("--about", choices=tuple(ABOUT), metavar="WHOM", help=text)
    linked_options(add)


def _query(options: argparse.Namespace) -> None:
    import pgmest as pg
    from pgmest.mechanisms.linked import LinkedModel

    check_level(options.level)
    whole = pg.load(options.model)
    if isinstance(whole, LinkedModel):
        query_linked(options, whole)
        return
    check_flat(options)
    schema = _schema_of(options, whole)
    cliques, known = [clique_of(text) for text in options.cliques], MeasuredCliques.of(whole)
    given = read_conditions("--given", options.given) if options.given else {}
    described = schema or codes_schema(whole.domain)
    domain = domain_of(whole, described)
    model = conditional(whole, described, given) if given else whole
    weights = dict(read_given(described, given).weights)
    weighted = [weight_of(described).attribute.table(whole, clique, weights) for clique in cliques if options.weighted]
    if weighted:
        tables = [one.totals for one in weighted]
    elif any(map(domain.names_levels, cliques)):
        tables = [counts_of(model, domain, clique, {}) for clique in cliques]
    else:
        tables = model.project_many(cliques)
    about_whom = options.about or ("population" if weighted else "table")
    answers = []
    for place, table in enumerate(tables):
        levels = named_levels(domain, table.domain)
        about = [*levels, *(domain.level(name) for name in weights if name not in {one.attribute for one in levels})]
        evidence = None if known is None else known.evidence_by_level(about)
        labels = {
            name: described.labels(name)
            for name in table.domain
            if schema is not None or (not options.codes and domain.names_levels((name,)))
        }
        chosen = {"level": options.level, "kind": options.interval, "about": about_whom}
        if weighted:
            ends = _ends(table, options, partial(weighted[place].interval, **chosen))
        else:
            clique = table.domain.attributes
            ends = _ends(table, options, partial(ends_of, whole, domain, clique, weights, **chosen))
        answers.append(Answer(table, labels, ends, evidence))
    write_answers(answers, options.json, options.out, whole.rows_counted)
    if any(answer.ends is not None for answer in answers) and (weighted or options.about) and not options.json:
        say(ABOUT[about_whom])
    for answer in answers:
        if answer.evidence in HOW:
            about = dict.fromkeys((*answer.table.domain, *given))
            say(f"{joined(tuple(about), whole.domain)} {HOW[answer.evidence]}")


def _ends(table: Factor, options: argparse.Namespace, find: Callable[[], Interval]) -> Interval | None:
    """Return the intervals of a table; None, with the reason on standard error, without intervals by default."""
    if options.interval == "none":
        return None
    try:
        return find()
    except (ArgumentError, QueryError, ModelTooLarge) as error:
        if options.interval != "auto" or options.about is not None:
            raise
        say(f"{joined(table.domain.attributes, table.domain) or 'the number of records'} has no interval: {error}")
        return None


def _schema_of(options: argparse.Namespace, model: Any) -> Schema | None:
    """Return the schema asked for, or else the one in the model's file, if any."""
    if options.schema is not None:
        return _matching(Schema.load(options.schema), model)
    kept = getattr(model, "about", {}).get("schema")
    return None if options.codes or kept is None else _matching(Schema.from_dict(kept), model)


def _sample_options(add: Add) -> None:
    add("model", metavar="MODEL", type=InputFile, help="a model file, .npz")
    add("--rows", type=count, metavar="N", help="the number of records (default: the model's total)")
    add("--out", required=True, metavar="FILE", type=output_tables, help=f"{WRITTEN_TABLE}; a folder for linked tables")
    add("--schema", metavar="FILE", type=InputFile, help="the model's schema: writes values instead of codes")
    overwrite_option(add)
    add("--codes", action="store_true", help="codes, even if the model's file has its schema")
    add("--method", default="round", help="round: as even as whole numbers allow; multinomial: independent records")
    text = "only records with these values, of linked tables rows of the root; see below"
    add("--given", nargs="+", metavar="NAME=VALUE", help=text)
    add(
        "--expanded",
        action="store_true",
        help="rows of the population, drawn by their weights, instead of the sample's",
    )
    add("--seed", type=int, metavar="N", help="the same seed gives the same records")
    add("--tables", type=count, metavar="M", help="M tables for analyses that are combined; see below")
    add("--attributes", metavar="A,B", help="with --tables: only these attributes, separated by commas, or a JSON list")


def _sample(options: argparse.Namespace) -> None:
    import pgmest as pg
    from pgmest.mechanisms.linked import LinkedModel
    from pgmest.sampling import write_samples

    model = pg.load(options.model)
    if isinstance(model, LinkedModel):
        sample_linked(options)
        return
    if isinstance(options.out, OutputFolder):
        raise ArgumentError.of("--out", options.out, f"a file, {WRITTEN_TABLE}; a folder is for linked tables")
    schema = _schema_of(options, model)
    generator = np.random.default_rng(options.seed)
    if options.attributes is not None and options.tables is None:
        raise ArgumentError("--attributes goes with --tables: name the number of tables, too.")
    if options.tables is not None:
        if options.given or options.expanded or options.method != "round":
            raise ArgumentError("--tables cannot be used with --given, --expanded or --method.")
        table = _tables(model, schema, options, generator)
        write_table(table, options.out, written_table(options.out, options, schema))
        return
    if options.expanded:
        given = read_conditions("--given", options.given) if options.given else None
        described = schema or codes_schema(model.domain)
        table = expanded_table(model, described, options.rows, generator, is_csv(options.out), given)
        write_table(table, options.out, written_table(options.out, options, schema))
        return
    if options.given:
        described = schema or codes_schema(model.domain)
        arguments = (read_conditions("--given", options.given), options.rows, generator, described.library)
        table = drawn(model, described, *arguments, written=is_csv(options.out), method=options.method)
        write_table(table, options.out, written_table(options.out, options, schema))
        return
    if schema is None and options.out != "-" and hasattr(model, "sample_batches"):
        write_samples(model, options.rows, options.out, method=options.method, seed=options.seed)
        return
    records = model.sample(options.rows, options.method, generator)
    if schema is None:
        write_table(records.to_frame(), options.out)
    else:
        table = schema.decode(records, generator, schema.library, written=is_csv(options.out))
        write_table(table, options.out, written_table(options.out, options, schema))


def _tables(model: Any, schema: Schema | None, options: argparse.Namespace, generator: np.random.Generator) -> Any:
    """Return tables for analyses that are combined, one below the other, with a column of their numbers."""
    import narwhals as nw

    names = None if options.attributes is None else clique_of(options.attributes)
    found = model.sample_tables(options.tables, options.rows, attributes=names, seed=generator)
    if NUMBER in found[0].domain:
        raise ArgumentError(f"an attribute is named '{NUMBER}', which --tables needs: leave it out by --attributes.")
    frames = []
    for number, records in enumerate(found, 1):
        if schema is None:
            table = records.to_frame()
        else:
            part = schema.select(records.domain) if names is not None else schema
            table = part.decode(records, generator, schema.library, written=is_csv(options.out))
        frames.append(nw.from_native(table).with_columns(nw.lit(number).alias(NUMBER)))
    columns = [NUMBER, *(name for name in frames[0].columns if name != NUMBER)]
    return nw.concat([frame.select(columns) for frame in frames]).to_native()


def _matching(schema: Schema, model: Any) -> Schema:
    """Return the schema; raise SchemaError if the model has other attributes, but for those it was conditioned on."""
    domain, evidence = getattr(model, "domain", None), getattr(model, "evidence", {})
    if {name: size for name, size in schema.domain.items() if name not in evidence} != dict(domain or {}):
        raise SchemaError(f"{schema!r} is not the schema of this model, whose domain is {domain}.")
    return schema


QUERY = Command(
    "query",
    "Print marginals of a model, of measured cliques or any others, in counts.",
    QUERY_DETAILS,
    _query_options,
    _query,
    more=QUERY_MORE,
)
SAMPLE = Command("sample", "Draw synthetic records from a model.", SAMPLE_DETAILS, _sample_options, _sample)
