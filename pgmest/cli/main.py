"""The command line: `pgmest synthesize | schema | estimate | query | ...`, which reads and writes files.

Each command calls the library. Results go to standard output or to the file named; progress and errors go to standard
error, so that commands can be piped.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from pgmest._base.stages import begun
from pgmest.cli.command import make_parser, say
from pgmest.cli.commands import commands_of
from pgmest.cli.paths import STANDARD, OutputExists, check_files
from pgmest.data.frames import ReadingWarning
from pgmest.errors import BudgetExceeded, PgmestError
from pgmest.mechanisms.notices import EndedRunWarning, UnusedWorkloadWarning, WeakPromiseWarning

EXIT_CODES = {"input": 1, "usage": 2, "disclosed": 3, "budget": 4, "exists": 5, "interrupted": 130}
"""What a command that did not simply succeed met -> its exit code: bad input, wrong usage, a disclosed cell, a budget
that is not enough, an output that exists, Ctrl-C."""
KINDS = {BudgetExceeded: "budget", OutputExists: "exists"}
"""The errors that are not bad input."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    The code is 0 when done, or one of `EXIT_CODES`. With --json an error is also printed as JSON where the result would
    be: on standard output, or on standard error if the table is on standard output.
    """
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal keeps its encoding; files and pipes are UTF-8
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")
    words = list(sys.argv[1:] if arguments is None else arguments)
    options, code = make_parser(commands_of(words), "--help-all" in words).parse_args(words), 0
    try:
        with _ended_by_sigterm(), begun(f"pgmest {options.command}"):
            check_files(options)
            with _warnings_as_messages() as options.warned:
                code = options.run(options)
            sys.stdout.flush()
    except PgmestError as error:
        say(f"error: {error}")
        kind = next((kind for type_, kind in KINDS.items() if isinstance(error, type_)), "input")
        if getattr(options, "json", False) is True:
            stream = sys.stderr if getattr(options, "out", None) == STANDARD else sys.stdout
            print(json.dumps({"error": {"kind": kind, "message": str(error)}}), file=stream)
        return EXIT_CODES[kind]
    except OSError as error:
        # This is an error of standard output, since files raise a PgmestError. Python flushes standard output again at
        # exit, and this must not fail, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # the reader of the pipe has stopped reading (`| head`)
            say(f"error: {error}")
            return 1
    except KeyboardInterrupt:
        say("interrupted.")
        return EXIT_CODES["interrupted"]
    return code or 0


def _open_closed_streams() -> None:
    """Discard what is printed to a stream that the shell closed (`>&-`); `print` would write errors into the output."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Answer SIGTERM, by which a scheduler or a container ends a process, as Ctrl-C; also where Ctrl-C is ignored."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread can be interrupted
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _warnings_as_messages() -> Iterator[set[type[Warning]]]:
    """Print each warning of pgmest as a message of the command, once, and give the set of their classes.

    Warnings of other libraries stay as they are.
    """
    default, said, classes = warnings.showwarning, set[str](), set[type[Warning]]()  # a table may be read repeatedly

    def print_once(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
        if category.__module__.startswith("pgmest."):
            if str(message) not in said:
                say(f"WARNING: {message}")
            said.add(str(message))
            classes.add(category)
        else:
            default(message, category, *place, **options)

    with warnings.catch_warnings():
        warnings.showwarning = print_once
        for category in (EndedRunWarning, ReadingWarning, UnusedWorkloadWarning, WeakPromiseWarning):
            warnings.simplefilter("always", category)
        yield classes
