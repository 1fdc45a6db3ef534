"""The privacy statement of a release: what is protected, how strongly, by which mechanism, and when it was made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Any, Protocol

from pgmest._base.version import __version__
from pgmest.errors import plural
from pgmest.privacy.budgets import GDP, ApproxDP, Epsilon, Rho, at_most_text, rounded_up
from pgmest.privacy.ledger import Standing, Statement
from pgmest.privacy.neighbors import Neighbors, Replace
from pgmest.privacy.unprotected import Unprotected

LOOSE_EPSILON = 10.0
"""Above this epsilon a statement calls its promise weak: the odds may change by a factor of more than 22,000."""

UNKNOWN = "not known: this run charged no ledger of the dataset"
"""What a statement says of all runs on a dataset without a ledger."""


class Configured(Protocol):
    """The parts of a mechanism that a statement reads."""

    @property
    def title(self) -> str: ...

    @property
    def requested(self) -> tuple[float | None, float | None]: ...

    @property
    def neighbors(self) -> Neighbors | None: ...


@dataclass(frozen=True)
class PrivacyStatement:
    """The promise of a release, written for its readers. Nothing in it depends on the records.

    Attributes:
        mechanism: the name of the mechanism.
        epsilon: the epsilon of the promise; None if the ledger promises zCDP or Gaussian DP only.
        delta: the delta of the promise, thresholds included, 0 for pure DP; None if epsilon is None.
        rho: the promise as zero-concentrated differential privacy, if the ledger was kept in rho.
        records: the largest number of records of one person.
        replaced: whether neighbors differ by replacing a person, so that the number of records is public.
        insecure: whether the noise was simulated.
        drafted: whether the schema was read from the private data.
        schema: the source of the schema, if there was one.
        made: the date of the release.
        version: the version of pgmest.
        threshold_delta: the part of delta that thresholds spent (`Curator.frequent`).
        mu: the promise as Gaussian differential privacy, if the ledger was kept in it and no epsilon was requested.
        person: the column that tells persons apart, if further rows of a person were left out.
        protected: the unit of linked tables in words, such as a household with its persons; None for a single table.
        limits: the largest numbers of rows that are counted, in words (`rows_counted`); "" without any.
        unprotected: the tables that are published exactly, about which nothing is promised.
        standing: the run on the ledger of its dataset, and what all runs on it take; None without such a ledger.
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
    mu: float | None = None
    person: str | None = None
    protected: str | None = None
    limits: str = ""
    unprotected: tuple[Unprotected, ...] = ()
    standing: Standing | None = None

    @classmethod
    def of(
        cls,
        mechanism: Configured,
        ledger: Statement,
        *,
        schema: str | None = None,
        drafted: bool = False,
        person: str | None = None,
        protected: str | None = None,
    ) -> PrivacyStatement:
        """Return the statement of a run.

        The promise is the one of the ledger's budget. It is stated as the (epsilon, delta) that the mechanism was
        given if that budget implies them, and in the budget's own terms otherwise.

        Args:
            mechanism: the mechanism that ran, such as `Result.mechanism`.
            ledger: the ledger of the run.
            schema: the source of the schema.
            drafted: whether the schema is a draft, read from the private data.
            person: the column that tells persons apart, if the schema has a unit.
            protected: the unit of linked tables in words.
        """
        neighbors, budget = mechanism.neighbors, ledger.budget
        epsilon, delta = mechanism.requested
        if epsilon is None or not ledger.implies(epsilon, delta or 0.0):
            epsilon, delta = _own_terms(ledger)
        return cls(
            mechanism.title,
            epsilon,
            delta,
            budget.rho if isinstance(budget, Rho) else None,
            1 if neighbors is None else neighbors.records,
            isinstance(neighbors, Replace),
            ledger.insecure,
            drafted,
            schema,
            date.today().isoformat(),
            __version__,
            ledger.threshold_delta,
            budget.mu if isinstance(budget, GDP) and epsilon is None else None,
            person,
            protected,
            "" if person is None or neighbors is None else limit_of_person(neighbors.records, person),
            ledger.unprotected,
            ledger.standing,
        )

    @property
    def private(self) -> bool:
        """True if the release is private: its noise was not simulated, and its schema is not a draft."""
        return not (self.insecure or self.drafted)

    @property
    def promise(self) -> str:
        """The definition of privacy that holds, with its parameters."""
        if self.epsilon is not None:
            epsilon, labels = at_most_text(self.epsilon), ""
            name = f"{f'({epsilon}, {at_most_text(self.delta)})' if self.delta else epsilon}-differential privacy"
            if self.threshold_delta:
                labels = f" and a delta of {at_most_text(self.threshold_delta, 2)} on thresholds"
            return name if self.rho is None else f"{name}, spent as {at_most_text(self.rho, 4)}-zCDP{labels}"
        failing = f", except with probability {at_most_text(self.threshold_delta, 2)}" if self.threshold_delta else ""
        if self.mu is not None:
            return f"{at_most_text(self.mu)}-Gaussian differential privacy{failing}"
        assert self.rho is not None
        return f"{at_most_text(self.rho)}-zero-concentrated differential privacy (zCDP){failing}"

    @property
    def unit(self) -> str:
        """The person, or the unit of linked tables, that is protected, in words."""
        if self.protected is not None:
            return f"{self.protected}; in the tables or not: their numbers of rows are protected, too"
        who = f"one person with at most {plural(self.records, 'record')}"
        if self.person is not None:
            who += f" (all rows with one value of '{self.person}'; rows beyond that number are left out)"
        if any(not one.given for one in self.unprotected):
            return f"{who}, replaced by another such that the tables that are not protected stay as they are"
        if self.replaced:
            return f"{who}, replaced by another; the number of records is public"
        return f"{who}, in the table or not; the number of records is protected"

    @property
    def rows_counted(self) -> str:
        """The rows that counts and errors are of, in words; empty if all rows are counted."""
        return rows_counted(self.limits)

    @property
    def meaning(self) -> str:
        """The consequence of the promise for a person, in words."""
        if self.epsilon is None:
            shift = at_most_text(self.mu if self.mu is not None else math.sqrt(2 * (self.rho or 0.0)), 3)
            probability = at_most_text(self.threshold_delta, 2)
            failing = f" This fails with probability {probability}." if self.threshold_delta else ""
            return (
                "Whatever is done with the release, the evidence that it gives for or against one person's being in "
                f"the table is that of a normal value shifted by at most {shift} standard deviations.{failing}"
            )
        odds = math.exp(self.epsilon) if self.epsilon < 700 else math.inf
        least = f", except with probability {at_most_text(self.delta)}" if self.delta else ""
        whose = "one person's records are in the table" if self.protected is None else "such a unit is in the tables"
        weak = " That is a weak promise." if self.epsilon > LOOSE_EPSILON else ""
        return (
            "Whatever else is known, and whatever is done with the release, it changes the odds that "
            f"{whose} by a factor of at most {at_most_text(odds, 3)}{least}.{weak}"
        )

    @property
    def exposure(self) -> str:
        """The consequence of tables that are not protected, in words; empty without such tables."""
        if not self.unprotected:
            return ""
        return (
            "Nothing is promised about the tables that are not protected. A cell of 1 shows that a single person has "
            "these values, a cell of 0 that nobody has; and whoever knows all records of a cell but one learns that "
            "one. Hold tables exactly only if they are public anyway, or if the law demands it."
        )

    @property
    def caveats(self) -> tuple[str, ...]:
        """The reasons why nothing is promised; empty if the release is private."""
        found = []
        if self.insecure:
            found.append("The noise was simulated, for trying out: this release is NOT private.")
        if self.drafted:
            found.append("The schema was read from the private data: this release is NOT private.")
        return tuple(found)

    def rows(self) -> list[tuple[str, str]]:
        """Return the statement as names and values, for a table of two columns."""
        found = [
            ("promise", self.promise if self.private else f"none: NOT PRIVATE ({self.promise} was asked for)"),
            ("all runs so far", UNKNOWN if self.standing is None else self.standing.taken),
            ("who is protected", self.unit),
            *(("not protected", str(one)) for one in self.unprotected),
            ("mechanism", self.mechanism),
        ]
        if self.limits:
            found.append(("counts", self.rows_counted))
        if self.schema is not None:
            found.append(("schema", self.schema + (" (a draft)" if self.drafted else "")))
        if self.standing is not None:
            found.append(("run", self.standing.run))
        return [*found, ("made", f"{self.made}, pgmest {self.version}")]

    def to_json(self) -> dict[str, Any]:
        """Return the statement as JSON values."""
        return {
            "private": self.private,
            "promise": self.promise,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rho": self.rho,
            **({} if self.mu is None else {"mu": self.mu}),
            **({"threshold_delta": self.threshold_delta} if self.threshold_delta else {}),
            "records_per_person": self.records,
            **({} if self.person is None else {"person": self.person}),
            **({} if self.protected is None else {"protected": self.protected}),
            **({"rows_counted": self.rows_counted} if self.limits else {}),
            **({"unprotected": [one.to_json() for one in self.unprotected]} if self.unprotected else {}),
            "neighbors": "replace" if self.replaced else "add or remove",
            "who_is_protected": self.unit,
            **({} if self.standing is None else {"all_runs_so_far": self.standing.taken, "run": self.standing.run}),
            "mechanism": self.mechanism,
            "schema": self.schema,
            "made": self.made,
            "pgmest": self.version,
        }

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.rows())
        lines = [f"{name:{width}}  {value}" for name, value in self.rows()]
        said = self.caveats or (self.meaning,)
        return "\n".join([*lines, *said, *([self.exposure] if self.exposure else [])])


def limit_of_person(records: int, person: str) -> str:
    """Return the largest number of rows of a person that are counted, in words."""
    return f"at most {plural(records, 'row')} with one value of '{person}'"


def rows_counted(limits: str) -> str:
    """Return the sentence that the rows a schema leaves out are in no count and in no error; "" without limits.

    How many they are is private and not paid for, so that the sentence holds the limits alone.

    Args:
        limits: the largest numbers of rows that are counted, in words.
    """
    if not limits:
        return ""
    return (
        f"Counts and their errors are of the rows that are counted: {limits}. Rows beyond that, and rows that belong "
        "to nobody, are left out: how many is in no interval, and not known from the release; `pgmest check` tells the "
        "owner."
    )


def _own_terms(ledger: Statement) -> tuple[float | None, float | None]:
    """Return the (epsilon, delta) of a budget that states them itself, and (None, None) for rho and mu."""
    budget = ledger.budget
    if isinstance(budget, Epsilon | ApproxDP):
        spent = budget.to_approx() if isinstance(budget, Epsilon) else budget
        return spent.epsilon, rounded_up(Fraction(spent.delta) + Fraction(ledger.delta))
    return None, None
