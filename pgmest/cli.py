"""The command line: `pgmest measure | estimate | info | query | sample`, from files to files.

Each command is one function that reads its arguments and calls the library. Results go to standard output or to the
file named; progress and errors go to standard error, so that commands can be piped.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import dataclasses
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from pgmest.domain import Clique, Domain
from pgmest.errors import ArgumentError, FileFormatError, PgmestError
from pgmest.files import read_text, write_atomically

if TYPE_CHECKING:
    from pgmest.factor import Factor

CLIQUE_HELP = """\
Attributes are separated by commas: age,income. If a name has a comma in it, write the clique as a JSON list:
'["city, state", "income"]'. Names with blanks need quotes only for the shell: "Call Type,City".
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0 when done, 1 after an error, 2 for wrong usage, 130 when interrupted."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
        sys.stdout.flush()
    except PgmestError as error:
        print(f"pgmest: error: {error}", file=sys.stderr)
        return 1
    except OSError as error:  # of standard output: files named on the command line raise a PgmestError
        # Python flushes standard output again at exit, and that must not fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # which is a reader that has seen enough (`| head`)
            print(f"pgmest: error: standard output cannot be written: {error.strerror}.", file=sys.stderr)
            return 1
    except KeyboardInterrupt:
        print("pgmest: interrupted.", file=sys.stderr)
        return 130
    return 0


# -- commands -------------------------------------------------------------------------------------------------------


def _measure(options: argparse.Namespace) -> None:
    import pgmest as pg
    from pgmest.measurement_file import save_measurements
    from pgmest.simulation import simulate_measurements

    domain = Domain.load(options.domain)
    cliques = [_clique(text) for text in options.cliques or ()] + _cliques_of_file(options.cliques_file)
    if not cliques:
        raise ArgumentError("no clique to measure: name some with --cliques age,income sex, or with --cliques-file.")
    data = pg.Dataset.load(options.data, domain)
    measurements = simulate_measurements(data, cliques, options.stddev, seed=options.seed)
    save_measurements(options.out, measurements)
    print("pgmest: these measurements are simulated; they are NOT private.", file=sys.stderr)


def _estimate(options: argparse.Namespace) -> None:
    import pgmest as pg
    from pgmest.measurement_file import load_measurements

    domain = Domain.load(options.domain)
    measurements = load_measurements(options.measurements, domain)
    with progress_bar(options.max_iterations) as callback:
        model = pg.estimate(
            measurements,
            domain,
            total=options.total,
            method=options.method,
            loss=options.loss,
            tolerance=options.tolerance,
            max_iterations=options.max_iterations,
            callback=callback,
        )
    model.save(options.out)
    print(model.report)


def _info(options: argparse.Namespace) -> None:
    import pgmest as pg

    model = pg.load(options.model)
    tree = model.junction_tree
    if options.json:
        facts = {
            "total": model.total,
            "domain": dict(model.domain),
            "measured_cliques": [list(clique) for clique in model.potentials.cliques],
            "junction_tree": {"cliques": [list(clique) for clique in tree.cliques], "total_cells": tree.total_cells},
            "report": dataclasses.asdict(model.report),
        }
        print(json.dumps(facts, indent=1))
    else:
        sizes = ", ".join(f"{name} ({size})" for name, size in model.domain.items())
        print(f"{model.total:,.1f} records, {len(model.domain)} attributes: {sizes}\n\n{tree}\n\n{model.report}")


def _query(options: argparse.Namespace) -> None:
    import pgmest as pg

    model = pg.load(options.model)
    tables = [model.project(_clique(text)) for text in options.cliques]
    write = _write_json if options.json else _write_csv
    if options.out is None:
        write(tables, sys.stdout)
    else:
        text = io.StringIO()
        write(tables, text)
        write_atomically(options.out, text.getvalue())


def _sample(options: argparse.Namespace) -> None:
    import pgmest as pg

    records = pg.load(options.model).sample(options.rows, method=options.method, seed=options.seed)
    records.save(options.out)


