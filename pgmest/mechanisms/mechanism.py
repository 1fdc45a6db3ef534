"""What all mechanisms share: parameters, how a budget is stated, and `fit`.

A mechanism is a frozen dataclass with its parameters as fields and one method, `run`, which sees the records only
through a `Curator`. Each field declares what it may be (`pgmest.mechanisms.parameters`). `independent.py` is the
shortest example; one that adapts to what it measured is `pgmest.mechanisms.adaptive` with parts of its own.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from pgmest._base.errors import ArgumentError, PgmestError
from pgmest.data.dataset import Dataset
from pgmest.inference.exact.structural_zeros import Rule, StructuralZeros, zero_rules
from pgmest.mechanisms.error_bars import with_refit
from pgmest.mechanisms.known_zeros import ZEROS, check_possible, honored
from pgmest.mechanisms.parameters import (
    ACCOUNTINGS,
    BACKENDS,
    METADATA,
    Renaming,
    check_parameters,
    choice,
    instance,
    number,
    optional,
    parameter,
    renamed_parameters,
)
from pgmest.mechanisms.result import Outcome, OwnerOnly, Result
from pgmest.mechanisms.stopping import Stop, check_time_limit, stopped_early
from pgmest.privacy.budgets import GDP, Epsilon, Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.dataset_ledger import DatasetLedger
from pgmest.privacy.neighbors import AddRemove, Neighbors, neighbors_of
from pgmest.privacy.plans import Plan
from pgmest.privacy.progress import budget_bar
from pgmest.queries.workloads import Workload, as_workload
from pgmest.tables.domain import Clique, Domain


class Drafting(Protocol):
    """What is found out of the records before they are coded, such as bought bounds, under the same curator."""

    @property
    def domain(self) -> Domain:
        """The attributes, with numbers of values that stand in for those not known yet."""
        ...

    @property
    def delta(self) -> float:
        """What it takes of delta, on thresholds."""
        ...

    def __call__(self, curator: Curator, /) -> Curator:
        """Ask the curator; the one that the mechanism is to see."""
        ...


CONCLUDING_ITERATIONS = 500
"""Of the estimate after an interruption: who stops a run does not want to wait for the last thousandth."""

POSITIVE_BUDGET = optional(number("a positive number", lambda value: 0 < value < float("inf")))
DELTA = optional(number("a number between 0 and 1, well below 1 / records, such as 1e-9", lambda value: 0 < value < 1))
NEIGHBORS = instance(Neighbors, "AddRemove(...) or Replace(...)")


class _TakesOldNames(ABCMeta):
    """Lets mechanisms be constructed with parameters under their old names, with a DeprecationWarning."""

    if not TYPE_CHECKING:  # a type checker sees the fields

        def __call__(cls, *values, **given):
            return super().__call__(*values, **renamed_parameters(cls, given))


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC, metaclass=_TakesOldNames):
    """A private mechanism: from records to a model of them.

    Args:
        epsilon, delta: the budget as (epsilon, delta)-DP; without delta as pure epsilon-DP.
        rho: the budget as rho-zCDP, instead of these.
        backend: "opendp", exact noise; or "simulation", seeded, for experiments.
        accounting: how (epsilon, delta) becomes a budget. "zcdp": the rho that implies it. "gdp": mu, by the exact
            curve of the Gaussian, in which choices have a price of their own; costs may be decided on the way. "pld":
            by the exact curve of the run's plan, for mechanisms whose costs are fixed beforehand. "auto" is "gdp" for
            mechanisms that make no choices, else "zcdp". What it saves: docs/mechanisms/accounting.md.
        neighbors: which datasets must be hard to tell apart. Where the schema of the records has a `unit`, `fit` raises
            the number of records that a person contributes to what the unit allows.
        structural_zeros: what cannot occur, which must be public knowledge, as `pgmest.estimate` takes it. Every
            estimate leaves it out, between the rounds, too. `Result.details["structural_zeros"]` says whether the
            model does; the mechanisms' original forms, which have no graphical model, cannot.

    Raises:
        ArgumentError: no budget, two of them, or one of a kind that the mechanism cannot spend; or no rules.
    """

    epsilon: float | None = parameter(None, POSITIVE_BUDGET)
    delta: float | None = parameter(None, DELTA)
    rho: float | None = parameter(None, POSITIVE_BUDGET)
    backend: str = parameter("opendp", choice(BACKENDS))
    accounting: str = parameter("auto", choice(ACCOUNTINGS))
    neighbors: Neighbors = field(default_factory=AddRemove, metadata={METADATA: NEIGHBORS})
    structural_zeros: StructuralZeros | None = None

    definition: ClassVar[str] = "zcdp"
    """What the mechanism can spend: "pure" (epsilon), "zcdp" (rho, or epsilon with delta), or "either"."""
    delta_by_name: ClassVar[bool] = False
    """Whether its name with epsilon alone (`named_mechanism`) means a delta of 1e-9, although it can spend epsilon."""
    gaussian_only: ClassVar[bool] = False
    """Whether (epsilon, delta) buys nothing but Gaussian noise, so that the Gaussian's exact curve says how much."""
    accountings: ClassVar[tuple[str, ...]] = ("auto", "zcdp")
    """The ways of accounting that hold for it, besides those of `gaussian_only`."""

    old_names: ClassVar[Mapping[str, Renaming]] = {"neighbours": Renaming("neighbors")}
    """Parameters that had another name: deprecated, and still taken. Those of base classes need not be repeated."""

    def __post_init__(self) -> None:
        check_parameters(self)
        self.check_budget()
        object.__setattr__(self, "structural_zeros", _rules(self.structural_zeros))

    @classmethod
    def renamed(cls) -> dict[str, Renaming]:
        """Old name -> the present one, of this class and those that it derives from."""
        bases = (vars(base).get("old_names", {}) for base in reversed(cls.__mro__))
        return {old: renaming for names in bases for old, renaming in names.items()}

    if not TYPE_CHECKING:  # a type checker sees the fields

        def __getattr__(self, name: str) -> Any:
            renaming = type(self).renamed().get(name)
            if renaming is None:
                raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
            warnings.warn(f"{name} is now {renaming.name}; the old name will go.", DeprecationWarning, stacklevel=2)
            return renaming.value(getattr(self, renaming.name))

    @abstractmethod
    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Any:
        """The mechanism itself: ask the curator, return a `ModelLike`, or an `Outcome` with details.

        It must draw randomness from `rng` alone, so that a run can be repeated from a checkpoint.

        Args:
            curator: has the records.
            workload: what matters, checked, without items of no weight; None for the mechanism's default.
            rng: for the mechanism's own choices.
        """

    def plan(self, domain: Domain, workload: Workload | None) -> Plan:
        """What a run pays for, where that is fixed before it begins: for accounting="pld".

        Args:
            domain: of the records.
            workload: as `run` gets it.
        """
        raise NotImplementedError

    def planned(self, domain: Domain, workload: Workload | None = None) -> tuple[Epsilon | Rho | GDP, Plan | None]:
        """The budget of a run, and the plan that it was calibrated for, if any.

        Raises:
            ArgumentError, UnknownAttributeError: as for `relevant_workload`.
        """
        if not self._planning:
            return self.budget(), None
        assert self.epsilon is not None
        assert self.delta is not None
        plan = self.plan(domain, workload)
        return plan.budget(self.epsilon, self.delta), plan

    @property
    def _planning(self) -> bool:
        return self.accounting == "pld" and not self.gaussian_only

    def check_budget(self) -> None:
        """See that a budget is stated that the mechanism can spend.

        Raises:
            ArgumentError: as for the class.
        """
        self._stated()
        if self.accounting == "auto":
            return
        name = type(self).__name__
        if self.epsilon is None or self.delta is None:
            raise ArgumentError(f"{name} got accounting={self.accounting!r}, which is about epsilon= with delta=.")
        if self.gaussian_only or self.accounting in self.accountings:
            return
        if self.accounting == "pld" and "gdp" in self.accountings:
            raise ArgumentError(
                f"{name} decides on the way what its rounds cost, by earlier answers. A privacy-loss distribution is "
                'proven for costs that are fixed beforehand, only: take accounting="gdp", which holds for both.'
            )
        raise ArgumentError(
            f"{name} takes accounting={' or '.join(map(repr, self.accountings))}, not {self.accounting!r}: for what it "
            "draws nothing tighter is proven."
        )

    def budget(self) -> Epsilon | Rho | GDP:
        """The budget that `epsilon`, `delta` and `rho` state.

        (epsilon, delta) becomes the largest rho that implies it, or by `accounting` the largest mu, which takes 4 to
        7 % less noise where there is no other.

        Raises:
            ArgumentError: as for the class; under accounting="pld" it depends on the domain: see `planned`.
        """
        if self._planning:
            raise ArgumentError('under accounting="pld" the budget depends on the plan: use planned(domain, workload).')
        return self._stated()

    def _stated(self) -> Epsilon | Rho | GDP:
        name, spends = type(self).__name__, self.definition
        if self.rho is not None:
            if self.epsilon is not None or self.delta is not None:
                raise ArgumentError(f"{name} got rho= and epsilon= or delta=: state the budget once.")
            if spends == "pure":
                raise ArgumentError(f"{name} is a pure epsilon-DP mechanism: give epsilon= instead of rho=.")
            return Rho(self.rho)
        if self.epsilon is None:
            wanted = {"pure": "epsilon=", "zcdp": "rho=, or epsilon= and delta=", "either": "epsilon= or rho="}[spends]
            raise ArgumentError(f"{name} needs a privacy budget: give {wanted}.")
        if self.delta is None:
            if spends == "zcdp":
                raise ArgumentError(
                    f"{name} spends its budget under zCDP, which implies (epsilon, delta)-DP: give delta= too, well "
                    "below 1 / records, such as 1e-9; or rho=."
                )
            return Epsilon(self.epsilon)
        if spends == "pure":
            raise ArgumentError(f"{name} is pure epsilon-DP, which needs no delta: leave delta= out.")
        gdp = self.accounting == "gdp" or (self.gaussian_only and self.accounting != "zcdp")
        return (GDP if gdp else Rho).of(self.epsilon, self.delta)

    def fit(
        self,
        data: Dataset,
        workload: Any = None,
        seed: int | np.random.Generator | None = None,
        *,
        progress: bool | Callable[[Curator], object] | None = None,
        checkpoint: str | Path | None = None,
        time_limit: float | None = None,
        ledger: str | Path | DatasetLedger | None = None,
        drafting: Drafting | None = None,
    ) -> Result:
        """Spend the budget on the records and return what was learned.

        Ctrl-C ends the run early: what was measured so far is paid for, and the result is the estimate made of it. A
        second Ctrl-C ends that, too, with KeyboardInterrupt.

        Args:
            data: the private records.
            workload: the marginals that matter: None for the mechanism's default, cliques, or a `pgmest.workloads` one.
            seed: of the simulation backend, of breaking ties and of sampling; never of OpenDP's noise.
            progress: None for a bar on a terminal, False for none, or a function called with the curator after each
                charge.
            checkpoint: a file that keeps every answer that was paid for. Where it is there already, its run goes on,
                and pays for nothing twice; it needs the same mechanism, data, workload and an integer `seed`.
            time_limit: seconds after which the run ends as by Ctrl-C; the last estimate is made after them. When it
                ends depends on the clock of this machine, not on the records alone: see `Result.interrupted`.
            ledger: the ledger of the dataset, which all runs on it charge (`DatasetLedger`); a file, or an open one.
            drafting: asks first, of the same budget, how the records are to be coded; `data` is then a table that is
                not coded yet. Synthesizer makes one of a schema with columns to be bought.

        Raises:
            ArgumentError, DataError, JournalError: an argument that cannot be used; nothing was spent. Among them a
                workload that is none, or in which no marginal has a weight.
            BudgetExceeded, LedgerError: the ledger of the dataset has not so much left, or cannot be used.
            UnknownAttributeError, CodeRangeError, ShapeError, ImpossibleModelError, ModelTooLarge: structural zeros
                that do not fit the domain, leave no possible record, or have too large tables; nothing was spent.
        """
        _check_run(data, seed, progress, checkpoint, time_limit)
        relation = neighbors_of(data, self.neighbors)
        if relation != self.neighbors:
            again = self.with_neighbors(relation)
            return again.fit(
                data, workload, seed, progress=progress, checkpoint=checkpoint, time_limit=time_limit, ledger=ledger,
                drafting=drafting,
            )  # fmt: skip
        start = time.perf_counter()
        noise, choices = _generators(seed)
        domain = data.domain if drafting is None else drafting.domain
        relevant = None if workload is None else relevant_workload(domain, workload)
        rules = zero_rules(self.structural_zeros)
        if rules:
            check_possible(rules, domain)
        budget, plan = self.planned(domain, relevant)
        with _shown(type(self).__name__, progress) as on_charge:
            curator = Curator(
                data,
                budget,
                plan=plan,
                neighbors=self.neighbors,
                backend=self.backend,
                seed=noise,
                journal=checkpoint,
                ledger=ledger,
                label=type(self).__name__,
                on_charge=on_charge,
                structural_zeros=rules,
                threshold_delta=0.0 if drafting is None else drafting.delta,
            )
            seen = curator
            try:
                with stopped_early(curator, time_limit, silent=progress is False) as stop:
                    seen = curator if drafting is None else drafting(curator)
                    made = self.run(seen, relevant, choices)
            except KeyboardInterrupt:
                curator.stopped = True
                made = self._concluded(seen, stop)
            finally:
                curator.close()
        elapsed = OwnerOnly(time.perf_counter() - start)
        return self._result(made, seen, curator, {"time_limit": time_limit} if stop.timed_out else {}, elapsed)

    def _result(
        self, made: Any, seen: Curator, curator: Curator, stopped: Mapping[str, Any], elapsed: OwnerOnly
    ) -> Result:
        """What a run made, with what it spent: `seen` is the curator that the run asked, of recoded records perhaps."""
        outcome = made if isinstance(made, Outcome) else Outcome(made)
        model = with_refit(outcome.model, seen)
        rules = curator.structural_zeros
        zeros = {ZEROS: honored(model, rules, seen.domain)} if rules else {}
        return Result(
            model,
            curator.ledger.statement(),
            seen.measurements,
            seen.domain,
            self,
            curator.stopped,
            {**outcome.details, **zeros, **stopped},
            elapsed,
        )

    def with_neighbors(self, neighbors: Neighbors) -> Mechanism:
        """The same mechanism with another neighboring relation."""
        return replace(self, neighbors=neighbors)

    def _concluded(self, curator: Curator, stop: Stop) -> Any:
        if stop.timed_out and not curator.measurements:
            raise ArgumentError.of("time_limit", stop.limit, "longer: nothing was measured in that time")
        return self.conclude(curator)

    def conclude(self, curator: Curator) -> Any:
        """The estimate from what was measured before an interruption; where nothing was, the interruption goes on."""
        from pgmest.mechanisms.estimation import estimate_measured

        try:
            return estimate_measured(curator, max_iterations=CONCLUDING_ITERATIONS)
        except PgmestError:
            raise KeyboardInterrupt from None


