"""The command line: `pgmest synthesize | schema | estimate | query | ...`, which reads and writes files.

Each command calls the library. Results go to standard output or to the file named; progress and errors go to standard
error, so that commands can be piped.
"""

from __future__ import annotations

import contextlib
import io
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
from pgmest.cli.paths import check_files
from pgmest.data.frames import ReadingWarning
from pgmest.errors import PgmestError
from pgmest.mechanisms.notices import EndedRunWarning, UnusedWorkloadWarning, WeakPromiseWarning


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    The code is 0 when done, 1 after an error, 2 for wrong usage, 3 if `disclose` finds a cell, 130 when interrupted.
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
            with _warnings_as_messages():
                code = options.run(options)
            sys.stdout.flush()
    except PgmestError as error:
        say(f"error: {error}")
        return 1
    except OSError as error:
        # This is an error of standard output, since files raise a PgmestError. Python flushes standard output again at
        # exit, and this must not fail, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # the reader of the pipe has stopped reading (`| head`)
            say(f"error: {error}")
            return 1
    except KeyboardInterrupt:
        say("interrupted.")
        return 130
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
def _warnings_as_messages() -> Iterator[None]:
    """Print each warning of pgmest as a message of the command, once; those of other libraries stay as they are."""
    shown, said = warnings.showwarning, set[str]()  # a table may be read more than once

    def show(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
        if category.__module__.startswith("pgmest."):
            if str(message) not in said:
                say(f"WARNING: {message}")
            said.add(str(message))
        else:
            shown(message, category, *place, **options)

    with warnings.catch_warnings():
        warnings.showwarning = show
        for category in (EndedRunWarning, ReadingWarning, UnusedWorkloadWarning, WeakPromiseWarning):
            warnings.simplefilter("always", category)
        yield
