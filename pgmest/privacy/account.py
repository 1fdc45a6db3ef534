"""The account of a run: a request is charged to the run's ledger and to the dataset's, and only then answered.

The order is what everything rests on: check what is left, the ledger of the dataset, the ledger of the run,
the records, the journal's file, the note in the dataset's ledger that the answer is there. No answer is handed out
before its line is on disk. If the process dies anywhere in between, the run can be resumed: a charge without an answer
is used for the same request, and an answer without a charge is charged when the journal repeats it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pgmest.errors import ArgumentError, LedgerError
from pgmest.privacy.dataset_ledger import DatasetLedger
from pgmest.privacy.journal import Journal, digest
from pgmest.privacy.ledger import Entry, Ledger, Standing, amounts
from pgmest.privacy.ledger_runs import LedgerRun
from pgmest.privacy.one_process import OneProcess
from pgmest.privacy.relations import Relation


class Account(OneProcess):
    """The ledger of a run, its journal, and its run on the ledger of the dataset, where its whole budget is reserved.

    All views of the records of a run (`Curator.through`) share it.

    Args:
        ledger: the ledger of the run.
        journal: a file that keeps paid answers, or an open `Journal`, which the caller closes.
        dataset: the ledger of the dataset, or a run on it, which the caller ends.
        relation: the relation that the run protects.
        backend: the name of the source of noise.
        header: what must not change when a run is resumed, besides budget, relation and backend. JSON values.
        fingerprint: the function that returns a digest of the records under a secret key.
        label: the name of the run in the dataset's ledger.

    Raises:
        ArgumentError: if simulated noise is to be charged to a ledger of a dataset.
        JournalError: if the journal belongs to another run or to other records, or charges a ledger that is not given.
        BudgetExceeded, BudgetTypeError, LedgerError: as for `DatasetLedger.begin`.
    """

    def __init__(
        self,
        ledger: Ledger,
        journal: str | Path | Journal | None,
        dataset: str | Path | DatasetLedger | LedgerRun | None,
        relation: Relation,
        backend: str,
        header: Mapping[str, Any],
        fingerprint: Callable[[bytes], str],
        label: str,
    ):
        if dataset is not None and backend == "simulation":
            raise ArgumentError("simulated noise protects nobody, so no ledger of a dataset can account for it.")
        self.ledger: Ledger = ledger
        self._shared = isinstance(journal, Journal) or isinstance(dataset, LedgerRun)
        if isinstance(journal, str | Path):
            run = {"budget": amounts(ledger.budget), "neighbors": repr(relation.neighbors), "unit": relation.unit}
            journal = Journal(journal, {**run, "backend": backend, **header}, fingerprint)
        self.journal: Journal | None = journal
        try:
            self.run: LedgerRun | None = dataset if isinstance(dataset, LedgerRun) else None
            if self.run is None:
                self._begin(dataset, relation, label)
            if self.run is not None:
                ledger.stand = partial(_standing, self.run.ledger, self.run.name)
        except BaseException:
            if journal is not None:
                journal.close()
            raise

    def _begin(self, dataset: Any, relation: Relation, label: str) -> None:
        """Reserve the whole budget on the ledger of the dataset, for a new run or for the journal's."""
        journal, own = self.journal, self.ledger
        if journal is not None:
            journal.check_ledger(dataset is not None)
        if dataset is None:
            return
        opened = dataset if isinstance(dataset, DatasetLedger) else DatasetLedger(dataset)
        self.run = opened.begin(own.budget, relation, label, None if journal is None else journal.run, own.delta)
        if journal is not None:
            journal.charges(opened.id)

    @property
    def ended(self) -> str | None:
        """The time at which the run in the journal had ended; None if it had not, or if others share the journal."""
        return None if self.journal is None or self._shared else self.journal.ended

    def end(self) -> None:
        """Write to the journal that the run has ended, so that it is not continued, unless others share it."""
        if self.journal is not None and not self._shared:
            self.journal.end()

    def close(self) -> None:
        """Close the journal, so that the run can be resumed, and give back to the dataset's ledger what was not spent.

        If the ledger cannot be written, a warning says so: what was not spent stays reserved, and no answer is lost.
        Nothing is done where others share the journal or the run.
        """
        if self._shared:
            return
        if self.journal is not None:
            self.journal.close()
        if self.run is not None and self.run._in_its_process():
            try:
                self.run.end()
            except LedgerError as error:
                warnings.warn(f"the unspent budget of the run stays reserved: {error}", stacklevel=3)

    def pay(
        self, entry: Entry, details: Callable[[], Any], look: Callable[[], Any], charged: Callable[[], object]
    ) -> Any:
        """Charge for a request and answer it, from the journal if it has the answer.

        Args:
            entry: the charge.
            details: a function that returns what distinguishes the request in a journal, besides the entry.
            look: a function that answers from the records.
            charged: called after the charge.

        Raises:
            BudgetExceeded, LedgerError, JournalError: if it cannot be charged; nothing was answered.
        """
        journal = self.journal
        if journal is None:
            self.charge(entry, charged)
            return look()
        key = digest([entry.kind, entry.label, amounts(entry.cost), dict(entry.parameters), repr(details())])
        number, line = journal.following(entry.label, key)
        if line is None:
            self.charge(entry, charged, number)
            answer = look()
            self._note(entry, number, journal.append(entry.label, key, answer))
        else:
            answer = line["answer"]
            self.ledger.check(entry)
            self._note(entry, number, line)
            self.ledger.charge(entry)
            charged()
        journal.advance()
        return answer

    def charge(self, entry: Entry, charged: Callable[[], object], number: int | None = None) -> None:
        """Charge the ledger of the dataset and that of the run.

        Args:
            entry: the charge.
            charged: called after the charge.
            number: the number of the request in the journal.

        Raises:
            BudgetExceeded, LedgerError: if it cannot be charged; nothing was.
        """
        self.ledger.check(entry)
        if self.run is not None:
            self.run.charge(entry, number)
        self.ledger.charge(entry)
        charged()

    def _note(self, entry: Entry, number: int, line: Mapping[str, Any]) -> None:
        """Note in the ledger of the dataset that the answer is on disk, charging for it if the ledger has not yet."""
        if self.run is not None:
            self.run.charge(entry, number, line["check"])


def _standing(ledger: DatasetLedger, run: str) -> Standing:
    """Return where a run stands now; it does not hold the `LedgerRun`, which ends when it is dropped."""
    return Standing(run, ledger.taken())
