"""Accesses: the few ways in which private records are looked at, each with the probability of what it answers.

A curator is the only one to make and answer them. That each knows the probability of its answers, about whichever
records, is for audits: the ratio of two of them is what was told of the difference (`pgmest.privacy.transcript`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.privacy import exponential, selection
from pgmest.privacy.noise import Backend, Noise, in_steps

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
class OwnMechanism:
    """A mechanism of the caller's own, of which nothing is known."""

    mechanism: Callable[[Dataset, np.random.Generator], Any]

    def answer(self, data: Dataset, backend: Backend, request: int) -> Any:
        """See `Access`."""
        return self.mechanism(data, backend.generator(request))

    def log_ratio(self, answer: Any, data: Dataset, other: Dataset) -> float:
        """Not a number: it is not known."""
        return math.nan
