"""`pgmest plan`: the error to expect, and the dependences that a budget cannot carry, before any of it is spent."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from pgmest.cli.budget import MECHANISM_HELP, mechanism_of, mechanism_options
from pgmest.cli.cliques import matters_of, matters_option, workload_of, workload_options
from pgmest.cli.command import Add, Command, count, say, show
from pgmest.cli.facts import unit_in_words
from pgmest.cli.linked import show_linked_plan
from pgmest.cli.paths import InputFile
from pgmest.errors import ArgumentError, listed

DETAILS = f"""\
examples:
  pgmest plan people.yaml --records-expected 6000 --epsilon 1
  pgmest plan people.yaml --records-expected 6000 --epsilon 1 --matters age,readmitted
  pgmest plan people.yaml --records-expected 6000 --epsilon 1 --mechanism mst --json

No private table is read, so the plan costs no privacy and may be published. The number of records is private, too:
give a public guess. Lines with "!" name problems to consider before any budget is spent.

The plan is a rehearsal: the mechanism runs on made-up records, whose values are as uneven and whose columns depend as
those of typical tables of surveys, health and credit records. It has the error of each column and of each pair of
columns, the tables that are measured and their noise, the tables that the budget cannot carry, and what would help:
each change is rehearsed, too. Columns with a hierarchy have a line for each level, such as diagnosis@chapter, and
tables with them a line for each level that --workload names, or for all. An adaptive mechanism may measure other tables
of the real records. A rehearsal takes as long as a run; --quick rehearses once, for some seconds.

For a schema of linked tables, --records-expected is the number of rows of the root, such as households. The plan is a
rehearsal on made-up tables, with the errors to expect of sizes, of each table, and of what binds rows to one another.
{MECHANISM_HELP}"""


def _options(add: Add) -> None:
    add("schema", metavar="SCHEMA", type=InputFile, help="a schema, or the .json of a domain")
    text = "a public guess of the number of records (default: %(default)s)"
    add("--records-expected", type=count, default=10_000, metavar="N", help=text)
    mechanism_options(add)
    workload_options(add, "all pairs")
    matters_option(add)
    text = "the share of the budget for the bounds and values that the schema marks as bought (default: 0.1)"
    add("--buy-bounds", type=float, metavar="X", help=text)
    add("--quick", action="store_true", help="rehearse once, on at most 50,000 records, and look for no remedies")
    text = "the seconds after which nothing more is rehearsed (default: %(default)g)"
    add("--most-seconds", type=float, default=60.0, metavar="X", help=text)
    add("--json", action="store_true", help="print JSON")


def _run(options: argparse.Namespace) -> None:
    from pgmest.mechanisms.registry import check_weighing
    from pgmest.mechanisms.rehearsal import rehearse
    from pgmest.privacy import AddRemove
    from pgmest.schema import LinkedSchema, Schema
    from pgmest.synthesizer.drafting import SHARE, after_buying
    from pgmest.synthesizer.schema_checks import with_schema
    from pgmest.tables.domain import Domain
    from pgmest.workloads import emphasized

    unit = None
    if options.records_expected < 1:
        raise ArgumentError.of("--records-expected", options.records_expected, "an integer of at least 1")
    is_domain = Path(options.schema).suffix.lower() == ".json"
    schema = None if is_domain else Schema.load(options.schema)
    if isinstance(schema, LinkedSchema):
        show_linked_plan(options, schema)
        return
    mechanism = mechanism_of(options)
    if schema is None:
        domain = Domain.load(options.schema)
    else:
        if schema.bought:
            mechanism = after_buying(mechanism, schema, options.buy_bounds)
            share = SHARE if options.buy_bounds is None else options.buy_bounds
            say(f"{share:g} of the budget buys bounds or values of {listed(schema.bought)}, which are made up here.")
            schema = schema.stand_in()
        elif options.buy_bounds is not None:
            raise ArgumentError(f"--buy-bounds: {options.schema} has nothing to buy; leave the option out.")
        domain, mechanism = schema.domain, with_schema(mechanism, schema)
        if schema.unit and options.records_per_person is None:
            mechanism = dataclasses.replace(mechanism, neighbors=AddRemove(schema.unit.at_most))
        unit = schema.unit
    records, workload, matters = options.records_expected, workload_of(options, domain), matters_of(options, domain)
    if matters is not None:
        check_weighing(mechanism)
        workload = emphasized(domain, workload, matters)
    plan = rehearse(mechanism, domain, records, workload, time_limit=options.most_seconds, quick=options.quick)
    show(json.dumps(plan.to_json()) if options.json else plan)
    if unit and not options.json:
        show(unit_in_words(unit))


PLAN = Command(
    "plan",
    "Show the error to expect, and what the budget cannot carry, without the private table.",
    DETAILS,
    _options,
    _run,
    "pgmest plan SCHEMA --records-expected N --epsilon X [options]",
)
