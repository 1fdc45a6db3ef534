"""Command: a subcommand with its options and its help; and the types of arguments that several of them take."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pgmest._base.errors import OptionalDependencyError, PgmestError
from pgmest.data.frames import file_format

Add = Callable[..., Any]  # the add_argument of a command's parser

EXAMPLES = """\
from a raw table to a synthetic one:
  pgmest schema people.csv --out people.yaml         (then edit people.yaml: it says what and why)
  pgmest synthesize people.csv --schema people.yaml --epsilon 1 --out synthetic.csv --report report.html

from noisy measurements to synthetic records:
  pgmest estimate --domain domain.json --measurements measurements.json --out model.npz
  pgmest info model.npz
  pgmest query model.npz age,income
  pgmest sample model.npz --rows 10000 --out synthetic.csv

pgmest COMMAND --help has more about each. Exit codes: 0 done, 1 error, 2 wrong usage, 130 interrupted.
Results go to standard output or to the file named, progress and messages to standard error. A table that is read or
written may be "-": CSV from standard input, to standard output.
"""


@dataclass(frozen=True)
class Command:
    """A subcommand.

    Attributes:
        name: what is typed.
        title: what it does, in a line.
        details: examples, and what one must know.
        options: adds the arguments to its parser.
        run: does it, and may return an exit code.
        usage: what is shown after wrong usage, where all the options would be too much.
    """

    name: str
    title: str
    details: str
    options: Callable[[Add], None]
    run: Callable[[argparse.Namespace], int | None]
    usage: str | None = None


def make_parser(commands: Iterable[Command]) -> argparse.ArgumentParser:
    """The parser; its result has the function of the command as `run`, beside the command's own options."""
    parser = argparse.ArgumentParser(
        prog="pgmest",
        description="Raw tables to private synthetic tables; noisy answers about marginals to one distribution.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"pgmest {_version()}")
    added = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in commands:
        subparser = added.add_parser(
            command.name,
            help=command.title,
            description=command.title,
            epilog=command.details,
            usage=command.usage,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        subparser.set_defaults(run=command.run)
        command.options(subparser.add_argument)
    return parser


def say(message: str) -> None:
    """A message to the person at the terminal, which no pipe sees."""
    print(f"pgmest: {message}", file=sys.stderr)


# -- types of arguments ---------------------------------------------------------------------------------------------


def count(text: str) -> int:
    """A whole number of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 0")
    return int(text)


def output(path: str) -> str:
    """An output file: its folder must be there before any work is done."""
    if not Path(path).absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder of '{path}' does not exist; make it first")
    return path


def output_table(path: str) -> str:
    """An output table: of a known format, and one that can be written here."""
    if path == "-":
        return path
    try:
        kind = file_format(output(path))
    except PgmestError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if kind == ".parquet" and find_spec("pyarrow") is None:
        raise argparse.ArgumentTypeError(str(OptionalDependencyError.of("pyarrow", "writing Parquet files", "parquet")))
    return path


def output_page(path: str) -> str:
    """An output page; it has pictures."""
    if find_spec("matplotlib") is None:
        raise argparse.ArgumentTypeError(str(OptionalDependencyError.of("matplotlib", "a report", "plot")))
    return output(path)


def private_page(path: str) -> str:
    """An output page that must not be published, whose name says so."""
    if "private" not in Path(path).name.lower():
        raise argparse.ArgumentTypeError(
            f"this page shows private data; name it so that nobody publishes it, such as PRIVATE-{Path(path).name}"
        )
    return output_page(path)


def _version() -> str:
    try:
        return version("pgmest")
    except PackageNotFoundError:
        return "(not installed)"
