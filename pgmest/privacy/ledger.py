"""The ledger of a run: its charges, in order. This is the only place where a budget is checked.

There is one `Ledger`, in one process, and it charges atomically. A `Statement` is a copy of it that can be kept.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

from pgmest._base.html import html_text
from pgmest._base.stages import in_command
from pgmest.errors import ArgumentError, BudgetExceeded, BudgetTypeError, plural
from pgmest.privacy.budgets import (
    GDP,
    ApproxDP,
    Budget,
    Epsilon,
    Rho,
    at_most_text,
    rounded_down,
    rounded_up,
)
from pgmest.privacy.ledger_text import (
    COLUMNS,
    MOST_LISTED,
    SUMMARY_COLUMNS,
    aligned,
    charge_rows,
    full_names,
    summary_rows,
)
from pgmest.privacy.one_process import OneProcess
from pgmest.privacy.unprotected import Unprotected

ROUNDING = Fraction(1, 10**9)
"""A request that exceeds the remaining budget by at most this relative amount is cut to the remaining budget."""
CONVERSION_ROUNDING = 1e-6
"""The relative excess of epsilon that is accepted when a budget is compared with the epsilon that was requested: the
conversions to rho and back are rounded twice."""


@dataclass(frozen=True)
class Entry:
    """One charge.

    Attributes:
        label: the name of the request.
        kind: "measure", "select", "count", "release" or "charge".
        cost: the amount that was charged.
        parameters: the public parameters of the request: clique, noise, stddev, number of candidates, ...
        insecure: whether the noise came from a simulation, which protects nobody.
        delta: the probability, besides a delta in the cost, with which the promise may fail; for thresholds.
    """

    label: str
    kind: str
    cost: Budget
    parameters: Mapping[str, Any] = field(default_factory=dict)
    insecure: bool = False
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", dict(self.parameters))

    @property
    def exact(self) -> tuple[Fraction, ...]:
        """The exact amounts of the cost, and the delta."""
        return (*self.cost.exact, Fraction(self.delta))

    @property
    def clique(self) -> tuple[str, ...]:
        """The attributes of the table that was asked about; () without such a table."""
        return tuple(map(str, self.parameters.get("clique") or ()))


@dataclass(frozen=True)
class Standing:
    """A run among all runs on the ledger of its dataset, as its statement was made.

    Attributes:
        run: the name of the run in that ledger.
        taken: what all runs take of that ledger's budget, this one included, in words.
    """

    run: str
    taken: str


class Statement:
    """A budget and its charges, in order. Nothing can be charged to a statement.

    Args:
        budget: the whole budget.
        entries: the charges.
        delta: the delta that could be spent on thresholds besides (`Entry.delta`).
        promise: the (epsilon, delta) that was requested, to be shown if budget and thresholds imply this promise.
        unprotected: the tables that are published without protection.
        standing: the run on the ledger of its dataset; None without such a ledger.

    Raises:
        ArgumentError: if the budget is zero or no budget.
    """

    def __init__(
        self,
        budget: Budget,
        entries: Iterable[Entry] = (),
        delta: float = 0.0,
        promise: ApproxDP | None = None,
        unprotected: Iterable[Unprotected] = (),
        standing: Standing | None = None,
    ):
        if not isinstance(budget, Budget) or not budget:
            raise ArgumentError.of("budget", budget, "a positive Epsilon, Rho, GDP or ApproxDP")
        if not (isinstance(delta, int | float) and 0 <= delta < 1):
            raise ArgumentError.of("delta", delta, "at least 0 and below 1")
        self.budget = budget
        self.delta: float = float(delta)
        implied = promise is not None and self.implies(promise.epsilon, promise.delta)
        self.promise: ApproxDP | None = promise if implied else None
        self.unprotected: tuple[Unprotected, ...] = tuple(unprotected)
        self.standing = standing
        self._entries = list(entries)
        self._whole = (
            *budget.exact,
            Fraction(self.delta),
        )  # like all exact amounts, with the delta for thresholds last
        self._spent = sums([[Fraction(0)] * len(self._whole), *(entry.exact for entry in self._entries)])

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries, in the order in which they were charged."""
        return tuple(self._entries)

    @property
    def total(self) -> Budget:
        """The sum of the costs, rounded up; never more than the budget."""
        return self.budget.above(self._spent[:-1])

    @property
    def remaining(self) -> Budget:
        """The budget less the sum of the costs, rounded down."""
        return self.budget.below(self._left()[:-1])

    @property
    def threshold_delta(self) -> float:
        """The sum of the deltas that were spent on thresholds, rounded up; never more than `delta`."""
        return rounded_up(self._spent[-1])

    @property
    def insecure(self) -> bool:
        """True if any entry is insecure."""
        return any(entry.insecure for entry in self._entries)

    def implies(self, epsilon: float, delta: float) -> bool:
        """Return whether the budget, with the delta for thresholds, implies (epsilon, delta)-DP."""
        budget, left = self.budget, rounded_down(Fraction(delta) - Fraction(self.delta))
        if isinstance(budget, Epsilon | ApproxDP):
            spent = budget.to_approx() if isinstance(budget, Epsilon) else budget
            return spent.epsilon <= epsilon and spent.delta <= left
        assert isinstance(budget, Rho | GDP)
        return left > 0 and budget.to_approx(left).epsilon <= epsilon * (1 + CONVERSION_ROUNDING)

    def _left(self) -> list[Fraction]:
        return [whole - spent for whole, spent in zip(self._whole, self._spent, strict=True)]

    def check(self, entry: Entry) -> None:
        """Check that a charge can be afforded exactly.

        Raises:
            BudgetTypeError: if its cost is not of the budget's type.
            BudgetExceeded: if its cost or its delta is more than what is left.
        """
        if type(entry.cost) is not type(self.budget):
            raise BudgetTypeError.of(f"the cost of {entry.label}", type(self.budget), entry.cost)
        left = self._left()
        *over, over_delta = exceed(entry.exact, left)
        if any(over):
            raise BudgetExceeded.of(entry.label, entry.cost, self.remaining, self.budget)
        if over_delta or entry.delta < 0:
            delta = f"a delta of {entry.delta:g}", f"{rounded_down(left[-1]):g}", f"{self.delta:g} for thresholds"
            raise BudgetExceeded.of(entry.label, *delta)

    def to_json(self) -> dict[str, Any]:
        """Return the ledger as JSON values: the budget, its type, and the entries."""
        return {
            "budget": amounts(self.budget),
            "spent": amounts(self.total),
            **({} if self.promise is None else {"promise": amounts(self.promise)}),
            **({"threshold_delta": {"most": self.delta, "spent": self.threshold_delta}} if self.delta else {}),
            **({"unprotected": [one.to_json() for one in self.unprotected]} if self.unprotected else {}),
            **({} if self.standing is None else {"dataset": asdict(self.standing)}),
            "insecure": self.insecure,
            "entries": [
                {
                    "label": entry.label,
                    "kind": entry.kind,
                    "cost": amounts(entry.cost),
                    "parameters": dict(entry.parameters),
                    "insecure": entry.insecure,
                    **({"delta": entry.delta} if entry.delta else {}),
                }
                for entry in self._entries
            ],
        }

    def rows(self) -> list[tuple[str, ...]]:
        """Return the entries as rows of texts, one text for each of `ledger_text.COLUMNS`."""
        return charge_rows(self._entries, self.budget)

    def summary(self) -> list[tuple[str, ...]]:
        """Return the sums of the charges by kind as texts, one text for each of `ledger_text.SUMMARY_COLUMNS`."""
        return summary_rows(self._entries, self.budget)

    def details(self) -> str:
        """Return a text with a line for each charge; `str` returns a summary if there are more than `MOST_LISTED`."""
        lines = aligned(COLUMNS, self.rows()) if self._entries else []
        return "\n".join([*self._heading(), *lines, *full_names(self._entries)])

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, position: int) -> Entry:
        return self._entries[position]

    def _repr_html_(self) -> str:
        return html_text(self)

    def __str__(self) -> str:
        if len(self) <= MOST_LISTED:
            return self.details()
        way = "--all prints" if in_command() else "the ledger's details() list"
        more = f"  {way} each of the {len(self):,} requests"
        return "\n".join([*self._heading(), *aligned(SUMMARY_COLUMNS, self.summary()), more])

    @property
    def spending(self) -> str:
        """The sum of the costs and the budget, in words, with the unit of the costs where it is another one."""
        unit = "; costs are squares of mu, which add up" if isinstance(self.budget, GDP) else ""
        return f"{self.total} of {self.budget} spent on {plural(len(self), 'request')}{unit}"

    def _heading(self) -> list[str]:
        lines = [f"Ledger: {self.spending}"]
        if self.delta:
            lines.append(f"and a delta of {self.threshold_delta:.3g} of {self.delta:.3g}, on thresholds")
        if self.promise is not None:
            epsilon, delta = at_most_text(self.promise.epsilon), at_most_text(self.promise.delta)
            lines.append(f"for ({epsilon}, {delta})-differential privacy")
        lines += [f"NOT PROTECTED: {one}" for one in self.unprotected]
        if self.insecure:
            lines.append("INSECURE: simulated noise, which protects nobody; for experiments only")
        return lines

    __repr__ = __str__


