"""The journal: paid answers on disk, so that an interrupted run goes on without paying twice.

Each answer is on disk before it is handed out. A run that starts again asks the same questions in the same order; the
journal answers those that were paid for, without touching the data, and the curator pays for those that follow. The
file holds only what was released, and its requests as digests: one JSON object a line, the first one about the run.
Each answer stands with a check sum, so that a damaged file is not taken for what was answered.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pgmest._base.errors import FileFormatError, JournalError

FORMAT, VERSION = "pgmest-journal", 1
FIELDS = {"label", "digest", "answer", "check"}


class Journal:
    """The answers paid for so far, and the file to which more are added. One journal at a time has the file.

    Args:
        path: the file; made if it is not there.
        run: what must be the same when the run starts again: budget, neighbors, backend, domain. JSON values.

    Raises:
        JournalError: the file is no journal, one of another run, or in use.
        FileFormatError: it cannot be opened.
    """

    def __init__(self, path: str | Path, run: Mapping[str, Any]):
        self.path = Path(path)
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o600)
        except (OSError, ValueError) as error:  # ValueError: a path with a null character
            reason = getattr(error, "strerror", None) or error
            raise FileFormatError.of(path, f"cannot be opened: {reason}.", "Check the folder.") from None
        self._close = weakref.finalize(self, os.close, self._file)
        try:
            _lock(self._file, self.path)
            self._records = self._read({"format": FORMAT, "version": VERSION, **run})
        except BaseException:
            self._close()
            raise
        self._replayed = 0

    @property
    def paid(self) -> int:
        """How many answers it holds."""
        return len(self._records)

    def replay(self, label: str, digest: str) -> Any:
        """The answer to the next request if it was paid for, else None.

        Raises:
            JournalError: another question was paid for at this place, or the journal is closed.
        """
        if not self._close.alive:
            raise JournalError(f"{self.path} was closed; make another curator to go on with it.")
        if self._replayed == len(self._records):
            return None
        record = self._records[self._replayed]
        if record["digest"] != digest:
            raise JournalError(
                f"{self.path}: answer {self._replayed + 1} of {self.paid} is to '{record['label']}', but this run asks "
                f"'{label}', or the same for another price or with other parameters. To go on, use the mechanism, "
                "parameters, workload and seed of the run that wrote the file; to start anew, name another file."
            )
        self._replayed += 1
        return record["answer"]

    def append(self, label: str, digest: str, answer: Any) -> None:
        """Write an answer to disk; only after that may it be handed out.

        Raises:
            JournalError: it cannot be written, or is not of JSON's types; the file is as it was before.
        """
        record = {"label": label, "digest": digest, "answer": answer}
        try:
            check = check_sum(record)
        except (TypeError, ValueError):
            raise JournalError(
                f"the answer to '{label}' was paid for, but cannot be kept in {self.path}: it is not of JSON's types. "
                "Let the mechanism return numbers, text, and lists of these."
            ) from None
        self._write({**record, "check": check})
        self._records.append(record)
        self._replayed += 1

    def close(self) -> None:
        """Let go of the file."""
        self._close()

    def _write(self, values: Mapping[str, Any]) -> None:
        line, before = _line(values), os.fstat(self._file).st_size
        try:
            if os.write(self._file, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, before)  # or the next answer would follow half a line
            raise JournalError(
                f"{self.path} cannot be written: {error.strerror}. No answer was handed out that is not in it; make "
                "room and start the run again, which pays again only for what it lacks."
            ) from None

    def _read(self, header: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The answers on file, after cutting off one that was not written to its end, and so was never handed out."""
        text = _content(self._file, self.path)
        whole = text[: text.rfind(b"\n") + 1]
        if not whole and _line(header).startswith(text):  # a run that ended before its first line was written
            os.ftruncate(self._file, 0)
            self._write(header)
            return []
        try:
            first, *records = map(json.loads, whole.splitlines())
            if first["format"] != FORMAT:
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise JournalError(f"{self.path} is not a journal of paid answers; name another file.") from None
        here = json.loads(_line(header))
        for name in sorted(here):
            if first.get(name) != here[name]:
                raise JournalError(
                    f"{self.path} is the journal of another run: its {name} is {first.get(name)}, here it is "
                    f"{here[name]}. Name another file, or make the run as it was."
                )
        for number, record in enumerate(records, 1):
            if not isinstance(record, dict) or record.keys() != FIELDS or record.pop("check") != check_sum(record):
                raise JournalError(
                    f"{self.path} is damaged: answer {number} of {len(records)} is not as it was written. Restore the "
                    "file, or name another one, whose run pays for everything anew."
                )
        os.ftruncate(self._file, len(whole))
        return records


def digest(request: Any) -> str:
    """A short text that differs for different requests, which are JSON values."""
    return hashlib.sha256(_line(request)).hexdigest()


def check_sum(record: Mapping[str, Any]) -> str:
    """A short text that differs for records that differ."""
    return digest([record[name] for name in sorted(record)])[:16]


def _line(values: Any) -> bytes:
    return (json.dumps(values, sort_keys=True) + "\n").encode()


def _lock(file: int, path: Path) -> None:
    """Keep other processes from paying for the same run at the same time, where the system has such locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise JournalError(f"{path} is in use by another run; wait for it, or name another file.") from None


def _content(file: int, path: Path) -> bytes:
    """All of a plain file; a device would have no end."""
    if not stat.S_ISREG(os.fstat(file).st_mode):
        raise JournalError(f"{path} is not a plain file; name another one.")
    return path.read_bytes()
