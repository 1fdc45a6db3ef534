"""Accesses: the few ways in which private records are looked at, each with the probability of its answers.

Only a curator makes and answers them. Each access can compute the probability of an answer for any records; audits
use the ratio of two of these, which is what the answer revealed of a difference (`pgmest.privacy.transcript`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.privacy import exponential, selection
from pgmest.privacy.noise import Backend, Noise, in_steps
from pgmest.privacy.thresholds import log_tail

Function = Callable[[Dataset], Any]


class Access(Protocol):
    """One look at the records."""

    def answer(self, data: Dataset, backend: Backend, request: int) -> Any:
        """Return what is released.

        Args:
            data: the records.
            backend: the source of noise.
            request: the number of the request among those of its curator.
        """
        ...

    def log_ratio(self, answer: Any, data: Dataset, other: Dataset) -> float:
        """Return the log of the probability of the answer given `data`, less that given `other`."""
        ...


@dataclass(frozen=True)
class NoisyAnswers:
    """Numbers in counts, multiples of the noise's step, each with noise; without noise if no individual moves them."""

    exact: Callable[[Dataset], np.ndarray]
    noise: Noise

    def answer(self, data: Dataset, backend: Backend, request: int) -> list[float]:
        """Return the noisy numbers."""
        exact = self.exact(data)
        return (exact if self.noise.exact else backend.add_noise(exact, self.noise, request)).tolist()

    def log_ratio(self, answer: Any, data: Dataset, other: Dataset) -> float:
        """Return the log likelihood ratio, which is exact for both discrete distributions."""
        step = self.noise.step
        if self.noise.exact:
            same = np.array_equal(in_steps(self.exact(data), step), in_steps(self.exact(other), step))
            return 0.0 if same else math.inf
        seen, scale = np.rint(np.array(answer) / step), self.noise.scale / step
        losses = []
        for records in (data, other):
            far = np.abs(seen - in_steps(self.exact(records), step)) / scale
            losses.append(far.sum() if self.noise.kind == "discrete_laplace" else (far**2).sum() / 2)
        return float(losses[1] - losses[0])

    def moved(self, data: Dataset, other: Dataset) -> float:
        """Return the distance of the exact answers in scales of the noise: l1 for Laplace noise, l2 for Gaussian."""
        step = self.noise.step
        apart = (in_steps(self.exact(data), step) - in_steps(self.exact(other), step)).astype(np.float64)
        if self.noise.exact:
            return math.inf if apart.any() else 0.0
        order = 1 if self.noise.kind == "discrete_laplace" else 2
        return float(np.linalg.norm(apart, order)) / (self.noise.scale / step)


@dataclass(frozen=True)
class Choice:
    """The choice of one of several candidates by their scores."""

    scores: Function
    candidates: int
    sensitivity: float
    scale: float
    pure: bool

    def answer(self, data: Dataset, backend: Backend, request: int) -> int:
        """Return the position of the chosen candidate."""
        return backend.noisy_max(self._steps(data), self.scale, self.pure, request)

    def log_ratio(self, answer: Any, data: Dataset, other: Dataset) -> float:
        """Return the log likelihood ratio of the choice."""
        return self.log_probability(answer, data) - self.log_probability(answer, other)

    def log_probability(self, answer: int, data: Dataset) -> float:
        """Return the log probability of one candidate, to the precision of floats."""
        return float(selection.log_probabilities(self._steps(data), self.scale, self.pure)[answer])

    def log_probabilities(self, data: Dataset) -> np.ndarray:
        """Return the log probabilities of all candidates."""
        return selection.log_probabilities(self._steps(data), self.scale, self.pure)

    def _steps(self, data: Dataset) -> np.ndarray:
        return selection.score_steps(self.scores(data), self.candidates, self.sensitivity)


@dataclass(frozen=True)
class Draws:
    """Independent draws with probabilities proportional to exp(exponent * unit), of integer exponents."""

    exponents: Callable[[Dataset], np.ndarray]
    unit_power: int
    draws: int

    def answer(self, data: Dataset, backend: Backend, request: int) -> list[int]:
        """Return the positions that were drawn."""
        return backend.draw(self.exponents(data), self.unit_power, self.draws, request)

    def log_ratio(self, answer: Any, data: Dataset, other: Dataset) -> float:
        """Return the log likelihood ratio of the draws."""
        one, two = (
            exponential.log_probabilities(self.exponents(records), self.unit_power) for records in (data, other)
        )
        return float((one - two)[list(answer)].sum())


@dataclass(frozen=True)
class FrequentLabels:
    """The labels that nobody listed and whose noisy count is at least a threshold (`pgmest.privacy.thresholds`).

    Attributes:
        counts: a function of the records that returns the positive count of each label that occurs.
        noise: the noise on each count, a whole number.
        threshold: the least noisy count of a label that is released.
    """

    counts: Callable[[Dataset], Mapping[str, int]]
    noise: Noise
    threshold: int

    def answer(self, data: Dataset, backend: Backend, request: int) -> list[str]:
        """Return the released labels in alphabetical order."""
        counts = self.counts(data)
        labels = sorted(counts)
        if not labels:
            return []
        exact = np.array([counts[label] for label in labels], dtype=np.float64)
        noisy = backend.add_noise(exact, self.noise, request)
        return [label for label, count in zip(labels, noisy, strict=True) if count >= self.threshold]

    def log_ratio(self, answer: Any, data: Dataset, other: Dataset) -> float:
        """Return the log likelihood ratio; it is infinite if a label is released that only one of the two has."""
        one, two = (self._log_probability(set(answer), self.counts(records)) for records in (data, other))
        return 0.0 if one == two == -math.inf else one - two

    def _log_probability(self, answer: set[str], counts: Mapping[str, int]) -> float:
        if not answer <= counts.keys():
            return -math.inf
        above = log_tail(self.noise, self.threshold - np.array([counts[label] for label in sorted(counts)]))
        shown = np.array([label in answer for label in sorted(counts)], dtype=bool)
        with np.errstate(divide="ignore"):
            return float(np.where(shown, above, np.log(-np.expm1(above))).sum())

    def moved(self, data: Dataset, other: Dataset) -> float:
        """Return the distance of the counts of the labels that both have, in scales of the noise."""
        one, two = self.counts(data), self.counts(other)
        apart = np.array([one[label] - two[label] for label in one.keys() & two.keys()], dtype=np.float64)
        order = 1 if self.noise.kind == "discrete_laplace" else 2
        return float(np.linalg.norm(apart, order)) / self.noise.scale if apart.size else 0.0

    def exclusive(self, data: Dataset, other: Dataset) -> float:
        """Return an upper bound on the probability that a label is released that only `data` has: a union bound."""
        one, two = self.counts(data), self.counts(other)
        least = [self.threshold - one[label] for label in one.keys() - two.keys()]
        return float(np.exp(log_tail(self.noise, np.array(least))).sum()) if least else 0.0


@dataclass(frozen=True)
class OwnMechanism:
    """A mechanism of the caller, about which nothing is known."""

    mechanism: Callable[[Dataset, np.random.Generator], Any]

    def answer(self, data: Dataset, backend: Backend, request: int) -> Any:
        """Return the output of the mechanism."""
        return self.mechanism(data, backend.generator(request))

    def log_ratio(self, answer: Any, data: Dataset, other: Dataset) -> float:
        """Return NaN: the ratio is not known."""
        return math.nan
