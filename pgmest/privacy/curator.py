"""Curator: the only door to private records. It charges the ledger, then looks at the data, then adds noise."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from pgmest._base.errors import ArgumentError, DataError, JournalError
from pgmest.data.dataset import Dataset
from pgmest.inference.exact.structural_zeros import Rule
from pgmest.measurements.files.query_format import encode_query
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.privacy import selection
from pgmest.privacy.budgets import Budget
from pgmest.privacy.grid import on_grid
from pgmest.privacy.journal import Journal, digest
from pgmest.privacy.ledger import Entry, Ledger, amounts
from pgmest.privacy.neighbors import AddRemove, Neighbors, Replace
from pgmest.privacy.noise import Noise, cost_of, make_backend, noise_for
from pgmest.privacy.scores import Scores, as_function
from pgmest.queries import as_query
from pgmest.tables.domain import Domain

Candidate = TypeVar("Candidate")


class RecordTransform(Protocol):
    """What a curator needs of a transform (`pgmest.transforms`): it recodes each record on its own."""

    def encode(self, data: Dataset) -> Dataset: ...

    def zeros(self, rules: Iterable[Rule]) -> tuple[Rule, ...]: ...

    def pull_back(self, measurement: LinearMeasurement) -> LinearMeasurement: ...


class Curator:
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
        budget: what may be spent in all: `Epsilon`, `Rho` or `ApproxDP`; every spend must be of the same type.
        neighbors: which datasets must be hard to tell apart.
        backend: "opendp", exact noise; or "simulation", seeded, for experiments, marked insecure in the ledger.
        seed: of the simulation.
        journal: a file that keeps each paid answer, so that the same sequence of requests in a later run is answered
            from there, without paying again.
        on_charge: called with the curator after each charge, to show progress.
        structural_zeros: rules of `pgmest.zeros` that hold for all possible records: public knowledge, which is kept
            here for the estimates made of the answers.

    Raises:
        ArgumentError: an argument that is not valid.
        DataError: the records have weights, by which one individual could count for any number of records.
        JournalError: `journal` belongs to another run.
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
        on_charge: Callable[[Curator], object] | None = None,
        structural_zeros: Iterable[Rule] = (),
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
        self.structural_zeros = tuple(structural_zeros)
        """What cannot occur, which is public."""
        self.stopped = False
        """Set to True, from a signal handler say, it makes the next request raise KeyboardInterrupt, unpaid."""
        self.neighbors: Neighbors = AddRemove() if neighbors is None else neighbors
        if not isinstance(self.neighbors, Neighbors):
            raise ArgumentError.of("neighbors", neighbors, "AddRemove(...) or Replace(...)")
        self.ledger = Ledger(budget)
        self._spent_before: Budget = self.ledger.total
        run = {"budget": amounts(budget), "neighbors": repr(self.neighbors), "backend": backend}
        self._journal = None if journal is None else Journal(journal, {**run, "domain": list(data.domain.items())})

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
        for clique, query in zip(wanted, asked, strict=True):
            self._checked(clique, query)
        parts = self._affordable(spend, f"measuring {len(wanted)} cliques").split(shares)
        return [self.measure(c, part, query) for c, part, query in zip(wanted, parts, asked, strict=True)]

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
        cost = self._affordable(spend, label)
        selection.noise_scale(cost, monotone)
        parameters = {"candidates": len(options), "sensitivity": float(sensitivity), "monotone": monotone}
        choose = partial(selection.choose, candidates=len(options), sensitivity=sensitivity, spend=cost)
        position = self._pay(
            Entry(label, "select", cost, parameters, self._backend.insecure),
            lambda: choose(scored(self._data), monotone=monotone, backend=self._backend, request=len(self.ledger)),
            options,
        )
        if not isinstance(position, int) or not 0 <= position < len(options):  # what a journal says may be anything
            raise JournalError(
                f"the journal's answer to '{label}' is {position!r}, not one of {len(options)} candidates."
            )
        return options[position]

    def count(self, spend: Budget, *, label: str = "") -> LinearMeasurement:
        """The number of records with noise, a measurement of the clique ().

        Under `Replace` it is public: read `public_total`, which costs nothing.

        Raises:
            as `measure` does; ArgumentError under `Replace`.
        """
        if self.public_total is not None:
            raise ArgumentError("under Replace the number of records is public: use curator.public_total, for nothing.")
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
        cost = self._affordable(spend, label)
        insecure = self._backend.insecure or not secure
        return self._pay(
            Entry(label, "release", cost, {"noise": "the caller's"}, insecure),
            lambda: mechanism(self._data, self._backend.generator(len(self.ledger))),
        )

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
        cost = self._affordable(spend, label)
        self._record(Entry(label, "charge", cost))
        return cost

    def through(self, transform: RecordTransform) -> Curator:
        """A curator of the recoded records, with the same ledger and what is left of the budget as its budget.

        A transform recodes each record on its own, so neighbors stay neighbors. What is measured here appears among
        this curator's measurements, too, as being about the attributes before the transform.

        Raises:
            DomainError: the transform is of another domain.
        """
        recoded = copy.copy(self)
        recoded._data = transform.encode(self._data).remembering()
        recoded.structural_zeros = transform.zeros(self.structural_zeros)
        recoded._spent_before = self.ledger.total
        recoded._measurements = []
        recoded._memo = WeakKeyDictionary()
        recoded._outer = self, transform
        return recoded

    def close(self) -> None:
        """Let go of the journal's file, if there is one, so that another curator may go on with it."""
        if self._journal is not None:
            self._journal.close()

    # -- how they are answered --------------------------------------------------------------------------------------

    def _checked(self, clique: Iterable[str] | str, query: Any) -> tuple[LinearMeasurement, float]:
        """The question as a measurement without answers yet, its query on a grid, and the grid's step."""
        names = self.domain.clique(clique)
        matrix, step = on_grid(None if query is None else as_query(query))
        rows = self.domain.size(names) if matrix is None else matrix.rows
        question = LinearMeasurement(np.zeros(rows), names, query=matrix)
        question.check(self.domain)
        return question, step

    def _affordable(self, spend: Any, label: str) -> Budget:
        if self._outermost.stopped:
            raise KeyboardInterrupt
        return self.ledger.affordable(spend, label)

    def _measure(
        self, question: LinearMeasurement, step: float, spend: Any, label: str, kind: str
    ) -> LinearMeasurement:
        clique, query, label = question.clique, question.query, label or "number of records"
        cost = self._affordable(spend, label)
        noise = noise_for(cost, self.neighbors, query, step)
        parameters = {"clique": list(clique), "noise": noise.name, "stddev": noise.stddev}
        if query is not None:
            parameters["query"] = str(query)
        if noise.step != 1.0:
            parameters["grid"] = noise.step
        values = self._pay(
            Entry(label, kind, cost, parameters, self._backend.insecure),
            lambda: self._noisy(question, noise).tolist(),
            encode_query(query, np.ndarray.tolist) if self._journal and query is not None else None,
        )
        measurement = LinearMeasurement(values, clique, noise.stddev, query, noise.name)
        self._keep(measurement)
        return measurement

    def _keep(self, measurement: LinearMeasurement) -> None:
        self._measurements.append(measurement)
        if self._outer is not None:
            outer, transform = self._outer
            outer._keep(transform.pull_back(measurement))

    def _noisy(self, question: LinearMeasurement, noise: Noise) -> np.ndarray:
        exact = question.answer(self._data.project(question.clique))
        return self._backend.add_noise(exact, noise, len(self.ledger)) if noise.sensitivity else exact

    def _pay(self, entry: Entry, answer: Callable[[], Any], details: Any = None) -> Any:
        """Charge, then answer; or charge, and repeat what the journal has."""
        if self._journal is None:
            self._record(entry)
            return answer()
        key = digest([entry.kind, entry.label, amounts(entry.cost), dict(entry.parameters), repr(details)])
        paid = self._journal.replay(entry.label, key)
        self._record(entry)
        if paid is not None:
            return paid
        fresh = answer()
        self._journal.append(entry.label, key, fresh)
        return fresh

    def _record(self, entry: Entry) -> None:
        self.ledger.charge(entry)
        if self._on_charge is not None:
            self._on_charge(self._outermost)
