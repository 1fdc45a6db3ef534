"""`pgmest schema` and `pgmest synthesize`: from a raw table to a synthetic one."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgmest._base.errors import ArgumentError, plural
from pgmest._base.files import write_atomically
from pgmest.cli.budget import MECHANISM_HELP, mechanism_of, mechanism_options, question_delta
from pgmest.cli.cliques import workload_of, workload_options
from pgmest.cli.command import Add, Command, count, say
from pgmest.cli.facts import unit_in_words
from pgmest.cli.paths import (
    InputFile,
    continued,
    output,
    output_page,
    output_table,
    overwrite_option,
    private_page,
)
from pgmest.cli.streams import (
    TABLE,
    WRITTEN_TABLE,
    check_rows,
    input_table,
    is_csv,
    reader_options,
    write_table,
    write_text,
)

if TYPE_CHECKING:
    from pgmest.synthesizer.synthesizer import Synthesizer

SCHEMA_DETAILS = """\
examples:
  pgmest schema people.csv --out people.yaml
  zcat people.csv.gz | pgmest schema - > people.yaml

A schema says publicly what each column may hold: categories, ranges with bins, dates, missing values, and what cannot
occur together. The draft is guessed from the records, so it is NOT safe: it marks in capital letters what was read
from private data and must be replaced by public knowledge. Edit it, look at it with `pgmest info people.yaml`, delete
the marks, and the line drafted_from_private_data; as long as one is left `pgmest synthesize` refuses it. The guide
docs/guides/tables.md explains the format.

Bounds and values that are not public can be bought privately for a part of the budget instead: write `bounds: bought`
or `values: bought` in their place (--bought drafts the schema so), see `pgmest synthesize --help`.

Where a person can have several rows, the schema says which column tells persons apart, and how many rows of each count:
  unit: {column: patient_id, at_most: 8}
"""

SYNTHESIZE_DETAILS = f"""\
examples:
  pgmest synthesize people.csv --schema people.yaml --epsilon 1 --out synthetic.csv --report report.html
  pgmest synthesize people.csv --schema people.yaml --epsilon 1 --delta 1e-9 --mechanism mst --out synthetic.csv \\
      --model model.npz --spent spent.json --ledger people.ledger
  pgmest synthesize people.csv --schema people.yaml --rho 0.1 --workload age,income sex,income --out synthetic.parquet
  pgmest synthesize - --schema people.yaml --epsilon 1 --out - < people.csv > synthetic.csv

What nobody knows publicly can be bought for a part of the budget, --buy-bounds; the schema says of which columns:
  age: {{type: integer, bounds: bought}}             min and max; also min: bought or max: bought alone
  height: {{type: real, edges: bought, bins: 10}}    bins of about as many records each
  job: {{type: categorical, values: bought}}         frequent ones; among: [...] where they are of a public list
What was found is printed, is in the model's file, and goes to --bought FILE.

Values come back in their original types: within a bin they are drawn at random, dates are dates, missing is missing.
What is protected is one row; with a unit in the schema, one person with all rows, of which a number is counted.
{MECHANISM_HELP}
May be published: the table, the model, what was spent, and the page of --report. Must not: the page of --owner-report,
which compares with the private records without noise, and the file of --checkpoint before the run is over.

--seed fixes how records are drawn, and how the mechanism breaks ties, never the noise: that comes from the operating
system's secure generator, and two runs with the same seed differ. With --insecure-simulation the seed fixes the noise,
too, and the result is NOT private: for trying things out on public tables.

--ledger FILE.ledger charges the ledger of the dataset, which counts all runs on the same private table, and refuses
one that would exceed its total budget; `pgmest ledger --help` has more.

