"""Requests to a curator, checked completely before anything is paid.

Each function here turns the arguments of a `Curator` method into a `Request`: the entry for the ledger, the access that
answers it, and the details by which a journal recognizes it. Everything that can be refused without the records is
refused here: names, queries, shares, noise that cannot be stated, a price that the source of noise does not confirm,
and scores that are not numbers. `payment` charges a request; only then is its access answered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, ChargeError, MeasurementError, ScoreError, ShapeError
from pgmest.measurements.files.query_format import encode_query
from pgmest.measurements.measurement import LARGEST_ANSWER, SMALLEST_STDDEV, LinearMeasurement
from pgmest.privacy import exponential, selection
from pgmest.privacy.accesses import Access, Choice, Draws, FrequentLabels, NoisyAnswers
from pgmest.privacy.bounded_range import choice_mu
from pgmest.privacy.budgets import GDP, ApproxDP, Budget, Epsilon, Rho, is_pure
from pgmest.privacy.grid import on_grid
from pgmest.privacy.ledger import Entry
from pgmest.privacy.neighbors import Neighbors
from pgmest.privacy.noise import Backend, Noise, charge_of, noise_for, values_noise
from pgmest.privacy.scores import Evaluated
from pgmest.privacy.thresholds import threshold
from pgmest.queries import as_query
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor


@dataclass(frozen=True)
class Request:
    """A request that was checked and can be paid for. After this only reading the records may fail.

    Attributes:
        entry: the entry for the ledger, with the cost.
        access: the access that answers the request.
        details: a function that returns what distinguishes the request in a journal, besides the entry.
        question: for a measurement, the measurement with its noise and without answers.
    """

    entry: Entry
    access: Access
    details: Callable[[], Any] | None = None
    question: LinearMeasurement | None = None


@dataclass(frozen=True)
class Question:
    """A query about a marginal, checked against the domain.

    Attributes:
        unanswered: a measurement without answers and noise, whose query is on a grid.
        step: the step of the grid, in counts.
    """

    unanswered: LinearMeasurement
    step: float

    @classmethod
    def of(cls, domain: Domain, clique: Iterable[str] | str, query: Any, grain: float = 1.0) -> Question:
        """Return the question about a clique; counts are multiples of `grain`, a power of two.

        Raises:
            UnknownAttributeError, MeasurementError, QueryError: if it cannot be answered.
        """
        names = domain.clique(clique)
        matrix, step = on_grid(None if query is None else as_query(query))
        rows = domain.size(names) if matrix is None else matrix.rows
        question = LinearMeasurement(np.zeros(rows), names, query=matrix)
        question.check(domain)
        return cls(question, step * grain)


def measurement(
    question: Question,
    cost: Budget,
    neighbors: Neighbors,
    backend: Backend,
    label: str,
    kind: str,
    table: Callable[[Dataset], Factor] | None = None,
) -> Request:
    """Return a request to measure.

    Args:
        question: the question.
        cost: the charge.
        neighbors: the neighboring relation, which determines the noise.
        backend: the source of noise.
        label, kind: the label and the kind of the ledger's entry.
        table: a function that gives the marginal from the records, if it is counted together with others.

    Raises:
        ArgumentError: if the cost is zero, or the noise cannot be stated.
        ChargeError: if the noise costs more than the charge.
    """
    if not cost:
        raise ArgumentError.of("spend", cost, f"more, or other weights: the share of {label} is nothing")
    asked = question.unanswered
    noise = noise_for(cost, neighbors, asked.query, question.step)
    try:
        asked = LinearMeasurement(asked.values, asked.clique, noise.stddev, asked.query, noise.name)
    except MeasurementError as error:
        raise ArgumentError(f"the noise on {label} cannot be stated: {error} Multiply the query's entries.") from None
    if not noise.exact:
        _check_noise(label, backend, noise, *charge_of(noise, cost, neighbors, asked.query))
    parameters = {"clique": list(asked.clique), "noise": noise.name, "stddev": noise.stddev}
    if asked.query is not None:
        parameters["query"] = str(asked.query)
    if noise.step != 1.0:
        parameters["grid"] = noise.step
    counted = table or (lambda data: data.project(asked.clique))
    access = NoisyAnswers(lambda data: asked.answer(counted(data)), noise)
    details = None if asked.query is None else partial(encode_query, asked.query, np.ndarray.tolist)
    return Request(Entry(label, kind, cost, parameters, backend.insecure), access, details, asked)


def check_values(count: int, sensitivity: float) -> None:
    """Raise ArgumentError if `count` numbers of this sensitivity cannot be measured."""
    if not SMALLEST_STDDEV <= sensitivity <= LARGEST_ANSWER:
        raise ArgumentError.of("sensitivity", sensitivity, f"a number from {SMALLEST_STDDEV} to {LARGEST_ANSWER}")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ArgumentError.of("count", count, "a positive integer")


def numbers(
    values: Callable[[Dataset], Any], count: int, sensitivity: float, cost: Budget, backend: Backend, label: str
) -> Request:
    """Return a request for numbers computed from the records.

    Raises:
        ChargeError: if the noise costs more than the charge.
    """
    noise, steps = values_noise(cost, count, sensitivity)
    _check_noise(label, backend, noise, *charge_of(noise, cost, steps=steps))
    parameters = {"values": count, "noise": noise.name, "stddev": noise.stddev, "grid": noise.step}
    access = NoisyAnswers(lambda data: selection.checked_numbers(values(data), count), noise)
    return Request(Entry(label, "measure", cost, parameters, backend.insecure), access)


@dataclass(frozen=True)
class UnitVector:
    """Numbers to which each individual adds a vector of length at most 1: of Euclidean length for a budget that buys
    Gaussian noise, of l1 length under `Epsilon`. The vectors have no negative numbers.

    Attributes:
        label: the label of the ledger's entry.
        count: the number of numbers.
        values: a function of the records that returns them. It must not raise errors that depend on the records.
    """

    label: str
    count: int
    values: Callable[[Dataset], Any]

    def request(self, cost: Budget, neighbors: Neighbors, backend: Backend) -> Request:
        """Return a request for the numbers.

        Without negative numbers, vectors of length 1 are at most sqrt(2) apart in l2, and 2 in l1: as the cells that a
        replaced record leaves and enters. So the sensitivities are those of a marginal.

        Raises:
            ChargeError: if the noise costs more than the charge.
        """
        apart = neighbors.l1_sensitivity() if is_pure(cost) else neighbors.l2_sensitivity()
        noise, steps = values_noise(cost, self.count, apart, together=True)
        _check_noise(self.label, backend, noise, *charge_of(noise, cost, steps=steps))
        parameters = {"values": self.count, "noise": noise.name, "stddev": noise.stddev, "grid": noise.step}
        access = NoisyAnswers(lambda data: selection.checked_numbers(self.values(data), self.count), noise)
        return Request(Entry(self.label, "measure", cost, parameters, backend.insecure), access)


def one_of(
    candidates: int,
    scores: Callable[[Dataset], Any],
    sensitivity: float,
    monotone: bool,
    cost: Budget,
    backend: Backend,
    label: str,
) -> Request:
    """Return a request for the choice of one candidate.

    Raises:
        ArgumentError: if the cost is too small for a choice.
        ChargeError: if the choice costs more than the charge.
    """
    scale = selection.noise_scale(cost, monotone)
    pure = not isinstance(cost, Rho | GDP)
    price = backend.selection_price(scale, selection.STEPS + 2, pure, monotone)
    charged = Fraction(cost.exact[0])
    if isinstance(cost, GDP):  # the backend prices in rho: compare at the bounded range that mu pays for
        charged = Fraction(selection.selection_epsilon(cost)) ** 2 / 8
    _check_price(label, price, charged, "epsilon" if pure else "rho")
    parameters = {"candidates": candidates, "sensitivity": float(sensitivity), "monotone": monotone}
    access = Choice(scores, candidates, sensitivity, scale, pure)
    return Request(Entry(label, "select", cost, parameters, backend.insecure), access)


def check_draws(candidates: int, moved: int, unit_power: int, draws: int) -> None:
    """Raise ArgumentError if draws with these parameters cannot be made."""
    if not 0 < candidates <= exponential.MOST_CANDIDATES:
        raise ArgumentError.of("candidates", candidates, f"at least 1, and at most {exponential.MOST_CANDIDATES}")
    if not exponential.LEAST_POWER <= unit_power <= 0 or moved < 1 or draws < 1:
        raise ArgumentError("draw needs moved and draws of at least 1, and a unit of 2^-60 to 1.")


def several_of(
    exponents: Callable[[Dataset], Any],
    candidates: int,
    moved: int,
    unit_power: int,
    draws: int,
    cost: Budget,
    backend: Backend,
    label: str,
) -> Request:
    """Return a request for draws.

    Raises:
        ChargeError: if the draws cost more than the charge.
    """
    bounded_range = 2 * moved * Fraction(2) ** unit_power
    if isinstance(cost, Rho):
        price, measure = draws * bounded_range**2 / 8, "rho"
    elif isinstance(cost, GDP):
        mu = choice_mu(float(min(bounded_range, 10**6)))
        price, measure = draws * (Fraction(mu) ** 2 if math.isfinite(mu) else 10**300), "mu^2"
    else:
        assert isinstance(cost, Epsilon | ApproxDP)
        price, measure = draws * bounded_range, "epsilon"
    _check_price(label, price, Fraction(cost.exact[0]), measure)
    parameters = {"candidates": candidates, "draws": draws, "moved": moved * 2.0**unit_power}
    access = Draws(lambda data: selection.checked_integers(exponents(data), candidates), unit_power, draws)
    return Request(Entry(label, "select", cost, parameters, backend.insecure), access)


def labels(
    counts: Callable[[Dataset], Mapping[str, int]],
    cost: Budget,
    delta: float,
    neighbors: Neighbors,
    backend: Backend,
    label: str,
) -> Request:
    """Return a request for labels that nobody listed.

    Raises:
        ArgumentError: if the budget is neither Rho nor Epsilon.
        ChargeError: if the noise costs more than the charge.
    """
    if type(cost) not in (Rho, Epsilon):
        raise ArgumentError.of("spend", cost, "Rho or Epsilon: a threshold is for noise on whole counts")
    noise = noise_for(cost, neighbors)
    least = threshold(noise, neighbors.records, delta)
    _check_noise(label, backend, noise, *charge_of(noise, cost, neighbors))
    parameters = {"noise": noise.name, "stddev": noise.stddev, "threshold": least, "delta": float(delta)}
    entry = Entry(label, "measure", cost, parameters, backend.insecure, float(delta))
    return Request(entry, FrequentLabels(counts, noise, least))


def rehearse(function: Callable[[Dataset], Any], count: int, domain: Domain, public_total: int | None) -> None:
    """Validate a function of the records by calling it with an empty dataset.

    Most errors of such functions appear there: 0 / 0, the mean of nothing. `Scores` are not called, as their public
    parts were checked. Nothing is called if the number of records is public, as the dataset cannot be empty then.

    Raises:
        ArgumentError: if the function raises an error or returns NaN; nothing was spent.
        ShapeError: if it does not return `count` numbers; nothing was spent.
    """
    if isinstance(function, Evaluated) or public_total is not None:
        return
    nobody = Dataset.from_codes(np.empty((0, len(domain)), dtype=np.int64), domain)
    try:
        selection.checked_numbers(function(nobody), count)
    except ShapeError:
        raise
    except Exception as error:
        found = "NaN" if isinstance(error, ScoreError) else f"{type(error).__name__}: {error}"
        raise ArgumentError(
            f"of a table without records the numbers cannot be computed ({found}). Nothing was spent, and no record "
            "was looked at. An empty table must have them, too."
        ) from None


def _check_noise(
    label: str, backend: Backend, noise: Noise, measure: str, sensitivity: float, charged: Fraction
) -> None:
    price = backend.price(noise, sensitivity, measure)
    _check_price(label, price, charged, {"zcdp": "rho", "pure": "epsilon"}[measure])


def _check_price(label: str, price: float | Fraction, charged: Fraction, measure: str) -> None:
    if not Fraction(price) <= charged:
        raise ChargeError.of(label, float(price), float(charged), measure)
