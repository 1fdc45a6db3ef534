"""Payment: a request is charged to the run's ledger and to the dataset's, and only then answered.

The order is what everything rests on: check what is left, the ledger of the dataset, the ledger of the run,
the records, the journal's file, the note in the dataset's ledger that the answer is there. No answer is handed out
before its line is on disk. If the process dies anywhere in between, the run can be resumed: a charge without an answer
is used for the same request, and an answer without a charge is charged when the journal repeats it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pgmest.errors import ArgumentError, BudgetExceeded, LedgerError
from pgmest.privacy.accesses import Access
from pgmest.privacy.budgets import Budget
from pgmest.privacy.dataset_ledger import DatasetLedger
from pgmest.privacy.journal import Journal, digest
from pgmest.privacy.ledger import Entry, Ledger, amounts
from pgmest.privacy.ledger_runs import LedgerRun
from pgmest.privacy.one_process import OneProcess
from pgmest.privacy.relations import Relation
from pgmest.privacy.requests import Request

Look = Callable[[Entry, Access], Any]
"""A function that answers an access from the records."""


def check_secure(ledger: object, backend: str) -> None:
    """Raise ArgumentError if simulated noise is to be charged to a ledger of a dataset."""
    if ledger is not None and backend == "simulation":
        raise ArgumentError("simulated noise protects nobody, so no ledger of a dataset can account for it.")


def begin_run(
    journal: Journal | None,
    ledger: str | Path | DatasetLedger | None,
    budget: Budget,
    relation: Relation,
    label: str,
    threshold_delta: float = 0.0,
) -> LedgerRun | None:
    """Return the run on the dataset's ledger: the journal's run, or a new one; None without a ledger.

    The whole budget is reserved at once. If that fails, the journal is closed.

    Raises:
        JournalError: if the journal charges a ledger that is not given.
        BudgetExceeded, BudgetTypeError, LedgerError: as for `DatasetLedger.begin`.
    """
    try:
        if journal is not None:
            journal.check_ledger(ledger is not None)
        if ledger is None:
            return None
        opened = ledger if isinstance(ledger, DatasetLedger) else DatasetLedger(ledger)
        run = opened.begin(budget, relation, label, None if journal is None else journal.run, threshold_delta)
        if journal is not None:
            journal.charges(opened.id)
        return run
    except BaseException:
        if journal is not None:
            journal.close()
        raise


def end_run(journal: Journal | None, run: LedgerRun | None) -> None:
    """Close the journal, so that the run can be resumed, and give back to the dataset's ledger what was not spent.

    If the ledger cannot be written, a warning says so: what was not spent stays reserved, and no answer is lost.
    """
    if journal is not None:
        journal.close()
    if run is not None and run._in_its_process():
        try:
            run.end()
        except LedgerError as error:
            warnings.warn(f"the unspent budget of the run stays reserved: {error}", stacklevel=3)


class Payment(OneProcess):
    """The accounts from which the requests of a run are paid. All views of its records (`Curator.through`) share it.

    Args:
        ledger: the ledger of the run.
        journal: the journal of paid answers, if any.
        run: the run's account on the ledger of the dataset, if any.
    """

    def __init__(self, ledger: Ledger, journal: Journal | None, run: LedgerRun | None):
        self.ledger: Ledger = ledger
        self._journal = journal
        self._run = run

    def pay(self, request: Request, look: Look, charged: Callable[[], object]) -> Any:
        """Charge for a request and answer it, from the journal if it has the answer.

        Args:
            request: a checked request.
            look: the function that answers from the records.
            charged: called after the charge.

        Raises:
            BudgetExceeded, LedgerError, JournalError: if it cannot be charged; nothing was answered.
        """
        entry, journal = request.entry, self._journal
        if journal is None:
            self.charge(entry, charged)
            return look(entry, request.access)
        details = repr(None if request.details is None else request.details())
        key = digest([entry.kind, entry.label, amounts(entry.cost), dict(entry.parameters), details])
        number, line = journal.following(entry.label, key)
        if line is None:
            self.charge(entry, charged, number)
            answer = look(entry, request.access)
            line = journal.append(entry.label, key, answer)
            self._note(entry, number, line)
        else:
            answer = line["answer"]
            self._check(entry)
            self._note(entry, number, line)
            self._take(entry, charged)
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
        self._check(entry)
        if self._run is not None:
            self._run.charge(entry, number)
        self._take(entry, charged)

    def _check(self, entry: Entry) -> None:
        """Raise an error if the run cannot afford the charge."""
        self._check_process()
        if any(amount > left for amount, left in zip(entry.cost.exact, self.ledger.left, strict=True)):
            raise BudgetExceeded.of(entry.label, entry.cost, self.ledger.remaining, self.ledger.budget)
        self.ledger.check_delta(entry.delta, entry.label)

    def _take(self, entry: Entry, charged: Callable[[], object]) -> None:
        self.ledger.charge(entry)
        charged()

    def _note(self, entry: Entry, number: int, line: Mapping[str, Any]) -> None:
        """Note in the ledger of the dataset that the answer is on disk, charging for it if the ledger has not yet."""
        if self._run is not None:
            self._run.charge(entry, number, line["check"])
