"""The curator, through which all access to private records goes. It charges the ledger, looks at the data, adds noise.

Requests are checked in `requests` and paid for in `payment`. `accesses` has the ways to look at the records, `noise`
and `selection` the calibration of noise to a budget.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, DataError, JournalError, LedgerError
from pgmest.inference.exact.structural_zeros import Rule
from pgmest.measurements.measurement import SMALLEST_STDDEV, LinearMeasurement
from pgmest.measurements.selection import CellMerging, PaidSelection, latest
from pgmest.privacy import requests
from pgmest.privacy.accesses import Access, OwnMechanism
from pgmest.privacy.budgets import ApproxDP, Budget, PlannedRho, Rho
from pgmest.privacy.candidates import Subset
from pgmest.privacy.charge_plan import ChargePlan, PlannedRun
from pgmest.privacy.counted_ahead import CountedAhead
from pgmest.privacy.dataset_ledger import DatasetLedger
from pgmest.privacy.journal import Journal
from pgmest.privacy.ledger import Entry, Ledger, amounts
from pgmest.privacy.ledger_runs import LedgerRun
from pgmest.privacy.neighbors import Neighbors, Replace, neighbors_of
from pgmest.privacy.noise import cost_of, make_backend
from pgmest.privacy.one_process import OneProcess
from pgmest.privacy.payment import Payment
from pgmest.privacy.relations import Relation, relation_of
from pgmest.privacy.requests import NUMBER, Question, Request
from pgmest.privacy.scores import Scores, as_function, public_selection
from pgmest.privacy.tracebacks import without_frames
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor

Candidate = TypeVar("Candidate")


class RecordTransform(Protocol):
    """The interface of a transform to a curator (`pgmest.transforms`). A transform recodes each record separately."""

    def encode(self, data: Dataset) -> Dataset: ...

    def zeros(self, rules: Iterable[Rule]) -> tuple[Rule, ...]: ...

    def pull_back(self, measurement: LinearMeasurement) -> LinearMeasurement | None: ...

    def merging(self) -> CellMerging | None: ...


class Curator(OneProcess):
    """A keeper of private records that answers requests with noise and accounts for them.

    Every request is checked, charged to the ledger, and only then answered. A mechanism may see the results of these
    methods, `domain`, `neighbors`, `public_total` and the ledger, and nothing else.

    >>> from pgmest.privacy import Rho
    >>> data = Dataset.from_codes(np.array([[0, 1], [1, 1], [1, 0]]), {"sex": 2, "income": 2})
    >>> curator = Curator(data, Rho(1.0), backend="simulation", seed=0)
    >>> curator.measure(("sex",), Rho(0.5))
    LinearMeasurement(sex: 2 noisy answers, identity, discrete_gaussian stddev 1)
    >>> curator.remaining
    Rho(0.5)

    Args:
        data: the private records, without weights.
        budget: the whole budget: `Epsilon`, `Rho`, `GDP` or `ApproxDP`. Every spend must be of the same type.
        neighbors: the neighboring relation; by default one record added or removed. If a schema's `unit` bounded the
            records of a person, it is raised to that bound (`neighbors_of`).
        backend: "opendp" for exact noise, or "simulation" for seeded noise, which is marked insecure in the ledger.
        seed: the seed of the simulation.
        journal: a file that keeps each paid answer, so that a later run with the same sequence of requests gets the
            same answers without paying again.
        ledger: the ledger of the dataset, which all runs on it charge: a file, or an open `DatasetLedger`. The whole
            budget is reserved there at once, and what was not spent is given back at the end (`close`).
        label: the name of the run in the dataset's ledger.
        on_charge: a function that is called with the curator after each charge, to show progress.
        plan: the charges that a budget of `PlannedRho` was calibrated for (`pgmest.privacy.ChargePlan`); no others are
            accepted.
        threshold_delta: the delta that may be spent, besides the budget, on labels that nobody listed (`frequent`).
        promise: the (epsilon, delta) for which the budget was calibrated, thresholds included, for the ledger to show.
        structural_zeros: rules of `pgmest.zeros` that hold for all possible records. They are public, and kept here for
            the estimates made from the answers.

    Raises:
        ArgumentError: if an argument is not valid, or `Replace` is stated for an empty table, which has no neighbors.
        DataError: if the records have weights, by which one individual could count for any number of records.
        JournalError: if `journal` belongs to another run, is not as it was written, or charges a ledger that is not
            given.
        BudgetExceeded: if the budget exceeds what the ledger of the dataset has left.
        LedgerError: if that ledger protects another relation, or is not as it was written.

    A curator can be neither copied nor pickled (`CopyError`), nor used in a forked process (`ProcessError`). Threads
    are answered one after the other.
    """

    def __init__(
        self,
        data: Dataset,
        budget: Budget,
        *,
        neighbors: Neighbors | None = None,
        backend: str = "opendp",
        seed: int | np.random.Generator | None = None,
        journal: str | Path | None = None,
        ledger: str | Path | DatasetLedger | None = None,
        label: str = "a run",
        on_charge: Callable[[Curator], object] | None = None,
        structural_zeros: Iterable[Rule] = (),
        plan: ChargePlan | None = None,
        threshold_delta: float = 0.0,
        promise: ApproxDP | None = None,
    ):
        if not isinstance(data, Dataset):
            raise ArgumentError.of("data", type(data).__name__, "a pgmest.Dataset; see Dataset.from_frame and .load")
        if data.weights is not None:
            raise DataError(
                "the records have weights, so one individual may count for any number of records and no sensitivity "
                "holds. Drop the weights, or draw unweighted records with them first."
            )
        self._data = data.remembering()  # mechanisms ask for the same marginals in every round
        self._backend = make_backend(backend, seed)
        self._on_charge = on_charge
        self._measurements: list[LinearMeasurement] = []
        self._selections: list[PaidSelection] = []
        self._memo: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # exact scores, for this curator only
        self._outer: tuple[Curator, RecordTransform] | None = None
        self.structural_zeros: tuple[Rule, ...] = tuple(structural_zeros)
        """The combinations that cannot occur, which are public."""
        self.stopped = False
        """A flag that makes the next request raise KeyboardInterrupt, unpaid; a signal handler may set it."""
        if not (neighbors is None or isinstance(neighbors, Neighbors)):
            raise ArgumentError.of("neighbors", neighbors, "AddRemove(...) or Replace(...)")
        self.neighbors: Neighbors = neighbors_of(data, neighbors)
        if self.public_total == 0:
            raise ArgumentError("under Replace the number of records is public, and 0: there is nothing to measure.")
        planned = _planned(plan, budget)
        if plan is not None and promise is not None and not plan.implies(cast(Rho, budget), promise):
            promise = None
        self.ledger: Ledger = Ledger(budget, threshold_delta, promise)
        self._spent_before: Budget = self.ledger.total
        if ledger is not None and self._backend.insecure:
            raise ArgumentError("simulated noise protects nobody, so no ledger of a dataset can account for it.")
        relation = relation_of(self.neighbors, data)
        run = {"budget": amounts(budget), "neighbors": repr(self.neighbors), "unit": relation.unit, "backend": backend}
        self._journal = None if journal is None else Journal(journal, {**run, "domain": list(data.domain.items())})
        self._run = self._begin(ledger, relation, label)
        self._payment = Payment(self.ledger, planned, self._journal, self._run)

    @property
    def domain(self) -> Domain:
        """The attributes, which are public."""
        return self._data.domain

    @property
    def budget(self) -> Budget:
        """The whole budget; for a recoded view (`through`) what was left when it was made."""
        return self.ledger.budget - self._spent_before

    @property
    def spent(self) -> Budget:
        """The part of the budget that was spent."""
        return self.ledger.total - self._spent_before

    @property
    def remaining(self) -> Budget:
        """The part of the budget that is left."""
        return self.ledger.remaining

    @property
    def measurements(self) -> tuple[LinearMeasurement, ...]:
        """All measurements so far, in order."""
        return tuple(self._measurements)

    @property
    def selections(self) -> tuple[PaidSelection, ...]:
        """The latest selections among marginals, with the chosen and the other candidates: all public."""
        return tuple(self._selections)

    @property
    def public_total(self) -> int | None:
        """The number of records if the neighboring relation makes it public (`Replace`), else None."""
        return self._data.records if isinstance(self.neighbors, Replace) else None

    @property
    def _outermost(self) -> Curator:
        return self if self._outer is None else self._outer[0]._outermost

    # -- requests ---------------------------------------------------------------------------------------------------

    def measure(
        self,
        clique: Iterable[str] | str,
        spend: Budget | None = None,
        query: Any = None,
        *,
        stddev: float | None = None,
        label: str = "",
    ) -> LinearMeasurement:
        """Return noisy answers to a query about the marginal of a clique, in counts.

        The budget's type determines the noise: discrete Gaussian for Rho, discrete Laplace for Epsilon, and Gaussian on
        a fine grid for GDP, PlannedRho and ApproxDP (discrete Laplace if its delta is zero). A query that is not
        integer-valued is first rounded to a fine grid (`pgmest.privacy.grid`); the measurement has the rounded query.

        Args:
            clique: the attributes, or one name; () for the number of records.
            spend: the cost, of the budget's type.
            query: None for the identity, a query matrix with a column per cell, or a Kron over the clique's attributes.
            stddev: the standard deviation of the noise, instead of `spend`; the cost follows from it.
            label: the label of the ledger's entry; by default the clique.

        Returns:
            the measurement, with the true kind and standard deviation of the noise.

        Raises:
            BudgetExceeded: if the cost exceeds what is left; nothing was spent.
            BudgetTypeError: if `spend` is of another type than the budget.
            ArgumentError, UnknownAttributeError, MeasurementError, QueryError: if the request cannot be answered.
        """
        if (spend is None) == (stddev is None):
            raise ArgumentError("measure needs either spend= or stddev=, one of them.")
        question = Question.of(self.domain, clique, query)
        asked = question.unanswered
        if spend is None:
            assert stddev is not None
            spend = cost_of(float(stddev), type(self.budget), self.neighbors, asked.query, question.step)
        label = label or " x ".join(asked.clique) or NUMBER
        with self.ledger.held():
            return self._measured(self._request(question, self._affordable(spend, label), label, "measure"))

    def measure_all(
        self,
        cliques: Iterable[Iterable[str] | str],
        spend: Budget,
        *,
        weights: Iterable[float] | None = None,
        queries: Iterable[Any] | None = None,
    ) -> list[LinearMeasurement]:
        """Measure each clique with a share of `spend`. Nothing is spent unless all cliques can be measured.

        Args:
            cliques: the cliques, in the order of measurement.
            spend: the cost of all measurements together.
            weights: the proportions of the shares, one weight per clique; equal by default.
                `pgmest.privacy.least_error_weights` minimize the total expected error.
            queries: a query per clique, as for `measure`.

        Returns:
            the measurements, in the order of the cliques.

        Raises:
            as `measure` does.
        """
        wanted = [self.domain.clique(clique) for clique in cliques]
        asked = [None] * len(wanted) if queries is None else list(queries)
        shares = len(wanted) if weights is None else list(weights)
        if len(asked) != len(wanted):
            raise ArgumentError.of("queries", asked, f"one for each of the {len(wanted)} cliques")
        if isinstance(shares, list) and (len(shares) != len(wanted) or not all(share > 0 for share in shares)):
            raise ArgumentError.of("weights", weights, f"a positive number for each of the {len(wanted)} cliques")
        if not wanted:
            return []
        questions = [Question.of(self.domain, clique, query) for clique, query in zip(wanted, asked, strict=True)]
        labels = [" x ".join(clique) or NUMBER for clique in wanted]
        ahead = CountedAhead(self.domain, wanted)
        with self.ledger.held():
            parts = self._affordable(spend, f"measuring {len(wanted)} cliques").split(shares)
            checked = [
                self._request(question, part, label, "measure", ahead.table(place))
                for place, (question, part, label) in enumerate(zip(questions, parts, labels, strict=True))
            ]
            try:
                return [self._measured(request) for request in checked]
            finally:
                ahead.forget()  # an early end leaves counted tables that were not charged

    def measure_values(
        self, values: Callable[[Dataset], Any], count: int, sensitivity: float, spend: Budget, *, label: str
    ) -> np.ndarray:
        """Return numbers computed from the records, with Gaussian noise (Laplace for Epsilon), rounded to a grid.

        Args:
            values: a function of the records that returns `count` numbers. It must not raise errors that depend on the
                records. If the number of records is private, it is first called with an empty dataset.
            count: the number of values.
            sensitivity: the largest change of each number between neighbors.
            spend: the cost, of the budget's type.
            label: the label of the ledger's entry.

        Returns:
            the noisy numbers, shape (count,).

        Raises:
            ScoreError: if a value is NaN (see `select`); the other errors are those of `measure`.
        """
        requests.check_values(count, sensitivity)
        requests.rehearse(values, count, self.domain, self.public_total)
        with self.ledger.held():
            cost = self._affordable(spend, label)
            return np.array(self._pay(requests.numbers(values, count, sensitivity, cost, self._backend, label)))

    def select(
        self,
        candidates: Sequence[Candidate] | Iterable[Candidate],
        scores: Callable[[Dataset], Any] | Scores[Any],
        sensitivity: float,
        spend: Budget,
        *,
        monotone: bool = False,
        label: str = "",
    ) -> Candidate:
        """Choose a candidate with a high score: by the exponential mechanism for Rho, permute-and-flip for Epsilon.

        Args:
            candidates: the candidates, which must not depend on the data; a `pgmest.privacy.candidates.Subset` where
                many selections are among parts of one list.
            scores: `pgmest.privacy.scores.Scores`, which this curator evaluates and caches, such as `Distances` from a
                model; or a function of the records that returns a score per candidate. The function must not raise
                errors that depend on the records, must not draw from a generator that is used elsewhere (a journal
                does not call it again), and must not keep what it computes. If the number of records is private, it is
                first called with an empty dataset, so that errors there are raised before anything is paid.
            sensitivity: the largest change of a score between neighbors (`curator.neighbors`).
            spend: the cost, of the budget's type.
            monotone: whether all scores change in the same direction between neighbors, which halves the noise.
            label: the label of the ledger's entry.

        Returns:
            the chosen candidate.

        Raises:
            BudgetExceeded: if the cost exceeds what is left; nothing was spent.
            BudgetTypeError: if `spend` is of another type than the budget.
            ArgumentError: if there are no candidates, or the sensitivity is not positive.
            ShapeError: if there is not one score per candidate.
            ScoreError: if a function returns NaN for the records. This is found out only after it was paid for, and it
                reveals something about the records: the error is for their owner alone.
        """
        options = candidates if isinstance(candidates, Subset) else list(candidates)
        if not options:
            raise ArgumentError.of("candidates", candidates, "at least one candidate")
        if not SMALLEST_STDDEV <= sensitivity < math.inf:
            raise ArgumentError.of("sensitivity", sensitivity, f"a positive number, of at least {SMALLEST_STDDEV}")
        scored = as_function(scores, options, self.domain, self._memo)
        requests.rehearse(scored, len(options), self.domain, self.public_total)
        label = label or f"one of {len(options)}"
        with self.ledger.held():
            cost = self._affordable(spend, label)
            request = requests.one_of(len(options), scored, sensitivity, monotone, cost, self._backend, label)
            position = self._pay(replace(request, details=lambda: options))
        if not isinstance(position, int) or not 0 <= position < len(options):  # what a journal says may be anything
            raise JournalError(
                f"the journal's answer to '{label}' is {position!r}, not one of {len(options)} candidates."
            )
        self._keep_selection(public_selection(scores, options, position, sensitivity, cost, monotone))
        return options[position]

    def draw(
        self,
        exponents: Callable[[Dataset], Any],
        candidates: int,
        moved: int,
        unit_power: int,
        draws: int,
        spend: Budget,
        *,
        label: str,
    ) -> list[int]:
        """Draw candidates independently, with probabilities exactly proportional to exp(exponent * 2^unit_power).

        Each draw is an exponential mechanism. Between neighbors the difference of two exponents changes by at most
        2 * moved, so with b = 2 moved 2^unit_power a draw is b-DP and b^2 / 8-zCDP (bounded range; Cesar, Rogers 2021).

        Args:
            exponents: a function of the records that returns an integer for each candidate. It must not raise errors
                that depend on the records.
            candidates: the number of candidates.
            moved: the largest change of an exponent between neighbors, up or down.
            unit_power: the power of two that is the unit of the exponents, from -60 to 0.
            draws: the number of draws.
            spend: the cost, of the budget's type.
            label: the label of the ledger's entry.

        Returns:
            the positions of the drawn candidates.

        Raises:
            ArgumentError: if an argument is out of its range.
            ChargeError: if the draws cost more than `spend`; nothing was spent.
            BudgetExceeded, BudgetTypeError: as for `measure`.
        """
        requests.check_draws(candidates, moved, unit_power, draws)
        with self.ledger.held():
            cost = self._affordable(spend, label)
            return self._pay(
                requests.several_of(exponents, candidates, moved, unit_power, draws, cost, self._backend, label)
            )

    def frequent(
        self, counts: Callable[[Dataset], Mapping[str, int]], spend: Budget, delta: float, *, label: str
    ) -> list[str]:
        """Return the labels that many records have, of labels that nobody listed; there may be none.

        The counts get the noise of a histogram. The label of a single person exceeds the threshold with probability at
        most delta (`pgmest.privacy.thresholds`).

        Args:
            counts: a function of the records that returns the positive count of each label that occurs. A record has at
                most one label.
            spend: the cost: Rho or Epsilon.
            delta: the cost in delta besides, of the curator's `threshold_delta`.
            label: the label of the ledger's entry.

        Returns:
            the released labels, in alphabetical order.

        Raises:
            ArgumentError: if delta exceeds what is left, or the budget is of another type.
            BudgetExceeded, BudgetTypeError: as for `measure`.
        """
        with self.ledger.held():
            cost = self._affordable(spend, label)
            delta = self.ledger.affordable_delta(delta, label)
            return list(map(str, self._pay(requests.labels(counts, cost, delta, self.neighbors, self._backend, label))))

    def count(self, spend: Budget, *, label: str = "") -> LinearMeasurement:
        """Measure the number of records, the marginal of the clique ().

        Under `Replace` the number is public: `public_total` has it and costs nothing.

        Raises:
            as `measure` does; ArgumentError under `Replace`.
        """
        if self.public_total is not None:
            raise ArgumentError("under Replace the number of records is public: use curator.public_total, for nothing.")
        with self.ledger.held():
            label = label or NUMBER
            cost = self._affordable(spend, label)
            return self._measured(self._request(Question.of(self.domain, (), None), cost, label, "count"))

    def release(
        self,
        mechanism: Callable[[Dataset, np.random.Generator], Any],
        spend: Budget,
        *,
        label: str,
        secure: bool = False,
    ) -> Any:
        """Return the output of a mechanism of the caller, who must make sure that it costs no more than `spend`.

        Args:
            mechanism: a function that is called after the charge, with the records and a generator: seeded for the
                simulation, else with fresh entropy. With a journal its result must consist of JSON values.
            spend: the cost, of the budget's type.
            label: the label of the ledger's entry.
            secure: whether its randomness is secure and its noise exact. NumPy's generators are not secure; the entry
                is then marked insecure.

        Raises:
            BudgetExceeded, BudgetTypeError: as for `measure`.
        """
        with self.ledger.held():
            cost = self._affordable(spend, label)
            insecure = self._backend.insecure or not secure
            entry = Entry(label, "release", cost, {"noise": "the caller's"}, insecure)
            return self._pay(Request(entry, OwnMechanism(mechanism)))

    def charge(self, spend: Budget, label: str) -> Budget:
        """Charge the ledger for an access that happens elsewhere, before it happens.

        Returns:
            the charge: `spend`, or what is left if `spend` exceeds it by rounding only.

        Raises:
            BudgetExceeded, BudgetTypeError: as for `measure`.
            JournalError: if there is a journal, which could not repeat the access; use `release`.
        """
        if self._journal is not None:
            raise JournalError("a journal cannot repeat what is charged here and answered elsewhere: use release(...).")
        with self.ledger.held():
            cost = self._affordable(spend, label)
            self._payment.charge(Entry(label, "charge", cost), self._charged)
            return cost

    def through(self, transform: RecordTransform) -> Curator:
        """Return a curator of the recoded records with the same ledger, whose budget is what is left of this one's.

        A transform recodes each record separately, so neighbors stay neighbors. The measurements of the new curator
        also appear among this curator's measurements, in terms of the attributes before the transform, unless the query
        in these terms is too large to be materialized (`Transform.pull_back`).

        Raises:
            DomainError: if the transform is of another domain.
        """
        self._check_process()
        recoded = object.__new__(type(self))  # a view that shares the ledger, its lock and the process check
        recoded.__dict__.update(self.__dict__)
        with without_frames():
            recoded._data = transform.encode(self._data).remembering()
        recoded.structural_zeros = transform.zeros(self.structural_zeros)
        recoded._spent_before = self.ledger.total
        recoded._measurements = []
        recoded._selections = []
        recoded._memo = WeakKeyDictionary()
        recoded._outer = self, transform
        return recoded

    def close(self) -> None:
        """Close the journal, so that another curator can resume the run, and give back to the dataset's ledger what
        was not spent.

        If the ledger cannot be written, a warning says so: what was not spent stays reserved, and no answer is lost.
        """
        if self._journal is not None:
            self._journal.close()
        if self._run is not None and self._in_its_process():
            try:
                self._run.end()
            except LedgerError as error:
                warnings.warn(f"the unspent budget of the run stays reserved: {error}", stacklevel=2)

    # -- payment and answers ----------------------------------------------------------------------------------------

    def _begin(self, ledger: str | Path | DatasetLedger | None, relation: Relation, label: str) -> LedgerRun | None:
        """Return the run on the dataset's ledger: the journal's run, or a new one; None without a ledger."""
        try:
            if self._journal is not None:
                self._journal.check_ledger(ledger is not None)
            if ledger is None:
                return None
            opened = ledger if isinstance(ledger, DatasetLedger) else DatasetLedger(ledger)
            name = None if self._journal is None else self._journal.run
            run = opened.begin(self.ledger.budget, relation, label, name, self.ledger.delta)
            if self._journal is not None:
                self._journal.charges(opened.id)
            return run
        except BaseException:
            if self._journal is not None:
                self._journal.close()
            raise

    def _affordable(self, spend: Any, label: str) -> Budget:
        self._check_process()
        if self._outermost.stopped:
            raise KeyboardInterrupt
        return self.ledger.affordable(spend, label)

    def _request(
        self, question: Question, cost: Budget, label: str, kind: str, table: Callable[[Dataset], Factor] | None = None
    ) -> Request:
        return requests.measurement(question, cost, self.neighbors, self._backend, label, kind, table)

    def _measured(self, request: Request) -> LinearMeasurement:
        asked = request.question
        assert asked is not None
        values = self._pay(request)
        measurement = LinearMeasurement(values, asked.clique, asked.stddev, asked.query, asked.noise)
        self._keep(measurement)
        return measurement

    def _keep(self, measurement: LinearMeasurement) -> None:
        self._measurements.append(measurement)
        if self._outer is not None:
            outer, transform = self._outer
            before = transform.pull_back(measurement)
            if before is not None:
                outer._keep(before)

    def _keep_selection(self, selection: PaidSelection | None) -> None:
        if selection is None:
            return
        self._selections = latest([*self._selections, selection])
        if self._outer is not None:
            outer, transform = self._outer
            merging = transform.merging()
            recodings = (*selection.recodings, merging)
            outer._keep_selection(None if merging is None else replace(selection, recodings=recodings))

    def _pay(self, request: Request) -> Any:
        return self._payment.pay(request, self._look, self._charged)

    def _look(self, entry: Entry, access: Access) -> Any:
        """Look at the records; no other place does.

        The frames of an exception that leaves here are dropped: their variables hold exact counts and scores, which
        whatever records the variables of a traceback would write down.
        """
        with without_frames():
            return access.answer(self._data, self._backend, len(self.ledger))

    def _charged(self) -> None:
        if self._on_charge is not None:
            self._on_charge(self._outermost)


def _planned(plan: ChargePlan | None, budget: Budget) -> PlannedRun | None:
    """Return the unused part of a plan, or None without a plan.

    Raises:
        ArgumentError: if there is a plan without a budget of PlannedRho, or such a budget without a plan.
    """
    if (plan is not None) != isinstance(budget, PlannedRho):
        raise ArgumentError("plan= and a budget of PlannedRho belong together: give plan.budget(...), or Rho.")
    return None if plan is None or not isinstance(budget, PlannedRho) else PlannedRun(plan, budget)
