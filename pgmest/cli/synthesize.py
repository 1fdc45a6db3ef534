"""`pgmest schema` and `pgmest synthesize`: a synthetic table of a raw one."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgmest._base.files import write_atomically
from pgmest._base.printable import printable
from pgmest._base.stages import ending_in, stage, time_left
from pgmest.cli.budget import MECHANISM_HELP, mechanism_of, mechanism_options, question_delta
from pgmest.cli.cliques import (
    invariants_of,
    invariants_option,
    matters_of,
    matters_option,
    workload_of,
    workload_options,
)
from pgmest.cli.command import Add, Command, count, say
from pgmest.cli.facts import unit_in_words
from pgmest.cli.linked import HELP, NamedFile, named_tables, only_table, synthesize_linked, table_argument
from pgmest.cli.paths import (
    InputFile,
    OutputFolder,
    continued,
    output,
    output_page,
    output_tables,
    overwrite_option,
    private_page,
)
from pgmest.cli.streams import (
    TABLE,
    WRITTEN_TABLE,
    check_rows,
    input_table,
    is_csv,
    reader_choices,
    reader_options,
    write_table,
    write_text,
    written_table,
)
from pgmest.data.table_file import TableFile
from pgmest.errors import ArgumentError, plural

if TYPE_CHECKING:
    from pgmest.schema import Schema
    from pgmest.synthesizer.synthesizer import Synthesizer

WRITING_SECONDS = 5e-7
"""The seconds that drawing, decoding and writing take for each value of the synthetic table."""
PAGE_SECONDS = 5.0
"""The seconds that a page takes, with its pictures."""
MOST_PAIRS = 8
"""The most pairs without a measurement that a run names."""

SCHEMA_DETAILS = """\
examples:
  pgmest schema people.csv --out people.yaml
  zcat people.csv.gz | pgmest schema - > people.yaml
  pgmest schema households=hh.csv persons=pp.csv --out survey.yaml         (linked tables, which share a key)

A schema is a public description of the columns: categories, ranges with bins, dates, missing values, and combinations
that cannot occur. The draft is guessed from the records, so it is NOT safe: lines in capital letters name what was read
from private data and must be decided by public knowledge. Edit the draft, check it with `pgmest info people.yaml`, and
delete these lines and the line drafted_from_private_data; `pgmest synthesize` refuses a schema with any of them. The
guide docs/guides/tables.md explains the format.

Bounds and values that are not public can be bought privately for a part of the budget: write `bounds: bought` or
`values: bought` instead (--bought drafts such a schema); see `pgmest synthesize --help`.

If a person can have several rows, the schema names the column that identifies persons, and the most rows of each (a
draft proposes such columns):
  unit: {column: patient_id, at_most: 8}

Codes and areas have levels, which --workload, `pgmest query` and `pgmest compare` then name, such as diagnosis@chapter:
  diagnosis: {type: categorical, values: {file: codes.csv, column: code, levels: [chapter, block]}}
  occupation: {type: categorical, values: [1111, 1112, 2120], hierarchy: {prefixes: [1, 2]}}
"""

SYNTHESIZE_DETAILS = """\
examples:
  pgmest synthesize people.csv --schema people.yaml --epsilon 1 --out synthetic.csv --report report.html
  pgmest synthesize people.csv --schema people.yaml --epsilon 1 --mechanism mst --out synthetic.csv --model model.npz
  pgmest synthesize - --schema people.yaml --rho 0.1 --out - < people.csv > synthetic.csv
  pgmest synthesize households=hh.csv persons=pp.csv --schema survey.yaml --epsilon 1 --out synthetic/

The table, the model, the ledger of the run and the page of --report may be published; the page of --owner-report, the
file of --checkpoint before the run has ended, and the FILE.key beside it must not. `pgmest plan` shows the noise, time
and memory to expect before any budget is spent. Ctrl-C stops early, and makes the table of what was measured.
"""

SYNTHESIZE_MORE = f"""\
{HELP}

Bounds and values that are not public can be bought for a part of the budget, --buy-bounds, if the schema says so:
  age: {{type: integer, bounds: bought}}             min and max
  job: {{type: categorical, values: bought}}         frequent values; with among: [...], those of a public list
The results are printed, are in the model's file, and are written to --bought FILE.

