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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pgmest.errors import PgmestError
from pgmest.privacy.budgets import Budget
from pgmest.privacy.ledger import amounts, budget_of
from pgmest.privacy.ledger_text import amounts_text, in_terms
from pgmest.privacy.one_process import OneProcess
from pgmest.privacy.relations import Relation, converted

if TYPE_CHECKING:
    from pgmest.privacy.dataset_ledger import DatasetLedger


RUN_COLUMNS = ("began", "run", "mechanism", "protects", "promises", "takes", "requests", "state")
"""The column titles of runs."""


@dataclass(frozen=True)
class Charge:
    """One charge of a run.

    Attributes:
        label: the name of the request.
        kind: the kind of request, as in `Entry.kind`.
        cost: the cost, in the budget type of the run.
        delta: the delta for thresholds that was charged besides.
        number: the number of the request in the journal of the run, from 1; None without a journal.
        answer: the digest of the journal's line with the answer; None until that line is on disk.
    """

    label: str
    kind: str
    cost: Budget
    delta: float = 0.0
    number: int | None = None
    answer: str | None = None

    def covers(self, other: Charge) -> bool:
        """Return whether this unanswered charge is for the request that `other` is about to be charged for."""
        return self.number is not None and self.answer is None and replace(other, answer=None) == self

    def to_json(self) -> dict[str, Any]:
        """Return the charge as JSON values, without what does not apply."""
        found: dict[str, Any] = {"label": self.label, "kind": self.kind, "cost": amounts(self.cost)}
        more = {"delta": self.delta or None, "number": self.number, "answer": self.answer}
        return found | {name: value for name, value in more.items() if value is not None}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Charge:
        """Return the charge that a line of the ledger describes."""
        cost, delta = budget_of(line["cost"]), float(line.get("delta", 0.0))
        return cls(line["label"], line["kind"], cost, delta, line.get("number"), line.get("answer"))


@dataclass(frozen=True)
class RunAccount:
    """The account of a run on a ledger.

    Attributes:
        name: the name of the run, which no other run has.
        label: what the run is for, in words.
        budget: the budget of the run, in its own type.
        relation: the relation that the run protects, which implies the ledger's.
        began: the time at which it began, UTC.
        charges: its charges, in order, in its own type.
        reserved: its budget in the ledger's type.
        spent: the sum of its charges in the ledger's type.
        open: whether the run goes on, so that all that it reserved counts.
        delta: the delta for thresholds that it reserved (`Curator.frequent`).
        delta_spent: the part of that delta that was charged.
    """

    name: str
    label: str
    budget: Budget
    relation: Relation
    began: str
    charges: tuple[Charge, ...]
    reserved: Budget
    spent: Budget
    open: bool
    delta: Fraction = Fraction(0)
    delta_spent: Fraction = Fraction(0)

    @property
    def counts(self) -> Budget:
        """The part of the ledger's budget that the run takes."""
        return self.reserved if self.open else self.spent

    @property
    def delta_counts(self) -> Fraction:
        """The part of the ledger's delta for thresholds that the run takes."""
        return self.delta if self.open else self.delta_spent

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
            **({"threshold_delta": float(self.delta_counts)} if self.delta else {}),
            "charges": [{"label": charge.label, "cost": amounts(charge.cost)} for charge in self.charges],
        }

    def row(self, delta: float) -> tuple[str, ...]:
        """Return the account as texts, one for each of `RUN_COLUMNS`, with each epsilon at a delta."""
        state = f"open, has spent {amounts_text(self.spent)}" if self.open else "ended"
        costs = in_terms(self.budget, delta), amounts_text(self.counts), str(len(self.charges))
        return self.began, self.name[:8], self.label, str(self.relation), *costs, state


def accounts(lines: Iterable[Mapping[str, Any]], total: Budget, relation: Relation, path: object) -> list[RunAccount]:
    """Return the accounts of all runs, in the order in which they began.

    Args:
        lines: the lines of the ledger after its header.
        total: the budget of the ledger.
        relation: the relation of the ledger.
        path: the ledger's path, for errors.
    """
    events: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        events.setdefault(line["run"], []).append(line)
    return [_account(name, about, total, relation, path) for name, about in events.items()]


def _account(name: str, about: list[Mapping[str, Any]], total: Budget, relation: Relation, path: object) -> RunAccount:
    begun = about[0]
    budget, own = budget_of(begun["budget"]), Relation.from_json(begun["relation"])
    own.check_on(relation, path)
    charges, reserved = _charges(about), converted(budget, total, begun["label"])
    sums = [Fraction(0) for _ in reserved.exact]
    for charge in charges:
        cost = converted(charge.cost, total, charge.label)
        sums = [one + other for one, other in zip(sums, cost.exact, strict=True)]
    return RunAccount(
        name,
        begun["label"],
        budget,
        own,
        begun["at"],
        tuple(charges),
        reserved,
        reserved.above(min(one, most) for one, most in zip(sums, reserved.exact, strict=True)),
        [line["event"] for line in about if line["event"] in ("begin", "end")][-1] == "begin",
        Fraction(begun.get("delta", 0)),
        sum((Fraction(charge.delta) for charge in charges), Fraction(0)),
    )


def _charges(about: Iterable[Mapping[str, Any]]) -> list[Charge]:
    """Return the charges of a run, with the answers that later lines report."""
    charges: list[Charge] = []
    for line in about:
        if line["event"] == "charge":
            charges.append(Charge.from_json(line))
        elif line["event"] == "answered":
            place = next(
                place
                for place, charge in enumerate(charges)
                if charge.number == line["number"] and charge.answer is None
            )
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
        label: what the run is for.
    """

    def __init__(self, ledger: DatasetLedger, name: str, label: str):
        self.ledger: DatasetLedger = ledger
        self.name: str = name
        self.label: str = label
        self._dropped = weakref.finalize(self, _dropped_runs.append, (ledger, name))
        self._dropped.atexit = False
        _live_runs.add(self)

    def charge(self, label: str, kind: str, cost: Budget, delta: float = 0.0, number: int | None = None) -> None:
        """Charge the ledger for a request before it is answered.

        Raises:
            as `DatasetLedger.charge`.
        """
        self._check_process()
        self.ledger.charge(self.name, Charge(label, kind, cost, delta, number))

    def answered(self, label: str, kind: str, cost: Budget, delta: float, number: int, answer: str) -> None:
        """Report that the answer to a request is in the journal; charge for it if the ledger has not seen it.

        Args:
            label, kind, cost, delta, number: the request, as for `charge`.
            answer: the digest of the journal's line.

        Raises:
            as `DatasetLedger.answered`.
        """
        self._check_process()
        self.ledger.answered(self.name, Charge(label, kind, cost, delta, number, answer))

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
