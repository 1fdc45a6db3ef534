"""The curator, through which all access to private records goes: the requests of mechanisms.

`requests` and `choices` have a class for each kind of request, `account` charges it, `records` then looks at the data.
`noise` and `selection` have the calibration of noise to a budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, JournalError
from pgmest.measurements.measurement import LARGEST_ANSWER, SMALLEST_STDDEV, LinearMeasurement
from pgmest.privacy.budgets import Budget
from pgmest.privacy.candidates import Subset
from pgmest.privacy.choices import Choice, Draws, Labels
from pgmest.privacy.counted_ahead import CountedAhead
from pgmest.privacy.ledger import Entry
from pgmest.privacy.noise import cost_of, values_noise
from pgmest.privacy.records import Records
from pgmest.privacy.requests import Measurement, Own, UnitVector, Values
from pgmest.privacy.scores import Scores, as_function, public_selection, rehearse
from pgmest.privacy.unprotected import NUMBER, name_of

Candidate = TypeVar("Candidate")


class Curator(Records):
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
        journal: a file that keeps each paid answer, so that a later run on the same records with the same sequence of
            requests gets the same answers without paying again; or an open `Journal`, which the caller closes.
        ledger: the ledger of the dataset, which all runs on it charge: a file, or an open `DatasetLedger`. The whole
            budget is reserved there at once, and what was not spent is given back at the end (`close`). Or a run on it
            that several curators share (`begin_run`), which the caller ends.
        label: the name of the run in the dataset's ledger.
        on_charge: a function that is called with the curator after each charge, to show progress.
        threshold_delta: the delta that may be spent, besides the budget, on labels that nobody listed (`frequent`).
        promise: the (epsilon, delta) for which the budget was calibrated, thresholds included, for the ledger to show.
        structural_zeros: rules of `pgmest.zeros` that hold for all possible records. They are public, and kept here for
            the estimates made from the answers.
        invariants: tables that are not protected: exact answers (or bounds) that the caller gives as public, or names
            of attributes or levels, whose true tables are read from the records without noise. Requests for them are
            answered exactly, and cost nothing.

    Raises:
        ArgumentError: if an argument is not valid, or `Replace` is stated for an empty table, which has no neighbors.
        DataError: if the records have weights, by which one individual could count for any number of records.
        JournalError: if `journal` belongs to another run or to other records, is not as it was written, or charges a
            ledger that is not given.
        BudgetExceeded: if the budget exceeds what the ledger of the dataset has left.
        LedgerError: if that ledger protects another relation, or is not as it was written.

    A curator can be neither copied nor pickled (`CopyError`), nor used in a forked process (`ProcessError`). Threads
    are answered one after the other.
    """

    def measure(
        self,
        clique: Iterable[str] | str,
        spend: Budget | None = None,
        query: Any = None,
        *,
        stddev: float | None = None,
        label: str = "",
    ) -> LinearMeasurement:
        """Return noisy answers to a query about the marginal of a clique, in counts, with the true kind of the noise.

        The budget's type determines the noise: discrete Gaussian for Rho, discrete Laplace for Epsilon, and Gaussian on
        a fine grid for GDP and ApproxDP (discrete Laplace if its delta is zero). A query that is not
        integer-valued is first rounded to a fine grid (`pgmest.privacy.grid`); the measurement has the rounded query.

        Args:
            clique: the attributes or levels of their hierarchies, or one name; () for the number of records.
            spend: the cost, of the budget's type.
            query: None for the identity, a query matrix with a column per cell, or a Kron over the clique's attributes.
            stddev: the standard deviation of the noise, instead of `spend`; the cost follows from it.
            label: the label of the ledger's entry; by default the clique.

        Raises:
            BudgetExceeded: if the cost exceeds what is left; nothing was spent.
            BudgetTypeError: if `spend` is of another type than the budget.
            ArgumentError, UnknownAttributeError, MeasurementError, QueryError: if the request cannot be answered.
        """
        if (spend is None) == (stddev is None):
            raise ArgumentError("measure needs either spend= or stddev=, one of them.")
        names = (clique,) if isinstance(clique, str) else tuple(clique)
        question = self._question(names, query)
        asked = question.unanswered
        exact = self.exactly(asked)
        if exact is not None:
            return exact
        if spend is None:
            assert stddev is not None
            spend = cost_of(float(stddev), type(self.budget), self.neighbors, asked.query, question.step)
        label = label or name_of(names)
        with self.ledger.held():
            return self._measured(Measurement(label, self._affordable(spend, label), question, self.neighbors))

    def measure_all(
        self,
        cliques: Iterable[Iterable[str] | str],
        spend: Budget,
        *,
        weights: Iterable[float] | None = None,
        queries: Iterable[Any] | None = None,
    ) -> list[LinearMeasurement]:
        """Measure each clique with a share of `spend`, and return the measurements in the order of the cliques.

        Nothing is spent unless all cliques can be measured. Cliques that invariants determine are answered exactly, and
        have no share.

        Args:
            cliques: the cliques, of attributes or levels, in the order of measurement.
            spend: the cost of all measurements together.
            weights: the proportions of the shares, one weight per clique; equal by default.
                `pgmest.privacy.least_error_weights` minimize the total expected error.
            queries: a query per clique, as for `measure`.

        Raises:
            as `measure` does.
        """
        wanted = [(clique,) if isinstance(clique, str) else tuple(clique) for clique in cliques]
        asked = [None] * len(wanted) if queries is None else list(queries)
        shares = None if weights is None else list(weights)
        if len(asked) != len(wanted):
            raise ArgumentError.of("queries", asked, f"one for each of the {len(wanted)} cliques")
        if shares is not None and (len(shares) != len(wanted) or not all(share > 0 for share in shares)):
            raise ArgumentError.of("weights", weights, f"a positive number for each of the {len(wanted)} cliques")
        questions = [self._question(clique, query) for clique, query in zip(wanted, asked, strict=True)]
        found = [self.exactly(question.unanswered) for question in questions]
        asking = [place for place, exact in enumerate(found) if exact is None]
        if asking:
            ahead = CountedAhead(self.domain, [questions[place].unanswered.clique for place in asking])
            with self.ledger.held():
                whole = self._affordable(spend, f"measuring {len(asking)} cliques")
                parts = whole.split(len(asking) if shares is None else [shares[place] for place in asking])
                made = [
                    Measurement(name_of(wanted[place]), part, questions[place], self.neighbors, ahead.table(number))
                    for number, (place, part) in enumerate(zip(asking, parts, strict=True))
                ]
                entries = [request.entry(self._backend) for request in made]
                try:
                    for place, request, entry in zip(asking, made, entries, strict=True):
                        found[place] = self._measured(request, entry)
                finally:
                    ahead.forget()  # an early end leaves counted tables that were not charged
        return [one for one in found if one is not None]

    def measure_values(
        self, values: Callable[[Dataset], Any], count: int, sensitivity: float, spend: Budget, *, label: str
    ) -> np.ndarray:
        """Return numbers computed from the records, with Gaussian noise (Laplace for Epsilon), rounded to a grid.

        The result has the shape (count,).

        Args:
            values: a function of the records that returns `count` numbers. It must not raise errors that depend on the
                records. If the number of records is private, it is first called with an empty dataset.
            count: the number of values.
            sensitivity: the largest change of each number between neighbors.
            spend: the cost, of the budget's type.
            label: the label of the ledger's entry.

        Raises:
            ScoreError: if a value is NaN (see `select`); the other errors are those of `measure`.
        """
        if not SMALLEST_STDDEV <= sensitivity <= LARGEST_ANSWER:
            raise ArgumentError.of("sensitivity", sensitivity, f"a number from {SMALLEST_STDDEV} to {LARGEST_ANSWER}")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ArgumentError.of("count", count, "a positive integer")
        rehearse(values, count, self.domain, self.public_total)
        with self.ledger.held():
            cost = self._affordable(spend, label)
            return np.array(self._pay(Values(label, cost, values, count, *values_noise(cost, count, sensitivity))))

    def measure_vectors(
        self, vectors: Sequence[UnitVector], spend: Budget, weights: Iterable[float]
    ) -> list[tuple[np.ndarray, float]]:
        """Return numbers to which each individual adds a vector of length at most 1, with noise and its deviation.

        Nothing is spent unless all of them can be measured.

        Args:
            vectors: the numbers. If an individual has several records, its vector may be that many times as long.
            spend: the cost of all together.
            weights: the proportions of the shares, one for each vector.

        Raises:
            as `measure_values` does.
        """
        with self.ledger.held():
            parts = self._affordable(spend, f"measuring {len(vectors)} vectors").split(weights)
            asked = [vector.request(part, self.neighbors) for vector, part in zip(vectors, parts, strict=True)]
            entries = [request.entry(self._backend) for request in asked]
            values = [np.array(self._pay(request, entry)) for request, entry in zip(asked, entries, strict=True)]
            return [(numbers, request.noise.stddev) for numbers, request in zip(values, asked, strict=True)]

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
        rehearse(scored, len(options), self.domain, self.public_total)
        label = label or f"one of {len(options)}"
        with self.ledger.held():
            cost = self._affordable(spend, label)
            position = self._pay(Choice(label, cost, scored, options, sensitivity, monotone))
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
        """Draw positions of candidates independently, with probabilities proportional to exp(exponent * 2^unit_power).

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

        Raises:
            ArgumentError: if an argument is out of its range.
            ChargeError: if the draws cost more than `spend`; nothing was spent.
            BudgetExceeded, BudgetTypeError: as for `measure`.
        """
        with self.ledger.held():
            cost = self._affordable(spend, label)
            return self._pay(Draws(label, cost, exponents, candidates, moved, unit_power, draws))

    def frequent(
        self, counts: Callable[[Dataset], Mapping[str, int]], spend: Budget, delta: float, *, label: str
    ) -> list[str]:
        """Return the labels that many records have, of labels that nobody listed; there may be none.

        They are in alphabetical order. The counts get the noise of a histogram. The label of a single person exceeds
        the threshold with probability at most delta (`pgmest.privacy.thresholds`).

        Args:
            counts: a function of the records that returns the positive count of each label that occurs. A record has at
                most one label.
            spend: the cost: Rho or Epsilon.
            delta: the cost in delta besides, of the curator's `threshold_delta`.
            label: the label of the ledger's entry.

        Raises:
            ArgumentError: if delta exceeds what is left, or the budget is of another type.
            BudgetExceeded, BudgetTypeError: as for `measure`.
        """
        with self.ledger.held():
            cost = self._affordable(spend, label)
            delta = self.ledger.affordable_delta(delta, label)
            return list(map(str, self._pay(Labels(label, cost, counts, self.neighbors, delta))))

    def count(self, spend: Budget) -> LinearMeasurement:
        """Measure the number of records, the marginal of the clique ().

        Under `Replace` the number is public: `public_total` has it and costs nothing.

        Raises:
            as `measure` does; ArgumentError under `Replace`.
        """
        if self.public_total is not None:
            raise ArgumentError("under Replace the number of records is public: use curator.public_total, for nothing.")
        with self.ledger.held():
            cost = self._affordable(spend, NUMBER)
            return self._measured(Measurement(NUMBER, cost, self._question((), None), self.neighbors, kind="count"))

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
            return self._pay(Own(label, self._affordable(spend, label), mechanism, secure))

    def charge(self, spend: Budget, label: str) -> Budget:
        """Charge the ledger for an access that happens elsewhere, before it happens.

        Returns:
            the charge: `spend`, or what is left if `spend` exceeds it by rounding only.

        Raises:
            BudgetExceeded, BudgetTypeError: as for `measure`.
            JournalError: if there is a journal, which could not repeat the access; use `release`.
        """
        if self._account.journal is not None:
            raise JournalError("a journal cannot repeat what is charged here and answered elsewhere: use release(...).")
        with self.ledger.held():
            cost = self._affordable(spend, label)
            self._account.charge(Entry(label, "charge", cost), self._charged)
            return cost