--matters age,readmitted says that this table matters most: it gets a larger weight, and from lamp and aim a part of the
budget before all others, unless the budget cannot carry it. At the end, the command says which pairs were measured,
which follow from these, and which are independent in the table; --report lists them.

Values have their original types: they are drawn at random within a bin, dates are dates, missing values are missing.
The unit of privacy is one row, or, with a unit in the schema, one person with the stated number of rows.
{MECHANISM_HELP}
--invariant region,sex publishes this table exactly, in whole numbers, in every synthetic table: for what is public or
held exactly by law. It is read from the records, costs no budget, and is NOT protected; the promise is then for persons
who are replaced by others with the same values there. A schema can say so, too: `invariants: [[region, sex]]`.

--seed fixes the drawing of records and the breaking of ties, never the noise: the noise comes from the operating
system's secure generator, and two runs with the same seed differ. With --insecure-simulation the seed also fixes the
noise, and the result is NOT private: use it to try the command on public tables.

--ledger FILE.ledger charges the ledger of the dataset, which counts all runs on the same private table and refuses
runs that would exceed its total budget; see `pgmest ledger --help`.

--checkpoint FILE keeps each answer that was paid for, so that after a crash the same command continues and pays nothing
twice. A checkpoint belongs to one table: another one is refused. If its run has ended, a warning says so, and the same
result is made again: name another file for each night's table. Ctrl-C stops early: the table is made of the answers
measured so far, and the exit code is 130; a second Ctrl-C aborts without a table. SIGTERM does the same. --most-seconds
stops measuring in the same way, in time for the model and the table, with exit code 0. `pgmest plan` shows the noise,
time and memory to expect before any budget is spent.
"""


def _schema_options(add: Add) -> None:
    add("table", metavar="TABLE", nargs="+", type=table_argument, help=f"{TABLE}; or NAME=TABLE for linked tables")
    reader_options(add)
    add("--bought", action="store_true", help="draft bounds and values to be bought, not read from the table")
    add("--out", metavar="FILE", type=output, help="write there instead of to standard output")
    overwrite_option(add)


def _schema(options: argparse.Namespace) -> None:
    from pgmest.schema import draft

    if len(options.table) > 1 or isinstance(options.table[0], NamedFile) or Path(options.table[0]).is_dir():
        files = named_tables(options.table)
        text = draft({name: TableFile(path, **reader_choices(options)) for name, path in files.items()})
    else:
        with input_table(options.table[0], options) as table:
            text = draft(table, bought=options.bought)
    write_text(text, options.out)
    say("this draft was READ FROM THE PRIVATE DATA. Replace the marked parts by public knowledge before you use it.")


def _synthesize_options(add: Add) -> None:
    text = f"the private table: {TABLE}; or NAME=TABLE for each of several linked tables, or a folder of them"
    add("table", metavar="TABLE", nargs="+", type=table_argument, help=text)
    add("--schema", required=True, metavar="FILE", type=InputFile, help="what its columns hold; see pgmest schema")
    text = f"{WRITTEN_TABLE}; a folder for linked tables"
    add("--out", required=True, metavar="FILE", type=output_tables, help=text)
    mechanism_options(add)
    matters_option(add)
    add("--rows", type=count, metavar="N", help="the number of records (default: about that of the private table)")
    add("--report", metavar="FILE", type=output_page, help="a page about the result, which may be published")
    text = "where the model goes, .npz, for pgmest query and sample (of linked tables by default OUT/model.npz)"
    add("--model", metavar="FILE", type=output, help=text)
    text = "the ledger of the dataset, which all runs on it charge (pgmest ledger create); its name ends in .ledger"
    add("--ledger", metavar="FILE", type=continued, help=text)
    add("--checkpoint", metavar="FILE", type=continued, help="keeps the paid answers, to continue after a crash")
    overwrite_option(add)
    reader_options(add)
    privacy, files, advanced = map(add.to, ("privacy", "files", "advanced"))
    invariants_option(add)
    text = "the share of the budget for the bounds and values that the schema marks as bought (default: 0.1)"
    privacy("--buy-bounds", type=float, metavar="X", help=text)
    text = "a public guess of the number of records, with which delta is compared"
    privacy("--records-expected", type=count, metavar="N", help=text)
    text = "accept a schema that is still a draft; the result is NOT private"
    privacy("--allow-draft", action="store_true", help=text)
    text = "seeded noise, for trying out; the result is NOT private"
    privacy("--insecure-simulation", action="store_true", help=text)
    workload_options(add, "all pairs")
    text = 'a page that compares the result with the private table; its name must contain "private"'
    files("--owner-report", metavar="FILE", type=private_page, help=text)
    files("--spent", metavar="FILE", type=output, help="where to write the ledger of this run, .json")
    files("--bought", metavar="FILE", type=output, help="where to write the schema with the bought parts, .json")
    text = "take at most about X seconds in all, and make the table of the answers until then"
    advanced("--most-seconds", type=float, metavar="X", help=text)
    advanced("--seed", type=count, metavar="N", help="the seed of drawing records and breaking ties; not of the noise")
    text = "print each request to the private table, not a summary of many"
    advanced("--all", action="store_true", help=text)
    advanced("--json", action="store_true", help="print what was done as JSON")


def _synthesize(options: argparse.Namespace) -> None:
    with ending_in(math.inf if options.most_seconds is None else options.most_seconds):
        _run(options)


def _run(options: argparse.Namespace) -> None:
    from pgmest.mechanisms.known_zeros import HONORED, ZEROS
    from pgmest.privacy.journal import journal_key
    from pgmest.schema import LinkedSchema, Schema
    from pgmest.schema.type_check import check_types
    from pgmest.synthesizer.schema_checks import check_public
    from pgmest.synthesizer.synthesizer import Synthesizer

    schema = Schema.load(options.schema)
    if isinstance(schema, LinkedSchema):
        synthesize_linked(options, schema)
        return
    path = only_table(options.table)
    if isinstance(options.out, OutputFolder):
        raise ArgumentError.of("--out", options.out, f"a file, {WRITTEN_TABLE}; a folder is for linked tables")
    domain = schema.stand_in().domain
    mechanism = mechanism_of(options, options.insecure_simulation)
    if options.invariant:
        mechanism = dataclasses.replace(mechanism, invariants=invariants_of(options))
    synthesizer = Synthesizer(mechanism, matters=matters_of(options, domain))
    question_delta(options)
    workload = workload_of(options, domain)
    if not schema.bought and (options.bought or options.buy_bounds is not None):
        raise ArgumentError(
            f"--buy-bounds and --bought: {options.schema} has nothing to buy; see pgmest schema --help."
        )
    if options.seed is None and options.checkpoint:
        options.seed = 0  # a run that is repeated draws the same table
    check_public(schema, options.allow_draft)
    written = written_table(options.out, options, schema)
    if options.ledger and (options.allow_draft or options.insecure_simulation):
        raise ArgumentError("a run that is not private cannot be put on the ledger of a dataset: leave out --ledger.")
    if schema.unit and options.records_per_person is not None and options.records_per_person < schema.unit.at_most:
        least = f"at least {schema.unit.at_most}, as the unit of {options.schema} says, or left out"
        raise ArgumentError.of("--records-per-person", options.records_per_person, least)
    stage("reading the table")
    with input_table(path, options) as table:
        check_rows(schema.table_file(table))
        schema = schema.typed(table)
        check_types(schema, table)
        key = journal_key(options.checkpoint) if schema.unit and options.checkpoint else None
        data = table if schema.bought else schema.encode(table, key=key)
        stage("measuring")
        with ending_in(_seconds_for_fit(options, schema)):
            synthesizer.fit(
                data,
                schema,
                workload,
                seed=options.seed,
                checkpoint=options.checkpoint,
                ledger=options.ledger,
                allow_draft=options.allow_draft,
                time_limit=options.most_seconds,
                buy_share=options.buy_bounds,
            )
        rows = _write(synthesizer, data, table, written, options)
    note = synthesizer.result_.details.get(ZEROS, HONORED)
    if not note.startswith(HONORED):
        say(f"combinations that the schema calls impossible may occur in the table ({note})")
    elif note != HONORED:
        say(f"the constraints of the schema are {note}")
    _summarize(synthesizer, rows, options)
    if options.insecure_simulation or options.allow_draft:
        say("the result is NOT private: " + ("simulated noise." if options.insecure_simulation else "a draft schema."))
    if synthesizer.result_.interrupted and "time_limit" not in synthesizer.result_.details:
        raise KeyboardInterrupt


def _seconds_for_fit(options: argparse.Namespace, schema: Schema) -> float:
    """Return the rest of --most-seconds after reading, less what drawing and writing the table will take.

    Without that option it is infinite. The number of private records has no part in it.

    Raises:
        ArgumentError: if nothing is left; nothing was spent.
    """
    from pgmest.mechanisms.duration import TYPICAL_RECORDS

    if options.most_seconds is None:
        return math.inf
    writing = 1.0 + WRITING_SECONDS * (options.rows or TYPICAL_RECORDS) * len(schema.described)
    writing += PAGE_SECONDS * ((options.report is not None) + (options.owner_report is not None))
    left = time_left() - min(writing, time_left() / 2)
    if not left > 0:
        allowed = "longer: it is over, and the table has just been read (nothing was spent)"
        raise ArgumentError.of("--most-seconds", options.most_seconds, allowed)
    return left


def _write(synthesizer: Synthesizer, data: Any, raw: Any, written: TableFile, options: argparse.Namespace) -> int:
    """Write the files asked for, first those that cannot be made again; return the number of rows."""
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
            say(f"no model was written: there is no file format for the models of {options.mechanism}.")
    stage("drawing and writing records")
    table = synthesizer.sample(options.rows, options.seed, written=is_csv(options.out))
    if options.out != "-":
        write_table(table, options.out, written)
    if options.report:
        synthesizer.report(options.report)
    if options.owner_report:
        synthesizer.owner_report(data, options.owner_report, synthesizer.schema_.check(raw))
        say(f"{options.owner_report} shows the private data without protection: do NOT publish it.")
    if options.out == "-":  # the last step, since the reader of a pipe may stop at any time
        write_table(table, options.out, written)
    return len(table)


def _summarize(synthesizer: Synthesizer, rows: int, options: argparse.Namespace) -> None:
    """Print a summary, on standard error if the table is on standard output."""
    from pgmest.mechanisms.notices import EndedRunWarning
    from pgmest.privacy.statement import PrivacyStatement

    result, stream = synthesizer.result_, sys.stderr if options.out == "-" else sys.stdout
    schema = synthesizer.schema_
    statement = PrivacyStatement.of(
        result.mechanism,
        result.ledger,
        schema=Path(options.schema).name,
        drafted=schema.drafted,
        person=schema.unit.column if schema.unit else None,
    )
    if options.json:
        facts = {
            "rows": rows,
            "out": options.out,
            "owner_only": {"seconds": round(result.owner_only.seconds or 0.0, 3)},
            "interrupted": result.interrupted,
            "repeated": EndedRunWarning in options.warned,
            "unit": dataclasses.asdict(synthesizer.schema_.unit) if synthesizer.schema_.unit else None,
            **statement.to_json(),
            "bought": dict(synthesizer.bought_),
            "pairs": None if synthesizer.kept_ is None else synthesizer.kept_.to_json(),
            "ledger": result.ledger.to_json(),
        }
        print(json.dumps(facts), file=stream)
        return
    print(f"{plural(rows, 'synthetic record')} in {options.out}", file=stream)
    print(printable(str(statement)), file=stream)
    if synthesizer.schema_.unit:
        print(printable(unit_in_words(synthesizer.schema_.unit)), file=stream)
    for name, found in synthesizer.bought_.items():
        print(printable(f"bought for {name}: {found}"), file=stream)
    for line in synthesizer.kept_.lines(MOST_PAIRS) if synthesizer.kept_ else ():
        print(printable(line), file=stream)
    print(printable(result.ledger.details() if options.all else str(result.ledger)), file=stream)


SCHEMA = Command("schema", "Draft a schema of a raw table, to edit.", SCHEMA_DETAILS, _schema_options, _schema)
SYNTHESIZE = Command(
    "synthesize",
    "Make a private synthetic table of a raw one.",
    SYNTHESIZE_DETAILS,
    _synthesize_options,
    _synthesize,
    "pgmest synthesize TABLE [NAME=TABLE ...] --schema FILE --epsilon X --out FILE [options]",
    SYNTHESIZE_MORE,
)
