"""Accesses: the few ways in which private records are looked at, each with the probability of what it answers.

A curator is the only one to make and answer them. That each knows the probability of its answers, about whichever
records, is for audits: the ratio of two of them is what was revealed of the difference (`pgmest.privacy.transcript`).
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
        """What is released; `request` numbers the questions of a curator."""
        ...

    def log_ratio(self, answer: Any, data: Dataset, other: Dataset) -> float:
        """The log of how much more likely the answer is about `data` than about `other`."""
        ...


@dataclass(frozen=True)
class NoisyAnswers:
    """Numbers in counts that are multiples of the noise's step, each with noise; or none where nothing moves them."""

    exact: Callable[[Dataset], np.ndarray]
    noise: Noise

    def answer(self, data: Dataset, backend: Backend, request: int) -> list[float]:
        """See `Access`."""
        exact = self.exact(data)
        return (exact if self.noise.exact else backend.add_noise(exact, self.noise, request)).tolist()

    def log_ratio(self, answer: Any, data: Dataset, other: Dataset) -> float:
        """See `Access`; exact for both discrete distributions."""
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
        """How far apart the answers about the two are, in scales of the noise: l1 for Laplace, l2 for Gaussian."""
        step = self.noise.step
        apart = (in_steps(self.exact(data), step) - in_steps(self.exact(other), step)).astype(np.float64)
        if self.noise.exact:
            return math.inf if apart.any() else 0.0
        order = 1 if self.noise.kind == "discrete_laplace" else 2
        return float(np.linalg.norm(apart, order)) / (self.noise.scale / step)


@dataclass(frozen=True)
class Choice:
    """One of several candidates, by their scores."""

    scores: Function
    candidates: int
    sensitivity: float
    scale: float
    pure: bool

    def answer(self, data: Dataset, backend: Backend, request: int) -> int:
        """See `Access`."""
        return backend.noisy_max(self._steps(data), self.scale, self.pure, request)

    def log_ratio(self, answer: Any, data: Dataset, other: Dataset) -> float:
        """See `Access`."""
        return self.log_probability(answer, data) - self.log_probability(answer, other)

    def log_probability(self, answer: int, data: Dataset) -> float:
        """Of one candidate, to the precision of floats."""
        return float(selection.log_probabilities(self._steps(data), self.scale, self.pure)[answer])

    def log_probabilities(self, data: Dataset) -> np.ndarray:
        """Of all candidates."""
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
        """See `Access`."""
        return backend.draw(self.exponents(data), self.unit_power, self.draws, request)

    def log_ratio(self, answer: Any, data: Dataset, other: Dataset) -> float:
        """See `Access`."""
        one, two = (
            exponential.log_probabilities(self.exponents(records), self.unit_power) for records in (data, other)
        )
        return float((one - two)[list(answer)].sum())


@dataclass(frozen=True)
class FrequentLabels:
    """Of labels that nobody listed those whose noisy count is at least a threshold (`pgmest.privacy.thresholds`).

    Attributes:
        counts: called with the records, gives how many have each label that occurs; never zero.
        noise: on each count, whole.
        threshold: the least noisy count of a label that is released.
    """

    counts: Callable[[Dataset], Mapping[str, int]]
    noise: Noise
    threshold: int

    def answer(self, data: Dataset, backend: Backend, request: int) -> list[str]:
        """See `Access`; in the order of the alphabet."""
        counts = self.counts(data)
        labels = sorted(counts)
        if not labels:
            return []
        exact = np.array([counts[label] for label in labels], dtype=np.float64)
        noisy = backend.add_noise(exact, self.noise, request)
        return [label for label, count in zip(labels, noisy, strict=True) if count >= self.threshold]

    def log_ratio(self, answer: Any, data: Dataset, other: Dataset) -> float:
        """See `Access`; infinite where a label is released that only one of the two has."""
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
        """How far apart the counts of the labels that both have are, in scales of the noise, as for noisy answers."""
        one, two = self.counts(data), self.counts(other)
        apart = np.array([one[label] - two[label] for label in one.keys() & two.keys()], dtype=np.float64)
        order = 1 if self.noise.kind == "discrete_laplace" else 2
        return float(np.linalg.norm(apart, order)) / self.noise.scale if apart.size else 0.0

    def exclusive(self, data: Dataset, other: Dataset) -> float:
        """The probability that a label is released that `data` has and `other` has not, at most: their sum."""
        one, two = self.counts(data), self.counts(other)
        least = [self.threshold - one[label] for label in one.keys() - two.keys()]
        return float(np.exp(log_tail(self.noise, np.array(least))).sum()) if least else 0.0


@dataclass(frozen=True)
class OwnMechanism:
    """A mechanism of the caller's own, of which nothing is known."""

    mechanism: Callable[[Dataset, np.random.Generator], Any]

    def answer(self, data: Dataset, backend: Backend, request: int) -> Any:
        """See `Access`."""
        return self.mechanism(data, backend.generator(request))

    def log_ratio(self, answer: Any, data: Dataset, other: Dataset) -> float:
        """Not a number: it is not known."""
        return math.nan
