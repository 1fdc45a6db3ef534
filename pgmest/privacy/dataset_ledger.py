"""The ledger of a dataset: one file that all runs on the same private table charge, with a total budget.

A run reserves its whole budget before it looks at a record, writes down each charge before it is answered, and gives
back what it has not spent when it ends. One that crashed keeps what it reserved, until it goes on from its journal. The
file is chained and locked (`pgmest.privacy.chain`), on every platform; any number of processes may charge it.

*What is recognized*: a line edited, removed, inserted or exchanged; lines cut off; the file copied, or replaced by an
older one. *What is not*: the file and its head file both replaced by older ones, or both deleted. Who keeps the last
digest, `head`, elsewhere sees that, too: `DatasetLedger(path, expect=...)`, `pgmest ledger show FILE --expect ...`. And
nothing can see runs that were not asked to charge it.
"""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from pgmest._base.errors import ArgumentError, BudgetExceeded, BudgetTypeError, LedgerError, plural
from pgmest.privacy import journal
from pgmest.privacy.budgets import GDP, ApproxDP, Budget, Epsilon, PlannedRho, Rho, rounded_down
from pgmest.privacy.chain import ChainedFile, adopt
from pgmest.privacy.ledger import amounts, budget_of
from pgmest.privacy.neighbors import AddRemove, Neighbors
from pgmest.privacy.one_process import OneProcess

FORMAT, VERSION, NAME = "pgmest-ledger", 1, "ledger of a dataset"


@dataclass(frozen=True)
class RunAccount:
    """What a ledger knows of a run.

    Attributes:
        name: of the run, which no other has.
        label: what it is for, in words.
        budget: its own, in its own type.
        began: when, UTC.
        charges: the labels and costs of its requests, in order.
        reserved: in the ledger's type.
        spent: the same.
        open: whether it goes on, so that all that was reserved counts.
        delta: what it has reserved of delta, on thresholds (`Curator.frequent`).
        delta_spent: of that.
    """

    name: str
    label: str
    budget: Budget
    began: str
    charges: tuple[tuple[str, Budget], ...]
    reserved: Budget
    spent: Budget
    open: bool
    delta: Fraction = Fraction(0)
    delta_spent: Fraction = Fraction(0)

    @property
    def counts(self) -> Budget:
        """How much of the total it takes."""
        return self.reserved if self.open else self.spent

    @property
    def delta_counts(self) -> Fraction:
        """How much it takes of the delta of thresholds."""
        return self.delta if self.open else self.delta_spent


