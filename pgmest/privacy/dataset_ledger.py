"""The ledger of a dataset: one file with a total budget that all runs on the same private table charge.

A run reserves its whole budget before it asks about a record, writes each charge before the request is answered, and
gives back what it has not spent when it ends. A run that crashed keeps its reservation until it is resumed from its
journal. The file is one of the store (`pgmest.privacy.store`), and locked on every platform; any number of processes
may charge it.

The ledger protects one relation between tables (`pgmest.privacy.relations`), and each run is recorded with its own. A
run whose relation does not imply the ledger's is refused: patients, houses and rows are not added up.

Recognized are edited, removed, inserted and exchanged lines, lines that were cut off, and a file that was copied or
replaced by an older one. Not recognized are a file and a head file that were both replaced by older ones, or both
deleted. If you keep the last digest, `head`, elsewhere, that is recognized, too: `DatasetLedger(path, expect=...)`,
`pgmest ledger show FILE --expect ...`. Runs that do not name the ledger cannot be seen.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from pgmest.errors import ArgumentError, BudgetExceeded, LedgerError, plural
from pgmest.privacy.budgets import DEFAULT_DELTA, GDP, Budget, Rho, rounded_down
from pgmest.privacy.ledger import Statement, amounts, budget_of, exceed, sums
from pgmest.privacy.ledger_runs import (
    RUN_COLUMNS,
    Charge,
    LedgerRun,
    RunAccount,
    accounts,
    end_dropped_runs,
    in_amounts,
)
from pgmest.privacy.ledger_text import aligned, in_terms
from pgmest.privacy.neighbors import Neighbors
from pgmest.privacy.one_process import OneProcess
from pgmest.privacy.relations import Relation, stated_relation
from pgmest.privacy.store import LEDGER, Store

MOST_RUNS = 40
"""The most runs that a printed ledger lists, the last ones."""


class DatasetLedger(OneProcess):
    """An open ledger of a dataset.

    Args:
        path: the file, made by `create`.
        expect: a digest that `head` gave earlier: the file must contain that line.
        read_only: whether the ledger is only looked at. It may then be a copy (`copied`) or in a folder that cannot be
            written to, nothing is changed, and no run can charge it.

    Raises:
        LedgerError: if the file is not a ledger, is not as it was written, or does not have the expected digest.
        FileFormatError: if the file cannot be opened.
    """

    def __init__(self, path: str | Path, *, expect: str | None = None, read_only: bool = False):
        self._file = Store(path, LEDGER, "look" if read_only else "open")
        self.path: Path = self._file.path
        self.copied: str = ""
        """Why the file may be a copy; "" if it is the newest one."""
        try:
            if read_only:
                self.copied = self._file.look()
            else:
                self.refresh()
            self._check_header()
            heads = [str(line["check"]) for line in self._file.lines]
            if expect is not None and (len(expect) < 8 or not any(head.startswith(expect) for head in heads)):
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
        unit: str | None = None,
        invariants: Iterable[Iterable[str]] = (),
        table: str = "",
        threshold_delta: float = 0.0,
    ) -> DatasetLedger:
        """Create the file, and return the open ledger.

        Args:
            path: the path; no file may be there.
            budget: the budget of all runs together. `Rho` accepts runs of all types but ApproxDP; the others accept
                their own type, and ApproxDP accepts Epsilon, too.
            neighbors: the neighboring relation that the ledger protects; `AddRemove()` by default.
            unit: the column that tells persons apart, for runs whose schema has a `unit` with this column. The ledger
                then protects all rows of a person, whatever `at_most` the schemas have; leave `neighbors` out.
            invariants: the tables that the ledger does not protect, by their attributes or levels, for runs with the
                same `invariants=`. It then protects persons whose records are replaced by others such that these tables
                stay as they are. All runs must code these attributes alike; other hierarchies and numbers of values are
                refused.
            table: the name of the table, for readers.
            threshold_delta: the delta that all runs together may spend on values that nobody listed
                (`Curator.frequent`), besides the budget.

        Raises:
            LedgerError: if the file or its head file exists already.
            ArgumentError: if the budget, the delta, or the relation is not valid.
        """
        if not isinstance(budget, Budget) or not budget:
            raise ArgumentError.of("budget", budget, "a positive Epsilon, Rho, GDP or ApproxDP")
        if not (isinstance(threshold_delta, int | float) and 0 <= threshold_delta < 1):
            raise ArgumentError.of("threshold_delta", threshold_delta, "at least 0 and well below 1 / records")
        if Path(path).exists() or Path(path).with_name(Path(path).name + ".head").exists():
            raise LedgerError(f"{path} or its head file exists already; a budget is given once. Name another file.")
        header: dict[str, Any] = {
            "budget": amounts(budget),
            "relation": stated_relation(neighbors, unit, invariants).to_json(),
            "table": table,
            **({"threshold_delta": float(threshold_delta)} if threshold_delta else {}),
            "made": _now(),
            "ledger": secrets.token_hex(16),
        }
        file = Store(path, LEDGER, "create")
        try:
            file.hold()
            file.append(header)
        except BaseException:
            file.remove()
            raise
        file.close()
        return cls(path)

    def refresh(self) -> None:
        """Read the lines that other processes have added.

        Raises:
            LedgerError: if the file is not as it was written.
        """
        with self._locked():
            pass

    @property
    def id(self) -> str:
        """The identifier of the ledger, which no other has."""
        return str(self._header["ledger"])

    @property
    def budget(self) -> Budget:
        """The budget of all runs together."""
        return budget_of(self._header["budget"])

    @property
    def threshold_delta(self) -> float:
        """The delta that all runs together may spend on thresholds, besides the budget."""
        return float(self._header.get("threshold_delta", 0.0))

    @property
    def threshold_delta_left(self) -> float:
        """The part of `threshold_delta` that another run may reserve, rounded down."""
        return rounded_down(self._left()[-1])

    @property
    def relation(self) -> Relation:
        """The relation that the ledger protects."""
        return Relation.from_json(self._header["relation"])

    @property
    def neighbors(self) -> str:
        """The neighboring relation, as text."""
        return repr(self.relation.neighbors)

    @property
    def table(self) -> str:
        """The name of the table."""
        return str(self._header["table"])

    @property
    def head(self) -> str:
        """The digest of all lines. Keep it elsewhere, and `expect` it later."""
        return self._file.head

    @property
    def runs(self) -> tuple[RunAccount, ...]:
        """All runs, in the order in which they began."""
        runs = tuple(accounts(self._file.lines[1:], self.budget))
        for run in runs:
            run.relation.check_on(self.relation, self.path)
        return runs

    @property
    def committed(self) -> Budget:
        """The part of the budget that the runs take, rounded up; never more than the budget."""
        return self.budget.above(self._taken(self.runs)[:-1])

    @property
    def remaining(self) -> Budget:
        """The part of the budget that another run may reserve, rounded down."""
        return self.budget.below(self._left()[:-1])

    def begin(
        self,
        budget: Budget,
        relation: Relation | Neighbors,
        label: str,
        run: str | None = None,
        threshold_delta: float = 0.0,
    ) -> LedgerRun:
        """Reserve the whole budget of a run, or resume a run that has reserved it.

        Args:
            budget: the budget of the run.
            relation: the relation that the run protects.
            label: what the run is for, in words.
            run: the name of the run, from its journal; by default a new name.
            threshold_delta: the delta that the run may spend on thresholds, besides the budget.

        Raises:
            BudgetExceeded: if the budget or the delta exceeds what is left.
            BudgetTypeError: if the budget cannot be stated in the ledger's type.
            LedgerError: if the relation does not imply the ledger's, or the file is not as it was written.
        """
        own = Relation(relation) if isinstance(relation, Neighbors) else relation
        own.check_on(self.relation, self.path)
        wanted = in_amounts(budget, threshold_delta, self.budget, f"the budget of {label}")
        name = secrets.token_hex(16) if run is None else run
        with self._locked():
            known = self._account(name)
            if known is None:
                for earlier in self.runs:
                    own.check_codes(earlier.relation, self.path)
                extra = {"delta": float(threshold_delta)} if threshold_delta else {}
                begun = {"run": name, "label": label, "budget": amounts(budget), "relation": own.to_json(), **extra}
                self._reserve(begun, label, wanted, self._left())
            elif (known.budget, known.delta, known.relation) != (budget, threshold_delta, own):
                raise LedgerError(
                    f"{self.path}: run {name[:8]} has {known.budget} and a delta of {known.delta:g} for "
                    f"thresholds and protects {known.relation}, not {budget}, {threshold_delta:g} and {own}."
                )
        return LedgerRun(self, name)

    def charge(self, run: str, charge: Charge) -> None:
        """Write a charge before its request is answered, or that it was answered; `LedgerRun` calls this.

        A charge that repeats one of the run that was not answered, after a crash, is not written again. If the ledger
        has no charge for an answer, it is charged now: the journal was begun without this ledger, or was copied, so
        that there are two answers to one request.

        Raises:
            BudgetExceeded: if the run has not reserved enough, or has ended and cannot reserve it again.
            LedgerError: if the run is not known, or the file is not as it was written.
        """
        with self._locked():
            account = self._account(run)
            if account is None:
                raise LedgerError(f"{self.path} does not know the run {run[:8]}.")
            answer = charge.number, charge.answer
            if charge.answer is not None and any((one.number, one.answer) == answer for one in account.charges):
                return
            if not any(earlier.covers(charge) for earlier in account.charges):
                self._write(account, charge)
            elif charge.answer is not None:
                line = {"event": "answered", "run": run, "number": charge.number, "answer": charge.answer}
                self._file.append(line)

    def end(self, run: str) -> None:
        """Give back what a run has not spent."""
        with self._file.locked():
            account = self._account(run)
            if account is not None and account.open:
                self._file.append({"event": "end", "run": run, "at": _now()})

    def close(self) -> None:
        """Close the file."""
        end_dropped_runs()
        self._file.close()

    def to_json(self) -> dict[str, Any]:
        """Return the ledger as JSON values. It has no answers."""
        delta = {"most": self.threshold_delta, "left": self.threshold_delta_left}
        return {
            "table": self.table,
            "neighbors": self.neighbors,
            "relation": self.relation.to_json(),
            "budget": amounts(self.budget),
            "committed": amounts(self.committed),
            "remaining": amounts(self.remaining),
            **({"threshold_delta": delta} if self.threshold_delta else {}),
            "copied": self.copied,
            "head": self.head,
            "runs": [run.to_json() for run in self.runs],
        }

    def __str__(self) -> str:
        return self.details(MOST_RUNS)

    def taken(self, delta: float = DEFAULT_DELTA) -> str:
        """Return what all runs take of the budget, in words, with each epsilon at a delta."""
        runs = self.runs  # read once: another thread may begin a run meanwhile
        taken, whole = in_terms(self.budget.above(self._taken(runs)[:-1]), delta), in_terms(self.budget, delta)
        at = f", at delta {delta:g}" if isinstance(self.budget, Rho | GDP) else ""
        return f"{taken} of {whole}{at}, by {plural(len(runs), 'run')}"

    def details(self, most: int | None = None, delta: float = DEFAULT_DELTA) -> str:
        """Return a text with a line for each run, or for the last `most` runs, and each epsilon at a delta.

        A run takes what it reserved while it is open, and what it has spent when it has ended.
        """
        runs = list(self.runs)
        lines = [f"Ledger of {self.table}" if self.table else "Ledger", f"protects: {self.relation}"]
        lines.append(f"taken:    {self.taken(delta)}")
        adds = {Rho: "; runs add up in rho, not in epsilon", GDP: "; runs add up in mu squared, not in epsilon"}
        lines.append(
            f"left:     {in_terms(self.remaining, delta, down=True)} for another run{adds.get(type(self.budget), '')}"
        )
        if self.threshold_delta:
            delta_left, most_delta = self.threshold_delta_left, self.threshold_delta
            lines.append(f"          and a delta of {delta_left:.3g} of {most_delta:.3g} for thresholds")
        if self.copied:
            lines.append(f"COPY:     this file {self.copied} Later runs are in the newest file only.")
        shown = runs if most is None else runs[-most:]
        if len(shown) < len(runs):
            lines.append(f"  ... {len(runs) - len(shown):,} earlier runs")
        rows = aligned(RUN_COLUMNS, [run.row(delta) for run in shown]) if shown else []
        return "\n".join([*lines, *rows, f"head {self.head}"])

    __repr__ = __str__

    @property
    def _header(self) -> dict[str, Any]:
        return self._file.lines[0]

    def _check_header(self) -> None:
        """Raise LedgerError if the first line is not that of a ledger, whose digests anybody can compute."""
        try:
            facts = self.id, self.budget, self.threshold_delta, self.relation, self.table
        except (LookupError, TypeError, ValueError, AttributeError):
            facts = ()
        if not facts:
            raise LedgerError(f"{self.path} is not a ledger: its first line has no valid budget, relation and table.")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the file for a moment, with the lines that other processes have added."""
        end_dropped_runs()
        with self._file.locked():
            if not self._file.lines:
                raise LedgerError(
                    f"{self.path} is empty: it is being created, or its creation was interrupted. In the second case "
                    "delete it and its head file, and create it again."
                )
            yield

    def _write(self, account: RunAccount, charge: Charge) -> None:
        """Append a charge that the budget of its run covers."""
        Statement(account.budget, account.charges, account.delta).check(charge)
        if not account.open:  # the run has ended: reserve its budget again
            left, again = sums([self._left(), account.takes]), {"run": account.name, "again": True}
            self._reserve(again, account.label, account.exactly_reserved, left)
        self._file.append({"event": "charge", "run": account.name, **charge.to_json()})

    def _reserve(
        self, record: dict[str, Any], label: str, wanted: Sequence[Fraction], left: Sequence[Fraction]
    ) -> None:
        """Reserve the whole budget of a run, of what is left for it; amounts are in the ledger's type."""
        *over, over_delta = exceed(wanted, left)
        run = f"{label}, a run on {self.path}"
        if any(over):
            cost, left_over = self.budget.above(wanted[:-1]), in_terms(self.remaining, DEFAULT_DELTA, down=True)
            raise BudgetExceeded.of(run, in_terms(cost, DEFAULT_DELTA), left_over, in_terms(self.budget, DEFAULT_DELTA))
        if over_delta:
            raise BudgetExceeded.of(
                run,
                f"a delta of {float(wanted[-1]):g} for values that nobody listed",
                f"{rounded_down(left[-1]):g}",
                f"{self.threshold_delta:g} (threshold_delta=, pgmest ledger create --threshold-delta)",
            )
        self._file.append({"event": "begin", "at": _now(), **record})

    def _account(self, run: str) -> RunAccount | None:
        return next((account for account in self.runs if account.name == run), None)

    @property
    def _whole(self) -> tuple[Fraction, ...]:
        """The exact amounts of the budget, and the delta for thresholds."""
        return (*self.budget.exact, Fraction(self.threshold_delta))

    def _taken(self, runs: Iterable[RunAccount]) -> list[Fraction]:
        return sums([[Fraction(0)] * len(self._whole), *(run.takes for run in runs)])

    def _left(self) -> list[Fraction]:
        return [whole - taken for whole, taken in zip(self._whole, self._taken(self.runs), strict=True)]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
