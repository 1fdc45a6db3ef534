"""`pgmest plan`: what noise, error, time and memory to expect, before anything is paid for."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from pgmest._base.errors import ArgumentError, listed
from pgmest.cli.budget import MECHANISM_HELP, mechanism_of, mechanism_options
from pgmest.cli.cliques import workload_of, workload_options
from pgmest.cli.command import Add, Command, count, say
from pgmest.cli.paths import InputFile

DETAILS = f"""\
examples:
  pgmest plan people.yaml --records-expected 6000 --epsilon 1
  pgmest plan people.yaml --records-expected 6000 --epsilon 1 --mechanism mst --json

No private table is read: the mechanism is rehearsed on made-up records with the schema's columns. So it costs nothing,
and the plan may be published. The number of records is private, too: give a public guess.

For each table that was measured: its cells, the noise (standard deviation, in records), the records in a cell on
average, and the share of records that the noise alone would move. A mechanism that adapts may measure other tables of
the real records. What to think over before paying is marked with "!".
{MECHANISM_HELP}"""


def _options(add: Add) -> None:
    add("schema", metavar="SCHEMA", type=InputFile, help="a schema, or the .json of a domain")
    text = "a public guess of how many records there are (default: %(default)s)"
    add("--records-expected", type=count, default=10_000, metavar="N", help=text)
    mechanism_options(add)
    workload_options(add, "all pairs")
    text = "the share of the budget for bounds and values that the schema says are bought (default: 0.1)"
    add("--buy-bounds", type=float, metavar="X", help=text)
    add("--json", action="store_true", help="print JSON")


def _run(options: argparse.Namespace) -> None:
    from pgmest.data.schema import Schema
    from pgmest.mechanisms.rehearsal import rehearse
    from pgmest.privacy import AddRemove
    from pgmest.synthesizer.drafting import SHARE, after_buying
    from pgmest.synthesizer.synthesizer import with_schema
    from pgmest.tables.domain import Domain

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
            say(f"{share:g} of the budget goes to what is bought of {listed(schema.bought)}, which is made up here.")
            schema = schema.stand_in()
        elif options.buy_bounds is not None:
            raise ArgumentError(f"--buy-bounds: {options.schema} has nothing to be bought.")
        domain, mechanism = schema.domain, with_schema(mechanism, schema)
        if schema.unit and options.records_per_person is None:
            mechanism = dataclasses.replace(mechanism, neighbors=AddRemove(schema.unit.at_most))
    plan = rehearse(mechanism, domain, options.records_expected, workload_of(options, domain))
    print(json.dumps(plan.to_json()) if options.json else plan)


PLAN = Command(
    "plan",
    "Show the noise, error, time and memory to expect, without the private table.",
    DETAILS,
    _options,
    _run,
    "pgmest plan SCHEMA --records-expected N --epsilon X [options]",
)