class DatasetLedger(OneProcess):
    """An open ledger of a dataset.

    Args:
        path: the file, made by `create`.
        expect: a digest that an earlier `head` gave: the file must have grown from there.

    Raises:
        LedgerError: it is not a ledger, not as it was written, or does not have the digest expected.
        FileFormatError: it cannot be opened.
    """

    def __init__(self, path: str | Path, *, expect: str | None = None):
        self._file = ChainedFile(path, FORMAT, VERSION, NAME, LedgerError, create=False)
        self.path: Path = Path(path)
        try:
            self.refresh()
            if expect is not None and (len(expect) < 8 or not any(head.startswith(expect) for head in self._heads())):
                raise LedgerError(
                    f"{path} has no line with the digest {expect}: it was replaced by an older one or another, or the "
                    "digest is not of this ledger (give at least 8 digits of it)."
                )
        except BaseException:
            self._file.close()
            raise

    @classmethod
    def create(
        cls,
        path: str | Path,
        budget: Budget,
        *,
        neighbors: Neighbors | None = None,
        table: str = "",
        threshold_delta: float = 0.0,
    ) -> DatasetLedger:
        """Make the file.

        Args:
            path: where; nothing may be there.
            budget: what all runs together may spend. `Rho` takes runs of all types but ApproxDP; the others their own
                type, and ApproxDP those of Epsilon.
            neighbors: the relation of all runs.
            table: what the ledger is of, in words.
            threshold_delta: what all runs together may spend of delta besides, on values that nobody listed
                (`Curator.frequent`).

        Raises:
            LedgerError: there is something already.
            ArgumentError: no budget, or no such delta.
        """
        if not isinstance(budget, Budget) or not budget:
            raise ArgumentError.of("budget", budget, "a positive Epsilon, Rho, GDP or ApproxDP")
        if isinstance(budget, PlannedRho):
            raise ArgumentError.of("budget", budget, "Rho: runs that are not yet known are in no plan")
        if not (isinstance(threshold_delta, int | float) and 0 <= threshold_delta < 1):
            raise ArgumentError.of("threshold_delta", threshold_delta, "at least 0 and well below 1 / records")
        if Path(path).exists() or Path(path).with_name(Path(path).name + ".head").exists():
            raise LedgerError(f"{path} or its head file exists already; a budget is given once. Name another file.")
        relation = AddRemove() if neighbors is None else neighbors
        file = ChainedFile(path, FORMAT, VERSION, NAME, LedgerError)
        try:
            file.hold()
            file.read()
            header: dict[str, Any] = {"budget": amounts(budget), "neighbors": repr(relation), "table": table}
            if threshold_delta:
                header["threshold_delta"] = float(threshold_delta)
            file.start({**header, "made": _now(), "ledger": secrets.token_hex(16)})
        finally:
            file.close()
        return cls(path)

    def refresh(self) -> None:
        """Read what other processes have added.

        Raises:
            LedgerError: the file is not as it was written.
        """
        with self._file.locked():
            self._check_format()

    @property
    def budget(self) -> Budget:
        """What all runs together may spend."""
        return budget_of(self._file.lines[0]["budget"])

    @property
    def threshold_delta(self) -> float:
        """What all runs together may spend of delta besides, on thresholds."""
        return float(self._file.lines[0].get("threshold_delta", 0.0))

    @property
    def threshold_delta_left(self) -> float:
        """What another run may reserve of it, rounded down."""
        return rounded_down(self._delta_left())

    @property
    def neighbors(self) -> str:
        """The relation, as text."""
        return str(self._file.lines[0]["neighbors"])

    @property
    def table(self) -> str:
        """What it is of, in words."""
        return str(self._file.lines[0]["table"])

    @property
    def head(self) -> str:
        """The digest of all lines: keep it elsewhere, and `expect` it later."""
        return self._file.head

    @property
    def runs(self) -> tuple[RunAccount, ...]:
        """All runs, in the order in which they began."""
        return tuple(_accounts(self._file.lines, self.budget))

    @property
    def committed(self) -> Budget:
        """What the runs take, rounded up; never more than the budget."""
        return self.budget.above(self._committed())

    @property
    def remaining(self) -> Budget:
        """What another run may reserve, rounded down."""
        return self.budget.below(self._left())

    def begin(
        self, budget: Budget, neighbors: Neighbors, label: str, run: str | None = None, threshold_delta: float = 0.0
    ) -> LedgerRun:
        """Reserve a run's whole budget; or go on with a run that has reserved it.

        Args:
            budget: of the run.
            neighbors: of the run, which must be the ledger's.
            label: what it is for, in words.
            run: its name where it may go on, from a journal.
            threshold_delta: what it may spend of delta besides, on thresholds.

        Raises:
            BudgetExceeded: it is more than is left.
            BudgetTypeError: it cannot be stated in the ledger's type.
            LedgerError: another relation, or not as it was written.
        """
        if repr(neighbors) != self.neighbors:
            raise LedgerError(
                f"{self.path} is for {self.neighbors}, this run for {neighbors!r}: their costs cannot be added up."
            )
        name = secrets.token_hex(16) if run is None else run
        converted(budget, self.budget, f"the budget of {label}")
        with self._file.locked():
            known = self._account(name)
            if known is None:
                delta = {"delta": float(threshold_delta)} if threshold_delta else {}
                self._reserve({"run": name, "label": label, "budget": amounts(budget), **delta}, label)
            elif known.budget != budget or known.delta != Fraction(threshold_delta):
                raise LedgerError(
                    f"{self.path}: run {name[:8]} has {known.budget} and a delta of {float(known.delta):g} for "
                    f"thresholds, not {budget} and {threshold_delta:g}."
                )
        return LedgerRun(self, name, label)

    def charge(self, run: str, label: str, kind: str, cost: Budget, delta: float = 0.0) -> None:
        """Write a run's charge down; for `LedgerRun`.

        Raises:
            BudgetExceeded: the run has not reserved so much, or has ended and cannot reserve it again.
            LedgerError: the run is not known, or the file not as it was written.
        """
        with self._file.locked():
            account = self._account(run)
            if account is None:
                raise LedgerError(f"{self.path} does not know the run {run[:8]}.")
            paid = [sum(amount) for amount in zip(cost.exact, *(c.exact for _, c in account.charges), strict=True)]
            if any(now > most for now, most in zip(paid, account.budget.exact, strict=True)):
                raise BudgetExceeded.of(label, cost, account.budget, account.budget)
            if account.delta_spent + Fraction(delta) > account.delta:
                raise BudgetExceeded.of(label, f"a delta of {delta:g}", f"{float(account.delta):g}", "its thresholds")
            if not account.open:
                self._reserve({"run": run, "again": True}, account.label, account)
            more = {"delta": float(delta)} if delta else {}
            line = {"event": "charge", "run": run, "label": label, "kind": kind, "cost": amounts(cost), **more}
            self._file.append(line)

    def end(self, run: str) -> None:
        """Give back what a run has not spent."""
        with self._file.locked():
            account = self._account(run)
            if account is not None and account.open:
                self._file.append({"event": "end", "run": run, "at": _now()})

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def to_json(self) -> dict[str, Any]:
        """What it says, as JSON values."""
        return {
            "table": self.table,
            "neighbors": self.neighbors,
            "budget": amounts(self.budget),
            "committed": amounts(self.committed),
            "remaining": amounts(self.remaining),
            **self._delta_to_json(),
            "head": self.head,
            "runs": [
                {
                    "run": run.name,
                    "label": run.label,
                    "began": run.began,
                    "open": run.open,
                    "budget": amounts(run.budget),
                    "reserved": amounts(run.reserved),
                    "spent": amounts(run.spent),
                    **({"threshold_delta": float(run.delta_counts)} if run.delta else {}),
                    "charges": [{"label": label, "cost": amounts(cost)} for label, cost in run.charges],
                }
                for run in self.runs
            ],
        }

    def __str__(self) -> str:
        of = f" of {self.table}" if self.table else ""
        lines = [f"Ledger{of}: {self.committed} of {self.budget} taken by {plural(len(self.runs), 'run')}"]
        lines.append(f"{self.remaining} left, {self.neighbors}")
        if self.threshold_delta:
            lines.append(f"and a delta of {self.threshold_delta_left:.3g} of {self.threshold_delta:.3g} for thresholds")
        for run in self.runs:
            state = f"open, reserves {run.reserved}, has spent {run.spent}" if run.open else f"ended, spent {run.spent}"
            lines.append(f"  {run.began}  {run.name[:8]}  {run.label}: {state}, {plural(len(run.charges), 'request')}")
        return "\n".join([*lines, f"head {self.head}"])

    __repr__ = __str__

    def _reserve(self, record: dict[str, Any], label: str, account: RunAccount | None = None) -> None:
        """Put a run's whole budget aside, for the first time or, after it has ended, again."""
        budget = budget_of(record["budget"]) if account is None else account.budget
        wanted = converted(budget, self.budget, label)
        freed = [Fraction(0)] * len(wanted.exact) if account is None else list(account.counts.exact)
        left = [one + other for one, other in zip(self._left(), freed, strict=True)]
        if any(amount > rest for amount, rest in zip(wanted.exact, left, strict=True)):
            raise BudgetExceeded.of(f"{label}, a run on {self.path}", wanted, self.remaining, self.budget)
        delta = Fraction(record.get("delta", 0)) if account is None else account.delta
        left_of_delta = self._delta_left() + (0 if account is None else account.delta_counts)
        if delta > left_of_delta:
            raise BudgetExceeded.of(
                f"{label}, a run on {self.path}",
                f"a delta of {float(delta):g} for values that nobody listed",
                f"{rounded_down(left_of_delta):g}",
                f"{self.threshold_delta:g} (threshold_delta=, pgmest ledger create --threshold-delta)",
            )
        self._file.append({"event": "begin", "at": _now(), **record})

    def _account(self, run: str) -> RunAccount | None:
        return next((account for account in self.runs if account.name == run), None)

    def _committed(self) -> list[Fraction]:
        sums = [Fraction(0)] * len(self.budget.exact)
        for run in self.runs:
            sums = [one + other for one, other in zip(sums, run.counts.exact, strict=True)]
        return sums

    def _left(self) -> list[Fraction]:
        return [whole - taken for whole, taken in zip(self.budget.exact, self._committed(), strict=True)]

    def _delta_left(self) -> Fraction:
        return Fraction(self.threshold_delta) - sum((run.delta_counts for run in self.runs), Fraction(0))

    def _delta_to_json(self) -> dict[str, Any]:
        if not self.threshold_delta:
            return {}
        return {"threshold_delta": {"most": self.threshold_delta, "left": self.threshold_delta_left}}

    def _heads(self) -> Iterator[str]:
        return (str(line["check"]) for line in self._file.lines)

    def _check_format(self) -> None:
        if not self._file.lines:
            raise LedgerError(f"{self.path} is empty: make a {NAME} with DatasetLedger.create.")


