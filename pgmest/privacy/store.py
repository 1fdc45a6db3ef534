"""The store of what a run has paid: a file of JSON lines that only grows, each with a digest of all lines before it.

It has two uses. The ledger of a dataset (`dataset_ledger`) has the charges of all runs, and is locked for a moment at a
time. The checkpoint of a run (`journal`) has its answers, and is locked as long as the run has it.

An edited, removed or exchanged line breaks the chain of digests. The last lines could be cut off without breaking it,
so the head file, NAME.head, records the number of lines, the last digest, and the inode of the file, which a copy does
not share. The head file exists before the first line does: a file with lines and without a head was tampered with, or
was moved without its head.

If both files are replaced by older ones, the files alone do not show it. Keep the last digest (`head`) elsewhere to
detect that, too.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import threading
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pgmest._base.files import write_atomically
from pgmest.errors import FileFormatError, JournalError, LedgerError, PgmestError
from pgmest.privacy import locks
from pgmest.privacy.one_process import OneProcess

SECONDS = 60.0
"""The longest wait, in seconds, for a file that other processes write to line by line."""

CHUNK = 1 << 20
"""The number of bytes that are read from a file at a time."""

WRITE = os.O_RDWR | os.O_APPEND
MODES = {
    "look": os.O_RDONLY | getattr(os, "O_NONBLOCK", 0),  # without which opening a pipe waits for a writer
    "open": WRITE,
    "resume": WRITE | os.O_CREAT,
    "create": WRITE | os.O_CREAT | os.O_EXCL,
}
"""The flags with which a file is opened to be read only, to be written to, to be made where there is none, and to be
made: of several processes that make the same file at once, the system lets one succeed."""

REMEDY = "If it was moved here and no other copy is in use, accept it with `pgmest ledger adopt FILE`."


@dataclass(frozen=True)
class Kind:
    """A use of the store.

    Attributes:
        format, version: the values of "format" and "version" in the first line.
        name: the name in error messages.
        error: the exception to raise if a file is not as it was written.
    """

    format: str
    version: int
    name: str
    error: type[PgmestError]


LEDGER = Kind("pgmest-ledger", 2, "ledger of a dataset", LedgerError)
CHECKPOINT = Kind("pgmest-journal", 4, "journal of paid answers", JournalError)


class Store(OneProcess):
    """An open file of the store. `lines` holds the lines that were last read; the first of them is the header.

    The path is resolved once, when the file is opened: a later change of the working directory or of a symbolic link
    does not separate the file from its head.

    Args:
        path: the path of the file.
        kind: the use of the file.
        mode: one of `MODES`.

    Raises:
        FileFormatError: if the file cannot be opened.
        kind.error: if it exists and was to be created, or is not a plain file.
    """

    def __init__(self, path: str | Path, kind: Kind, mode: str):
        self.kind: Kind = kind
        self.error: type[PgmestError] = kind.error
        self.lines: list[dict[str, Any]] = []
        self._threads = threading.Lock()
        self._holder: int | None = None  # the thread that has `_threads`
        self._mode = mode
        try:
            self.path: Path = Path(os.path.realpath(path))
            self._file = os.open(self.path, MODES[mode] | getattr(os, "O_BINARY", 0), 0o600)
        except FileExistsError:
            raise self.error(f"{path} exists already; it is created once. Name another file.") from None
        except (OSError, ValueError) as problem:  # ValueError: a path with a null character
            raise FileFormatError.of(path, f"cannot be opened: {_reason(problem)}.", "Check the folder.") from None
        # The system closes the file at the end of the process; runs that are still open are ended before that.
        self._close = weakref.finalize(self, os.close, self._file)
        self._close.atexit = False
        if not stat.S_ISREG(os.fstat(self._file).st_mode):  # a device would have no end
            self.close()
            raise self.error(f"{self.path} is not a plain file; name another one.")

    @property
    def open(self) -> bool:
        """True until the file is closed."""
        return self._close.alive

    @property
    def head(self) -> str:
        """The digest of all lines."""
        return _head(self.lines)

    def close(self) -> None:
        """Close the file and release its lock. A forked process closes its own handle and leaves the lock alone."""
        if self.open and self._in_its_process():
            with contextlib.suppress(OSError):
                locks.unlock(self._file)
        self._close()

    def remove(self) -> None:
        """Close a file that this object created and delete it with its head."""
        for path in (self._head_path, self.path):
            with contextlib.suppress(OSError):
                path.unlink()
        self.close()

    def hold(self, seconds: float = 0.0) -> None:
        """Lock the file until it is closed.

        Args:
            seconds: the longest wait for another process that has the lock.

        Raises:
            error: if another process has the lock, or the file system has no locks.
        """
        try:
            held = locks.lock(self._file, seconds)
        except OSError as problem:
            raise self.error(f"{self.path} cannot be locked: {problem}. Put it on a file system with locks.") from None
        if not held:
            raise self.error(f"{self.path} is in use by another run; wait for it, or name another file.")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the file for a moment, waiting for other processes, and read the lines that they added.

        Raises:
            error: if others keep the lock for a minute, if this thread has it already, or as `read` does.
        """
        self._check_open()
        if self._mode == "look":
            raise self.error(f"{self.path} was opened to be looked at: open it without read_only=True.")
        if self._holder == threading.get_ident():  # a signal handler would wait for the code that it interrupted
            raise self.error(f"{self.path} is being written by this thread; a signal handler cannot use it.")
        with self._threads:
            self._holder = threading.get_ident()
            try:
                self.hold(SECONDS)
                try:
                    self.read()
                    yield
                finally:
                    locks.unlock(self._file)
            finally:
                self._holder = None

    def read(self) -> None:
        """Read all lines, and cut off a last line that was not written to its end: such a line never counted.

        Raises:
            error: if lines are not as they were written or are missing, or the file is a copy or was replaced.
        """
        size = self._load()
        copied = self._copied(self._read_head())
        if copied:
            twice = "If the original is used, too, answers are paid for twice or not at all. Use the original."
            raise self.error(f"{self.path} {copied} {twice} {REMEDY}")
        if size < os.fstat(self._file).st_size:
            os.ftruncate(self._file, size)

    def look(self) -> str:
        """Read the lines of the newest file or of a copy, without a lock, and change nothing.

        Returns:
            why the file may be a copy; "" if it is the newest one.

        Raises:
            error: if lines are not as they were written, or fewer than the head file says.
        """
        head = self._read_head()  # before the lines, of which a run may add some now
        self._load(started=True)
        return self._copied(head)

    def adopt(self) -> str:
        """Write a new head file for the lines as they are, and return the last digest.

        Raises:
            error: if a line has been changed, or the file has no line.
        """
        self._load(started=True)
        try:
            self._write_head(self.lines)
        except (OSError, FileFormatError) as problem:
            raise self._unwritten(problem) from None
        return self.head

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a line to disk, the first one with the format and the version. It counts once this returns.

        Raises:
            error: if the line cannot be written; the file is then as it was before.
            TypeError, ValueError: if the record has values that JSON does not have.
        """
        self._check_open()
        first = not self.lines
        if first:
            record = {"format": self.kind.format, "version": self.kind.version, **record}
        plain = json.loads(json.dumps(record))
        line = {**plain, "check": chained(self.head, plain)}
        data, before = (json.dumps(line) + "\n").encode(), os.fstat(self._file).st_size
        try:
            try:
                if first:
                    self._write_head([])  # lines without a head are then always a sign of tampering
                if os.write(self._file, data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(self._file)
                self._write_head([*self.lines, line])
            except (OSError, FileFormatError) as problem:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, before)  # or the next line would follow half of this one
                raise self._unwritten(problem) from None
        except BaseException:  # an interruption, after which the line may be on disk: what is there counts
            with contextlib.suppress(PgmestError, OSError):
                self.read()
            raise
        self.lines.append(line)
        if first:
            sync_folder(self.path.parent)  # so that the file survives a crash

    def _load(self, started: bool = False) -> int:
        """Read the lines that were written to their end, and return the number of their bytes.

        Args:
            started: whether a file without lines is refused.
        """
        self._check_in_place()
        text = read_all(self._file)
        size = text.rfind(b"\n") + 1
        start = f'{{"format": "{self.kind.format}"'.encode()
        if not size and (started or not start.startswith(text[: len(start)])):
            raise self._no_such_file()
        self.lines = self._checked(text[:size].splitlines())
        return size

    def _checked(self, lines: list[bytes]) -> list[dict[str, Any]]:
        """Return the lines as records, after following the chain of digests."""
        if not lines:
            return []
        try:
            records = list(map(json.loads, lines))
            if records[0]["format"] != self.kind.format:
                raise ValueError
            version = records[0].get("version")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._no_such_file() from None
        if version != self.kind.version:
            raise self.error(
                f"{self.path} is a {self.kind.name} of version {version}; this pgmest reads version "
                f"{self.kind.version}. Use the one that wrote it, or name another file."
            )
        before = ""
        for number, record in enumerate(records, 1):
            kept = dict(record) if isinstance(record, dict) else {}
            if kept.pop("check", None) != chained(before, kept):
                raise self.error(
                    f"{self.path} is damaged: line {number} of {len(records)} is not as it was written, or one before "
                    "it is missing. Restore the file, or name another one, whose run pays for everything again."
                )
            before = record["check"]
        return records

    def _copied(self, head: dict[str, Any] | None) -> str:
        """Return why the file may be a copy, as the end of a sentence; "" if it is the newest one."""
        if head is None:
            name = self._head_path.name
            missing = f"may be a copy: {name} is missing, so nobody can tell whether lines were cut off."
            return missing if self.lines else ""
        count, digest, inode = (head.get(name) for name in ("lines", "head", "file"))
        known = type(count) is int and 0 <= count <= len(self.lines)
        if not known or digest != _head(self.lines[:count]):
            raise self.error(
                f"{self.path} was rolled back or truncated: {self._head_path.name} records {count} lines that end in "
                f"{str(digest)[:12]}, which are not there. The answers that they paid for were released. Restore the "
                f"newest file. {REMEDY}"
            )
        return "" if inode == self._inode else "is a copy."

    def _read_head(self) -> dict[str, Any] | None:
        try:
            head = json.loads(self._head_path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise self.error(f"{self._head_path} cannot be read: {_reason(problem)}. Check the file.") from None
        except (ValueError, RecursionError):
            head = {}
        return head if isinstance(head, dict) else {}

    def _write_head(self, lines: list[dict[str, Any]]) -> None:
        values = {"file": self._inode, "lines": len(lines), "head": _head(lines)}
        write_atomically(self._head_path, json.dumps(values) + "\n")

    @property
    def _head_path(self) -> Path:
        return self.path.with_name(self.path.name + ".head")

    @property
    def _inode(self) -> int:
        return os.fstat(self._file).st_ino

    def _check_open(self) -> None:
        self._check_process()
        if not self.open:
            raise self.error(f"{self.path} was closed; open it again.")

    def _check_in_place(self) -> None:
        """Raise an error if the path no longer names the open file: lines added to it would be lost."""
        try:
            same = os.path.samestat(os.stat(self.path), os.fstat(self._file))
        except OSError:
            same = False
        if not same:
            raise self.error(f"{self.path} was moved or replaced while it was open. Open the newest file again.")

    def _unwritten(self, problem: Exception) -> PgmestError:
        return self.error(
            f"{self.path} cannot be written: {_reason(problem)}. No answer was handed out that is not in it; make room "
            "and start the run again, which pays again only for what it lacks."
        )

    def _no_such_file(self) -> PgmestError:
        return self.error(f"{self.path} is not a {self.kind.name}; name another file.")


def adopt_file(path: str | Path) -> str:
    """Accept a ledger or a journal that was moved or restored as the newest and only one, and return its head.

    Raises:
        LedgerError: if the file is neither, was edited, or is in use.
        FileFormatError: if the file cannot be opened.
    """
    errors: list[LedgerError] = []
    for kind in (LEDGER, CHECKPOINT):
        with contextlib.closing(Store(path, replace(kind, error=LedgerError), "open")) as store:
            try:
                store.hold()
                return store.adopt()
            except LedgerError as error:
                errors.append(error)
    raise max(errors, key=lambda error: "is not a" not in str(error))


def chained(before: str, record: Mapping[str, Any]) -> str:
    """Return the digest of a line and of all lines before it."""
    return hashlib.sha256(json.dumps([before, record], sort_keys=True).encode()).hexdigest()


def read_all(file: int) -> bytes:
    """Return the content of an open file. Reading by the handle, not by the path, reads the file that is locked."""
    os.lseek(file, 0, os.SEEK_SET)
    return b"".join(iter(lambda: os.read(file, CHUNK), b""))


def sync_folder(folder: Path) -> None:
    """Write a folder to disk, so that a new file in it survives a crash; Windows does this by itself."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _head(lines: list[dict[str, Any]]) -> str:
    return lines[-1]["check"] if lines else ""


def _reason(problem: Exception) -> str:
    return str(getattr(problem, "strerror", None) or problem).rstrip(".")
