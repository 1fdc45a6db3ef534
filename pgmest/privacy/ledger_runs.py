"""The runs of a ledger of a dataset: what each of them reserved, was charged, and answered.

A charge of a run with a journal carries the number of its request. It is written before the records are looked at; a
line "answered" with the digest of the journal's line follows once the answer is on disk, and only then is the answer
handed out. So after a crash the ledger shows whether a charge was answered: a run that repeats an unanswered request is
not charged for it again, and one that repeats an answered request, because its journal was replaced by an older one,
is.
"""

from __future__ import annotations

import atexit
import contextlib
import weakref
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pgmest.errors import PgmestError
from pgmest.privacy.budgets import Budget
from pgmest.privacy.ledger import Entry, amounts, budget_of
from pgmest.privacy.ledger_text import amounts_text, in_terms
from pgmest.privacy.one_process import OneProcess
from pgmest.privacy.relations import Relation, converted

if TYPE_CHECKING:
    from pgmest.privacy.dataset_ledger import DatasetLedger


RUN_COLUMNS = ("began", "run", "mechanism", "protects", "promises", "takes", "requests", "state")
"""The column titles of runs."""


@dataclass(frozen=True)
class Charge(Entry):
    """One charge of a run, in the budget type of the run.

    Attributes:
        number: the number of the request in the journal of the run, from 1; None without a journal.
        answer: the digest of the journal's line with the answer; None until that line is on disk.
    """

    number: int | None = None
    answer: str | None = None

    def covers(self, other: Charge) -> bool:
        """Return whether this unanswered charge is for the request that `other` is about to be charged for."""
        return self.number is not None and self.answer is None and replace(other, answer=None) == self

    def to_json(self) -> dict[str, Any]:
        """Return the charge as JSON values, without what does not apply."""
        more = {"delta": self.delta or None, "number": self.number, "answer": self.answer}
        kept = {name: value for name, value in more.items() if value is not None}
        return {"label": self.label, "kind": self.kind, "cost": amounts(self.cost), **kept}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Charge:
        """Return the charge that a line of the ledger describes."""
        more = {name: line[name] for name in ("delta", "number", "answer") if name in line}
        return cls(line["label"], line["kind"], budget_of(line["cost"]), **more)


@dataclass(frozen=True)
class RunAccount:
    """The account of a run on a ledger. Exact amounts are in the ledger's type, the delta for thresholds last.

    Attributes:
        name: the name of the run, which no other run has.
        label: what the run is for, in words.
        budget: the budget of the run, in its own type.
        delta: the delta for thresholds that it reserved (`Curator.frequent`).
        relation: the relation that the run protects, which implies the ledger's.
        began: the time at which it began, UTC.
        open: whether the run goes on, so that all that it reserved counts.
        charges: its charges, in order, in its own type.
        kind: the type of the ledger's budget.
        exactly_reserved, exactly_spent: the exact amounts.
    """

    name: str
    label: str
    budget: Budget
    delta: float
    relation: Relation
    began: str
    open: bool
    charges: tuple[Charge, ...]
    kind: type[Budget]
    exactly_reserved: tuple[Fraction, ...]
    exactly_spent: tuple[Fraction, ...]

    @classmethod
    def of(cls, about: Sequence[Mapping[str, Any]], total: Budget) -> RunAccount:
        """Return the account that the lines about a run describe, on a ledger with this total."""
        begun, charges = about[0], _charges(about)
        budget, delta, label = budget_of(begun["budget"]), float(begun.get("delta", 0.0)), begun["label"]
        reserved = in_amounts(budget, delta, total, label)
        costs = [in_amounts(charge.cost, charge.delta, total, charge.label) for charge in charges]
        return cls(
            begun["run"],
            label,
            budget,
            delta,
            Relation.from_json(begun["relation"]),
            begun["at"],
            [line["event"] for line in about if line["event"] in ("begin", "end")][-1] == "begin",
            tuple(charges),
            type(total),
            reserved,
            tuple(min(sum(parts), most) for most, *parts in zip(reserved, *costs, strict=True)),
        )

    @property
    def reserved(self) -> Budget:
        """The budget of the run in the ledger's type."""
        return self.kind.above(self.exactly_reserved[:-1])

    @property
    def spent(self) -> Budget:
        """The sum of its charges in the ledger's type."""
        return self.kind.above(self.exactly_spent[:-1])

    @property
    def takes(self) -> tuple[Fraction, ...]:
        """The part of the ledger's budget and delta that the run takes."""
        return self.exactly_reserved if self.open else self.exactly_spent

    def to_json(self) -> dict[str, Any]:
        """Return the account as JSON values."""
        return {
            "run": self.name,
            "label": self.label,
            "began": self.began,
            "open": self.open,
            "budget": amounts(self.budget),
            "relation": self.relation.to_json(),
            "reserved": amounts(self.reserved),
            "spent": amounts(self.spent),
            **({"threshold_delta": float(self.takes[-1])} if self.delta else {}),
            "charges": [{"label": charge.label, "cost": amounts(charge.cost)} for charge in self.charges],
        }

    def row(self, delta: float) -> tuple[str, ...]:
        """Return the account as texts, one for each of `RUN_COLUMNS`, with each epsilon at a delta."""
        state = f"open, has spent {amounts_text(self.spent)}" if self.open else "ended"
        takes = amounts_text(self.reserved if self.open else self.spent)
        costs = in_terms(self.budget, delta), takes, str(len(self.charges))
        return self.began, self.name[:8], self.label, str(self.relation), *costs, state