--checkpoint FILE keeps each answer that was paid for, so that after a crash the same command goes on, and pays nothing
twice. Ctrl-C stops early: the table is made of what was measured until then, and the exit code is 130; a second Ctrl-C
aborts, and no table is written. --most-seconds stops in the same way, with exit code 0. `pgmest plan` shows before
anything is paid what noise, time and memory to expect.
"""


def _schema_options(add: Add) -> None:
    add("table", metavar="TABLE", type=InputFile, help=TABLE)
    reader_options(add)
    add(
        "--bought", action="store_true", help="bounds and values are to be bought, instead of being read from the table"
    )
    add("--out", metavar="FILE", type=output, help="write there instead of to standard output")
    overwrite_option(add)
    add("--force", action="store_true", dest="overwrite", help=argparse.SUPPRESS)  # as it was called in 0.1


def _schema(options: argparse.Namespace) -> None:
    from pgmest.data.schema import draft

    with input_table(options.table, options) as table:
        text = draft(table, bought=options.bought)
    write_text(text, options.out)
    say("this draft was READ FROM THE PRIVATE DATA. Replace what it marks by public knowledge before you use it.")


def _synthesize_options(add: Add) -> None:
    add("table", metavar="TABLE", type=InputFile, help=f"the private table: {TABLE}")
    reader_options(add)
    add("--schema", required=True, metavar="FILE", type=InputFile, help="what its columns hold; see pgmest schema")
    add("--out", required=True, metavar="FILE", type=output_table, help=WRITTEN_TABLE)
    mechanism_options(add)
    workload_options(add, "all pairs")
    text = "the share of the budget for bounds and values that the schema says are bought (default: 0.1)"
    add("--buy-bounds", type=float, metavar="X", help=text)
    add("--bought", metavar="FILE", type=output, help="where to write the schema with what was bought, .json")
    text = "after so many seconds the table is made of what was paid for until then"
    add("--most-seconds", type=float, metavar="X", help=text)
    add("--records-expected", type=count, metavar="N", help="a public guess, against which delta is checked")
    add("--rows", type=count, metavar="N", help="how many records (default: about as many as there are)")
    add("--report", metavar="FILE", type=output_page, help="a page about the result, which may be published")
    text = 'a page that compares with the private table; its name must contain "private"'
    add("--owner-report", metavar="FILE", type=private_page, help=text)
    add("--model", metavar="FILE", type=output, help="where the model goes, .npz, for pgmest query and sample")
    text = "the ledger of the dataset, which all runs on it charge (pgmest ledger create); its name ends in .ledger"
    add("--ledger", metavar="FILE", type=continued, help=text)
    add("--spent", metavar="FILE", type=output, help="where to write what this run spent, on what, .json")
    add("--checkpoint", metavar="FILE", type=continued, help="keeps what was paid for, to go on after a crash")
    overwrite_option(add)
    add("--seed", type=count, metavar="N", help="of drawing records and breaking ties; not of the noise")
    add("--allow-draft", action="store_true", help="accept a schema that is still a draft; the result is NOT private")
    add("--insecure-simulation", action="store_true", help="seeded noise, for trying out; the result is NOT private")
    add("--json", action="store_true", help="print what was done as JSON")


def _synthesize(options: argparse.Namespace) -> None:
    from pgmest.data.dataset import Dataset
    from pgmest.data.schema import Schema
    from pgmest.mechanisms.known_zeros import HONORED, ZEROS
    from pgmest.synthesizer.synthesizer import Synthesizer, check_public

    synthesizer = Synthesizer(mechanism_of(options, options.insecure_simulation))
    question_delta(options)
    schema = Schema.load(options.schema)
    workload = workload_of(options, schema.stand_in().domain)
    if not schema.bought and (options.bought or options.buy_bounds is not None):
        raise ArgumentError(
            f"--buy-bounds and --bought: {options.schema} has nothing to be bought; see pgmest schema --help."
        )
    seed = 0 if options.seed is None and options.checkpoint else options.seed
    check_public(schema, options.allow_draft)
    _sort_ledgers(options)
    if schema.unit and options.records_per_person is not None and options.records_per_person < schema.unit.at_most:
        least = f"at least {schema.unit.at_most}, as the unit of {options.schema} says, or left out"
        raise ArgumentError.of("--records-per-person", options.records_per_person, least)
    with input_table(options.table, options) as table:
        check_rows(schema.table_file(table))
        data = table if schema.bought else schema.encode(table)
        synthesizer.fit(
            data,
            schema,
            workload,
            seed=seed,
            checkpoint=options.checkpoint,
            ledger=options.ledger,
            allow_draft=options.allow_draft,
            time_limit=options.most_seconds,
            buy_share=options.buy_bounds,
        )
        checked = synthesizer.schema_.check(table) if options.owner_report else None
        data = data if isinstance(data, Dataset) or not options.owner_report else synthesizer.schema_.encode(table)
    rows = _write(synthesizer, data, checked, options)
    note = synthesizer.result_.details.get(ZEROS, HONORED)
    if note != HONORED:
        say(f"combinations that the schema calls impossible may occur in the table ({note})")
    _summarize(synthesizer, rows, options)
    if options.insecure_simulation or options.allow_draft:
        say("the result is NOT private: " + ("simulated noise." if options.insecure_simulation else "a draft schema."))
    if synthesizer.result_.interrupted and "time_limit" not in synthesizer.result_.details:
        raise KeyboardInterrupt


def _sort_ledgers(options: argparse.Namespace) -> None:
    """--ledger is the dataset's where its name ends in .ledger; others are what --spent was called before."""
    if options.ledger and Path(options.ledger).suffix != ".ledger":
        say("--ledger is now the ledger of the dataset, FILE.ledger; what a run spent is written by --spent FILE.")
        options.spent, options.ledger = options.spent or options.ledger, None
    if options.ledger and (options.allow_draft or options.insecure_simulation):
        raise ArgumentError("a run that is not private cannot be put on the ledger of a dataset: leave out --ledger.")


