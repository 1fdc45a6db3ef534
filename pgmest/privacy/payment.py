"""Payment: a request is charged to the run's ledger and the dataset's, and only then answered; or a journal answers it.

Here is the order on which everything rests: what is left, the plan, the dataset's ledger, the run's ledger, the
records, the journal's file. Nothing is handed out before the line about it is on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pgmest._base.errors import BudgetExceeded
from pgmest.privacy.accesses import Access
from pgmest.privacy.dataset_ledger import LedgerRun
from pgmest.privacy.journal import UNPAID, Journal, digest
from pgmest.privacy.ledger import Entry, Ledger, amounts
from pgmest.privacy.one_process import OneProcess
from pgmest.privacy.plans import PlannedRun
from pgmest.privacy.requests import Request

Look = Callable[[Entry, Access], Any]
"""Answers an access from the records."""


class Payment(OneProcess):
    """What the requests of a run are paid from. All views of its records (`Curator.through`) share one.

    Args:
        ledger: of the run.
        plan: that the run keeps to, if any.
        journal: of paid answers, if any.
        run: on the ledger of the dataset, if any.
    """

    def __init__(
        self,
        ledger: Ledger,
        plan: PlannedRun | None,
        journal: Journal | None,
        run: LedgerRun | None,
    ):
        self.ledger: Ledger = ledger
        self._plan = plan
        self._journal = journal
        self._run = run

    def pay(self, request: Request, look: Look, charged: Callable[[], object]) -> Any:
        """Charge, then answer; or charge, and repeat what the journal has.

        Args:
            request: checked.
            look: answers from the records.
            charged: called after the charge.

        Raises:
            BudgetExceeded, PlanError, LedgerError, JournalError: it cannot be charged; nothing was answered.
        """
        entry = request.entry
        if self._journal is None:
            self.charge(entry, charged)
            return look(entry, request.access)
        details = repr(None if request.details is None else request.details())
        key = digest([entry.kind, entry.label, amounts(entry.cost), dict(entry.parameters), details])
        paid = self._journal.replay(entry.label, key)
        self.charge(entry, charged, fresh=paid is UNPAID)
        if paid is not UNPAID:
            return paid
        fresh = look(entry, request.access)
        self._journal.append(entry.label, key, fresh)
        return fresh

    def charge(self, entry: Entry, charged: Callable[[], object], fresh: bool = True) -> None:
        """Charge the dataset's ledger, unless a journal has the answer, and the run's own.

        Raises:
            BudgetExceeded, PlanError, LedgerError: it cannot be charged; nothing was.
        """
        self._check_process()
        if any(amount > left for amount, left in zip(entry.cost.exact, self.ledger.left, strict=True)):
            raise BudgetExceeded.of(entry.label, entry.cost, self.ledger.remaining, self.ledger.budget)
        if self._plan is not None:
            self._plan.take(entry)
        if fresh and self._run is not None:
            self._run.charge(entry.label, entry.kind, entry.cost, entry.delta)
        self.ledger.charge(entry)
        charged()
