"""Requests: what a curator is asked, checked whole before anything is paid.

Each function here makes a `Request` of what a method of `Curator` was given: what the ledger is to say, the access that
answers it, and what a journal must know it by. Whatever can be refused without the records is refused here: names,
queries, shares, noise that cannot be stated, a price that the source of noise does not confirm, scores that are no
numbers. `payment` charges a request; only then is its access answered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError, ChargeError, MeasurementError, ScoreError, ShapeError
from pgmest.data.dataset import Dataset
from pgmest.measurements.files.query_format import encode_query
from pgmest.measurements.measurement import LARGEST_ANSWER, SMALLEST_STDDEV, LinearMeasurement
from pgmest.privacy import exponential, selection
from pgmest.privacy.accesses import Access, Choice, Draws, FrequentLabels, NoisyAnswers
from pgmest.privacy.bounded_range import choice_mu
from pgmest.privacy.budgets import GDP, ApproxDP, Budget, Epsilon, Rho
from pgmest.privacy.grid import on_grid
from pgmest.privacy.ledger import Entry
from pgmest.privacy.neighbors import Neighbors
from pgmest.privacy.noise import Backend, Noise, charge_of, noise_for, values_noise
from pgmest.privacy.scores import Evaluated
from pgmest.privacy.thresholds import threshold
from pgmest.queries import as_query
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor

NUMBER = "number of records"
"""What a measurement of no attributes is called."""


@dataclass(frozen=True)
class Request:
    """A request that was checked and can be paid for: nothing that comes after may fail but the records' files.

    Attributes:
        entry: what the ledger will say, with the cost.
        access: how it is answered.
        details: what tells it from others in a journal, besides the entry.
        question: of a measurement, with its noise, without answers yet.
    """

    entry: Entry
    access: Access
    details: Callable[[], Any] | None = None
    question: LinearMeasurement | None = None


@dataclass(frozen=True)
class Question:
    """A query about a marginal, checked against the domain.

    Attributes:
        unanswered: it, as a measurement without answers and noise; its query is on a grid.
        step: of the grid.
    """

    unanswered: LinearMeasurement
    step: float

    @classmethod
    def of(cls, domain: Domain, clique: Iterable[str] | str, query: Any) -> Question:
        """What is asked about a clique.

        Raises:
            UnknownAttributeError, MeasurementError, QueryError: it cannot be asked.
        """
        names = domain.clique(clique)
        matrix, step = on_grid(None if query is None else as_query(query))
        rows = domain.size(names) if matrix is None else matrix.rows
        question = LinearMeasurement(np.zeros(rows), names, query=matrix)
        question.check(domain)
        return cls(question, step)


def measurement(
    question: Question,
    cost: Budget,
    neighbors: Neighbors,
    backend: Backend,
    label: str,
    kind: str,
    table: Callable[[Dataset], Factor] | None = None,
) -> Request:
    """A request to measure.

    Args:
        question: what is asked.
        cost: what to charge.
        neighbors, backend: which noise that takes, and where it comes from.
        label, kind: what the ledger says.
        table: gives the marginal from the records, where it is counted together with others.

    Raises:
        ArgumentError: it costs nothing, or its noise cannot be stated.
        ChargeError: the noise costs more than is charged.
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
    """See that so many numbers of this sensitivity can be measured.

    Raises:
        ArgumentError: they cannot.
    """
    if not SMALLEST_STDDEV <= sensitivity <= LARGEST_ANSWER:
        raise ArgumentError.of("sensitivity", sensitivity, f"a number from {SMALLEST_STDDEV} to {LARGEST_ANSWER}")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ArgumentError.of("count", count, "a positive integer")


def numbers(
    values: Callable[[Dataset], Any], count: int, sensitivity: float, cost: Budget, backend: Backend, label: str
) -> Request:
    """A request for numbers computed from the records.

    Raises:
        ChargeError: the noise costs more than is charged.
    """
    noise, steps = values_noise(cost, count, sensitivity)
    _check_noise(label, backend, noise, *charge_of(noise, cost, steps=steps))
    parameters = {"values": count, "noise": noise.name, "stddev": noise.stddev, "grid": noise.step}
    access = NoisyAnswers(lambda data: selection.checked_numbers(values(data), count), noise)
    return Request(Entry(label, "measure", cost, parameters, backend.insecure), access)


def one_of(
    candidates: int,
    scores: Callable[[Dataset], Any],
    sensitivity: float,
    monotone: bool,
    cost: Budget,
    backend: Backend,
    label: str,
) -> Request:
    """A request for one of so many candidates.

    Raises:
        ArgumentError: the cost is too small for a choice.
        ChargeError: the choice costs more than is charged.
    """
    scale = selection.noise_scale(cost, monotone)
    pure = not isinstance(cost, Rho | GDP)
    price = backend.selection_price(scale, selection.STEPS + 2, pure, monotone)
    charged = Fraction(cost.exact[0])
    if isinstance(cost, GDP):  # of which the bounded range is known that `choice_mu` puts a price on
        charged = Fraction(selection.selection_epsilon(cost)) ** 2 / 8
    _check_price(label, price, charged, "epsilon" if pure else "rho")
    parameters = {"candidates": candidates, "sensitivity": float(sensitivity), "monotone": monotone}
    access = Choice(scores, candidates, sensitivity, scale, pure)
    return Request(Entry(label, "select", cost, parameters, backend.insecure), access)


def check_draws(candidates: int, moved: int, unit_power: int, draws: int) -> None:
    """See that such draws can be made.

    Raises:
        ArgumentError: they cannot.
    """
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
    """A request for draws.

    Raises:
        ChargeError: the draws cost more than is charged.
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
    """A request for labels that nobody listed.

    Raises:
        ArgumentError: another kind of budget than Rho or Epsilon.
        ChargeError: the noise costs more than is charged.
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
    """Call a function of the records with a table without records, which is as possible as any other.

    What is wrong with a function shows there more often than anywhere: 0 / 0, the mean of nothing. `Scores` need it
    not: what could be no number in them is public, and was checked. Nor is an empty table possible where the number of
    records is public.

    Raises:
        ArgumentError: it raises an error there, or gives numbers that are none. Nothing was spent.
        ShapeError: it does not give so many. Nothing was spent.
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
