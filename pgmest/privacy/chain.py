"""ChainedFile: an append-only file of JSON lines, each with a digest of all lines before it, and a head file beside it.

An edited, removed or exchanged line breaks the chain of digests. The last lines could be cut off without breaking it;
so the head file, NAME.head, says how many there were, the last digest, and which file it is about (its inode, which a
copy does not share). Both files replaced by older ones are not recognized from them alone: keep the last digest
elsewhere (`head`) to see that, too.
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

from pgmest._base.errors import FileFormatError, PgmestError
from pgmest._base.files import write_atomically
from pgmest.privacy import locks
from pgmest.privacy.one_process import OneProcess

SECONDS = 60.0
"""How long to wait for a file that others write to line by line."""


class ChainedFile(OneProcess):
    """An open file of lines. `lines` are those on file when they were last read, the first of which is the header.

    Args:
        path: the file.
        kind, version: what its first line must call it: the values of "format" and "version".
        name: of the kind, for messages: "journal of paid answers".
        error: what is raised where it is not as it was written.
        create: whether to make it where it is not there.

    Raises:
        FileFormatError: it cannot be opened.
    """

    def __init__(
        self, path: str | Path, kind: str, version: int, name: str, error: type[PgmestError], create: bool = True
    ):
        self.path: Path = Path(path)
        self.kind: str = kind
        self.version: int = version
        self.name: str = name
        self.error: type[PgmestError] = error
        self.lines: list[dict[str, Any]] = []
        self._threads = threading.Lock()
        flags = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0) | (os.O_CREAT if create else 0)
        try:
            self._file = os.open(self.path, flags, 0o600)
        except (OSError, ValueError) as problem:  # ValueError: a path with a null character
            reason = getattr(problem, "strerror", None) or problem
            raise FileFormatError.of(path, f"cannot be opened: {reason}.", "Check the folder.") from None
        self._close = weakref.finalize(self, os.close, self._file)
        if not stat.S_ISREG(os.fstat(self._file).st_mode):  # a device would have no end
            self.close()
            raise error(f"{self.path} is not a plain file; name another one.")

    @property
    def open(self) -> bool:
        """Whether it was not closed."""
        return self._close.alive

    @property
    def head(self) -> str:
        """The digest of all lines."""
        return self.lines[-1]["check"] if self.lines else ""

    def close(self) -> None:
        """Let go of the file and its lock. A fork closes its own, and leaves the lock to its parent."""
        if self.open and self._in_its_process():
            with contextlib.suppress(OSError):
                locks.unlock(self._file)
        self._close()

    def hold(self) -> None:
        """Lock the file for good.

        Raises:
            the error: another has it, or there are no locks here.
        """
        self._lock(0.0)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the file for a moment, wait for others, and read what they added.

        Raises:
            the error: others have it for a minute; or as for `read`.
        """
        self._check_process()
        if not self.open:
            raise self.error(f"{self.path} was closed; open it anew to go on with it.")
        with self._threads:
            self._lock(SECONDS)
            try:
                self.read()
                yield
            finally:
                locks.unlock(self._file)

    def read(self) -> None:
        """Read all lines, after cutting off one that was not written to its end, and so never counted.

        Raises:
            the error: they are not as they were written, are fewer than there were, or are a copy.
        """
        text = self.path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        start = f'{{"format": "{self.kind}"'.encode()
        if not whole and not start.startswith(text[: len(start)]):
            raise self._no_such_file()
        self.lines = self._checked(whole.splitlines())
        self._compare_with_head()
        if len(whole) < len(text):
            os.ftruncate(self._file, len(whole))

    def start(self, header: Mapping[str, Any]) -> None:
        """Write the first line, and see that the folder has the file after a crash."""
        self._add({"format": self.kind, "version": self.version, **header})
        sync_folder(self.path.parent)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a line to disk; only after that it counts.

        Raises:
            the error: it cannot be written; the file is as it was before.
            TypeError, ValueError: it is not of JSON's types.
        """
        self._check_process()
        if not self.open:
            raise self.error(f"{self.path} was closed; open it anew to go on with it.")
        self._add(record)

    def _add(self, record: Mapping[str, Any]) -> None:
        plain = json.loads(json.dumps(record))
        line = {**plain, "check": chained(self.head, plain)}
        data, before = (json.dumps(line) + "\n").encode(), os.fstat(self._file).st_size
        try:
            if os.write(self._file, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file)
            self.lines.append(line)
            self._write_head()
        except (OSError, FileFormatError) as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, before)  # or the next line would follow half of this one
            self.lines = [kept for kept in self.lines if kept is not line]
            raise self.error(
                f"{self.path} cannot be written: {getattr(error, 'strerror', None) or error}. No answer was handed out "
                "that is not in it; make room and start the run again, which pays again only for what it lacks."
            ) from None

    def _checked(self, lines: list[bytes]) -> list[dict[str, Any]]:
        """The lines as records, after following the chain."""
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
                    "before it is missing. Restore the file, or name another one, whose run pays for everything anew."
                )
            before = record["check"]
        return records

    def _compare_with_head(self) -> None:
        head = self._read_head()
        if head is None:
            if len(self.lines) > 1:
                raise self.error(f"{self.path}: {self._head_path.name} is missing, so {UNKNOWN} {REMEDY}")
            if self.lines:  # of a process that died between the two
                self._write_head()
            return
        count, digest, inode = (head.get(name) for name in ("lines", "head", "file"))
        known = isinstance(count, int) and 0 < count <= len(self.lines) and self.lines[count - 1]["check"] == digest
        if not known:
            raise self.error(
                f"{self.path} was rolled back or truncated: {self._head_path.name} knows of {count} lines that end in "
                f"{str(digest)[:12]}, which are not there. What they paid for was released. Restore the newest file. "
                f"{REMEDY}"
            )
        if inode != _inode(self._file):
            raise self.error(
                f"{self.path} is a copy, and who goes on with it pays twice if the original is used, too. Go on with "
                f"the original. {REMEDY}"
            )

    def _read_head(self) -> dict[str, Any] | None:
        try:
            head = json.loads(self._head_path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
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


UNKNOWN = "it cannot be seen whether answers were cut off."
REMEDY = "If it was moved here and nobody goes on with another, `pgmest ledger adopt FILE` says so."


def adopt(path: str | Path, kind: str, version: int, name: str, error: type[PgmestError]) -> str:
    """Take a file as it is for the newest and only one, by a new head file; its digest.

    Raises:
        the error: a line is not as it was written, or another run has the file.
    """
    file = ChainedFile(path, kind, version, name, error, create=False)
    try:
        file.hold()
        file.lines = file._checked(file.path.read_bytes().splitlines())
        file._write_head()
        return file.head
    finally:
        file.close()


def chained(before: str, record: Mapping[str, Any]) -> str:
    """The digest of a line and of all before it."""
    return hashlib.sha256(json.dumps([before, record], sort_keys=True).encode()).hexdigest()


def sync_folder(folder: Path) -> None:
    """See that a file's name survives a crash, where the system can say so (Windows does it by itself)."""
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
