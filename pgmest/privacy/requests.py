"""Requests to a curator: the few ways in which private records are looked at. Each class is one way.

A request has its price, its answer from the records, and the probability of an answer for any records. `entry` checks
it completely before anything is paid: shares, noise that cannot be stated, and a price that the source of noise does
not confirm. A curator makes a request, `account` charges its entry, and only then the request is answered.

Audits use the ratio of the probabilities of an answer for two tables, which is what the answer revealed of their
difference (`pgmest.privacy.transcript`). Requests that choose are in `choices`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, ChargeError, MeasurementError
from pgmest.measurements.files.query_format import encode_query
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.privacy import selection
from pgmest.privacy.budgets import GDP, Budget, is_pure
from pgmest.privacy.grid import on_grid
from pgmest.privacy.ledger import Entry
from pgmest.privacy.neighbors import Neighbors
from pgmest.privacy.noise import Backend, Noise, in_steps, most_of, noise_for, steps_between, values_noise
from pgmest.queries import as_query
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor

Function = Callable[[Dataset], Any]

Price = tuple[float | Fraction, Fraction, str]
"""A price, the most that it may be, and the unit of both."""


@dataclass(frozen=True)
class Request(ABC):
    """One look at the records.

    Attributes:
        label: the name of the request.
        cost: the charge, which can be afforded.
    """

    label: str
    cost: Budget

    kind = "measure"
    delta = 0.0
    secure = True

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the public parameters, for the ledger."""

    @abstractmethod
    def price(self, backend: Backend) -> Price:
        """Return the price of the answer by the source of its noise, and what is charged for it.

        Raises:
            ArgumentError: if the request cannot be answered at this cost.
        """

    @abstractmethod
    def answer(self, data: Dataset, backend: Backend, number: int) -> Any:
        """Return what is released.

        Args:
            data: the records.
            backend: the source of noise.
            number: the number of the request among those of its curator.
        """

    def details(self) -> Any:
        """Return what distinguishes the request in a journal, besides its entry."""
        return None

    def log_probability(self, answer: Any, data: Dataset) -> float:
        """Return the log of the probability of an answer, up to a constant; NaN if it is not known."""
        return math.nan

    def log_ratio(self, answer: Any, data: Dataset, other: Dataset) -> float:
        """Return the log of the probability of the answer given `data`, less that given `other`; NaN if not known."""
        one, two = (self.log_probability(answer, records) for records in (data, other))
        return 0.0 if one == two == -math.inf else one - two

    def loss(self, data: Dataset, other: Dataset) -> float:
        """Return the privacy loss between two tables in the unit of the cost: rho, mu^2 or epsilon; NaN if not known.

        - Gaussian noise: with d the distance of the exact answers in standard deviations, d^2 / 2 for rho and d^2 for
          mu^2.
        - Laplace noise: the distance in scales.
        - Choices and draws: for epsilon the largest change of a log probability; for rho an eighth of the squared range
          of these changes, the most that a choice by the exponential mechanism costs (Cesar, Rogers 2021).
        - Frequent labels: the loss of the noise on the counts of labels that both have. The delta covers the others.
        """
        return math.nan

    def entry(self, backend: Backend) -> Entry:
        """Return the entry for the ledger. After this only reading the records may fail.

        Raises:
            ChargeError: if the answer costs more than the charge.
            ArgumentError: if the request cannot be answered.
        """
        _check_price(self.label, *self.price(backend))
        insecure = backend.insecure or not self.secure
        return Entry(self.label, self.kind, self.cost, self.parameters(), insecure, self.delta)