def _write(synthesizer: Synthesizer, data: Any, checked: Any, options: argparse.Namespace) -> int:
    """Write every file asked for, what cannot be made again first; the number of rows."""
    if options.spent:
        write_atomically(options.spent, json.dumps(synthesizer.ledger_.to_json(), indent=1) + "\n")
    if options.bought:
        write_atomically(
            options.bought, json.dumps(synthesizer.schema_.description, indent=1, ensure_ascii=False) + "\n"
        )
    if options.model:
        if hasattr(synthesizer.model_, "save"):
            synthesizer.model_.save(options.model)
        else:
            say(f"no model was written: {options.mechanism} makes one that has no file format.")
    table = synthesizer.sample(options.rows, options.seed, written=is_csv(options.out))
    if options.out != "-":
        write_table(table, options.out)
    if options.report:
        synthesizer.report(options.report)
    if options.owner_report:
        synthesizer.owner_report(data, options.owner_report, checked)
        say(f"{options.owner_report} shows the private data without protection: do NOT publish it.")
    if options.out == "-":  # last: the reader of a pipe may stop at any time
        write_table(table, options.out)
    return len(table)


def _summarize(synthesizer: Synthesizer, rows: int, options: argparse.Namespace) -> None:
    """What was done; to standard error where the table takes standard output."""
    from pgmest.privacy.statement import PrivacyStatement

    result, stream = synthesizer.result_, sys.stderr if options.out == "-" else sys.stdout
    source, drafted = Path(options.schema).name, synthesizer.schema_.drafted
    statement = PrivacyStatement.of(result.mechanism, result.ledger, schema=source, drafted=drafted)
    if options.json:
        facts = {
            "rows": rows,
            "out": options.out,
            "owner_only": {"seconds": round(result.owner_only.seconds or 0.0, 3)},
            "interrupted": result.interrupted,
            "unit": dataclasses.asdict(synthesizer.schema_.unit) if synthesizer.schema_.unit else None,
            **statement.to_json(),
            "bought": dict(synthesizer.bought_),
            "ledger": result.ledger.to_json(),
        }
        print(json.dumps(facts), file=stream)
        return
    print(f"{plural(rows, 'synthetic record')} in {options.out}", file=stream)
    print(statement, file=stream)
    if synthesizer.schema_.unit:
        print(unit_in_words(synthesizer.schema_.unit), file=stream)
    for name, found in synthesizer.bought_.items():
        print(f"bought of {name}: {found}", file=stream)
    print(result.ledger, file=stream)


SCHEMA = Command("schema", "Draft a schema of a raw table, to edit.", SCHEMA_DETAILS, _schema_options, _schema)
SYNTHESIZE = Command(
    "synthesize",
    "Make a private synthetic table of a raw one.",
    SYNTHESIZE_DETAILS,
    _synthesize_options,
    _synthesize,
    "pgmest synthesize TABLE --schema FILE --epsilon X --out FILE [options]",
)
