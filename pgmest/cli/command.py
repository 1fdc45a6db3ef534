"""Command: a subcommand with its options and its help; and the types of arguments that several of them take."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

Add = Callable[..., Any]  # the add_argument of a command's parser

EXAMPLES = """\
from a raw table to a synthetic one:
  pgmest schema people.csv --out people.yaml         (then edit people.yaml: it says what and why)
  pgmest check people.csv people.yaml                (for the owner: what the schema makes of the table)
  pgmest plan people.yaml --records-expected 6000 --epsilon 1        (noise, time: nothing is read, nothing paid)
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
        command.options(subparser.add_argument)
        positional = tuple(action.dest for action in subparser._actions if not action.option_strings)
        subparser.set_defaults(run=command.run, positional=positional)
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


def _version() -> str:
    try:
        return version("pgmest")
    except PackageNotFoundError:
        return "(not installed)"