class Ledger(Statement, OneProcess):
    """A list of charges whose exact sum never exceeds the budget, also if several threads charge it.

    A ledger can be neither copied nor pickled, nor charged in a fork of the process. `statement()` returns a copy.

    >>> from pgmest.privacy import Rho
    >>> ledger = Ledger(Rho(1.0))
    >>> ledger.charge(Entry("ages", "measure", Rho(0.25), {"noise": "discrete_gaussian", "stddev": 2.0}))
    >>> ledger.remaining
    Rho(0.75)
    >>> print(ledger)
    Ledger: Rho(0.25) of Rho(1) spent on 1 request
      #  what for  kind     cost   share  details
      1  ages      measure  0.25  25.0 %  discrete_gaussian, stddev 2

    Args:
        budget: the whole budget.
        delta: the delta that may be spent on thresholds besides.
        promise: as for `Statement`.

    Raises:
        ArgumentError: if the budget is zero or no budget.
    """

    def __init__(self, budget: Budget, delta: float = 0.0, promise: ApproxDP | None = None):
        super().__init__(budget, delta=delta, promise=promise)
        self.stand: Callable[[], Standing] | None = None
        """The function that returns where the run stands on the ledger of its dataset, if it charges one."""
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the ledger's lock while a request is checked, charged and answered, so that requests do not overlap.

        Raises:
            ProcessError: if this is a fork of the ledger's process, where the lock may never be released.
        """
        self._check_process()
        with self._lock:
            yield

    def statement(self) -> Statement:
        """Return a copy of the ledger as it is now."""
        with self.held():
            standing = None if self.stand is None else self.stand()
            return Statement(self.budget, self._entries, self.delta, self.promise, self.unprotected, standing)

    def affordable(self, cost: Any, label: str) -> Budget:
        """Return the cost that can be charged: as given, or the remaining budget if only rounding exceeds it.

        Raises:
            BudgetTypeError: if the cost is not of the budget's type.
            ArgumentError: if the cost is zero.
            BudgetExceeded: if the cost is more than the remaining budget.
            ProcessError: if this is a fork of the ledger's process.
        """
        self._check_process()
        if type(cost) is not type(self.budget):
            raise BudgetTypeError.of(f"the cost of {label}", type(self.budget), cost)
        if not cost:
            raise ArgumentError.of("spend", cost, "more than nothing")
        with self.held():
            left = self._left()[:-1]
        cut = [min(amount, rest) for amount, rest in zip(cost.exact, left, strict=True)]
        if any(now < amount * (1 - ROUNDING) for now, amount in zip(cut, cost.exact, strict=True)):
            raise BudgetExceeded.of(label, cost, self.remaining, self.budget)
        return self.budget.below(cut)

    def affordable_delta(self, delta: float, label: str) -> float:
        """Return the delta for thresholds that can be charged: as given, or what is left if only rounding exceeds it.

        Raises:
            ArgumentError: if delta is no number from 0 to 1, or more than is left.
        """
        left = self._left()[-1]
        valid = isinstance(delta, int | float) and 0 <= delta < 1
        if not valid or Fraction(delta) > left * (1 + ROUNDING):
            raise ArgumentError.of(
                "delta", delta, f"at most {rounded_down(left):g}, which is left for thresholds ({label})"
            )
        return min(delta, rounded_down(left))

    def charge(self, entry: Entry) -> None:
        """Append an entry.

        Raises:
            BudgetTypeError, BudgetExceeded: if it cannot be afforded exactly; nothing was charged.
            ProcessError: if this is a fork of the ledger's process.
        """
        with self.held():
            self.check(entry)
            self._spent = sums([self._spent, entry.exact])
            self._entries.append(entry)


def sums(rows: Iterable[Iterable[Fraction]]) -> list[Fraction]:
    """Return the exact sum of each column."""
    return [sum(column, Fraction(0)) for column in zip(*rows, strict=True)]


def exceed(wanted: Iterable[Fraction], most: Iterable[Fraction]) -> list[bool]:
    """Return whether each amount is more than there is."""
    return [amount > limit for amount, limit in zip(wanted, most, strict=True)]


def amounts(budget: Budget) -> dict[str, Any]:
    """Return a budget as JSON values: its type and its amounts."""
    return {"type": type(budget).__name__, **asdict(budget)}


def budget_of(values: Mapping[str, Any]) -> Budget:
    """Return the budget that `amounts` has written.

    Raises:
        ArgumentError: if the values are not those of a budget.
    """
    kinds = {kind.__name__: kind for kind in (Epsilon, Rho, GDP, ApproxDP)}
    try:
        numbers = dict(values)
        return kinds[numbers.pop("type")](**numbers)
    except (KeyError, TypeError, ValueError):
        raise ArgumentError.of("budget", values, "the type and amounts of a budget") from None
