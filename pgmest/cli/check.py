"""`pgmest check`: how a schema fits a raw table, before any budget is spent."""

from __future__ import annotations

import argparse
import json

from pgmest.cli.command import Add, Command, say, show
from pgmest.cli.linked import HELP, input_tables, only_table, table_argument
from pgmest.cli.paths import InputFile
from pgmest.cli.streams import TABLE, input_table, reader_options

DETAILS = f"""\
examples:
  pgmest check people.csv people.yaml
  pgmest check people.csv people.yaml --json > PRIVATE-check.json
  pgmest check households=hh.csv persons=pp.csv survey.yaml

{HELP}
The check then also counts rows that do not join, parents with more rows than at_most, and parents that break a rule.

The output has, for each column, the share of its values that are missing, unreadable, clipped to the bounds, or not
listed; the number of the schema's values or bins that occur; and the most frequent ones. Remarks name problems: also
rows that break a constraint or are left out by the unit, numbers of many rows inside a wide bin (such as 0), and times
of day, decimals and leading zeros that codes lose. A remark with !! means that a synthetic table would say little about
the column, however small its errors look.

The output is counted from the records without noise: it is for the owner of the table and must not be published. It
spends no privacy budget as long as only the owner sees it; but a change of the schema because of it is a change that
was read from the private data. Take bounds and values from public knowledge; the check shows where they do not fit.

The exit code is 0 in any case; with --strict it is 1 if the schema hardly describes a column.
"""


def _options(add: Add) -> None:
    add("table", metavar="TABLE", nargs="+", type=table_argument, help=f"{TABLE}; or NAME=TABLE for linked tables")
    add("schema", metavar="SCHEMA", type=InputFile, help="what its columns hold; see pgmest schema")
    reader_options(add)
    add("--strict", action="store_true", help="exit code 1 if the schema does not fit")
    add("--json", action="store_true", help="print JSON")


def _run(options: argparse.Namespace) -> int | None:
    from pgmest.errors import listed
    from pgmest.schema import LinkedSchema, Schema

    schema = Schema.load(options.schema)
    if isinstance(schema, LinkedSchema):
        checked = schema.check(input_tables(schema, options.table, options))
    else:
        with input_table(only_table(options.table), options) as table:
            checked = schema.check(table)
    show(json.dumps(checked.to_json()) if options.json else checked)
    if options.json:
        say("this was counted from the private records, without noise: do NOT publish it.")
    if options.strict and checked.alarming:
        say(f"error: {options.schema} does not fit {listed(options.table)} in {listed(checked.alarming)}.")
        return 1
    return None


CHECK = Command("check", "Show the owner of a raw table how a schema fits it.", DETAILS, _options, _run)