def relevant_workload(domain: Domain, workload: Any) -> Workload:
    """What a caller gave as a workload, checked, without items of no weight; of None all pairs.

    Raises:
        ArgumentError: it is no workload, or nothing in it is about an attribute and has a weight.
        UnknownAttributeError, QueryError: it does not fit the domain.
    """
    try:
        given = as_workload(domain, workload)
    except TypeError:
        allowed = "a pgmest.workloads.Workload, an iterable of cliques, or None"
        raise ArgumentError.of("workload", workload, allowed) from None
    relevant = Workload(tuple(item for item in given if item.weight > 0))
    if not any(relevant.cliques):
        raise ArgumentError("workload has no marginal of positive weight: give one at least, or None for all pairs.")
    return relevant


def cliques_of(workload: Any, domain: Domain, default: int = 2) -> list[Clique]:
    """The distinct cliques of a workload, in order: of None all `default`-way marginals (fewer-way on small domains).

    Raises:
        ArgumentError, UnknownAttributeError, QueryError: as for `relevant_workload`.
    """
    if workload is None:
        return list(combinations(domain.attributes, min(default, len(domain))))
    return list(dict.fromkeys(map(domain.clique, relevant_workload(domain, workload).cliques)))


def _check_run(data: Any, seed: Any, progress: Any, checkpoint: Any, time_limit: Any) -> None:
    """The arguments of `fit` that say how it is run.

    Raises:
        ArgumentError: one that cannot be used.
    """
    if checkpoint is not None and not isinstance(seed, int | np.integer):
        raise ArgumentError.of("seed", seed, "an integer, so that the run can be repeated from checkpoint=")
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise ArgumentError.of("progress", progress, "None, True, False, or a function of a curator")
    check_time_limit(time_limit)
    if not isinstance(data, Dataset):
        raise ArgumentError.of("data", type(data).__name__, "a pgmest.Dataset; see Dataset.from_frame and .load")


def _rules(zeros: Any) -> tuple[Rule, ...]:
    """The structural zeros as rules; whatever is none is refused in the same words."""
    try:
        return tuple(zero_rules(zeros))
    except (TypeError, ValueError) as error:
        if isinstance(error, PgmestError):
            raise
        allowed = "rules from pgmest.zeros, a mapping of attributes to combinations, or None"
        raise ArgumentError.of("structural_zeros", zeros, allowed) from None


def _generators(seed: Any) -> list[np.random.Generator]:
    """Two independent generators: for the simulation's noise, and for the mechanism's own choices."""
    try:
        return np.random.default_rng(seed).spawn(2)
    except (TypeError, ValueError):
        raise ArgumentError.of("seed", seed, "an integer of at least 0, a NumPy generator, or None") from None


@contextlib.contextmanager
def _shown(title: str, progress: bool | Callable[[Curator], object] | None) -> Iterator[Any]:
    if progress is None or progress is True:
        with budget_bar(title) as show:
            yield show
    else:
        yield progress or None
