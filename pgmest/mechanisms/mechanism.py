"""Mechanism: the base class of all mechanisms, with the checks of parameters and budgets, and with `fit`.

A mechanism is a frozen dataclass with its parameters as fields and one method, `run`, which sees the records only
through a `Curator`. Each field declares its allowed values (`pgmest.mechanisms.parameters`). `independent.py` is the
shortest example. Adaptive mechanisms supply the parts of the loop in `pgmest.mechanisms.adaptive`.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, PgmestError
from pgmest.inference.exact.structural_zeros import StructuralZeros, zero_rules
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.invariants import check_consistent, check_number, invariants_of, neighbors_beside
from pgmest.mechanisms.known_zeros import check_possible
from pgmest.mechanisms.notices import warn_of_budget, warn_of_ended_run, warn_of_workload
from pgmest.mechanisms.one_code import varying, without_names
from pgmest.mechanisms.parameters import (
    BACKENDS,
    METADATA,
    check_parameters,
    choice,
    instance,
    number,
    optional,
    parameter,
)
from pgmest.mechanisms.prepared_run import Drafting, PreparedRun
from pgmest.mechanisms.result import OwnerOnly, Result
from pgmest.mechanisms.run_arguments import check_run, generators, rules_of, shown
from pgmest.mechanisms.stated_budget import stated_budget
from pgmest.mechanisms.unnamed import with_unnamed
from pgmest.models.base import ModelBase
from pgmest.privacy.budgets import DEFAULT_DELTA, GDP, ApproxDP, Epsilon, Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.dataset_ledger import DatasetLedger
from pgmest.privacy.journal import Journal
from pgmest.privacy.ledger_runs import LedgerRun
from pgmest.privacy.neighbors import AddRemove, Neighbors, Replace, neighbors_of
from pgmest.privacy.statement import limit_of_person, rows_counted
from pgmest.privacy.unprotected import Invariant, check_names
from pgmest.tables.domain import Clique, Domain
from pgmest.workloads import Workload, as_workload

CONCLUDING_ITERATIONS = 500
"""The limit on the iterations of the estimate after an interruption, which must not take long; a tenth of the usual."""

HOLDING = "LAMP, AIM, MST or Independent"
"""The mechanisms that an error recommends for invariants."""

POSITIVE_BUDGET = optional(number("a positive number", lambda value: 0 < value < float("inf")))
DELTA = optional(
    number("0 for pure DP, or a number below 1, well below 1 / records, such as 1e-9", lambda value: 0 <= value < 1)
)
NEIGHBORS = instance((AddRemove, Replace), "AddRemove(...) or Replace(...)")


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """A differentially private mechanism, which makes a model of private records.

    Args:
        epsilon, delta: the budget as (epsilon, delta)-DP; `delta=0` asks for pure epsilon-DP. A mechanism that is
            always pure (`definition`) replaces the default delta by 0. Each mechanism has the accounting with the
            least noise (`gaussian_curve`).
        rho: the budget as rho-zCDP, instead of epsilon and delta. The default delta is then replaced by None.
        backend: "opendp" for exact noise, or "simulation" for seeded noise in experiments.
        neighbors: the neighboring relation. If the schema of the records has a `unit`, `fit` raises the number of
            records of a person to the number that the unit allows.
        structural_zeros: combinations that cannot occur, which must be public knowledge, in the forms of
            `pgmest.estimate`. All estimates honor them, also those between rounds.
            `Result.details["structural_zeros"]` says whether the model does: the mechanisms' original estimators, which
            have no graphical model, cannot.
        invariants: tables that models and records have exactly, in whole numbers, and that are not protected: exact
            answers or bounds that are public anyway (`pg.LinearMeasurement.exact`, `.at_least`, `.at_most`), and names
            of attributes or levels, such as ("region",), whose true table is read from the records without noise.
            What is read changes the promise: the neighbors are `Replace`, and agree on these tables. No budget is
            spent on tables of attributes that invariants determine; mechanisms that ask by level may ask for levels
            that are held. `Result.details["invariants"]` says whether the model holds them.

    Raises:
        ArgumentError: if no budget is stated, or two budgets, or a budget that the mechanism cannot spend; or if a
            parameter is not valid.
    """

    epsilon: float | None = parameter(None, POSITIVE_BUDGET)
    delta: float | None = parameter(DEFAULT_DELTA, DELTA)
    rho: float | None = parameter(None, POSITIVE_BUDGET)
    backend: str = parameter("opendp", choice(BACKENDS))
    neighbors: Neighbors = field(default_factory=AddRemove, metadata={METADATA: NEIGHBORS})
    structural_zeros: StructuralZeros | None = None
    invariants: Any = None

    definition: ClassVar[str] = "zcdp"
    """The budgets that the mechanism can spend: "pure" (epsilon with delta=0), "zcdp" (rho, or epsilon with a positive
    delta), or "either"."""
    gaussian_curve: ClassVar[bool] = False
    """True if (epsilon, delta) is converted to mu by the exact curve of the Gaussian, and False if to rho.

    In mu noise costs 8 to 25 % less, and selections cost pi / 2 times as much (docs/mechanisms/accounting.md): True
    pays if selections are at most an eighth of the budget."""
    uses: ClassVar[str] = "items"
    """The part of a workload that the mechanism uses (`pgmest.mechanisms.notices.USES`)."""

    def __post_init__(self) -> None:
        check_parameters(self)
        object.__setattr__(self, "delta", self._delta())
        self.budget()
        object.__setattr__(self, "structural_zeros", rules_of(self.structural_zeros))
        object.__setattr__(self, "invariants", invariants_of(self.invariants))
        if self.invariants and not self.holds_invariants:
            raise ArgumentError(
                f'the model of {self.title} cannot hold invariants: take {HOLDING}, or the estimator "pgm" of '
                "mechanisms that have one."
            )

    def _delta(self) -> float | None:
        """Return the delta of the promise: the default is replaced by None without epsilon, and by 0 if always pure."""
        if self.delta not in (None, DEFAULT_DELTA):
            return self.delta
        if self.epsilon is None:
            return None
        return 0.0 if self.definition == "pure" else DEFAULT_DELTA

    @abstractmethod
    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Any:
        """Ask the curator, and return a model, which projects and samples, or an `Outcome` with details.

        The only source of randomness must be `rng`, so that a run can be repeated from a checkpoint.

        Args:
            curator: the curator of the records, with the attributes that a run sees (`sees`).
            workload: the checked workload without items of weight 0, as `covering_workload` returned it; None for the
                mechanism's default.
            rng: the generator for the mechanism's own choices.
        """

    def budget(self) -> Epsilon | Rho | GDP:
        """Return the budget that `epsilon`, `delta` and `rho` state.

        (epsilon, delta) becomes the largest mu or rho that implies it (`gaussian_curve`).

        Raises:
            ArgumentError: if no budget is stated, or two budgets, or a budget that the mechanism cannot spend.
        """
        stated = self.epsilon, self.delta, self.rho
        return stated_budget(type(self).__name__, self.definition, *stated, gdp=self.gaussian_curve)

    def fit(
        self,
        data: Dataset,
        workload: Any = None,
        seed: int | np.random.Generator | None = None,
        *,
        progress: bool | Callable[[Curator], object] | None = None,
        checkpoint: str | Path | Journal | None = None,
        time_limit: float | None = None,
        ledger: str | Path | DatasetLedger | LedgerRun | None = None,
        drafting: Drafting | None = None,
    ) -> Result:
        """Spend the budget on the records, and return the model with its ledger.

        Ctrl-C ends the run early: the result is then the estimate from the answers so far, which were paid for. A
        second Ctrl-C aborts this estimate with KeyboardInterrupt. SIGTERM does the same in programs that handle it.

        Args:
            data: the private records.
            workload: the marginals that matter: None for the mechanism's default, cliques, or a
                `pgmest.workloads.Workload`. Attributes that it does not name are measured by their one-way marginals.
            seed: the seed of simulated noise, of tie-breaking and of sampling; OpenDP's noise never depends on it.
            progress: None for a bar on a terminal, and elsewhere a line every ten seconds; False for no output; or a
                function that is called with the curator after each charge.
            checkpoint: a file that keeps every paid answer. If the file exists, its run is resumed, and no answer is
                paid twice; if the run has ended, a warning says so, and the result is the same. Mechanism, data,
                workload and the integer `seed` must be the same; other records are refused. FILE.key beside it is
                secret.
            time_limit: the seconds after which the run ends, the last estimate included. If the budget is not spent in
                the part of the time that the estimate leaves, the run ends as at Ctrl-C (`Result.interrupted`); the
                estimate, too, ends with its best so far. So the result depends on the clock of this machine, not only
                on the records; `details["time_limit"]` says so.
            ledger: the ledger of the dataset, which all runs on it charge: a file, or an open `DatasetLedger`.
            drafting: requests that decide how the records are coded, and that the same budget pays first; `data` is
                then a table without codes. `Synthesizer` passes one for a schema with columns to be bought.

        Raises:
            ArgumentError, DataError, JournalError: if an argument is not valid; nothing was spent.
            BudgetExceeded, LedgerError: if the dataset's ledger has an insufficient remaining budget, or is not valid.
            UnknownAttributeError, CodeRangeError, ShapeError, ImpossibleModelError, ModelTooLarge: if the structural
                zeros do not fit the domain, leave no possible record, or have too large tables; nothing was spent.
        """
        check_run(data, seed, progress, checkpoint, time_limit)
        start = time.perf_counter()
        prepared = self._prepared(data, workload, seed, drafting)
        with (
            shown(self.title, progress) as on_charge,
            contextlib.closing(
                prepared.open_curator(journal=checkpoint, ledger=ledger, on_charge=on_charge)
            ) as curator,
        ):
            warn_of_ended_run(checkpoint, curator.ended)
            if progress in (None, True):
                prepared.announce(curator, time_limit)
            ended = prepared.run(curator, time_limit, silent=progress is False)
            if not (curator.stopped or ended.stop.timed_out):
                curator.end()
        result = prepared.result(ended, OwnerOnly(time.perf_counter() - start))
        if data.unit_column is not None and isinstance(result.model, ModelBase):
            limit = limit_of_person(data.records_per_person or 1, data.unit_column)
            result.model.describe(rows_counted=rows_counted(limit))
        return result

    def _prepared(self, data: Dataset, workload: Any, seed: Any, drafting: Drafting | None) -> PreparedRun:
        """Return a run with checked arguments; nothing is paid. The data can raise the neighboring relation."""
        relation = neighbors_beside(neighbors_of(data, self.neighbors), self.invariants, data)
        mechanism = self if relation == self.neighbors else self.with_neighbors(relation)
        noise, choices = generators(seed)
        domain = data.domain if drafting is None else drafting.domain
        relevant = None if workload is None else relevant_workload(domain, workload)
        rules = tuple(zero_rules(mechanism.structural_zeros))
        if rules:
            check_possible(rules, domain)
        fixed = mechanism.checked_invariants(data, domain, drafting is not None)
        names = mechanism.sees(domain)
        named = None if relevant is None else without_names(domain, relevant, names)
        if named is not None:  # it raises what a run would, before anything is spent
            mechanism.covering_workload(domain.project(names), named)
        promise = mechanism.promise if drafting is None else drafting.promise
        if promise is not None:
            warn_of_budget(promise.epsilon, promise.delta)
        if relevant is not None:
            warn_of_workload(mechanism.title, mechanism.used, relevant)
        return PreparedRun(mechanism, data, relevant, mechanism.budget(), rules, fixed, noise, choices, drafting)

    def checked_invariants(self, data: Dataset, domain: Domain, drafting: bool) -> tuple[Invariant, ...]:
        """Return the invariants after checking that they fit the domain and each other; those that are read do.

        Raises:
            ArgumentError: if they contradict each other, or if requests decide how the records are coded.
            UnknownAttributeError, ...: if they do not fit the domain.
        """
        fixed = check_names(self.invariants, domain)
        if fixed and drafting:
            raise ArgumentError(
                "invariants need values that are known before the run: state the columns that the schema buys."
            )
        given = [one for one in fixed if isinstance(one, LinearMeasurement)]
        if given:
            if self.keeps_records:
                check_number((one.without_levels(domain) for one in given), self.title)
            total = data.records if isinstance(self.neighbors, Replace) else None
            check_consistent(given, tuple(zero_rules(self.structural_zeros)), domain, total)
        return fixed

    @property
    def title(self) -> str:
        """The name of the mechanism in ledgers and statements."""
        return type(self).__name__

    @property
    def used(self) -> str:
        """The part of a workload that a run uses, one of `pgmest.mechanisms.notices.USES`."""
        return self.uses

    @property
    def requested(self) -> tuple[float | None, float | None]:
        """The epsilon and the delta of the stated budget; both None if it was stated as rho."""
        return self.epsilon, self.delta

    @property
    def promise(self) -> ApproxDP | None:
        """The stated budget as (epsilon, delta)-DP; None if it was stated as rho."""
        epsilon, delta = self.requested
        return None if epsilon is None else ApproxDP(epsilon, delta or 0.0)

    @property
    def graphical(self) -> bool:
        """True if the model of a run is a `pgmest.Model`; by default, each model of `estimator="pgm"` is one."""
        return getattr(self, "estimator", "pgm") == "pgm"

    @property
    def keeps_records(self) -> bool:
        """True if the model of a run is a list of as many records as are estimated; by default, if not `graphical`."""
        return not self.graphical

    @property
    def holds_invariants(self) -> bool:
        """True if models and records of the mechanism can hold invariants; by default, if it is `graphical`."""
        return self.graphical

    def with_neighbors(self, neighbors: Neighbors) -> Self:
        """Return the mechanism with another neighboring relation."""
        return replace(self, neighbors=neighbors)

    def with_rho(self, rho: float) -> Mechanism:
        """Return the mechanism with a budget of rho instead of the stated budget."""
        return replace(self, epsilon=None, delta=None, rho=rho)

    def with_share(self, share: float) -> Mechanism:
        """Return the mechanism with a share of its budget, as for `Budget.share`.

        A budget in mu becomes the rho that implies the same (epsilon, delta): mu^2 / 2 as rho does not imply it.
        """
        budget = self.budget()
        if isinstance(budget, GDP):
            assert self.epsilon is not None
            assert self.delta is not None
            budget = Rho.of(self.epsilon, self.delta)
        part = budget.share(share)
        return replace(self, epsilon=part.epsilon) if isinstance(part, Epsilon) else self.with_rho(part.rho)

    def sees(self, domain: Domain) -> Clique:
        """Return the attributes that a run sees: by default those of several codes; its model gets the others back."""
        return varying(domain)

    def without_constants(self, domain: Domain) -> Self:
        """Return the mechanism with arguments about the attributes that a run sees (`sees`)."""
        return self

    def covering_workload(self, domain: Domain, workload: Workload) -> Workload:
        """Return the workload of a run: by default with the one-way marginals of attributes that no item names.

        A mechanism that measures these marginals by itself returns the workload as it is.
        """
        return with_unnamed(domain, workload)

    def conclude(self, curator: Curator) -> Any:
        """Return the model of the answers before an interruption; None if no model can be made of them."""
        from pgmest.mechanisms.estimation import estimate_measured

        try:
            return estimate_measured(curator, max_iterations=CONCLUDING_ITERATIONS)
        except PgmestError:
            return None


def relevant_workload(domain: Domain, workload: Any) -> Workload:
    """Return a caller's workload without the items of weight 0; None becomes all pairs.

    Raises:
        ArgumentError: if the value is not a workload, or has no marginal of positive weight.
        UnknownAttributeError, QueryError: if the workload does not fit the domain.
    """
    try:
        given = as_workload(domain, workload)
    except TypeError:
        allowed = "a pgmest.workloads.Workload, an iterable of cliques, or None"
        raise ArgumentError.of("workload", workload, allowed) from None
    relevant = Workload(tuple(item for item in given if item.weight > 0))
    if not any(relevant.cliques):
        raise ArgumentError("workload has no marginal of positive weight: give at least one, or None for all pairs.")
    return relevant


def cliques_of(workload: Any, domain: Domain) -> list[Clique]:
    """Return the distinct cliques of a workload, in order; for None all pairs, or the only attribute.

    Raises:
        ArgumentError, UnknownAttributeError, QueryError: as for `relevant_workload`.
    """
    if workload is None:
        return list(combinations(domain.attributes, min(2, len(domain))))
    return list(dict.fromkeys(map(domain.clique, relevant_workload(domain, workload).cliques)))
