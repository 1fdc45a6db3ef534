"""Files that a command reads and writes: an output never replaces an input, another output, or an existing file.

The type of an argument says whether it is an input or an output; `check_files` compares all of them before any work is
done. An existing file is replaced only with `--overwrite`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path

from pgmest.cli.command import Add
from pgmest.data.table_file import file_format
from pgmest.errors import ArgumentError, OptionalDependencyError, PgmestError

STANDARD = "-"
"""The name for standard input or output instead of a file."""


class OutputExists(ArgumentError):
    """An output exists, and --overwrite was not given; nothing was read or spent."""


class InputFile(str):
    """A file that is read."""


class OutputFile(str):
    """A file that is written as a whole."""


class ContinuedFile(OutputFile):
    """A file that later runs continue, so that it may exist."""


class OutputFolder(str):
    """A folder for files that are written; whoever writes them checks them."""


def output(path: str) -> OutputFile:
    """Return an output file; its folder must exist, or the folder in which `check_files` makes that folder."""
    folder = Path(path).absolute().parent
    unread = folder.name.startswith("~")  # a home folder that the shell has not put in its place, as in --out=~/x.csv
    if path != STANDARD and not (folder.is_dir() or (folder.parent.is_dir() and not unread)):
        raise argparse.ArgumentTypeError(f"the folder of '{path}' does not exist; create it first")
    return OutputFile(path)


def continued(path: str) -> ContinuedFile:
    """Return an output file that may exist, because the command continues it."""
    return ContinuedFile(output(path))


def output_table(path: str) -> OutputFile:
    """Return an output table; its format must be known and writable with the packages installed."""
    if path == STANDARD:
        return OutputFile(path)
    try:
        kind = file_format(output(path))
    except PgmestError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if kind == ".parquet" and find_spec("pyarrow") is None:
        raise argparse.ArgumentTypeError(str(OptionalDependencyError.of("pyarrow", "writing Parquet files")))
    return OutputFile(path)


def output_tables(path: str) -> OutputFile | OutputFolder:
    """Return an output table, or a folder for several: a path that ends with a slash, that is one, or has no ending."""
    if path != STANDARD and (path.endswith(("/", os.sep)) or Path(path).is_dir() or not Path(path).suffix):
        return OutputFolder(path)
    return output_table(path)


def output_page(path: str) -> OutputFile:
    """Return an output page, which has pictures and needs matplotlib."""
    if find_spec("matplotlib") is None:
        raise argparse.ArgumentTypeError(str(OptionalDependencyError.of("matplotlib", "a report")))
    return output(path)


def private_page(path: str) -> OutputFile:
    """Return an output page that must not be published; its name must contain "private"."""
    if "private" not in Path(path).name.lower():
        raise argparse.ArgumentTypeError(
            f"this page shows private data; its name must contain 'private', such as PRIVATE-{Path(path).name}"
        )
    return output_page(path)


def overwrite_option(add: Add) -> None:
    """Add the option that lets outputs replace files; `check_files` reads it."""
    add("--overwrite", action="store_true", help="replace output files that exist; never an input")


def check_files(options: argparse.Namespace) -> None:
    """Raise ArgumentError if an output is an input or another output; OutputExists if it exists without `--overwrite`.

    Links count as the file that they lead to. Pipes and devices may be written to at any time. Where no output is
    refused, the folders of new files are made, but none for a file that is continued.

    Raises:
        ArgumentError: an output is an input, another output, or a folder, or its folder cannot be made or
            written to.
        OutputExists: an output exists, without --overwrite.
    """
    named = list(_files(options))
    for (name, path), (other_name, other) in combinations(named, 2):
        if any(isinstance(one, OutputFile) for one in (path, other)) and _same(path, other):
            raise ArgumentError(f"{name} and {other_name} are the same file, {path}: name another output.")
    for name, path in named:
        if isinstance(path, ContinuedFile) or not isinstance(path, OutputFile):
            continue
        if _is_kept(path) and not getattr(options, "overwrite", False):
            raise OutputExists(f"{name}: {path} exists already: name another file, or add --overwrite.")
    outputs = [(name, path) for name, path in named if isinstance(path, OutputFile)]
    folders = {os.path.realpath(Path(path).absolute().parent) for _, path in outputs}
    folders |= {os.path.realpath(path) for path in vars(options).values() if isinstance(path, OutputFolder)}
    for name, path in outputs:
        if os.path.realpath(path) in folders or Path(path).is_dir():
            raise ArgumentError(f"{name}: {path} is a folder: name a file.")
    for name, path in outputs:
        if not isinstance(path, ContinuedFile):
            try:
                Path(path).absolute().parent.mkdir(exist_ok=True)
            except OSError as error:
                raise ArgumentError(f"{name}: the folder of {path} cannot be made: {error.strerror}.") from None
            if _is_file(path) and not os.access(os.path.dirname(os.path.realpath(path)), os.W_OK):
                raise ArgumentError(f"{name}: {path} cannot be written: its folder is missing or allows no new file.")


def _files(options: argparse.Namespace) -> Iterator[tuple[str, InputFile | OutputFile]]:
    """Yield each file with its name on the command line."""
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
    """Return whether a path is a file or could become one; pipes and devices are not files."""
    return not os.path.lexists(path) or not Path(path).exists() or Path(path).is_file()


def _is_kept(path: str) -> bool:
    """Return whether writing would replace a file, or a link without a target, which would then get one."""
    return os.path.lexists(path) and _is_file(path)
