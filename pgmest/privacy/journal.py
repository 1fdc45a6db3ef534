"""The journal: paid answers on disk, so that an interrupted run can be resumed without paying twice.

Each answer is on disk before it is handed out. A run that starts again makes the same requests in the same order; the
journal answers those that were paid for without touching the data, and the curator pays for those that follow. The
file holds only what was released, and its requests as digests: one JSON object a line, the first one about the run.

The file is one of the store (`store`): damaged, shortened and copied files are recognized, unless the file and its head
file were both replaced by older ones of the same run. A ledger of the dataset recognizes that, too.

A journal belongs to one table: its header has a digest of the records under a secret key, which is in a file beside it,
NAME.key. Without the key the digest says nothing; the key is for the owner of the records only. A run on another table
is refused, also after the run has ended, whose time the last line says.

The journal records which ledgers of the dataset the run charges. What a ledger has not seen is charged to it when the
answers are repeated, and a run that charges a ledger cannot be resumed without one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from pgmest.errors import FileFormatError, JournalError
from pgmest.privacy.one_process import OneProcess
from pgmest.privacy.store import CHECKPOINT, Store

ANSWER = {"label", "digest", "answer", "check"}
LINES = ANSWER, {"table", *ANSWER}, {"ledger", "check"}, {"ended", "check"}
"""The fields of each kind of line after the header: answers, those about one of several linked tables with its name;
the identifiers of ledgers; and the time at which the run ended."""
OWN = {"format", "version", "check", "run", "records"}
"""The fields of the header that the journal adds to those that describe the run."""
KEY_BYTES = 16


class Journal(OneProcess):
    """The answers that were paid for so far, and the file to which more are added. Only one journal can have the file.

    Args:
        path: the file, which is created if it does not exist.
        run: what must not change when the run is resumed: budget, neighbors, unit, backend, domain. JSON values.
        fingerprint: the function that returns a digest of the records under a secret key (`Dataset.fingerprint`).

    Raises:
        JournalError: if the file is no journal, belongs to another run or to other records, is not as it was written,
            or is in use; or its key is missing.
        FileFormatError: if the file cannot be opened.
    """

    def __init__(self, path: str | Path, run: Mapping[str, Any], fingerprint: Callable[[bytes], str]):
        self._file = Store(path, CHECKPOINT, "resume")
        self.path: Path = self._file.path
        try:
            self._file.hold()
            self._file.read()
            if self._file.lines:
                self._check_run(run)
            records = fingerprint(journal_key(self.path))
            if not self._file.lines:
                self._file.append({**run, "run": secrets.token_hex(16), "records": records})
            self._check_records(records)
        except BaseException:
            self._file.close()
            raise
        self.ended: str | None = next((line["ended"] for line in self._file.lines[1:] if "ended" in line), None)
        """The time at which the run ended, before this journal was opened; None if it has not."""
        self._position, self._table = 0, None

    def about(self, table: str) -> Self:
        """Return the journal of the requests about one of several linked tables, with its own order of requests."""
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__)
        view._position, view._table = 0, table
        return view

    def _answers(self) -> tuple[list[tuple[int, dict[str, Any]]], int]:
        """Return the numbers and lines of the answers, those about the table if there is one, and the number of all.

        They are those on disk, also after an interruption while one was written.
        """
        answers = [line for line in self._file.lines[1:] if "answer" in line]
        return [(k, line) for k, line in enumerate(answers, 1) if line.get("table") == self._table], len(answers)

    @property
    def run(self) -> str:
        """The name of the run, which no other run has."""
        return str(self._file.lines[0]["run"])

    @property
    def ledgers(self) -> tuple[str, ...]:
        """The identifiers of the dataset ledgers that the run charges."""
        return tuple(line["ledger"] for line in self._file.lines[1:] if "ledger" in line)

    def charges(self, ledger: str) -> None:
        """Record that the run charges a ledger from now on.

        Args:
            ledger: the identifier of the ledger (`DatasetLedger.id`).
        """
        if ledger not in self.ledgers:
            self._file.append({"ledger": ledger})

    def check_ledger(self, given: bool) -> None:
        """Check that a run that charges a ledger is not resumed without one.

        Raises:
            JournalError: if it is.
        """
        if self.ledgers and not given:
            raise JournalError(
                f"{self.path}: this run charges the ledger of its dataset ({self.ledgers[-1][:8]}), and cannot be "
                "resumed without: give ledger= (--ledger)."
            )

    def following(self, label: str, digest: str) -> tuple[int, dict[str, Any] | None]:
        """Return the number of the next request in the run, from 1, and the line with its answer if it was paid for.

        `advance` goes on to the request after it.

        Raises:
            JournalError: if another question was paid for at this place, the run has ended without this one, or the
                journal is closed.
        """
        self._check_process()
        if not self._file.open:
            raise JournalError(f"{self.path} was closed; make another curator to resume its run.")
        answers, total = self._answers()
        if self._position == len(answers):
            if self.ended is not None:
                raise JournalError(
                    f"{self.path}: its run ended on {self.ended} without a request for '{label}'. To repeat the run, "
                    "use its mechanism, parameters, workload and seed; to start a new one, name another file."
                )
            return total + 1, None
        number, line = answers[self._position]
        if line["digest"] != digest:
            raise JournalError(
                f"{self.path}: answer {self._position + 1} of {len(answers)} is to '{line['label']}', but this run "
                f"asks '{label}', or the same for another price or with other parameters. To resume the run, use the "
                "mechanism, parameters, workload and seed of the run that wrote the file; to start a new one, name "
                "another file."
            )
        return number, line

    def append(self, label: str, digest: str, answer: Any) -> dict[str, Any]:
        """Write the answer to the next request to disk, and return its line. Only after that it may be handed out.

        Raises:
            JournalError: if it cannot be written, or has values that JSON does not have; the file is unchanged then.
        """
        try:
            json.dumps(answer)
        except (TypeError, ValueError):
            raise JournalError(
                f"the answer to '{label}' was paid for, but cannot be kept in {self.path}: it is not of JSON's types. "
                "Let the mechanism return numbers, text, and lists of these."
            ) from None
        table = {} if self._table is None else {"table": self._table}
        self._file.append({**table, "label": label, "digest": digest, "answer": answer})
        return self._file.lines[-1]

    def advance(self) -> None:
        """Go on to the next request, whose answer was handed out."""
        self._position += 1

    def end(self) -> None:
        """Write that the run has ended: it asks for nothing more."""
        if self.ended is None:
            self.ended = datetime.now(UTC).strftime("%Y-%m-%d at %H:%M:%S UTC")
            self._file.append({"ended": self.ended})

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _check_run(self, run: Mapping[str, Any]) -> None:
        """Raise an error if the file belongs to another run, or has lines that are no answers."""
        here, there = json.loads(json.dumps(run)), self._file.lines[0]
        for name in sorted(here.keys() | there.keys() - OWN):
            if there.get(name) != here.get(name):
                raise JournalError(
                    f"{self.path} is the journal of another run: its {name} is {there.get(name)}, here it is "
                    f"{here.get(name)}. Name another file, or make the run as it was."
                )
        if not {"run", "records"} <= there.keys() or any(record.keys() not in LINES for record in self._file.lines[1:]):
            raise JournalError(f"{self.path} is not a {CHECKPOINT.name}; name another file.")

    def _check_records(self, records: str) -> None:
        """Raise an error if the file is about other records. It depends on them, and is for their owner only."""
        if self._file.lines[0]["records"] != records:
            raise JournalError(
                f"{self.path} has the answers of a run on other records: nothing was asked or paid now. Name another "
                "file for these records, or give the table of the run in the file, encoded with its key if it had one. "
                "This message depends on the records: it is for their owner only."
            )


def journal_key(path: str | Path) -> bytes:
    """Return the secret key of a journal, from the file NAME.key beside it, which is created with a new journal.

    It also decides which rows of a unit count, so that a run that is resumed counts the same ones.

    Raises:
        JournalError: if the journal exists without its key, or the file of the key is no such file.
        FileFormatError: if the path is a folder, or the file of the key cannot be read or written.
    """
    if os.path.isdir(path):
        raise FileFormatError.of(path, "is a folder.", "Name a file in it.")
    try:
        journal = Path(os.path.realpath(path))
        place = journal.with_name(journal.name + ".key")
        if not (journal.exists() and journal.stat().st_size):
            with contextlib.suppress(FileExistsError):
                _write_new(place, secrets.token_hex(KEY_BYTES))
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = getattr(error, "strerror", None) or error
        raise FileFormatError.of(f"{path}.key", f"cannot be written: {reason}.", "Check the folder.") from None
    try:
        key = bytes.fromhex(place.read_text(encoding="ascii"))
    except FileNotFoundError:
        raise JournalError(
            f"{place} is missing, so nobody can tell whether {journal.name} is about these records. Restore it, or "
            "name another file."
        ) from None
    except OSError as error:
        raise FileFormatError.of(place, f"cannot be read: {error.strerror or error}.", "Check the file.") from None
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise JournalError(
            f"{place} is not the key of a journal. Restore it, or name another file than {journal.name}."
        )
    return key


def _write_new(path: Path, text: str) -> None:
    """Write a file that only this user can read, as a whole; raise FileExistsError if it exists."""
    file, name = tempfile.mkstemp(dir=path.parent, prefix=".partial-")
    try:
        os.write(file, text.encode())
        os.fsync(file)
        try:
            os.link(name, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            Path(name).replace(path)
    finally:
        os.close(file)
        Path(name).unlink(missing_ok=True)


def digest(request: Any) -> str:
    """Return a short text that differs for different requests, which are JSON values."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