class LedgerRun(OneProcess):
    """A run's way to the ledger of its dataset. It ends with the object, if not before.

    Args:
        ledger: of the dataset.
        name: of the run.
        label: what it is for.
    """

    def __init__(self, ledger: DatasetLedger, name: str, label: str):
        self.ledger: DatasetLedger = ledger
        self.name: str = name
        self.label: str = label
        self._end = weakref.finalize(self, _end, ledger, name)

    def charge(self, label: str, kind: str, cost: Budget, delta: float = 0.0) -> None:
        """Write down a charge, before it is answered.

        Raises:
            as `DatasetLedger.charge`.
        """
        self._check_process()
        self.ledger.charge(self.name, label, kind, cost, delta)

    def end(self) -> None:
        """Give back what was not spent."""
        self._end()


def converted(budget: Budget, ledger: Budget, label: str) -> Budget:
    """A run's cost in the ledger's type, where that is a bound: all but ApproxDP as Rho, Epsilon as ApproxDP.

    Raises:
        BudgetTypeError: there is no such bound.
    """
    if type(budget) is type(ledger):
        return budget
    if isinstance(ledger, Rho) and isinstance(budget, Epsilon | GDP):
        return budget.to_rho()
    if isinstance(ledger, Rho) and isinstance(budget, PlannedRho):
        return Rho(budget.rho)
    if isinstance(ledger, ApproxDP) and isinstance(budget, Epsilon):
        return budget.to_approx()
    raise BudgetTypeError.of(label, type(ledger), budget)


