"""Requests to a curator that choose: a candidate, records of a distribution, or labels (`pgmest.privacy.requests`)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError
from pgmest.privacy import exponential, selection
from pgmest.privacy.bounded_range import MARGIN, choice_mu
from pgmest.privacy.budgets import GDP, Epsilon, Rho
from pgmest.privacy.neighbors import Neighbors
from pgmest.privacy.noise import Backend, Noise, noise_for, steps_between
from pgmest.privacy.requests import Function, Noisy, Price, Request
from pgmest.privacy.thresholds import log_tail, threshold


class Choosing(Request):
    """A request that chooses by the records, once or several times."""

    draws = 1
    kind = "select"

    @abstractmethod
    def log_probabilities(self, data: Dataset) -> np.ndarray:
        """Return the log probabilities of all candidates, to the precision of floats."""

    def log_probability(self, answer: Any, data: Dataset) -> float:
        """Return the log probability of what was chosen."""
        return float(self.log_probabilities(data)[answer].sum())

    def loss(self, data: Dataset, other: Dataset) -> float:
        """Return the most that the choices cost together."""
        changes = self.log_probabilities(data) - self.log_probabilities(other)
        if isinstance(self.cost, Rho):
            return self.draws * float(np.ptp(changes)) ** 2 / 8
        if isinstance(self.cost, GDP):
            return self.draws * choice_mu(float(np.ptp(changes))) ** 2 / (1 + 4 * MARGIN) ** 2
        return self.draws * float(np.abs(changes).max())


@dataclass(frozen=True)
class Choice(Choosing):
    """A request for the choice of one of several candidates by their scores.

    Attributes:
        scores: a function of the records that returns a score for each candidate.
        candidates: the candidates.
        sensitivity: the largest change of a score between neighbors.
        monotone: whether all scores change in the same direction between neighbors.
    """

    scores: Function
    candidates: Sequence[Any]
    sensitivity: float
    monotone: bool = False

    @property
    def noise(self) -> tuple[float, bool]:
        """The scale of the noise on the scores, in steps, and whether it is that of pure differential privacy."""
        return selection.noise_scale(self.cost, self.monotone), not isinstance(self.cost, Rho | GDP)

    def parameters(self) -> dict[str, Any]:
        """Return the number of candidates, the sensitivity, and whether the scores are monotone."""
        monotone = {"monotone": self.monotone}
        return {"candidates": len(self.candidates), "sensitivity": float(self.sensitivity), **monotone}

    def price(self, backend: Backend) -> Price:
        """Return the price of the choice; mu is compared as rho, at the bounded range that it pays for."""
        scale, pure = self.noise
        price, most = backend.selection_price(scale, selection.STEPS + 2, pure, self.monotone), self.cost.exact[0]
        if isinstance(self.cost, GDP):
            most = Fraction(selection.selection_epsilon(self.cost)) ** 2 / 8
        return price, most, "epsilon" if pure else "rho"

    def details(self) -> Any:
        """Return the candidates."""
        return self.candidates

    def answer(self, data: Dataset, backend: Backend, number: int) -> int:
        """Return the position of the chosen candidate."""
        return backend.noisy_max(self._steps(data), *self.noise, number)

    def log_probabilities(self, data: Dataset) -> np.ndarray:
        """Return the log probabilities of all candidates."""
        return selection.log_probabilities(self._steps(data), *self.noise)

    def _steps(self, data: Dataset) -> np.ndarray:
        return selection.score_steps(self.scores(data), len(self.candidates), self.sensitivity)


@dataclass(frozen=True)
class Draws(Choosing):
    """A request for independent draws with probabilities proportional to exp(exponent * 2^unit_power).

    Attributes:
        exponents: a function of the records that returns an integer for each candidate.
        candidates: the number of candidates.
        moved: the largest change of an exponent between neighbors.
        unit_power: the power of two that is the unit of the exponents.
        draws: the number of draws.
    """

    exponents: Function
    candidates: int
    moved: int
    unit_power: int
    draws: int

    def parameters(self) -> dict[str, Any]:
        """Return the numbers of candidates and draws, and the largest change of an exponent."""
        return {"candidates": self.candidates, "draws": self.draws, "moved": self.moved * 2.0**self.unit_power}

    def price(self, backend: Backend) -> Price:
        """Return the price of all draws, each of which is an exponential mechanism."""
        if not 0 < self.candidates <= exponential.MOST_CANDIDATES:
            most = f"at least 1, and at most {exponential.MOST_CANDIDATES}"
            raise ArgumentError.of("candidates", self.candidates, most)
        if not exponential.LEAST_POWER <= self.unit_power <= 0 or self.moved < 1 or self.draws < 1:
            raise ArgumentError("draw needs moved and draws of at least 1, and a unit of 2^-60 to 1.")
        price, unit = 2 * self.moved * Fraction(2) ** self.unit_power, "epsilon"
        if isinstance(self.cost, Rho):
            price, unit = price**2 / 8, "rho"
        elif isinstance(self.cost, GDP):
            mu = choice_mu(float(min(price, 10**6)))
            price, unit = Fraction(mu) ** 2 if math.isfinite(mu) else Fraction(10**300), "mu^2"
        return self.draws * price, self.cost.exact[0], unit

    def answer(self, data: Dataset, backend: Backend, number: int) -> list[int]:
        """Return the positions that were drawn."""
        return backend.draw(self._exact(data), self.unit_power, self.draws, number)

    def log_probabilities(self, data: Dataset) -> np.ndarray:
        """Return the log probabilities of one draw."""
        return exponential.log_probabilities(self._exact(data), self.unit_power)

    def _exact(self, data: Dataset) -> np.ndarray:
        return selection.checked_integers(self.exponents(data), self.candidates)


@dataclass(frozen=True)
class Labels(Noisy):
    """A request for the labels that nobody listed and whose noisy count is at least a threshold
    (`pgmest.privacy.thresholds`).

    Attributes:
        counts: a function of the records that returns the positive count of each label that occurs.
        neighbors: the neighboring relation, which determines the noise.
        delta: the delta that is charged besides.
    """

    counts: Callable[[Dataset], Mapping[str, int]]
    neighbors: Neighbors
    delta: float = 0.0

    @cached_property
    def noise(self) -> Noise:
        """The noise on each count, a whole number."""
        if type(self.cost) not in (Rho, Epsilon):
            raise ArgumentError.of("spend", self.cost, "Rho or Epsilon: a threshold is for noise on whole counts")
        return noise_for(self.cost, self.neighbors)

    @property
    def apart(self) -> float:
        """The sensitivity of the counts, computed once more."""
        return steps_between(self.neighbors, None, self.noise.step, self.noise.pure)

    @cached_property
    def least(self) -> int:
        """The least noisy count of a label that is released."""
        return threshold(self.noise, self.neighbors.records, self.delta)

    def public(self) -> dict[str, Any]:
        """Return the threshold and the delta."""
        return {"threshold": self.least, "delta": float(self.delta)}

    def answer(self, data: Dataset, backend: Backend, number: int) -> list[str]:
        """Return the released labels in alphabetical order."""
        labels, exact = self._counted(data)
        noisy = backend.add_noise(exact, self.noise, number) if labels else ()
        return [label for label, count in zip(labels, noisy, strict=True) if count >= self.least]

    def differences(self, data: Dataset, other: Dataset) -> np.ndarray:
        """Return the differences of the counts of the labels that both have."""
        one, two = self.counts(data), self.counts(other)
        return np.array([one[label] - two[label] for label in one.keys() & two.keys()])

    def log_probability(self, answer: Any, data: Dataset) -> float:
        """Return the log probability; it is that of 0 if a label is released that the records do not have."""
        labels, exact = self._counted(data)
        if not set(answer) <= set(labels):
            return -math.inf
        above = log_tail(self.noise, self.least - exact)
        shown = np.array([label in answer for label in labels], dtype=bool)
        with np.errstate(divide="ignore"):
            return float(np.where(shown, above, np.log(-np.expm1(above))).sum())

    def _counted(self, data: Dataset) -> tuple[list[str], np.ndarray]:
        """Return the labels in alphabetical order and their exact counts."""
        counts = self.counts(data)
        labels = sorted(counts)
        return labels, np.array([counts[label] for label in labels], dtype=np.float64)
