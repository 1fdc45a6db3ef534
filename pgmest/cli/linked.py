"""Linked tables on the command line: `households=hh.csv persons=pp.csv`, or a folder with a file for each table."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgmest._base.files import write_atomically
from pgmest._base.printable import printable
from pgmest._base.stages import stage
from pgmest.cli.command import say, show
from pgmest.cli.paths import InputFile, OutputExists, OutputFolder
from pgmest.cli.streams import check_rows, reader_choices, write_table, written_table
from pgmest.data.table_file import READ, WRITTEN, TableFile
from pgmest.errors import ArgumentError, listed

if TYPE_CHECKING:
    from pgmest.schema import LinkedSchema
    from pgmest.synthesizer.synthesizer import Synthesizer

HELP = """\
If the schema has linked tables (tables:), give each as NAME=FILE, such as households=hh.csv persons=pp.csv, or a folder
with a file for each name, such as households.csv and persons.parquet."""
FLAT_ONLY = ("invariant", "workload", "matters", "buy_bounds", "bought", "records_per_person")
"""The options that linked tables do not have."""

MODEL = "model.npz"
"""The file of the noisy answers, in the folder of the synthetic tables."""

FIXED_KEY = bytes(16)
"""The key of the choice among a person's rows in comparisons, whose output is for the owner only: always the same."""


class NamedFile(InputFile):
    """A file that is read, and the table that it is: NAME=FILE.

    Attributes:
        table: the name of the table.
    """

    table: str


def table_argument(text: str) -> InputFile:
    """Return an argument for a table: FILE, or NAME=FILE for one of several; a file of that whole name comes first."""
    name, equals, path = text.partition("=")
    if not equals or not name or not path or "/" in name or os.path.lexists(text):
        return InputFile(text)
    file = NamedFile(path)
    file.table = name
    return file


def only_table(paths: Sequence[InputFile]) -> InputFile:
    """Return the table of a command that was given one.

    Raises:
        ArgumentError: there are several, or it has a name, although the schema has a single table.
    """
    if len(paths) > 1 or isinstance(paths[0], NamedFile):
        raise ArgumentError("the schema describes a single table, so give one file, without NAME=.")
    return paths[0]


def input_tables(schema: LinkedSchema, paths: Sequence[InputFile], options: argparse.Namespace) -> dict[str, TableFile]:
    """Return the file of each table that was named, or that a folder has.

    Raises:
        ArgumentError: a table of the schema has no file, or several; or a file has no name.
        FileFormatError: a file is no table.
    """
    found = named_tables(paths, schema.tables)
    optional = set() if schema.parts[schema.root].schema.described else {schema.root}
    lacking = [name for name in schema.tables if name not in found and name not in optional]
    unknown = [name for name in found if name not in schema.tables]
    if lacking or unknown:
        wrong = f"no table {listed(lacking)}" if lacking else f"{listed(unknown)}, which the schema does not have"
        raise ArgumentError(
            f"{schema.source} describes the tables {listed(schema.tables)}, but there is {wrong}: give "
            f"{' '.join(f'{name}=FILE' for name in schema.tables)}, or a folder with a file for each."
        )
    return {name: TableFile(found[name], **reader_choices(options)) for name in schema.tables if name in found}


def named_tables(paths: Sequence[InputFile], names: Sequence[str] = ()) -> dict[str, str]:
    """Return the file of each name, from NAME=FILE or from a folder.

    Args:
        paths: the arguments.
        names: the tables to look for in a folder; by default all tables in it.

    Raises:
        ArgumentError: a file has no name, or a name several files.
    """
    if len(paths) == 1 and Path(paths[0]).is_dir() and not isinstance(paths[0], NamedFile):
        return dict(_in_folder(Path(paths[0]), names))
    if len(paths) == 1 and not isinstance(paths[0], NamedFile) and not os.path.lexists(paths[0]):
        raise ArgumentError(f"'{paths[0]}' does not exist: give a folder with a file for each table, or NAME=FILE.")
    found: dict[str, str] = {}
    for path in paths:
        if not isinstance(path, NamedFile):
            raise ArgumentError(
                f"'{path}' is one of several linked tables: say which, NAME=FILE, such as households={path}."
            )
        if path.table in found:
            raise ArgumentError(f"table '{path.table}' was given twice, {found[path.table]} and {path}.")
        found[path.table] = str(path)
    return found


