"""Files that a command reads and writes: outputs never replace an input, each other, or what was there before.

The type of an argument says which it is; `check_files` compares them all before any work is done. An output that
exists already is replaced only with `--overwrite`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path

from pgmest._base.errors import ArgumentError, OptionalDependencyError, PgmestError
from pgmest.cli.command import Add
from pgmest.data.table_file import file_format

STANDARD = "-"
"""Standard input or output in the place of a file."""


class InputFile(str):
    """A file that is read."""


class OutputFile(str):
    """A file that is written as a whole."""


class ContinuedFile(OutputFile):
    """A file that a later run goes on with, so that it may exist."""


def output(path: str) -> OutputFile:
    """An output file: its folder must be there before any work is done."""
    if path != STANDARD and not Path(path).absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder of '{path}' does not exist; make it first")
    return OutputFile(path)


def continued(path: str) -> ContinuedFile:
    """An output file that may exist, because the command goes on with it."""
    return ContinuedFile(output(path))


def output_table(path: str) -> OutputFile:
    """An output table: of a known format, and one that can be written here."""
    if path == STANDARD:
        return OutputFile(path)
    try:
        kind = file_format(output(path))
    except PgmestError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if kind == ".parquet" and find_spec("pyarrow") is None:
        raise argparse.ArgumentTypeError(str(OptionalDependencyError.of("pyarrow", "writing Parquet files")))
    return OutputFile(path)


def output_page(path: str) -> OutputFile:
    """An output page; it has pictures."""
    if find_spec("matplotlib") is None:
        raise argparse.ArgumentTypeError(str(OptionalDependencyError.of("matplotlib", "a report")))
    return output(path)


def private_page(path: str) -> OutputFile:
    """An output page that must not be published, whose name says so."""
    if "private" not in Path(path).name.lower():
        raise argparse.ArgumentTypeError(
            f"this page shows private data; name it so that nobody publishes it, such as PRIVATE-{Path(path).name}"
        )
    return output_page(path)


def overwrite_option(add: Add) -> None:
    """The option that lets outputs replace files; `check_files` reads it."""
    add("--overwrite", action="store_true", help="replace output files that exist; never an input")


def check_files(options: argparse.Namespace) -> None:
    """See that no output is an input, another output, or an existing file that was not given up for it.

    Links count as the file that they lead to. Pipes and devices may be written to at any time.

    Raises:
        ArgumentError: one is; nothing has been read or written.
    """
    named = list(_files(options))
    for (name, path), (other_name, other) in combinations(named, 2):
        if any(isinstance(one, OutputFile) for one in (path, other)) and _same(path, other):
            raise ArgumentError(f"{name} and {other_name} are the same file, {path}: name another output.")
    for name, path in named:
        if isinstance(path, ContinuedFile) or not isinstance(path, OutputFile):
            continue
        if _is_kept(path) and not getattr(options, "overwrite", False):
            raise ArgumentError(f"{name}: {path} exists already: name another file, or say --overwrite.")


def _files(options: argparse.Namespace) -> Iterator[tuple[str, InputFile | OutputFile]]:
    """Each file with what it is called on the command line."""
    for name, value in vars(options).items():
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, InputFile | OutputFile) and path != STANDARD:
                shown = name.upper() if name in options.positional else "--" + name.replace("_", "-")
                yield shown, path


def _same(path: str, other: str) -> bool:
    try:
        if os.path.samefile(path, other):
            return _is_file(path)
    except (OSError, ValueError):  # one does not exist, or no file can have such a name
        pass
    return os.path.normcase(os.path.realpath(path)) == os.path.normcase(os.path.realpath(other)) and _is_file(path)


def _is_file(path: str) -> bool:
    """Whether it is, or would become, a file; pipes and devices are not."""
    return not os.path.lexists(path) or not Path(path).exists() or Path(path).is_file()


def _is_kept(path: str) -> bool:
    """Whether writing there would replace something: also a link that leads nowhere, whose target would appear."""
    return os.path.lexists(path) and _is_file(path)