def in_amounts(budget: Budget, delta: float, total: Budget, label: str) -> tuple[Fraction, ...]:
    """Return the exact amounts of a budget in the type of a ledger's total, and the delta for thresholds.

    Raises:
        BudgetTypeError: if it cannot be stated in that type.
    """
    return (*converted(budget, total, label).exact, Fraction(delta))


def accounts(lines: Iterable[Mapping[str, Any]], total: Budget) -> list[RunAccount]:
    """Return the accounts of all runs, in the order in which they began.

    Args:
        lines: the lines of the ledger after its header.
        total: the budget of the ledger.
    """
    events: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        events.setdefault(line["run"], []).append(line)
    return [RunAccount.of(about, total) for about in events.values()]


def _charges(about: Iterable[Mapping[str, Any]]) -> list[Charge]:
    """Return the charges of a run, with the answers that later lines report."""
    charges: list[Charge] = []
    for line in about:
        if line["event"] == "charge":
            charges.append(Charge.from_json(line))
        elif line["event"] == "answered":
            waiting = ((charge.number, charge.answer) for charge in charges)
            place = list(waiting).index((line["number"], None))
            charges[place] = replace(charges[place], answer=line["answer"])
    return charges


class LedgerRun(OneProcess):
    """A run's access to the ledger of its dataset.

    The run ends with `end`, or when this object is collected: its name is then noted, and the next use of a ledger in
    this process, or the end of the process, gives back what it did not spend. Nothing is locked or written during
    garbage collection, which may happen at any moment, also while this thread has the lock of the same file.

    Args:
        ledger: the ledger.
        name: the name of the run.
    """

    def __init__(self, ledger: DatasetLedger, name: str):
        self.ledger: DatasetLedger = ledger
        self.name: str = name
        self._dropped = weakref.finalize(self, _dropped_runs.append, (ledger, name))
        self._dropped.atexit = False
        _live_runs.add(self)

    def charge(self, entry: Entry, number: int | None = None, answer: str | None = None) -> None:
        """Charge the ledger for a request before it is answered, or report its answer.

        Args:
            entry: the charge.
            number: the number of the request in the journal of the run, from 1; None without a journal.
            answer: the digest of the journal's line with the answer; None before it is on disk.

        Raises:
            as `DatasetLedger.charge`.
        """
        charge = Charge(entry.label, entry.kind, entry.cost, delta=entry.delta, number=number, answer=answer)
        self.ledger.charge(self.name, charge)

    def end(self) -> None:
        """Give back what was not spent."""
        if self._dropped.detach() is not None:
            _end(self.ledger, self.name)


_dropped_runs: deque[tuple[DatasetLedger, str]] = deque()
_live_runs: weakref.WeakSet[LedgerRun] = weakref.WeakSet()


def end_dropped_runs() -> None:
    """End the runs whose objects were collected. It must not be called while a ledger's file is locked."""
    with contextlib.suppress(IndexError):
        while True:
            ledger, name = _dropped_runs.popleft()
            with contextlib.suppress(PgmestError):  # what cannot be given back stays reserved, which is safe
                _end(ledger, name)


def _end(ledger: DatasetLedger, name: str) -> None:
    if ledger._in_its_process() and ledger._file.open:
        ledger.end(name)


def _at_exit() -> None:
    for run in list(_live_runs):
        with contextlib.suppress(PgmestError):
            run.end()
    end_dropped_runs()


atexit.register(_at_exit)
