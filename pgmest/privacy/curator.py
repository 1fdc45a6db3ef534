"""Curator: the only door to private records. It charges the ledger, then looks at the data, then adds noise.

How it looks at them is in `accesses`; what noise a budget buys in `noise` and `selection`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from pgmest._base.errors import ArgumentError, BudgetExceeded, ChargeError, DataError, JournalError, MeasurementError
from pgmest.data.dataset import Dataset
from pgmest.inference.exact.structural_zeros import Rule
from pgmest.measurements.files.query_format import encode_query
from pgmest.measurements.measurement import LARGEST_ANSWER, SMALLEST_STDDEV, LinearMeasurement
from pgmest.privacy import exponential, selection
from pgmest.privacy.accesses import Access, Choice, Draws, FrequentLabels, NoisyAnswers, OwnMechanism
from pgmest.privacy.budgets import ApproxDP, Budget, Epsilon, Rho
from pgmest.privacy.dataset_ledger import DatasetLedger, LedgerRun
from pgmest.privacy.grid import on_grid
from pgmest.privacy.journal import UNPAID, Journal, digest
from pgmest.privacy.ledger import Entry, Ledger, amounts
from pgmest.privacy.neighbors import Neighbors, Replace, neighbors_of
from pgmest.privacy.noise import Noise, charge_of, cost_of, make_backend, noise_for, values_noise
from pgmest.privacy.one_process import OneProcess
from pgmest.privacy.scores import Scores, as_function
from pgmest.privacy.thresholds import threshold
from pgmest.queries import as_query
from pgmest.tables.domain import Domain

Candidate = TypeVar("Candidate")


class RecordTransform(Protocol):
    """What a curator needs of a transform (`pgmest.transforms`): it recodes each record on its own."""

    def encode(self, data: Dataset) -> Dataset: ...

    def zeros(self, rules: Iterable[Rule]) -> tuple[Rule, ...]: ...

    def pull_back(self, measurement: LinearMeasurement) -> LinearMeasurement: ...


@dataclass(frozen=True)
class Request:
    """A measurement that was checked and can be paid for: nothing that comes after may fail but the records' files.

    Attributes:
        question: the measurement, with its noise, without answers yet.
        noise: of its answers.
        cost: what it is charged.
    """

    question: LinearMeasurement
    noise: Noise
    cost: Budget


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
        if ledger is not None and self._backend.insecure:
            raise ArgumentError("simulated noise protects nobody, so no ledger of a dataset can account for it.")
        if ledger is not None and threshold_delta:
            raise ArgumentError(
                "the ledger of a dataset adds up budgets, not the delta of thresholds: list the values that are to be "
                "bought, or where they are among, or leave the ledger out."
            )
        run = {"budget": amounts(budget), "neighbors": repr(self.neighbors), "backend": backend}
        self._journal = None if journal is None else Journal(journal, {**run, "domain": list(data.domain.items())})
        self._run = None if ledger is None else self._begin(ledger, label)

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
        question, step = self._checked(clique, query)
        if spend is None:
            assert stddev is not None
            spend = cost_of(float(stddev), type(self.budget), self.neighbors, question.query, step)
        with self.ledger.held():
            return self._measure(question, step, spend, label or " x ".join(question.clique), "measure")

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
        checked = [self._checked(clique, query) for clique, query in zip(wanted, asked, strict=True)]
        labels = [" x ".join(clique) or NUMBER for clique in wanted]
        with self.ledger.held():
            whole = self._affordable(spend, f"measuring {len(wanted)} cliques")
            requests = [
                self._request(question, step, part, label)
                for (question, step), part, label in zip(checked, whole.split(shares), labels, strict=True)
            ]
            return [self._answered(one, label, "measure") for one, label in zip(requests, labels, strict=True)]

    def measure_values(
        self, values: Callable[[Dataset], Any], count: int, sensitivity: float, spend: Budget, *, label: str
    ) -> np.ndarray:
        """Numbers computed from the records, with Gaussian noise (Laplace for Epsilon), rounded to a grid.

        Args:
            values: called with the records, gives `count` numbers. It must not raise errors that depend on the records.
            count: how many.
            sensitivity: the most that each of them changes between neighbors.
            spend: what to pay, of the budget's type.
            label: what the ledger says it was for.

        Returns:
            the noisy numbers, shape (count,).

        Raises:
            as `measure` does; ScoreError: they are not numbers.
        """
        if not SMALLEST_STDDEV <= sensitivity <= LARGEST_ANSWER:
            raise ArgumentError.of("sensitivity", sensitivity, f"a number from {SMALLEST_STDDEV} to {LARGEST_ANSWER}")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ArgumentError.of("count", count, "a positive integer")
        with self.ledger.held():
            cost = self._affordable(spend, label)
            noise, steps = values_noise(cost, count, sensitivity)
            self._check_price(label, noise, *charge_of(noise, cost, steps=steps))
            parameters = {"values": count, "noise": noise.name, "stddev": noise.stddev, "grid": noise.step}
            access = NoisyAnswers(lambda data: selection.checked_numbers(values(data), count), noise)
            return np.array(self._pay(Entry(label, "measure", cost, parameters, self._backend.insecure), access))

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
                does not call it again), nor keep what it computes.
            sensitivity: the most that one score changes between neighbors (`curator.neighbors` says which they are).
            spend: what to pay, of the budget's type.
            monotone: whether all scores change in the same direction between neighbors; halves the noise.
            label: what the ledger says it was for.

        Raises:
            BudgetExceeded: it costs more than is left; nothing was spent.
            BudgetTypeError: `spend` is of another type than the budget.
            ArgumentError: no candidates, or a sensitivity that is not positive.
            ShapeError: not one score per candidate.
        """
        options = list(candidates)
        if not options:
            raise ArgumentError.of("candidates", candidates, "at least one candidate")
        if not 0 < sensitivity < math.inf:
            raise ArgumentError.of("sensitivity", sensitivity, "a positive number")
        scored = as_function(scores, options, self._memo)
        label = label or f"one of {len(options)}"
        with self.ledger.held():
            cost = self._affordable(spend, label)
            scale = selection.noise_scale(cost, monotone)
            pure = not isinstance(cost, Rho)
            price = self._backend.selection_price(scale, selection.STEPS + 2, pure, monotone)
            self._check_price_is(label, price, Fraction(cost.exact[0]), "epsilon" if pure else "rho")
            parameters = {"candidates": len(options), "sensitivity": float(sensitivity), "monotone": monotone}
            access = Choice(scored, len(options), sensitivity, scale, pure)
            entry = Entry(label, "select", cost, parameters, self._backend.insecure)
            position = self._pay(entry, access, options)
        if not isinstance(position, int) or not 0 <= position < len(options):  # what a journal says may be anything
            raise JournalError(
                f"the journal's answer to '{label}' is {position!r}, not one of {len(options)} candidates."
            )
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
            spend: what to pay, of the budget's type: Epsilon or Rho.
            label: what the ledger says it was for.

        Returns:
            the positions drawn.

        Raises:
            ArgumentError: arguments that cannot be.
            ChargeError: the draws cost more than `spend`; nothing was spent.
            BudgetExceeded, BudgetTypeError: as for `measure`.
        """
        if not 0 < candidates <= exponential.MOST_CANDIDATES:
            raise ArgumentError.of("candidates", candidates, f"at least 1, and at most {exponential.MOST_CANDIDATES}")
        if not exponential.LEAST_POWER <= unit_power <= 0 or moved < 1 or draws < 1:
            raise ArgumentError("draw needs moved and draws of at least 1, and a unit of 2^-60 to 1.")
        with self.ledger.held():
            cost = self._affordable(spend, label)
            bounded_range = 2 * moved * Fraction(2) ** unit_power
            if isinstance(cost, Rho):
                price, measure = draws * bounded_range**2 / 8, "rho"
            elif isinstance(cost, Epsilon | ApproxDP):
                price, measure = draws * bounded_range, "epsilon"
            else:
                raise ArgumentError.of("spend", spend, "Epsilon or Rho: a draw is no Gaussian noise")
            self._check_price_is(label, price, Fraction(cost.exact[0]), measure)
            parameters = {"candidates": candidates, "draws": draws, "moved": moved * 2.0**unit_power}
            access = Draws(lambda data: selection.checked_integers(exponents(data), candidates), unit_power, draws)
            return self._pay(Entry(label, "select", cost, parameters, self._backend.insecure), access)

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
            if not isinstance(cost, Rho | Epsilon):
                raise ArgumentError.of("spend", spend, "Rho or Epsilon: a threshold is for noise on whole counts")
            self.ledger.check_delta(delta, label)
            noise = noise_for(cost, self.neighbors)
            least = threshold(noise, self.neighbors.records, delta)
            self._check_price(label, noise, *charge_of(noise, cost, self.neighbors))
            parameters = {"noise": noise.name, "stddev": noise.stddev, "threshold": least, "delta": float(delta)}
            entry = Entry(label, "measure", cost, parameters, self._backend.insecure, float(delta))
            return list(map(str, self._pay(entry, FrequentLabels(counts, noise, least))))

    def count(self, spend: Budget, *, label: str = "") -> LinearMeasurement:
        """The number of records with noise, a measurement of the clique ().

        Under `Replace` it is public: read `public_total`, which costs nothing.

        Raises:
            as `measure` does; ArgumentError under `Replace`.
        """
        if self.public_total is not None:
            raise ArgumentError("under Replace the number of records is public: use curator.public_total, for nothing.")
        with self.ledger.held():
            return self._measure(*self._checked((), None), spend, label, "count")

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
            return self._pay(entry, OwnMechanism(mechanism))

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
            self._record(Entry(label, "charge", cost), fresh=True)
            return cost

    def through(self, transform: RecordTransform) -> Curator:
        """A curator of the recoded records, with the same ledger and what is left of the budget as its budget.

        A transform recodes each record on its own, so neighbors stay neighbors. What is measured here appears among
        this curator's measurements, too, as being about the attributes before the transform.

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
            return opened.begin(self.ledger.budget, self.neighbors, label, run)
        except BaseException:
            if self._journal is not None:
                self._journal.close()
            raise

    def _checked(self, clique: Iterable[str] | str, query: Any) -> tuple[LinearMeasurement, float]:
        """The question as a measurement without answers yet, its query on a grid, and the grid's step."""
        names = self.domain.clique(clique)
        matrix, step = on_grid(None if query is None else as_query(query))
        rows = self.domain.size(names) if matrix is None else matrix.rows
        question = LinearMeasurement(np.zeros(rows), names, query=matrix)
        question.check(self.domain)
        return question, step

    def _affordable(self, spend: Any, label: str) -> Budget:
        self._check_process()
        if self._outermost.stopped:
            raise KeyboardInterrupt
        return self.ledger.affordable(spend, label)

    def _request(self, question: LinearMeasurement, step: float, cost: Budget, label: str) -> Request:
        """Everything that could be refused, before anything is spent."""
        if not cost:
            raise ArgumentError.of("spend", cost, f"more, or other weights: the share of {label} is nothing")
        noise = noise_for(cost, self.neighbors, question.query, step)
        try:
            asked = LinearMeasurement(question.values, question.clique, noise.stddev, question.query, noise.name)
        except MeasurementError as error:
            raise ArgumentError(
                f"the noise on {label} cannot be stated: {error} Multiply the query's entries."
            ) from None
        if not noise.exact:
            self._check_price(label, noise, *charge_of(noise, cost, self.neighbors, question.query))
        return Request(asked, noise, cost)

    def _check_price(self, label: str, noise: Noise, measure: str, sensitivity: float, charged: Fraction) -> None:
        price = self._backend.price(noise, sensitivity, measure)
        self._check_price_is(label, price, charged, {"zcdp": "rho", "pure": "epsilon"}[measure])

    @staticmethod
    def _check_price_is(label: str, price: float | Fraction, charged: Fraction, measure: str) -> None:
        if not Fraction(price) <= charged:
            raise ChargeError.of(label, float(price), float(charged), measure)

    def _measure(
        self, question: LinearMeasurement, step: float, spend: Any, label: str, kind: str
    ) -> LinearMeasurement:
        label = label or NUMBER
        return self._answered(self._request(question, step, self._affordable(spend, label), label), label, kind)

    def _answered(self, request: Request, label: str, kind: str) -> LinearMeasurement:
        question, noise, query = request.question, request.noise, request.question.query
        parameters = {"clique": list(question.clique), "noise": noise.name, "stddev": noise.stddev}
        if query is not None:
            parameters["query"] = str(query)
        if noise.step != 1.0:
            parameters["grid"] = noise.step
        values = self._pay(
            Entry(label, kind, request.cost, parameters, self._backend.insecure),
            NoisyAnswers(lambda data: question.answer(data.project(question.clique)), noise),
            encode_query(query, np.ndarray.tolist) if self._journal and query is not None else None,
        )
        measurement = LinearMeasurement(values, question.clique, noise.stddev, query, noise.name)
        self._keep(measurement)
        return measurement

    def _keep(self, measurement: LinearMeasurement) -> None:
        self._measurements.append(measurement)
        if self._outer is not None:
            outer, transform = self._outer
            outer._keep(transform.pull_back(measurement))

    def _pay(self, entry: Entry, access: Access, details: Any = None) -> Any:
        """Charge, then answer; or charge, and repeat what the journal has."""
        if self._journal is None:
            self._record(entry, fresh=True)
            return self._look(entry, access)
        key = digest([entry.kind, entry.label, amounts(entry.cost), dict(entry.parameters), repr(details)])
        paid = self._journal.replay(entry.label, key)
        self._record(entry, fresh=paid is UNPAID)
        if paid is not UNPAID:
            return paid
        fresh = self._look(entry, access)
        self._journal.append(entry.label, key, fresh)
        return fresh

    def _look(self, entry: Entry, access: Access) -> Any:
        """The only place where the records are looked at."""
        return access.answer(self._data, self._backend, len(self.ledger))

    def _record(self, entry: Entry, fresh: bool) -> None:
        """Charge the dataset's ledger, unless a journal has the answer, and the run's own."""
        self._check_process()
        if any(amount > left for amount, left in zip(entry.cost.exact, self.ledger.left, strict=True)):
            raise BudgetExceeded.of(entry.label, entry.cost, self.ledger.remaining, self.ledger.budget)
        if fresh and self._run is not None:
            self._run.charge(entry.label, entry.kind, entry.cost)
        self.ledger.charge(entry)
        if self._on_charge is not None:
            self._on_charge(self._outermost)


NUMBER = "number of records"
"""What a measurement of no attributes is called."""
