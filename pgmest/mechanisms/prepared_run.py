"""PreparedRun: a run of a mechanism between the checks of `Mechanism.fit` and the result.

`Mechanism.fit` prepares a run, opens its curator, runs it and makes the result. Nothing is paid before the curator is
opened.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pgmest._base.stages import ending_in, stage, time_left
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError
from pgmest.inference.exact.structural_zeros import Rule
from pgmest.mechanisms.duration import announce, expected_seconds, measuring_time, slowness
from pgmest.mechanisms.error_bars import with_refit
from pgmest.mechanisms.invariants import INVARIANTS, check_consistent, held
from pgmest.mechanisms.known_zeros import ZEROS, honored
from pgmest.mechanisms.one_code import seen_by_run, without_names
from pgmest.mechanisms.result import Outcome, OwnerOnly, Result
from pgmest.mechanisms.stopping import Stop, say_cut_short, stopped_early
from pgmest.models.one_code import with_constants
from pgmest.privacy.budgets import ApproxDP, Budget
from pgmest.privacy.curator import Curator
from pgmest.privacy.unprotected import Invariant
from pgmest.tables.domain import Domain
from pgmest.workloads import Workload

if TYPE_CHECKING:
    from pgmest.mechanisms.mechanism import Mechanism


class Drafting(Protocol):
    """Private requests that decide how the records are coded, such as bought bounds; the curator of the run pays."""

    @property
    def domain(self) -> Domain:
        """The attributes, with placeholders for the numbers of values that are not known yet."""
        ...

    @property
    def delta(self) -> float:
        """The part of delta that thresholds may spend."""
        ...

    @property
    def promise(self) -> ApproxDP | None:
        """The (epsilon, delta) of the whole run, thresholds included; None if the budget was stated as rho."""
        ...

    def __call__(self, curator: Curator, /) -> Curator:
        """Ask the curator, and return the curator of the coded records for the mechanism."""
        ...


SHARE = 0.9
"""The share of a limit of time after which estimates end, since no code ends at once."""


@dataclass(frozen=True)
class EndedRun:
    """A run that has ended, by itself or early.

    Attributes:
        made: the return value of `Mechanism.run`, or of `Mechanism.conclude` if the run ended early.
        curator: the curator that paid.
        coded: the curator of all attributes: `curator`, or its view of the records that a drafting coded.
        seen: the curator that the mechanism asked: `coded`, or its view without attributes of one code.
        stop: how the run ended.
    """

    made: Any
    curator: Curator
    coded: Curator
    seen: Curator
    stop: Stop


@dataclass(frozen=True)
class PreparedRun:
    """A run whose arguments have been checked and whose budget is calibrated.

    Attributes:
        mechanism: the mechanism, with the neighboring relation of the data.
        data: the private records.
        workload: the checked workload about all attributes; None for the mechanism's default.
        budget: the budget of the run.
        rules: the structural zeros.
        invariants: the tables that are not protected.
        noise: the generator of simulated noise.
        choices: the generator of the mechanism's own choices.
        drafting: the requests that code the records first, if any.
    """

    mechanism: Mechanism
    data: Dataset
    workload: Workload | None
    budget: Budget
    rules: tuple[Rule, ...]
    invariants: tuple[Invariant, ...]
    noise: np.random.Generator
    choices: np.random.Generator
    drafting: Drafting | None

    def open_curator(self, **options: Any) -> Curator:
        """Return the curator of the run.

        Args:
            options: the curator's journal, ledger and on_charge.

        Raises:
            BudgetExceeded, LedgerError, JournalError: as for `Curator`.
        """
        return Curator(
            self.data,
            self.budget,
            neighbors=self.mechanism.neighbors,
            backend=self.mechanism.backend,
            seed=self.noise,
            label=self.mechanism.title,
            structural_zeros=self.rules,
            invariants=self.invariants,
            threshold_delta=0.0 if self.drafting is None else self.drafting.delta,
            promise=(self.mechanism if self.drafting is None else self.drafting).promise,
            **options,
        )

    def run(self, curator: Curator, time_limit: float | None, silent: bool) -> EndedRun:
        """Run the mechanism; if Ctrl-C or the time limit stops the run, estimate from the answers so far.

        The limit is for all of this: a part of it is kept for the estimate, which also ends at the limit.

        Raises:
            KeyboardInterrupt: if no model can be made of the answers before Ctrl-C, or at a second Ctrl-C.
            ArgumentError: if nothing was measured within the time limit.
        """
        made, coded, seen, measuring = None, curator, curator, None
        mechanism = self.mechanism
        left = math.inf if time_limit is None else min(time_limit, time_left())
        with ending_in(SHARE * left) as clock:
            clock.cut_short = False
            if time_limit is not None:
                expected = expected_seconds(self.mechanism, *self._sizes(curator))
                measuring = measuring_time(expected, left)
                clock.measuring_until = time.perf_counter() + measuring
                clock.expected = slowness() * (expected or (0.0,))[0]
            with stopped_early(curator, time_limit, silent, measuring) as stop:
                if self.invariants:
                    check_consistent(curator.invariants, self.rules, curator.domain, curator.fixed_total)
                if self.drafting is not None:
                    seen = coded = self.drafting(curator)
                mechanism = self.mechanism.without_constants(coded.domain)
                seen = seen_by_run(coded, mechanism.sees(coded.domain))
                made = mechanism.run(seen, self.seen_workload(coded.domain), self.choices)
            if made is None and stop.early:
                stage("making a model of the answers so far")
                made = self._concluded(mechanism, seen, stop)
            if clock.cut_short and not stop.timed_out:
                stop.timed_out = True
                say_cut_short(stop, silent)
        return EndedRun(made, curator, coded, seen, stop)

    def announce(self, curator: Curator, time_limit: float | None) -> None:
        """Print to standard error how long the run will take, if that is long."""
        announce(self.mechanism, *self._sizes(curator), time_limit)

    def _sizes(self, curator: Curator) -> tuple[Domain | None, int | None]:
        """Return the attributes, if the records are coded, and the number of records, if it is public."""
        return (curator.domain if self.drafting is None else None), curator.fixed_total

    def seen_workload(self, domain: Domain) -> Workload | None:
        """Return the workload of a run on these attributes, without those of one code that the mechanism does not see.

        Raises:
            as `Mechanism.covering_workload` does.
        """
        if self.workload is None:
            return None
        names = self.mechanism.sees(domain)
        return self.mechanism.covering_workload(domain.project(names), without_names(domain, self.workload, names))

    def _concluded(self, mechanism: Mechanism, seen: Curator, stop: Stop) -> Any:
        """Return the estimate from the answers before the run was stopped."""
        if stop.timed_out and not seen.measurements:
            raise ArgumentError.of("time_limit", stop.limit, "longer: nothing was measured in that time")
        made = mechanism.conclude(seen)
        if made is None:
            raise KeyboardInterrupt
        return made

    def result(self, ended: EndedRun, owner_only: OwnerOnly) -> Result:
        """Return the model with its ledger and the public details of the run."""
        outcome = ended.made if isinstance(ended.made, Outcome) else Outcome(ended.made)
        model = with_constants(with_refit(outcome.model, ended.seen), ended.coded.domain)
        details = dict(outcome.details)
        if self.rules:
            details[ZEROS] = honored(model, self.rules, ended.coded.domain, ended.seen.measurements)
        if self.invariants:
            details[INVARIANTS] = held(model, ended.coded.invariants)
        if ended.stop.timed_out:
            details["time_limit"] = ended.stop.limit
        return Result(
            model,
            ended.curator.ledger.statement(),
            ended.seen.measurements,
            ended.coded.domain,
            self.mechanism,
            ended.curator.stopped,
            details,
            owner_only,
            ended.coded.invariants,
        )
