"""The journal: paid answers on disk, so that an interrupted run can be resumed without paying twice.

Each answer is on disk before it is handed out. A run that starts again makes the same requests in the same order; the
journal answers those that were paid for without touching the data, and the curator pays for those that follow. The
file holds only what was released, and its requests as digests: one JSON object a line, the first one about the run.

The file is chained (`chain`): damaged, shortened and copied files are recognized, unless the file and its head file
were both replaced by older ones of the same run. A ledger of the dataset recognizes that, too.

The journal records which ledgers of the dataset the run charges. What a ledger has not seen is charged to it when the
answers are repeated, and a run that charges a ledger cannot be resumed without one.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pgmest.errors import JournalError
from pgmest.privacy.chain import ChainedFile
from pgmest.privacy.one_process import OneProcess

FORMAT, VERSION = "pgmest-journal", 3
NAME = "journal of paid answers"
ANSWER, LEDGER = {"label", "digest", "answer", "check"}, {"ledger", "check"}
"""The fields of the two kinds of lines after the header."""


UNPAID: Final = object()
"""The result of `Journal.recorded` if the request was not paid for; None would be an answer."""


class Journal(OneProcess):
    """The answers that were paid for so far, and the file to which more are added. Only one journal can have the file.

    Args:
        path: the file, which is created if it does not exist.
        run: what must not change when the run is resumed: budget, neighbors, unit, backend, domain. JSON values.

    Raises:
        JournalError: if the file is no journal, belongs to another run, is not as it was written, or is in use.
        FileFormatError: if the file cannot be opened.
    """

    def __init__(self, path: str | Path, run: Mapping[str, Any]):
        self._file = ChainedFile(path, FORMAT, VERSION, NAME, JournalError)
        self.path: Path = self._file.path
        try:
            self._file.hold()
            self._file.read()
            if not self._file.lines:
                self._file.start({**run, "run": secrets.token_hex(16)})
            self._check_run(run)
        except BaseException:
            self._file.close()
            raise
        self._position = 0

    @property
    def paid(self) -> int:
        """The number of answers in the journal."""
        return len(self._answers)

    @property
    def _answers(self) -> list[dict[str, Any]]:
        """The lines with answers: those on disk, also after an interruption while one was written."""
        return [line for line in self._file.lines[1:] if "answer" in line]

    @property
    def run(self) -> str:
        """The name of the run, which no other run has."""
        return str(self._file.lines[0]["run"])

    @property
    def ledgers(self) -> tuple[str, ...]:
        """The identifiers of the dataset ledgers that the run charges."""
        return tuple(line["ledger"] for line in self._file.lines[1:] if "ledger" in line)

    @property
    def number(self) -> int:
        """The number of the next request, from 1."""
        return self._position + 1

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

    def recorded(self, label: str, digest: str) -> Any:
        """Return the answer to the next request if it was paid for, else `UNPAID`; `advance` then goes on.

        Raises:
            JournalError: if another question was paid for at this place, or the journal is closed.
        """
        self._check_process()
        if not self._file.open:
            raise JournalError(f"{self.path} was closed; make another curator to resume its run.")
        if self._position == self.paid:
            return UNPAID
        record = self._answers[self._position]
        if record["digest"] != digest:
            raise JournalError(
                f"{self.path}: answer {self.number} of {self.paid} is to '{record['label']}', but this run asks "
                f"'{label}', or the same for another price or with other parameters. To resume the run, use the "
                "mechanism, parameters, workload and seed of the run that wrote the file; to start a new one, name "
                "another file."
            )
        return record["answer"]

    def append(self, label: str, digest: str, answer: Any) -> None:
        """Write the answer to the next request to disk. Only after that it may be handed out.

        Raises:
            JournalError: if it cannot be written, or has values that JSON does not have; the file is unchanged then.
        """
        try:
            self._file.append({"label": label, "digest": digest, "answer": answer})
        except (TypeError, ValueError) as error:
            if isinstance(error, JournalError):
                raise
            raise JournalError(
                f"the answer to '{label}' was paid for, but cannot be kept in {self.path}: it is not of JSON's types. "
                "Let the mechanism return numbers, text, and lists of these."
            ) from None

    @property
    def answer_digest(self) -> str:
        """The digest of the line with the answer to the next request."""
        return str(self._answers[self._position]["check"])

    def advance(self) -> None:
        """Go on to the next request, whose answer was handed out."""
        self._position += 1

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _check_run(self, run: Mapping[str, Any]) -> None:
        """Raise an error if the file belongs to another run, or has lines that are no answers."""
        here, there = json.loads(json.dumps(run)), self._file.lines[0]
        for name in sorted(here):
            if there.get(name) != here[name]:
                raise JournalError(
                    f"{self.path} is the journal of another run: its {name} is {there.get(name)}, here it is "
                    f"{here[name]}. Name another file, or make the run as it was."
                )
        if "run" not in there or any(record.keys() not in (ANSWER, LEDGER) for record in self._file.lines[1:]):
            raise JournalError(f"{self.path} is not a {NAME}; name another file.")


def digest(request: Any) -> str:
    """Return a short text that differs for different requests, which are JSON values."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
