"""The promise of a release in words and numbers: what is protected, how strongly, by what, and since when."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from typing import Any, Protocol

from pgmest._base.errors import plural
from pgmest._base.version import __version__
from pgmest.privacy.budgets import Rho
from pgmest.privacy.ledger import Statement
from pgmest.privacy.neighbors import Neighbors, Replace

LOOSE_EPSILON = 10.0
"""Above this epsilon the bound on what one person's record can change means little by itself."""


class Configured(Protocol):
    """What a statement needs of a mechanism: its parameters."""

    @property
    def epsilon(self) -> float | None: ...

    @property
    def delta(self) -> float | None: ...

    @property
    def neighbors(self) -> Neighbors | None: ...


@dataclass(frozen=True)
class PrivacyStatement:
    """What may be said of a release, for its readers; nothing in it depends on the records.

    Attributes:
        mechanism: its name.
        epsilon, delta: the promise as differential privacy; None where only `rho` was asked for.
        rho: the promise as zero-concentrated differential privacy, where the ledger was kept in it.
        records: the most records of one person.
        replaced: whether neighbors differ by replacing a person, so that the number of records is public.
        insecure: whether noise was simulated.
        drafted: whether the schema was read from the private data.
        schema: where the schema came from, if there was one.
        made: the date.
        version: of pgmest.
        threshold_delta: how much of delta thresholds took.
    """

    mechanism: str
    epsilon: float | None
    delta: float | None
    rho: float | None
    records: int
    replaced: bool
    insecure: bool
    drafted: bool = False
    schema: str | None = None
    made: str = ""
    version: str = ""
    threshold_delta: float = 0.0

    @classmethod
    def of(
        cls, mechanism: Configured, ledger: Statement, *, schema: str | None = None, drafted: bool = False
    ) -> PrivacyStatement:
        """The statement of a run.

        Args:
            mechanism: which ran.
            ledger: what it spent.
            schema: where the schema came from.
            drafted: whether it was a draft, read from the private data.
        """
        neighbors = mechanism.neighbors
        return cls(
            type(mechanism).__name__,
            mechanism.epsilon,
            mechanism.delta,
            ledger.budget.rho if type(ledger.budget) is Rho else None,  # of a plan it says less than its epsilon
            1 if neighbors is None else neighbors.records,
            isinstance(neighbors, Replace),
            ledger.insecure,
            drafted,
            schema,
            date.today().isoformat(),
            __version__,
            ledger.threshold_delta,
        )

    @property
    def private(self) -> bool:
        """Whether there is a promise at all."""
        return not (self.insecure or self.drafted)

    @property
    def promise(self) -> str:
        """The definition met, with its parameters."""
        if self.epsilon is not None:
            budget = f"({self.epsilon:g}, {self.delta:g})" if self.delta else f"{self.epsilon:g}"
            name = f"{budget}-differential privacy"
            labels = f" and a delta of {self.threshold_delta:.2g} on thresholds" if self.threshold_delta else ""
            return name if self.rho is None else f"{name}, spent as {self.rho:.4g}-zCDP{labels}"
        return f"{self.rho:g}-zero-concentrated differential privacy (zCDP)"

    @property
    def unit(self) -> str:
        """Who is protected."""
        who = f"one person with at most {plural(self.records, 'record')}"
        if self.replaced:
            return f"{who}, replaced by another; the number of records is public"
        return f"{who}, in the table or not; the number of records is protected"

    @property
    def meaning(self) -> str:
        """What the promise means for a person."""
        if self.epsilon is None:
            return (
                "Whatever is done with the release, the evidence that it gives for or against one person's being in "
                f"the table is that of a normal value shifted by at most {math.sqrt(2 * (self.rho or 0)):.3g} standard "
                "deviations."
            )
        odds = math.exp(self.epsilon) if self.epsilon < 700 else math.inf
        least = f", except with probability {self.delta:g}" if self.delta else ""
        weak = " That is a weak promise." if self.epsilon > LOOSE_EPSILON else ""
        return (
            "Whatever else is known, and whatever is done with the release, it changes the odds that one person's "
            f"records are in the table by a factor of at most {odds:,.3g}{least}.{weak}"
        )

    @property
    def caveats(self) -> tuple[str, ...]:
        """Why there is no promise; empty where there is one."""
        found = []
        if self.insecure:
            found.append("The noise was simulated, for trying out: this release is NOT private.")
        if self.drafted:
            found.append("The schema was read from the private data: this release is NOT private.")
        return tuple(found)

    def rows(self) -> list[tuple[str, str]]:
        """Names and values, for tables."""
        found = [
            ("promise", self.promise if self.private else f"none: NOT PRIVATE ({self.promise} was asked for)"),
            ("who is protected", self.unit),
            ("mechanism", self.mechanism),
        ]
        if self.schema is not None:
            found.append(("schema", self.schema + (" (a draft)" if self.drafted else "")))
        return [*found, ("made", f"{self.made}, pgmest {self.version}")]

    def to_json(self) -> dict[str, Any]:
        """Everything as values of JSON."""
        return {
            "private": self.private,
            "promise": self.promise,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rho": self.rho,
            "records_per_person": self.records,
            "neighbors": "replace" if self.replaced else "add or remove",
            "mechanism": self.mechanism,
            "schema": self.schema,
            "made": self.made,
            "pgmest": self.version,
        }

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.rows())
        lines = [f"{name:{width}}  {value}" for name, value in self.rows()]
        return "\n".join([*lines, *(self.caveats or (self.meaning,))])
