"""`pgmest plan`: the noise, error, time and memory to expect, before any budget is spent."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from pgmest.cli.budget import MECHANISM_HELP, mechanism_of, mechanism_options
from pgmest.cli.cliques import workload_of, workload_options
from pgmest.cli.command import Add, Command, count, say, show
from pgmest.cli.facts import unit_in_words
from pgmest.cli.paths import InputFile
from pgmest.errors import ArgumentError, listed

DETAILS = f"""\
examples:
  pgmest plan people.yaml --records-expected 6000 --epsilon 1
  pgmest plan people.yaml --records-expected 6000 --epsilon 1 --mechanism mst --json

No private table is read: the mechanism is rehearsed on made-up records with the schema's columns. The plan therefore
costs no privacy and may be published. The number of records is private, too: give a public guess.

The output has, for each measured table, its cells, the standard deviation of the noise in records, the average number
of records in a cell, and the share of records that the noise alone would move. An adaptive mechanism may measure other
tables of the real records. Lines with "!" name problems to consider before any budget is spent.
{MECHANISM_HELP}"""


def _options(add: Add) -> None:
    add("schema", metavar="SCHEMA", type=InputFile, help="a schema, or the .json of a domain")
    text = "a public guess of the number of records (default: %(default)s)"
    add("--records-expected", type=count, default=10_000, metavar="N", help=text)
    mechanism_options(add)
    workload_options(add, "all pairs")
    text = "the share of the budget for the bounds and values that the schema marks as bought (default: 0.1)"
    add("--buy-bounds", type=float, metavar="X", help=text)
    add("--json", action="store_true", help="print JSON")


def _run(options: argparse.Namespace) -> None:
    from pgmest.mechanisms.rehearsal import rehearse
    from pgmest.privacy import AddRemove
    from pgmest.schema import Schema
    from pgmest.synthesizer.drafting import SHARE, after_buying
    from pgmest.synthesizer.synthesizer import with_schema
    from pgmest.tables.domain import Domain

    unit = None
    if options.records_expected < 1:
        raise ArgumentError.of("--records-expected", options.records_expected, "an integer of at least 1")
    mechanism = mechanism_of(options)
    if Path(options.schema).suffix.lower() == ".json":
        domain = Domain.load(options.schema)
    else:
        schema = Schema.load(options.schema)
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
    plan = rehearse(mechanism, domain, options.records_expected, workload_of(options, domain))
    show(json.dumps(plan.to_json()) if options.json else plan)
    if unit and not options.json:
        show(unit_in_words(unit))


PLAN = Command(
    "plan",
    "Show the noise, error, time and memory to expect, without the private table.",
    DETAILS,
    _options,
    _run,
    "pgmest plan SCHEMA --records-expected N --epsilon X [options]",
)
