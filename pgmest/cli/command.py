"""Subcommands with their options and help, and the argument types that several of them use."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pgmest._base.printable import printable

MOST_COLUMNS, COLUMNS_OF_NAMES = 110, 26
"""The columns that a help takes at most, and those of the names of options."""

NAMED = "more options, described by --help-all"
"""The title under which a help lists options by name."""

EXAMPLES = """\
from a raw table to a synthetic one:
  pgmest schema people.csv --out people.yaml         (then edit people.yaml as its comments say)
  pgmest check people.csv people.yaml                (for the owner: how the schema fits the table)
  pgmest plan people.yaml --records-expected 6000 --epsilon 1        (noise, time: no records read, no budget spent)
  pgmest synthesize people.csv --schema people.yaml --epsilon 1 --out synthetic.csv --report report.html

from noisy measurements to synthetic records:
  pgmest estimate --domain domain.json --measurements measurements.json --out model.npz
  pgmest info model.npz
  pgmest query model.npz age,income
  pgmest sample model.npz --rows 10000 --out synthetic.csv

pgmest COMMAND --help describes each command, and --help-all every option of it. Exit codes: 0 done, 1 bad input, 2
wrong usage, 3 a cell is disclosed, 4 the budget is not enough, 5 an output exists, 130 interrupted.
Results go to standard output or to the file named, progress and messages to standard error. The table "-" is CSV from
standard input, or to standard output. The signal SIGTERM does what Ctrl-C does.
"""


@dataclass(frozen=True)
class Add:
    """Adds options to a command's parser, as `add_argument` does, or to one of its groups.

    `--help` describes the options outside groups and lists the names of the others, which `--help-all` describes.

    Attributes:
        parser: the parser of the command.
        everything: whether to describe the options of groups, too.
        groups: the groups by title, each with the names of its options.
    """

    parser: argparse.ArgumentParser
    everything: bool
    groups: dict[str, tuple[argparse._ArgumentGroup, list[str]]] = field(default_factory=dict)

    def __call__(self, *names: str, **facts: Any) -> Any:
        return self.parser.add_argument(*names, **facts)

    def to(self, title: str) -> Callable[..., Any]:
        """Return the function that adds options to a group."""
        if title not in self.groups:
            if self.everything or not self.groups:
                group = self.parser.add_argument_group(title if self.everything else NAMED)
            else:
                group, _ = next(iter(self.groups.values()))
            self.groups[title] = group, []
        group, listed = self.groups[title]

        def add(*names: str, **facts: Any) -> None:
            listed.append(names[-1])
            if not self.everything:
                lines = (f"{title}: {', '.join(options)}" for title, (_, options) in self.groups.items())
                group.description = "\n".join(
                    textwrap.fill(line, MOST_COLUMNS, subsequent_indent="  ") for line in lines
                )
                facts["help"] = argparse.SUPPRESS
            group.add_argument(*names, **facts)

        return add


@dataclass(frozen=True)
class Command:
    """A subcommand.

    Attributes:
        name: its name on the command line.
        title: a description of one line.
        details: examples and explanations.
        options: a function that adds the arguments to its parser.
        run: the function of the command, which may return an exit code.
        usage: the usage line, for commands with too many options for one.
        more: explanations that only --help-all shows.
    """

    name: str
    title: str
    details: str
    options: Callable[[Add], None]
    run: Callable[[argparse.Namespace], int | None]
    usage: str | None = None
    more: str = ""


def make_parser(commands: Iterable[Command], everything: bool = False) -> argparse.ArgumentParser:
    """Return the parser; its result has the options of the command, and the function of the command as `run`.

    Args:
        commands: the commands.
        everything: whether the help describes the options of groups, too, as --help-all asks.
    """
    parser = argparse.ArgumentParser(
        prog="pgmest",
        description="Private synthetic tables from raw tables; one distribution from noisy answers about marginals.",
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
            epilog=command.details + (f"\n{command.more}" if everything and command.more else ""),
            usage=command.usage,
            formatter_class=_formatter,
            allow_abbrev=False,
        )
        subparser.add_argument("--help-all", action="help", help="describe all options, also those listed by name here")
        command.options(Add(subparser, everything))
        positional = tuple(action.dest for action in subparser._actions if not action.option_strings)
        subparser.set_defaults(run=command.run, command=command.name, positional=positional)
    return parser


def show(what: object) -> None:
    """Print on standard output, with escapes for control characters, which names in a file may contain."""
    print(printable(str(what)))


def say(message: str) -> None:
    """Print a message on standard error, which stays out of pipes."""
    print(f"pgmest: {printable(message)}", file=sys.stderr)


# -- types of arguments ---------------------------------------------------------------------------------------------


def count(text: str) -> int:
    """Return a whole number of at least 0 (a type of arguments)."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 0")
    return int(text)


def _formatter(prog: str) -> argparse.HelpFormatter:
    columns = min(shutil.get_terminal_size((MOST_COLUMNS, 24)).columns, MOST_COLUMNS)
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=COLUMNS_OF_NAMES, width=columns)


def _version() -> str:
    try:
        return version("pgmest")
    except PackageNotFoundError:
        return "(not installed)"
