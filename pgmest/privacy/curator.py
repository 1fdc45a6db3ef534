"""Curator: the only door to private records. It charges the ledger, then looks at the data, then adds noise.

What it is asked is checked in `requests` and paid for in `payment`; how it looks at the records is in `accesses`; what
noise a budget buys in `noise` and `selection`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from pgmest._base.errors import ArgumentError, DataError, JournalError
from pgmest.data.dataset import Dataset
from pgmest.inference.exact.structural_zeros import Rule
from pgmest.measurements.measurement import SMALLEST_STDDEV, LinearMeasurement
from pgmest.measurements.selection import CellMerging, PaidSelection, latest
from pgmest.privacy import requests
from pgmest.privacy.accesses import Access, OwnMechanism
from pgmest.privacy.budgets import Budget, PlannedRho
from pgmest.privacy.counted_ahead import CountedAhead
from pgmest.privacy.dataset_ledger import DatasetLedger, LedgerRun
from pgmest.privacy.journal import Journal
from pgmest.privacy.ledger import Entry, Ledger, amounts
from pgmest.privacy.neighbors import Neighbors, Replace, neighbors_of
from pgmest.privacy.noise import cost_of, make_backend
from pgmest.privacy.one_process import OneProcess
from pgmest.privacy.payment import Payment
from pgmest.privacy.plans import Plan, PlannedRun
from pgmest.privacy.requests import NUMBER, Question, Request
from pgmest.privacy.scores import Scores, as_function, public_selection
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor

Candidate = TypeVar("Candidate")


class RecordTransform(Protocol):
    """What a curator needs of a transform (`pgmest.transforms`): it recodes each record on its own."""

    def encode(self, data: Dataset) -> Dataset: ...

    def zeros(self, rules: Iterable[Rule]) -> tuple[Rule, ...]: ...

    def pull_back(self, measurement: LinearMeasurement) -> LinearMeasurement | None: ...

    def merging(self) -> CellMerging | None: ...


class Curator(OneProcess):
    """Answers questions about records with noise, and keeps the books.

    Every request is checked, charged to the ledger, and only then answered. What a mechanism may see is what these
    methods return, `domain`, `neighbors`, `public_total` and the ledger.

    >>> from pgmest.privacy import Rho
    >>> data = Dataset.from_codes(np.array([[0, 1], [1, 1], [1, 0]]), {"sex": 2, "income": 2})
    >>> curator = Curator(data, Rho(1.0), backend="simulation", seed=0)
    >>> curator.measure(("sex",), Rho(0.5))
    LinearMeasurement(sex: 2 noisy answers, identity, discrete_gaussian stddev 1)
    >>> curator.remaining
    Rho(0.5)

    Args:
        data: the private records, each counting once.
        budget: what may be spent in all: `Epsilon`, `Rho`, `GDP` or `ApproxDP`; every spend must be of the same type.
        neighbors: which datasets must be hard to tell apart; by default one person more or less. Raised to the most
            records of a person where a schema's `unit` bounded them (`neighbors_of`).
        backend: "opendp", exact noise; or "simulation", seeded, for experiments, marked insecure in the ledger.
        seed: of the simulation.
        journal: a file that keeps each paid answer, so that the same sequence of requests in a later run is answered
            from there, without paying again.
        ledger: the ledger of the dataset, which all runs on it charge: a file, or an open `DatasetLedger`. The whole
            budget is reserved there at once, and what was not spent is given back at the end (`close`).
        label: what the run is for, as the dataset's ledger will say.
        on_charge: called with the curator after each charge, to show progress.
        plan: what the budget was calibrated for, and may be spent on (`pgmest.privacy.plans.Plan`): of `PlannedRho`.
        threshold_delta: what may be spent of delta besides the budget, on labels that nobody listed (`frequent`).
        structural_zeros: rules of `pgmest.zeros` that hold for all possible records: public knowledge, which is kept
            here for the estimates made of the answers.

    Raises:
        ArgumentError: an argument that is not valid; `Replace` on a table without records, which has no neighbors.
        DataError: the records have weights, by which one individual could count for any number of records.
        JournalError: `journal` belongs to another run, or is not as it was written.
        BudgetExceeded: the ledger of the dataset has not so much left.
        LedgerError: it is for another relation, or not as it was written.

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
        plan: Plan | None = None,
        threshold_delta: float = 0.0,
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
        self._memo: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # exact scores, which nobody else may see
        self._outer: tuple[Curator, RecordTransform] | None = None
        self.structural_zeros: tuple[Rule, ...] = tuple(structural_zeros)
        """What cannot occur, which is public."""
        self.stopped = False
        """Set to True, from a signal handler say, it makes the next request raise KeyboardInterrupt, unpaid."""
        if not (neighbors is None or isinstance(neighbors, Neighbors)):
            raise ArgumentError.of("neighbors", neighbors, "AddRemove(...) or Replace(...)")
        self.neighbors: Neighbors = neighbors_of(data, neighbors)
        if self.public_total == 0:
            raise ArgumentError("under Replace the number of records is public, and 0: there is nothing to measure.")
        self.ledger: Ledger = Ledger(budget, threshold_delta)
        self._spent_before: Budget = self.ledger.total
        planned = _planned(plan, budget)
        if ledger is not None and self._backend.insecure:
            raise ArgumentError("simulated noise protects nobody, so no ledger of a dataset can account for it.")
        run = {"budget": amounts(budget), "neighbors": repr(self.neighbors), "backend": backend}
        self._journal = None if journal is None else Journal(journal, {**run, "domain": list(data.domain.items())})
        self._run = None if ledger is None else self._begin(ledger, label)
        self._payment = Payment(self.ledger, planned, self._journal, self._run)

    @property
    def domain(self) -> Domain:
        """The attributes, which are public."""
        return self._data.domain

    @property
    def budget(self) -> Budget:
        """What may be spent in all."""
        return self.ledger.budget - self._spent_before

    @property
    def spent(self) -> Budget:
        """What was spent."""
        return self.ledger.total - self._spent_before

    @property
    def remaining(self) -> Budget:
        """What is left."""
        return self.ledger.remaining

    @property
    def measurements(self) -> tuple[LinearMeasurement, ...]:
        """All that was measured so far, in order."""
        return tuple(self._measurements)

    @property
    def selections(self) -> tuple[PaidSelection, ...]:
        """What the latest selections among marginals chose, and what lost: all public."""
        return tuple(self._selections)

    @property
    def public_total(self) -> int | None:
        """The number of records where the neighboring relation makes it public (`Replace`), else None."""
        return self._data.records if isinstance(self.neighbors, Replace) else None

    @property
    def _outermost(self) -> Curator:
        return self if self._outer is None else self._outer[0]._outermost

    # -- questions --------------------------------------------------------------------------------------------------

    def measure(
        self,
        clique: Iterable[str] | str,
        spend: Budget | None = None,
        query: Any = None,
        *,
        stddev: float | None = None,
        label: str = "",
    ) -> LinearMeasurement:
        """Noisy answers to a query about the marginal of a clique, in counts.

        The budget's type says which noise: Rho discrete Gaussian, Epsilon discrete Laplace, ApproxDP Gaussian on a fine
        grid (discrete Laplace where its delta is zero). A query that is not integer-valued is itself rounded to a fine
        grid first (`pgmest.privacy.grid`); the measurement has the rounded one.

        Args:
            clique: the attributes, or one name; () for the number of records.
            spend: what to pay, of the budget's type.
            query: None for identity, a query matrix with a column per cell, or a Kron over the clique's attributes.
            stddev: the noise's standard deviation, instead of `spend`; costs what it takes.
            label: what the ledger says it was for; by default the clique.

        Returns:
            the measurement, with the noise's true kind and standard deviation.

        Raises:
            BudgetExceeded: it costs more than is left; nothing was spent.
            BudgetTypeError: `spend` is of another type than the budget.
            ArgumentError, UnknownAttributeError, MeasurementError, QueryError: a request that cannot be answered.
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
        """A measurement of each clique for a share of `spend`; nothing is spent unless all can be.

        Args:
            cliques: what to measure, in this order.
            spend: what to pay in all.
            weights: shares in these proportions, one weight per clique; by default equal ones. The least expected
                error in all is had with `pgmest.privacy.least_error_weights`.
            queries: a query per clique, as for `measure`.

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
                ahead.forget()  # what was not charged, should it end early

    def measure_values(
        self, values: Callable[[Dataset], Any], count: int, sensitivity: float, spend: Budget, *, label: str
    ) -> np.ndarray:
        """Numbers computed from the records, with Gaussian noise (Laplace for Epsilon), rounded to a grid.

        Args:
            values: called with the records, gives `count` numbers. It must not raise errors that depend on the records;
                where their number is private it is called with a table without records first.
            count: how many.
            sensitivity: the most that each of them changes between neighbors.
            spend: what to pay, of the budget's type.
            label: what the ledger says it was for.

        Returns:
            the noisy numbers, shape (count,).

        Raises:
            as `measure` does; ScoreError: they are not numbers (see `select`).
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
        """A candidate whose score is high: the exponential mechanism for Rho, permute-and-flip for Epsilon.

        Args:
            candidates: what to choose from; they must not depend on the data.
            scores: `pgmest.privacy.scores.Scores`, which this curator evaluates and remembers, such as `Distances` from
                a model; or a function that is called with the records and gives one score per candidate. That must not
                raise errors that depend on the records, nor draw from a generator that is used elsewhere (a journal
                does not call it again), nor keep what it computes. Where the number of records is private it is called
                with a table without records first, so that what fails there fails before anything is paid.
            sensitivity: the most that one score changes between neighbors (`curator.neighbors` says which they are).
            spend: what to pay, of the budget's type.
            monotone: whether all scores change in the same direction between neighbors; halves the noise.
            label: what the ledger says it was for.

        Raises:
            BudgetExceeded: it costs more than is left; nothing was spent.
            BudgetTypeError: `spend` is of another type than the budget.
            ArgumentError: no candidates, or a sensitivity that is not positive.
            ShapeError: not one score per candidate.
            ScoreError: a function's score of the records is not a number. That cannot be seen before it is paid for,
                and that it happened tells something of the records: it is for their owner alone.
        """
        options = list(candidates)
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
        """Independent draws of candidates with probabilities proportional to exp(exponent * 2^unit_power), exactly.

        Each draw is an exponential mechanism: between neighbors no two exponents move by more than 2 * moved against
        each other, so with b = 2 moved 2^unit_power it is b-DP and b^2 / 8-zCDP (bounded range; Cesar, Rogers 2021).

        Args:
            exponents: called with the records, gives an integer for each candidate. It must not raise errors that
                depend on the records.
            candidates: how many.
            moved: the most that an exponent moves, up or down, between neighbors.
            unit_power: of the unit of the exponents, from -60 to 0.
            draws: how many.
            spend: what to pay, of the budget's type.
            label: what the ledger says it was for.

        Returns:
            the positions drawn.

        Raises:
            ArgumentError: arguments that cannot be.
            ChargeError: the draws cost more than `spend`; nothing was spent.
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
        """Labels that many records have, of labels that nobody listed; possibly none.

        Noise as on a histogram, and a threshold that a label of one person alone exceeds with probability delta at
        most (`pgmest.privacy.thresholds`): together (spend, delta)-private.

        Args:
            counts: called with the records, gives how many have each label that occurs, each of them at least 1. A
                record has at most one label.
            spend: what to pay: Rho or Epsilon.
            delta: what to pay besides, of the curator's `threshold_delta`.
            label: what the ledger says it was for.

        Returns:
            the labels released, in the order of the alphabet.

        Raises:
            ArgumentError: more delta than is left, or another kind of budget.
            BudgetExceeded, BudgetTypeError: as for `measure`.
        """
        with self.ledger.held():
            cost = self._affordable(spend, label)
            self.ledger.check_delta(delta, label)
            return list(map(str, self._pay(requests.labels(counts, cost, delta, self.neighbors, self._backend, label))))

    def count(self, spend: Budget, *, label: str = "") -> LinearMeasurement:
        """The number of records with noise, a measurement of the clique ().

        Under `Replace` it is public: read `public_total`, which costs nothing.

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
        """The output of a mechanism of the caller's own, who answers for its costing no more than `spend`.

        Args:
            mechanism: called with the records after the charge, and with a generator to draw from: of the seed for the
                simulation, else of fresh entropy. With a journal its result must be of JSON's types.
            spend: what it costs, of the budget's type.
            label: what the ledger says it was for.
            secure: whether its randomness is secure and its noise exact. NumPy's are not, and the ledger then says so.

        Raises:
            BudgetExceeded, BudgetTypeError: as for `measure`.
        """
        with self.ledger.held():
            cost = self._affordable(spend, label)
            insecure = self._backend.insecure or not secure
            entry = Entry(label, "release", cost, {"noise": "the caller's"}, insecure)
            return self._pay(Request(entry, OwnMechanism(mechanism)))

    def charge(self, spend: Budget, label: str) -> Budget:
        """Put something on the ledger that happens elsewhere, before it happens.

        Returns:
            what was charged: `spend`, or less by its billionth part where rounding alone made it exceed what was left.

        Raises:
            BudgetExceeded, BudgetTypeError: as for `measure`.
            JournalError: there is a journal, which could not repeat what happened elsewhere; use `release`.
        """
        if self._journal is not None:
            raise JournalError("a journal cannot repeat what is charged here and answered elsewhere: use release(...).")
        with self.ledger.held():
            cost = self._affordable(spend, label)
            self._payment.charge(Entry(label, "charge", cost), self._charged)
            return cost

    def through(self, transform: RecordTransform) -> Curator:
        """A curator of the recoded records, with the same ledger and what is left of the budget as its budget.

        A transform recodes each record on its own, so neighbors stay neighbors. What is measured here appears among
        this curator's measurements, too, as being about the attributes before the transform, unless its query there is
        too large to be materialized (`Transform.pull_back`).

        Raises:
            DomainError: the transform is of another domain.
        """
        self._check_process()
        recoded = object.__new__(type(self))  # another view of the same: one ledger, one lock, one process
        recoded.__dict__.update(self.__dict__)
        recoded._data = transform.encode(self._data).remembering()
        recoded.structural_zeros = transform.zeros(self.structural_zeros)
        recoded._spent_before = self.ledger.total
        recoded._measurements = []
        recoded._selections = []
        recoded._memo = WeakKeyDictionary()
        recoded._outer = self, transform
        return recoded

    def close(self) -> None:
        """Let go of the journal's file, so that another curator may go on with it; and give back to the dataset's
        ledger what was not spent."""
        if self._journal is not None:
            self._journal.close()
        if self._run is not None and self._in_its_process():
            self._run.end()

    # -- how they are answered --------------------------------------------------------------------------------------

    def _begin(self, ledger: str | Path | DatasetLedger, label: str) -> LedgerRun:
        """The run on the dataset's ledger: the journal's, or a new one."""
        try:
            opened = ledger if isinstance(ledger, DatasetLedger) else DatasetLedger(ledger)
            run = None if self._journal is None else self._journal.run
            return opened.begin(self.ledger.budget, self.neighbors, label, run, self.ledger.delta)
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
        self,
        question: Question,
        cost: Budget,
        label: str,
        kind: str,
        table: Callable[[Dataset], Factor] | None = None,
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
        """The only place where the records are looked at."""
        return access.answer(self._data, self._backend, len(self.ledger))

    def _charged(self) -> None:
        if self._on_charge is not None:
            self._on_charge(self._outermost)


def _planned(plan: Plan | None, budget: Budget) -> PlannedRun | None:
    """What keeps a run to its plan.

    Raises:
        ArgumentError: a plan for another budget, or none for one that was calibrated for a plan.
    """
    if (plan is not None) != isinstance(budget, PlannedRho):
        raise ArgumentError("plan= and a budget of PlannedRho belong together: give plan.budget(...), or Rho.")
    return None if plan is None or not isinstance(budget, PlannedRho) else PlannedRun(plan, budget)