def adopt_file(path: str | Path) -> str:
    """Take a ledger or a journal, after it was moved or restored, for the newest and only one; its head.

    Raises:
        LedgerError: it is neither, was edited, or is in use.
        FileFormatError: it cannot be opened.
    """
    errors: list[LedgerError] = []
    for kind, version, name in ((FORMAT, VERSION, NAME), (journal.FORMAT, journal.VERSION, journal.NAME)):
        try:
            return adopt(path, kind, version, name, LedgerError)
        except LedgerError as error:
            errors.append(error)
    raise max(errors, key=lambda error: "is not a" not in str(error))


def _end(ledger: DatasetLedger, run: str) -> None:
    if ledger._in_its_process() and ledger._file.open:
        ledger.end(run)


def _accounts(lines: list[dict[str, Any]], total: Budget) -> Iterator[RunAccount]:
    """The runs, from the lines about them."""
    events: dict[str, list[dict[str, Any]]] = {}
    for line in lines[1:]:
        events.setdefault(line["run"], []).append(line)
    for name, about in events.items():
        begun, budget = about[0], budget_of(about[0]["budget"])
        charges = tuple((e["label"], budget_of(e["cost"])) for e in about if e["event"] == "charge")
        reserved = converted(budget, total, begun["label"])
        costs = [converted(cost, total, label).exact for label, cost in charges]
        sums = [sum(parts, Fraction(0)) for parts in zip(*costs, strict=True)]
        spent = reserved.above(min(one, most) for one, most in zip(sums, reserved.exact, strict=True)) if sums else None
        is_open = about[-1]["event"] != "end"
        delta = Fraction(begun.get("delta", 0))
        delta_spent = sum((Fraction(e.get("delta", 0)) for e in about if e["event"] == "charge"), Fraction(0))
        yield RunAccount(
            name,
            begun["label"],
            budget,
            begun["at"],
            charges,
            reserved,
            spent or reserved.zero(),
            is_open,
            delta,
            delta_spent,
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
