"""LinkedResult: synthetic linked tables with their ledgers and promise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pgmest.mechanisms.linked.linked_model import LinkedModel
from pgmest.mechanisms.result import OwnerOnly, Result
from pgmest.privacy.budgets import ApproxDP
from pgmest.privacy.ledger import Statement

if TYPE_CHECKING:
    from pgmest.mechanisms.linked.linked_lamp import LinkedLAMP


@dataclass(frozen=True, eq=False, repr=False)
class LinkedResult(LinkedModel):
    """The result of `LinkedLAMP.fit`. All of it may be published, except `owner_only`.

    Attributes:
        results: for each child table, the result of the run on it and its parent table.
        mechanism: the mechanism with its parameters.
        details: the report of the mechanism on its runs.
        owner_only: the wall-clock time, which may depend on the records.
    """

    results: Mapping[str, Result]
    mechanism: LinkedLAMP
    details: Mapping[str, Any] = field(default_factory=dict)
    owner_only: OwnerOnly = field(default_factory=OwnerOnly)

    @property
    def promise(self) -> ApproxDP | None:
        """The stated budget as (epsilon, delta)-DP for one unit (`LinkedUnit`); None if it was stated as rho."""
        return self.mechanism.promise

    @property
    def ledger(self) -> Statement | Mapping[str, Statement]:
        """The charges: of the only run, or of each run by its child table, whose costs add up."""
        statements = {name: result.ledger for name, result in self.results.items()}
        return next(iter(statements.values())) if len(statements) == 1 else statements

    @property
    def interrupted(self) -> bool:
        """True if Ctrl-C or the time limit ended a run early."""
        return any(result.interrupted for result in self.results.values())

    def __str__(self) -> str:
        ledgers = "\n".join(f"{name}: {result.ledger}" for name, result in self.results.items())
        return f"LinkedLAMP\n{ledgers}\n{self.model!r}"

    __repr__ = __str__