# -- cliques, tables, progress --------------------------------------------------------------------------------------


def _clique(text: str) -> Clique:
    """The attributes of a clique as written on the command line."""
    if not text.lstrip().startswith("["):
        return tuple(name.strip() for name in text.split(","))
    try:
        return _names(json.loads(text))
    except ValueError:
        raise ArgumentError.of("clique", text, 'a JSON list of names such as ["age", "income"]') from None


def _cliques_of_file(path: str | None) -> list[Clique]:
    if path is None:
        return []
    try:
        return [_names(clique) for clique in json.loads(read_text(path))]
    except (ValueError, TypeError) as error:
        if isinstance(error, PgmestError):
            raise
        remedy = 'A file of cliques is a JSON list of lists of names, such as [["age", "sex"], ["income"]].'
        raise FileFormatError.of(path, "not a list of cliques.", remedy) from None


def _names(value: Any) -> Clique:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError("not a list of names")
    return tuple(value)


def _write_csv(tables: Iterable[Factor], stream: TextIO) -> None:
    """One table after the other, an empty line between them: a column per attribute, then the count."""
    writer = csv.writer(stream, lineterminator="\n")
    for position, table in enumerate(tables):
        if position:
            stream.write("\n")
        writer.writerow([*table.domain.attributes, "count"])
        for codes, count in zip(np.ndindex(table.values.shape), table.datavector(), strict=True):
            writer.writerow([*codes, f"{count:.10g}"])


def _write_json(tables: Iterable[Factor], stream: TextIO) -> None:
    """A list of tables; the counts are nested lists with an axis per attribute."""
    listed = [{"attributes": list(table.domain), "counts": table.values.tolist()} for table in tables]
    stream.write(json.dumps(listed) + "\n")


# -- usage ----------------------------------------------------------------------------------------------------------

