"""`pgmest check`: what a schema makes of a raw table, before anything is paid for."""

from __future__ import annotations

import argparse
import json

from pgmest.cli.command import Add, Command, say
from pgmest.cli.paths import InputFile
from pgmest.cli.streams import TABLE, input_table, reader_options

DETAILS = """\
examples:
  pgmest check people.csv people.yaml
  pgmest check people.csv people.yaml --json > PRIVATE-check.json

For each column, which share of its values is missing, cannot be read at all, is clipped to the bounds, or is not
listed; how many of the schema's values or bins occur; and the commonest of them. Remarks say what to look at: with !!
so much is lost that a synthetic table would say little of the column, however small its errors look.

What is printed is counted from the records without noise: it is for the owner of the table, and must not be published.
It spends no privacy budget as long as it stays there; a schema that is changed because of it was read from the data
as far as it was changed so. Take bounds and values from public knowledge; the check shows where they do not fit.

The exit code is 0 even then; with --strict it is 1 where a column is hardly described.
"""


def _options(add: Add) -> None:
    add("table", metavar="TABLE", type=InputFile, help=TABLE)
    add("schema", metavar="SCHEMA", type=InputFile, help="what its columns hold; see pgmest schema")
    reader_options(add)
    add("--strict", action="store_true", help="exit code 1 where the schema does not fit")
    add("--json", action="store_true", help="print JSON")


def _run(options: argparse.Namespace) -> None:
    from pgmest._base.errors import SchemaError, listed
    from pgmest.data.schema import Schema

    schema = Schema.load(options.schema)
    with input_table(options.table, options) as table:
        checked = schema.check(table)
    print(json.dumps(checked.to_json()) if options.json else checked)
    if options.json:
        say("this was counted from the private records, without noise: do NOT publish it.")
    if options.strict and checked.alarming:
        raise SchemaError(f"{options.schema} does not fit {options.table} in {listed(checked.alarming)}.")


CHECK = Command("check", "Show, to its owner, what a schema makes of a raw table.", DETAILS, _options, _run)