def _in_folder(folder: Path, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    held: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        ending = next((one for one in sorted(READ, key=len, reverse=True) if path.name.lower().endswith(one)), None)
        if ending and path.is_file():
            held.setdefault(path.name[: -len(ending)], []).append(path)
    for name in names or held:
        if len(held.get(name, ())) > 1:
            raise ArgumentError(f"{folder} has several files for '{name}' ({listed(held[name])}): keep one of them.")
        if name in held:
            yield name, str(held[name][0])


# -- synthesize -------------------------------------------------------------------------------------------------------


def synthesize_linked(options: argparse.Namespace, schema: LinkedSchema) -> None:
    """Run `pgmest synthesize` on linked tables."""
    from pgmest.synthesizer.schema_checks import check_public

    check_flat_options(options)
    files = input_tables(schema, options.table, options)
    check_public(schema, options.allow_draft)
    written = _written(options, schema, files)
    if options.ledger and (options.allow_draft or options.insecure_simulation):
        raise ArgumentError("a run that is not private cannot be put on the ledger of a dataset: leave out --ledger.")
    options.model = _model_file(options)
    synthesizer = _synthesizer(options)
    stage("reading the tables")
    for name, file in files.items():
        check_rows(schema.parts[name].schema.table_file(file))
    stage("measuring")
    if options.seed is None and options.checkpoint:
        options.seed = 0  # a run that is repeated draws the same tables
    synthesizer.fit(
        files,
        schema,
        seed=options.seed,
        checkpoint=options.checkpoint,
        ledger=options.ledger,
        allow_draft=options.allow_draft,
        time_limit=options.most_seconds,
    )
    rows = _write(synthesizer, files, written, options)
    _summarize(synthesizer, schema, rows, options)
    if options.insecure_simulation or options.allow_draft:
        say("the result is NOT private: " + ("simulated noise." if options.insecure_simulation else "a draft schema."))
    if getattr(synthesizer.result_, "interrupted", False) and options.most_seconds is None:
        raise KeyboardInterrupt


def check_flat_options(options: argparse.Namespace) -> None:
    """Raise ArgumentError if an option was given that is for a single table, or no budget."""
    for name in FLAT_ONLY:
        if getattr(options, name, None) not in (None, [], False):
            raise ArgumentError(f"--{name.replace('_', '-')} is for a single table; linked tables do not have it.")
    if options.mechanism != "lamp":
        raise ArgumentError.of("--mechanism", options.mechanism, "lamp, the mechanism for linked tables")
    if options.epsilon is None and options.rho is None:
        raise ArgumentError("no privacy budget: give --epsilon, such as --epsilon 1, or --rho.")


def _synthesizer(options: argparse.Namespace) -> Synthesizer:
    from pgmest.cli.budget import parameters_of
    from pgmest.synthesizer.synthesizer import Synthesizer

    backend = "simulation" if options.insecure_simulation else "opendp"
    budget = {"epsilon": options.epsilon, "delta": options.delta, "rho": options.rho}
    return Synthesizer(options.mechanism, **budget, **{**parameters_of(options), "backend": backend})


def _written(options: argparse.Namespace, schema: LinkedSchema, files: Mapping[str, TableFile]) -> dict[str, TableFile]:
    """Return the files that are written: as the private tables are, in the folder of --out.

    Raises:
        ArgumentError: --out is a file, or files in it exist.
    """
    folder, written = _folder(options), {}
    for name, part in schema.parts.items():
        like = str(files[name].path).lower() if name in files else ""
        ending = next((one for one in sorted(WRITTEN, key=len, reverse=True) if like.endswith(one)), ".csv")
        path = folder / (name + ending)
        if path.name != name + ending or path.parent != folder:
            raise ArgumentError(f"the name of table '{name}' cannot be that of a file: rename it in {schema.source}.")
        written[name] = written_table(str(path), options, part.schema)
        if name in files and path.exists() and os.path.samefile(path, files[name].path):
            raise ArgumentError(f"--out: {path} is the private table '{name}' itself: name another folder.")
        if path.exists() and not options.overwrite:
            raise OutputExists(f"--out: {path} exists already: name another folder, or add --overwrite.")
    return written


def _folder(options: argparse.Namespace) -> Path:
    """Return the folder of --out.

    Raises:
        ArgumentError: it is a file, or its own folder does not exist.
    """
    folder = Path(options.out)
    if not isinstance(options.out, OutputFolder) or (folder.exists() and not folder.is_dir()):
        raise ArgumentError.of("--out", options.out, "a folder, such as synthetic/, for a file of each table")
    if not folder.absolute().parent.is_dir():
        raise ArgumentError(f"--out: the folder of '{options.out}' does not exist; create it first.")
    return folder


def _model_file(options: argparse.Namespace) -> str:
    """Return the file of the noisy answers: that of --model, or model.npz in the folder of --out.

    Raises:
        OutputExists: it exists.
    """
    path = options.model or str(_folder(options) / MODEL)
    if not options.model and os.path.lexists(path) and not options.overwrite:
        raise OutputExists(f"--out: {path} exists already: name another folder, or add --overwrite.")
    return path


def _write(
    synthesizer: Synthesizer,
    files: Mapping[str, TableFile],
    written: Mapping[str, TableFile],
    options: argparse.Namespace,
) -> dict[str, int]:
    """Write the files asked for, and return the number of rows of each table."""
    from pgmest.evaluation.reports.linked import ledgers_of

    if options.spent:
        ledgers = ledgers_of(synthesizer.result_)
        write_atomically(options.spent, json.dumps(_ledger_json(ledgers), indent=1) + "\n")
    Path(options.out).mkdir(exist_ok=True)
    synthesizer.save(options.model)
    stage("drawing and writing records")
    rows = _write_tables(synthesizer, written, options)
    if options.report:
        synthesizer.report(options.report)
    if options.owner_report:
        synthesizer.owner_report(files, options.owner_report)
        say(f"{options.owner_report} shows the private data without protection: do NOT publish it.")
    return rows


def _write_tables(
    synthesizer: Synthesizer,
    written: Mapping[str, TableFile],
    options: argparse.Namespace,
    given: Mapping[str, Any] | None = None,
) -> dict[str, int]:
    """Draw tables and write them, and return the number of rows of each."""
    texts = [name for name, file in written.items() if file.is_text]
    tables = synthesizer.sample(options.rows, options.seed, written=texts, given=given)
    for name, table in tables.items():
        write_table(table, str(written[name].path), written[name])
    return {name: len(table) for name, table in tables.items()}


def _summarize(
    synthesizer: Synthesizer, schema: LinkedSchema, rows: Mapping[str, int], options: argparse.Namespace
) -> None:
    from pgmest.evaluation.reports.linked import ledgers_of, statement_of
    from pgmest.mechanisms.notices import EndedRunWarning

    statement, ledgers = statement_of(synthesizer.result_, schema), ledgers_of(synthesizer.result_)
    if options.json:
        facts = {"out": options.out, "model": options.model, "repeated": EndedRunWarning in options.warned}
        print(json.dumps({"rows": dict(rows), **facts, **statement.to_json(), "ledger": _ledger_json(ledgers)}))
        return
    print(f"{_rows_in_words(rows)} in {options.out}")
    print(
        f"{options.model} has the noisy answers: `pgmest query {options.model} {schema.root}` tells how sure a count is"
    )
    print(printable(str(statement)))
    for name, ledger in ledgers.items():
        print(printable((f"{name}: " if name else "") + (ledger.details() if options.all else str(ledger))))


def _rows_in_words(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in rows.items())


def _ledger_json(ledgers: Mapping[str, Any]) -> Any:
    """Return the ledger of the only run, or those of several runs by table."""
    held = {name: ledger.to_json() for name, ledger in ledgers.items()}
    return held.get("", held)


# -- sample -----------------------------------------------------------------------------------------------------------

FLAT_DRAWS = ("schema", "codes", "expanded", "tables", "attributes")
"""The options of `pgmest sample` that linked tables do not have."""


def sample_linked(options: argparse.Namespace) -> None:
    """Run `pgmest sample` on a file of linked tables."""
    from pgmest.cli.linked_query import given_of
    from pgmest.mechanisms.files import load
    from pgmest.synthesizer.linked import LinkedFit
    from pgmest.synthesizer.synthesizer import Synthesizer

    for name in FLAT_DRAWS:
        if getattr(options, name) not in (None, False):
            raise ArgumentError(f"--{name} is for the model of a single table; linked tables do not have it.")
    if options.method != "round":
        raise ArgumentError.of("--method", options.method, "left out, as linked tables are drawn as a whole")
    synthesizer = Synthesizer.load(options.model)
    schema: Any = synthesizer.schema_
    written = _written(options, schema, {})
    given = given_of(LinkedFit.load(load(options.model), options.model), options.given) if options.given else None
    Path(options.out).mkdir(exist_ok=True)
    say(f"{_rows_in_words(_write_tables(synthesizer, written, options, given))} in {options.out}")


# -- plan -------------------------------------------------------------------------------------------------------------


def show_linked_plan(options: argparse.Namespace, schema: LinkedSchema) -> None:
    """Run `pgmest plan` on a schema of linked tables."""
    from pgmest.cli.budget import parameters_of
    from pgmest.synthesizer.linked import linked_mechanism
    from pgmest.synthesizer.linked_plan import plan_linked

    check_flat_options(options)
    budget = {"epsilon": options.epsilon, "delta": options.delta, "rho": options.rho}
    mechanism = linked_mechanism(options.mechanism, budget, parameters_of(options))
    plan = plan_linked(schema, mechanism, options.records_expected)
    show(json.dumps(plan.to_json()) if options.json else plan)


# -- compare ----------------------------------------------------------------------------------------------------------


def compare_linked(options: argparse.Namespace, schema: LinkedSchema) -> None:
    """Run `pgmest compare` on linked tables."""
    from pgmest.evaluation import linked_errors
    from pgmest.evaluation.reports.linked import labels_of, linked_report

    if options.domain is not None or options.workload or options.way is not None:
        raise ArgumentError(
            "linked tables are compared in classes of their own: leave --domain, --workload, --way out."
        )
    if Path(options.estimated).suffix == ".npz":
        raise ArgumentError(f"'{options.estimated}' has no keys: compare with the folder of the synthetic tables.")
    true = schema.encode(input_tables(schema, options.true, options), key=FIXED_KEY)
    plain = argparse.Namespace(**{**vars(options), **dict.fromkeys(reader_choices(options))})
    made = schema.encode(input_tables(schema, [options.estimated], plain), key=FIXED_KEY)
    errors = linked_errors(true, made, labels_of(schema))
    if options.report:
        linked_report(made, schema, true, out=options.report)
        say(f"{options.report} shows the first tables without protection: it is as private as these tables.")
    broken = {str(rule): [int(rule.broken(one).sum()) for one in (true, made)] for rule in schema.rules}
    if options.json:
        show(json.dumps({**errors.to_json(), "broken": broken}))
        return
    for name, both in errors.rows.items():
        show(f"{name}: {both[0]:,} and {both[1]:,} rows")
    show(f"\naverage errors (total variation distance, 0 to 1)\n{errors}\n")
    for error, table, kind, name in errors.worst(options.worst):
        show(f"  {error:.4f}  {table}  {kind}  {name}")
    for rule, both in broken.items():
        if any(both):
            show(f"  broken by {both[0]:,} of the first and {both[1]:,} of the second: {rule}")