class Noisy(Request):
    """A request that adds noise to exact numbers."""

    noise: Noise
    apart: float  # the sensitivity of the numbers in steps of the noise

    @abstractmethod
    def public(self) -> dict[str, Any]:
        """Return the public parameters but for those of the noise."""

    @abstractmethod
    def differences(self, data: Dataset, other: Dataset) -> np.ndarray:
        """Return the exact numbers about `data`, less those about `other`, in steps."""

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters and those of the noise."""
        grid = {} if self.noise.step == 1.0 else {"grid": self.noise.step}
        return {**self.public(), "noise": self.noise.name, "stddev": self.noise.stddev, **grid}

    def price(self, backend: Backend) -> Price:
        """Return the price of the noise; nothing if no individual moves the numbers."""
        noise = self.noise
        if noise.exact:
            return 0, Fraction(0), "rho"
        return backend.price(noise, self.apart), most_of(noise, self.cost), "epsilon" if noise.pure else "rho"

    def loss(self, data: Dataset, other: Dataset) -> float:
        """Return the loss of the noise."""
        noise, apart = self.noise, self.differences(data, other).astype(np.float64)
        if noise.exact:
            return math.inf if apart.any() else 0.0
        moved = float(np.linalg.norm(apart, 1 if noise.pure else 2)) / (noise.scale / noise.step)
        return moved if noise.pure else moved**2 / (1 if isinstance(self.cost, GDP) else 2)


class Numbers(Noisy):
    """A request for numbers in counts, each with noise; without noise if no individual moves them."""

    @abstractmethod
    def exact(self, data: Dataset) -> np.ndarray:
        """Return the exact numbers."""

    def answer(self, data: Dataset, backend: Backend, number: int) -> list[float]:
        """Return the noisy numbers."""
        exact = self.exact(data)
        return (exact if self.noise.exact else backend.add_noise(exact, self.noise, number)).tolist()

    def differences(self, data: Dataset, other: Dataset) -> np.ndarray:
        """Return the differences of the numbers, rounded to the grid."""
        return in_steps(self.exact(data), self.noise.step) - in_steps(self.exact(other), self.noise.step)

    def log_probability(self, answer: Any, data: Dataset) -> float:
        """Return the log probability, which is exact for both discrete distributions."""
        noise = self.noise
        far = np.abs(np.rint(np.array(answer) / noise.step) - in_steps(self.exact(data), noise.step))
        if noise.exact:
            return -math.inf if far.any() else 0.0
        far = far / (noise.scale / noise.step)
        return -float(far.sum() if noise.pure else (far**2).sum() / 2)


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


@dataclass(frozen=True)
class Measurement(Numbers):
    """A request for noisy answers to a query about a marginal.

    Attributes:
        question: the question.
        neighbors: the neighboring relation, which determines the noise.
        table: a function that gives the marginal from the records, if it is counted together with others.
        kind: the kind of request in the ledger.
    """

    question: Question
    neighbors: Neighbors
    table: Callable[[Dataset], Factor] | None = None
    kind: str = "measure"

    @cached_property
    def noise(self) -> Noise:
        """The noise that the charge pays for."""
        if not self.cost:
            raise ArgumentError.of("spend", self.cost, f"more, or other weights: the share of {self.label} is nothing")
        return noise_for(self.cost, self.neighbors, self.question.unanswered.query, self.question.step)

    @property
    def apart(self) -> float:
        """The sensitivity of the answers in steps, computed once more."""
        return steps_between(self.neighbors, self.question.unanswered.query, self.noise.step, self.noise.pure)

    @cached_property
    def asked(self) -> LinearMeasurement:
        """The measurement with its noise and without answers.

        Raises:
            ArgumentError: if the noise cannot be stated.
        """
        one, noise = self.question.unanswered, self.noise
        try:
            return LinearMeasurement(one.values, one.clique, noise.stddev, one.query, noise.name)
        except MeasurementError as error:
            why = f"the noise on {self.label} cannot be stated: {error} Multiply the query's entries."
            raise ArgumentError(why) from None

    def public(self) -> dict[str, Any]:
        """Return the clique and the query."""
        query = self.asked.query
        return {"clique": list(self.asked.clique), **({} if query is None else {"query": str(query)})}

    def details(self) -> Any:
        """Return the query."""
        query = self.asked.query
        return None if query is None else encode_query(query, np.ndarray.tolist)

    def exact(self, data: Dataset) -> np.ndarray:
        """Return the exact answers."""
        return self.asked.answer(self.table(data) if self.table else data.project(self.asked.clique))


@dataclass(frozen=True)
class Values(Numbers):
    """A request for numbers computed from the records.

    Attributes:
        values: a function of the records that returns the numbers.
        count: the number of numbers.
        noise: the noise on them.
        apart: the sensitivity of all of them together, in steps of the noise.
    """

    values: Function
    count: int
    noise: Noise
    apart: float

    def public(self) -> dict[str, Any]:
        """Return the number of numbers and the grid."""
        return {"values": self.count, "grid": self.noise.step}

    def exact(self, data: Dataset) -> np.ndarray:
        """Return the exact numbers."""
        return selection.checked_numbers(self.values(data), self.count)


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
    values: Function

    def request(self, cost: Budget, neighbors: Neighbors) -> Values:
        """Return a request for the numbers.

        Without negative numbers, vectors of length 1 are at most sqrt(2) apart in l2, and 2 in l1: as the cells that a
        replaced record leaves and enters. So the sensitivities are those of a marginal.
        """
        apart = neighbors.l1_sensitivity() if is_pure(cost) else neighbors.l2_sensitivity()
        return Values(self.label, cost, self.values, self.count, *values_noise(cost, self.count, apart, together=True))


@dataclass(frozen=True)
class Own(Request):
    """A request for the output of a mechanism of the caller, about which nothing is known.

    Attributes:
        mechanism: a function of the records and a generator.
        secure: whether its randomness is secure.
    """

    mechanism: Callable[[Dataset, np.random.Generator], Any]
    secure: bool

    kind = "release"

    def parameters(self) -> dict[str, Any]:
        """Return the source of the noise."""
        return {"noise": "the caller's"}

    def price(self, backend: Backend) -> Price:
        """Return the charge, as the caller promises."""
        return self.cost.exact[0], self.cost.exact[0], "budget"

    def answer(self, data: Dataset, backend: Backend, number: int) -> Any:
        """Return the output of the mechanism."""
        return self.mechanism(data, backend.generator(number))


def _check_price(label: str, price: float | Fraction, most: Fraction, unit: str) -> None:
    if not Fraction(price) <= most:
        raise ChargeError.of(label, float(price), float(most), unit)
