"""An append-only file of JSON lines, each with a digest of all lines before it, and a head file beside it.

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
from pathlib import Path
from typing import Any

from pgmest._base.files import write_atomically
from pgmest.errors import FileFormatError, PgmestError
from pgmest.privacy import locks
from pgmest.privacy.one_process import OneProcess

SECONDS = 60.0
"""The longest wait, in seconds, for a file that other processes write to line by line."""

CHUNK = 1 << 20
"""The number of bytes that are read from a file at a time."""


class ChainedFile(OneProcess):
    """An open chained file. `lines` holds the lines that were last read; the first of them is the header.

    The path is resolved once, when the file is opened: a later change of the working directory or of a symbolic link
    does not separate the file from its head.

    Args:
        path: the path of the file.
        kind: the value of "format" in the header.
        version: the value of "version" in the header.
        name: the name of this kind of file in error messages, such as "journal of paid answers".
        error: the exception to raise if the file is not as it was written.
        create: whether to create the file if it does not exist.
        exclusive: whether the file must not exist yet. The system checks this, so that of several processes that
            create the same file at once only one succeeds.
        read_only: whether the file is opened for `look` only.

    Raises:
        FileFormatError: if the file cannot be opened.
    """

    def __init__(
        self,
        path: str | Path,
        kind: str,
        version: int,
        name: str,
        error: type[PgmestError],
        create: bool = True,
        exclusive: bool = False,
        read_only: bool = False,
    ):
        self.kind: str = kind
        self.version: int = version
        self.name: str = name
        self.error: type[PgmestError] = error
        self.lines: list[dict[str, Any]] = []
        self._threads = threading.Lock()
        self._holder: int | None = None  # the thread that has `_threads`
        self._read_only = read_only
        looks = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)  # without which opening a pipe waits for a writer
        flags = looks if read_only else os.O_RDWR | os.O_APPEND
        flags |= getattr(os, "O_BINARY", 0)
        flags |= os.O_CREAT if create or exclusive else 0
        flags |= os.O_EXCL if exclusive else 0
        try:
            self.path: Path = Path(os.path.realpath(path))
            self._file = os.open(self.path, flags, 0o600)
        except FileExistsError:
            raise error(f"{path} exists already; it is created once. Name another file.") from None
        except (OSError, ValueError) as problem:  # ValueError: a path with a null character
            reason = getattr(problem, "strerror", None) or problem
            raise FileFormatError.of(path, f"cannot be opened: {reason}.", "Check the folder.") from None
        # The system closes the file at the end of the process; runs that are still open are ended before that.
        self._close = weakref.finalize(self, os.close, self._file)
        self._close.atexit = False
        if not stat.S_ISREG(os.fstat(self._file).st_mode):  # a device would have no end
            self.close()
            raise error(f"{self.path} is not a plain file; name another one.")

    @property
    def open(self) -> bool:
        """True until the file is closed."""
        return self._close.alive

    @property
    def head(self) -> str:
        """The digest of all lines."""
        return self.lines[-1]["check"] if self.lines else ""

    def close(self) -> None:
        """Close the file and release its lock. A forked process closes its own handle and leaves the lock alone."""
        if self.open and self._in_its_process():
            with contextlib.suppress(OSError):
                locks.unlock(self._file)
        self._close()

    def remove(self) -> None:
        """Close a file that this object created exclusively and delete it with its head."""
        for path in (self._head_path, self.path):
            with contextlib.suppress(OSError):
                path.unlink()
        self.close()

    def hold(self) -> None:
        """Lock the file until it is closed.

        Raises:
            error: if another process has the lock, or the system has no locks.
        """
        self._lock(0.0)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the file for a moment, waiting for other processes, and read the lines that they added.

        Raises:
            error: if others keep the lock for a minute, if this thread has it already, or as `read` does.
        """
        self._check_process()
        if not self.open:
            raise self.error(f"{self.path} was closed; open it again.")
        if self._read_only:
            raise self.error(f"{self.path} was opened to be looked at: open it without read_only=True.")
        if self._holder == threading.get_ident():  # a signal handler would wait for the code that it interrupted
            raise self.error(f"{self.path} is being written by this thread; a signal handler cannot use it.")
        with self._threads:
            self._holder = threading.get_ident()
            try:
                self._lock(SECONDS)
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
        text, whole = self._text()
        self.lines = self._checked(whole.splitlines())
        copied = self._compare_with_head(self._read_head())
        if copied:
            twice = "If the original is used, too, answers are paid for twice or not at all. Use the original."
            raise self.error(f"{self.path} {copied} {twice} {REMEDY}")
        if len(whole) < len(text):
            os.ftruncate(self._file, len(whole))

    def look(self) -> str:
        """Read the lines of the newest file or of a copy, without a lock, and change nothing.

        Returns:
            why the file may be a copy; "" if it is the newest one.

        Raises:
            error: if lines are not as they were written, or fewer than the head file says.
        """
        head = self._read_head()  # before the lines, of which a run may add some now
        self.lines = self._checked(self._text()[1].splitlines())
        if not self.lines:
            raise self._no_such_file()
        return self._compare_with_head(head)

    def start(self, header: Mapping[str, Any]) -> None:
        """Write the header of a file without lines, and sync the folder, so that the file survives a crash.

        Raises:
            error: if there are lines already, or the file cannot be written.
        """
        if self.lines:
            raise self.error(f"{self.path} has been started already; open it instead.")
        with self._named():
            self._write_head()  # of no lines: lines without a head are then always a sign of tampering
        self._add({"format": self.kind, "version": self.version, **header})
        sync_folder(self.path.parent)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a line to disk. The line counts from the moment this returns.

        Raises:
            error: if the line cannot be written; the file is then as it was before.
            TypeError, ValueError: if the record has values that JSON does not have.
        """
        self._check_process()
        if not self.open:
            raise self.error(f"{self.path} was closed; open it again.")
        self._add(record)

    def adopt(self) -> str:
        """Write a new head file for the lines as they are, and return the last digest.

        Raises:
            error: if a line has been changed, or the file has no line.
        """
        self.lines = self._checked(self._text()[1].splitlines())
        if not self.lines:
            raise self._no_such_file()
        with self._named():
            self._write_head()
        return self.head

    def _text(self) -> tuple[bytes, bytes]:
        """Return the content of the file, and the part of it that consists of whole lines."""
        self._check_in_place()
        text = read_all(self._file)
        whole = text[: text.rfind(b"\n") + 1]
        start = f'{{"format": "{self.kind}"'.encode()
        if not whole and not start.startswith(text[: len(start)]):
            raise self._no_such_file()
        return text, whole

    def _check_in_place(self) -> None:
        """Raise an error if the path no longer names the open file: lines added to it would be lost."""
        try:
            same = os.path.samestat(os.stat(self.path), os.fstat(self._file))
        except OSError:
            same = False
        if not same:
            raise self.error(f"{self.path} was moved or replaced while it was open. Open the newest file again.")

    def _add(self, record: Mapping[str, Any]) -> None:
        plain = json.loads(json.dumps(record))
        line = {**plain, "check": chained(self.head, plain)}
        data, before = (json.dumps(line) + "\n").encode(), os.fstat(self._file).st_size
        try:
            with self._named():
                try:
                    if os.write(self._file, data) != len(data):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    os.fsync(self._file)
                    self.lines.append(line)
                    self._write_head()
                except (OSError, FileFormatError):
                    with contextlib.suppress(OSError):
                        os.ftruncate(self._file, before)  # or the next line would follow half of this one
                    self.lines = [kept for kept in self.lines if kept is not line]
                    raise
        except PgmestError:
            raise
        except BaseException:  # an interruption, after which the line may be on disk: what is there counts
            with contextlib.suppress(PgmestError, OSError):
                self.read()
            raise

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Turn an error of the file system into one that names the file and the remedy."""
        try:
            yield
        except (OSError, FileFormatError) as problem:
            raise self.error(
                f"{self.path} cannot be written: {getattr(problem, 'strerror', None) or problem}. No answer was handed "
                "out that is not in it; make room and start the run again, which pays again only for what it lacks."
            ) from None

    def _checked(self, lines: list[bytes]) -> list[dict[str, Any]]:
        """Return the lines as records, after following the chain of digests."""
        if not lines:
            return []
        try:
            records = list(map(json.loads, lines))
            if records[0]["format"] != self.kind:
                raise ValueError
            version = records[0].get("version")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._no_such_file() from None
        if version != self.version:
            raise self.error(
                f"{self.path} is a {self.name} of version {version}; this pgmest reads version {self.version}. "
                "Use the one that wrote it, or name another file."
            )
        before = ""
        for number, record in enumerate(records):
            kept = dict(record) if isinstance(record, dict) else {}
            if kept.pop("check", None) != chained(before, kept):
                raise self.error(
                    f"{self.path} is damaged: line {number + 1} of {len(records)} is not as it was written, or one "
                    "before it is missing. Restore the file, or name another one, whose run pays for everything again."
                )
            before = record["check"]
        return records

    def _compare_with_head(self, head: dict[str, Any] | None) -> str:
        """Return why the file may be a copy, as the end of a sentence; "" if it is the newest one."""
        if head is None:
            missing = (
                f"may be a copy: {self._head_path.name} is missing, so nobody can tell whether lines were cut off."
            )
            return missing if self.lines else ""
        count, digest, inode = (head.get(name) for name in ("lines", "head", "file"))
        known = type(count) is int and 0 <= count <= len(self.lines)
        if not known or digest != (self.lines[count - 1]["check"] if count else ""):
            raise self.error(
                f"{self.path} was rolled back or truncated: {self._head_path.name} records {count} lines that end in "
                f"{str(digest)[:12]}, which are not there. The answers that they paid for were released. Restore the "
                f"newest file. {REMEDY}"
            )
        if inode != _inode(self._file):
            return "is a copy."
        return ""

    def _read_head(self) -> dict[str, Any] | None:
        try:
            head = json.loads(self._head_path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError):
            head = {}
        return head if isinstance(head, dict) else {}

    def _write_head(self) -> None:
        values = {"file": _inode(self._file), "lines": len(self.lines), "head": self.head}
        write_atomically(self._head_path, json.dumps(values) + "\n")

    @property
    def _head_path(self) -> Path:
        return self.path.with_name(self.path.name + ".head")

    def _lock(self, seconds: float) -> None:
        try:
            got = locks.lock(self._file, seconds)
        except OSError as error:
            raise self.error(f"{self.path} cannot be locked: {error}. Put it on a file system with locks.") from None
        if not got:
            raise self.error(f"{self.path} is in use by another run; wait for it, or name another file.")

    def _no_such_file(self) -> PgmestError:
        return self.error(f"{self.path} is not a {self.name}; name another file.")


REMEDY = "If it was moved here and no other copy is in use, accept it with `pgmest ledger adopt FILE`."


def adopt(path: str | Path, kind: str, version: int, name: str, error: type[PgmestError]) -> str:
    """Accept a file as the newest and only one: write a new head file, and return the last digest.

    Raises:
        error: if a line is not as it was written, or another run has the file.
    """
    file = ChainedFile(path, kind, version, name, error, create=False)
    try:
        file.hold()
        return file.adopt()
    finally:
        file.close()


def chained(before: str, record: Mapping[str, Any]) -> str:
    """Return the digest of a line and of all lines before it."""
    return hashlib.sha256(json.dumps([before, record], sort_keys=True).encode()).hexdigest()


def read_all(file: int) -> bytes:
    """Return the content of an open file. Reading by the handle, not by the path, reads the file that is locked."""
    os.lseek(file, 0, os.SEEK_SET)
    parts = []
    while part := os.read(file, CHUNK):
        parts.append(part)
    return b"".join(parts)


def sync_folder(folder: Path) -> None:
    """Write a folder to disk, so that a new file in it survives a crash; Windows does this by itself."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


def _inode(file: int) -> int:
    return os.fstat(file).st_ino