EXAMPLES = """\
from a private table to synthetic records:
  pgmest estimate --domain domain.json --measurements measurements.json --out model.npz
  pgmest info model.npz
  pgmest query model.npz age,income
  pgmest sample model.npz --rows 10000 --out synthetic.csv

pgmest COMMAND --help has more about each. Exit codes: 0 done, 1 error, 2 wrong usage, 130 interrupted.
"""
MEASURE_TEXT = """\
Measure marginals of a table with simulated Gaussian noise, NOT private: to try the other commands.

The noise is floating-point, from a seeded generator, and no budget is kept.
"""
MEASURE_EXAMPLES = f"""\
examples:
  pgmest measure people.csv.gz --domain domain.json --cliques age,sex sex,income --stddev 10 --out measurements.json
  pgmest measure people.csv.gz --domain domain.json --cliques-file cliques.json --stddev 10 --out measurements.json

The table holds integer codes 0..n-1. domain.json gives n for each attribute: {{"age": 85, "sex": 2, "income": 2}}.
{CLIQUE_HELP}A file of cliques is a JSON list of such lists.
"""
ESTIMATE_EXAMPLES = """\
examples:
  pgmest estimate --domain domain.json --measurements measurements.json --out model.npz
  pgmest estimate --domain domain.json --measurements measurements.json --out model.npz --total 48842 --loss l1
"""
QUERY_EXAMPLES = f"""\
examples:
  pgmest query model.npz age,income
  pgmest query model.npz age sex,income --json
  pgmest query model.npz age,income --out age-income.csv

The answer is CSV: a column per attribute and the count, in the order asked for; with several cliques an empty line
stands between tables. With --json it is a list of {{"attributes": [...], "counts": nested lists, an axis each}}.
{CLIQUE_HELP}"""
SAMPLE_EXAMPLES = """\
examples:
  pgmest sample model.npz --out synthetic.csv
  pgmest sample model.npz --rows 10000 --seed 0 --out synthetic.parquet

The ending of the file says its format: .csv, .csv.gz or .parquet. Values are codes 0..n-1, as in the domain.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pgmest",
        description="One distribution over all attributes from noisy answers about a few marginals.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"pgmest {_version()}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in (_add_estimate, _add_info, _add_query, _add_sample, _add_measure):
        add(commands)
    return parser


def _add_estimate(commands: Any) -> None:
    text = "Estimate a model from noisy measurements of marginals."
    add = _add_command(commands, _estimate, text, ESTIMATE_EXAMPLES).add_argument
    add("--domain", required=True, metavar="FILE", help='JSON of attribute to number of values: {"age": 85, "sex": 2}')
    add("--measurements", required=True, metavar="FILE", help="the measurements, .json or .npz")
    add("--out", required=True, metavar="FILE", type=_output, help="where the model goes, .npz")
    add("--total", type=float, metavar="N", help="the number of records; estimated from the measurements by default")
    add("--method", default="auto", help="the solver (default: auto)")
    add("--loss", default="l2", help="l2 or l1 (default: l2)")
    add("--tolerance", type=float, default=1e-3, metavar="X", help="relative gap to stop at (default: 0.001)")
    add("--max-iterations", type=int, default=5000, metavar="N", help="stop after so many (default: 5000)")


def _add_info(commands: Any) -> None:
    text = "Show a model's domain, its junction tree with its cost, and how the estimate went."
    add = _add_command(commands, _info, text, "example:\n  pgmest info model.npz\n").add_argument
    add("model", metavar="MODEL", help="a model file, .npz")
    add("--json", action="store_true", help="print JSON")


def _add_query(commands: Any) -> None:
    text = "Print marginals of a model, of measured cliques or any others, in counts."
    add = _add_command(commands, _query, text, QUERY_EXAMPLES).add_argument
    add("model", metavar="MODEL", help="a model file, .npz")
    add("cliques", nargs="+", metavar="CLIQUE", help="attributes separated by commas, or a JSON list")
    add("--out", metavar="FILE", type=_output, help="write there instead of to standard output")
    add("--json", action="store_true", help="JSON instead of CSV")


def _add_sample(commands: Any) -> None:
    text = "Draw synthetic records from a model."
    add = _add_command(commands, _sample, text, SAMPLE_EXAMPLES).add_argument
    add("model", metavar="MODEL", help="a model file, .npz")
    add("--rows", type=int, metavar="N", help="how many records (default: the model's total)")
    add("--out", required=True, metavar="FILE", type=_output, help=".csv, .csv.gz or .parquet")
    add("--method", default="round", help="round: as even as whole numbers allow; multinomial: independent records")
    add("--seed", type=int, metavar="N", help="the same seed gives the same records")


def _add_measure(commands: Any) -> None:
    add = _add_command(commands, _measure, MEASURE_TEXT, MEASURE_EXAMPLES).add_argument
    add("data", metavar="TABLE", help=".csv, .csv.gz or .parquet of integer codes")
    add("--domain", required=True, metavar="FILE", help='JSON of attribute to number of values: {"age": 85, "sex": 2}')
    add("--cliques", nargs="+", metavar="CLIQUE", help="attributes separated by commas, or a JSON list")
    add("--cliques-file", metavar="FILE", help="a JSON list of lists of attributes")
    add("--stddev", required=True, type=float, metavar="X", help="standard deviation of the noise, in counts")
    add("--out", required=True, metavar="FILE", type=_output, help="where the measurements go, .json or .npz")
    add("--seed", type=int, metavar="N", help="the same seed gives the same noise")


def _add_command(commands: Any, run: Callable[..., None], text: str, examples: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        run.__name__.strip("_"),
        help=text.splitlines()[0],
        description=text,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    return parser


def _version() -> str:
    try:
        return version("pgmest")
    except PackageNotFoundError:
        return "(not installed)"


def _output(path: str) -> str:
    """An output file: its folder must be there before any work is done."""
    if not Path(path).absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder of '{path}' does not exist; make it first")
    return path
