"""The journal: paid answers on disk, so that an interrupted run goes on without paying twice.

Each answer is on disk before it is handed out. A run that starts again asks the same questions in the same order; the
journal answers those that were paid for, without touching the data, and the curator pays for those that follow. The
file holds only what was released, and its requests as digests: one JSON object a line, the first one about the run.
It is chained (`chain`): damaged, shortened and copied files are recognized, except where the file and its head file
were both replaced by older ones of the same run. A ledger of the dataset sees that, too.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pgmest._base.errors import JournalError
from pgmest.privacy.chain import ChainedFile
from pgmest.privacy.one_process import OneProcess

FORMAT, VERSION = "pgmest-journal", 2
NAME = "journal of paid answers"
FIELDS = {"label", "digest", "answer", "check"}


class Unpaid:
    """What `replay` returns where nothing was paid: None is an answer."""


UNPAID: Final = Unpaid()


class Journal(OneProcess):
    """The answers paid for so far, and the file to which more are added. One journal at a time has the file.

    Args:
        path: the file; made if it is not there.
        run: what must be the same when the run starts again: budget, neighbors, backend, domain. JSON values.

    Raises:
        JournalError: the file is no journal, one of another run, not as it was written, or in use.
        FileFormatError: it cannot be opened.
    """

    def __init__(self, path: str | Path, run: Mapping[str, Any]):
        self.path: Path = Path(path)
        self._file = ChainedFile(path, FORMAT, VERSION, NAME, JournalError)
        try:
            self._file.hold()
            self._file.read()
            if not self._file.lines:
                self._file.start({**run, "run": secrets.token_hex(16)})
            self._check_run(run)
        except BaseException:
            self._file.close()
            raise
        self._replayed = 0

    @property
    def paid(self) -> int:
        """How many answers it holds."""
        return len(self._file.lines) - 1

    @property
    def run(self) -> str:
        """A name of the run that no other has."""
        return str(self._file.lines[0]["run"])

    def replay(self, label: str, digest: str) -> Any:
        """The answer to the next request if it was paid for, else `UNPAID`.

        Raises:
            JournalError: another question was paid for at this place, or the journal is closed.
        """
        self._check_process()
        if not self._file.open:
            raise JournalError(f"{self.path} was closed; make another curator to go on with it.")
        if self._replayed == self.paid:
            return UNPAID
        record = self._file.lines[self._replayed + 1]
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
        try:
            self._file.append({"label": label, "digest": digest, "answer": answer})
        except (TypeError, ValueError) as error:
            if isinstance(error, JournalError):
                raise
            raise JournalError(
                f"the answer to '{label}' was paid for, but cannot be kept in {self.path}: it is not of JSON's types. "
                "Let the mechanism return numbers, text, and lists of these."
            ) from None
        self._replayed += 1

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _check_run(self, run: Mapping[str, Any]) -> None:
        """See that the file is of this run, and its answers are such."""
        here, there = json.loads(json.dumps(run)), self._file.lines[0]
        for name in sorted(here):
            if there.get(name) != here[name]:
                raise JournalError(
                    f"{self.path} is the journal of another run: its {name} is {there.get(name)}, here it is "
                    f"{here[name]}. Name another file, or make the run as it was."
                )
        if "run" not in there or any(record.keys() != FIELDS for record in self._file.lines[1:]):
            raise JournalError(f"{self.path} is not a {NAME}; name another file.")


def digest(request: Any) -> str:
    """A short text that differs for different requests, which are JSON values."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
