r"""Error bars: the standard error of an answer from the noise of the measurements, by a parametric bootstrap.

The model takes the place of the truth. It answers the measured queries, fresh noise of the measurements' own kind and
size is added, and a model is estimated from the result in the same way. The answers of many such *replicates* scatter
around the model's answer as the model's answer does around the truth. Their root-mean-square distance from the model's
answer, bias included, is the standard error.

The delta method, through the curvature of the estimate, would be cheaper for single answers, but it takes the estimate
for a linear function of the measurements. Near zero the estimate is not linear: counts cannot be negative, so that
cells are held at zero and their noise moves to other cells. Most cells of most tables are small. In
`experiments/results/coverage.md` the intervals of the delta method are wider by up to a half and cover too often, while
those of replicates have the right width. Replicates also serve every method and loss, nonlinear functions, and any
number of queries.

The error bars cover the noise, including that of an estimated total, and the bias of the estimate at small counts. They
do not cover

- structure that was not measured: a model without the pair (a, b) implies some dependence of a and b, every replicate
  implies the same, and the scatter does not show how wrong it is;
- the choice of what to measure, if a mechanism made it by looking at the data;
- sampling: the truth is the table that was measured, not the population from which it came;
- noise other than stated.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from pgmest._base.progress import announce, progress
from pgmest.errors import ArgumentError, at_least
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.measurements.noise import discrete_laplace, noise_scale
from pgmest.models.intervals import check_level
from pgmest.models.question import Question
from pgmest.models.refittable import Refittable, estimated_from
from pgmest.solvers.status import Status
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.factor import Factor

LOOSE = 1e-2
"""The tolerance of the replicates' solvers; tighter ones move answers by less than a tenth of the noise's deviation."""

FEWEST = 2
"""The fewest replicates that have a scatter."""


@dataclass(frozen=True)
class Uncertainty:
    """An answer and how far it may be from the truth because of noise, in the units of the answer.

    Attributes:
        answer: the model's answer.
        stddev: the standard error: the root-mean-square distance of the replicates' answers from it, bias included.
        bias: the mean of the replicates' answers minus the answer.
        replicates: the number of replicates.
    """

    answer: Factor
    stddev: Factor
    bias: Factor
    replicates: int

    @classmethod
    def of(cls, answer: Factor, replicated: Sequence[Factor]) -> Uncertainty:
        """Summarize the answers of the replicates."""
        differences = np.stack([replicate.values for replicate in replicated]) - answer.values
        return cls(
            answer,
            Factor.owning(answer.domain, np.sqrt(np.mean(differences**2, axis=0))),
            Factor.owning(answer.domain, np.mean(differences, axis=0)),
            len(differences),
        )

    def interval(self, level: float = 0.95) -> tuple[Factor, Factor]:
        """Return the ends of an interval that contains the truth with probability `level`: answer -/+ z stddev.

        The interval may extend below zero.

        Raises:
            ArgumentError: `level` is not between 0 and 1.
        """
        check_level(level)
        reach = NormalDist().inv_cdf(0.5 + 0.5 * level) * self.stddev
        return self.answer - reach, self.answer + reach


@dataclass(frozen=True, eq=False)
class Replicates:
    """Models estimated from a model's answers plus fresh noise, kept as their potentials and totals.

    Attributes:
        asked: the number of replicates requested; there are fewer if Ctrl-C stopped them.
        seed: the seed of the fresh noise.
        estimates: the potentials and the total of each replicate.
    """

    asked: int
    seed: int
    estimates: tuple[tuple[CliqueVector, float], ...]


def uncertainty_of(
    model: Refittable,
    query: Any,
    clique: Iterable[str] | str | None = None,
    given: Mapping[str, int] | None = None,
    *,
    replicates: int = 50,
    seed: int = 0,
) -> Uncertainty:
    """Return the standard error of an answer of a model that `estimate` returned.

    This is `Model.uncertainty`, with its arguments and errors, for every kind of model that can be estimated again.
    """
    at_least("replicates", replicates, FEWEST)
    question = Question.of(model.domain, query, clique, given)
    answer = question.answered(model)
    found = model.kept.replicates
    if found is None or (found.asked, found.seed) != (replicates, seed):
        found = replicate(model, replicates, seed)
        model.kept.replicates = found
    refit, _ = estimated_from(model, "error bars")
    twins = (model.of_potentials(potentials, total, refit.plan) for potentials, total in found.estimates)
    return Uncertainty.of(answer, [question.answered(twin) for twin in twins])


def replicate(model: Refittable, count: int, seed: int) -> Replicates:
    """Estimate `count` models from a model's answers plus fresh noise, in the way in which the model was estimated.

    Ctrl-C stops early and returns the replicates so far if there are at least two.

    Raises:
        ArgumentError: the model has lost its measurements, or its loss contains the answers.
    """
    refit, measurements = estimated_from(model, "error bars")
    if not refit.repeatable:
        raise ArgumentError(
            "this model was estimated with a loss that contains the answers, so the loss cannot be made again from "
            "other answers: give estimate(loss=...) a name, or a function of measurements and domain that makes the "
            "loss."
        )
    generator, oracle = np.random.default_rng(seed), refit.oracle()
    exact = [model.answer(measurement).datavector() for measurement in measurements]
    estimates: list[tuple[CliqueVector, float]] = []
    started = time.perf_counter()
    with progress("estimating replicates", count) as more:
        for done in range(count):
            if done == 1:
                announce("estimating replicates", (count - 1) * (time.perf_counter() - started))
            drawn = [redraw(m, answers, generator) for m, answers in zip(measurements, exact, strict=True)]
            potentials, total, report = refit.repeat(drawn, oracle, max(refit.tolerance, LOOSE))
            if report.status is Status.INTERRUPTED:
                if len(estimates) < FEWEST:
                    raise KeyboardInterrupt
                break
            estimates.append((potentials, total))
            more(1)
    return Replicates(count, seed, tuple(estimates))


def redraw(measurement: LinearMeasurement, answers: np.ndarray, generator: np.random.Generator) -> LinearMeasurement:
    """Return the measurement with fresh noise, as if `answers` were the exact answers.

    A model's answers are not integers. Therefore discrete Gaussian noise is drawn from the Gaussian of the same
    parameter.
    """
    if measurement.base is not None:
        return _rounded_again(measurement, measurement.base, answers, generator)
    if measurement.low is not None and measurement.high is not None:
        return _shifted(measurement, measurement.low, measurement.high, answers, generator)
    scale = noise_scale(measurement.noise, measurement.stddev)
    if measurement.noise == "laplace":
        noise = generator.laplace(0.0, scale, len(answers))
    elif measurement.noise == "discrete_laplace":
        noise = discrete_laplace(scale, len(answers), generator)
    else:
        noise = generator.normal(0.0, scale, len(answers))
    return LinearMeasurement(
        answers + noise, measurement.clique, measurement.stddev, measurement.query, measurement.noise
    )


def _rounded_again(
    measurement: LinearMeasurement, base: float, answers: np.ndarray, generator: np.random.Generator
) -> LinearMeasurement:
    """Round exact answers at random to multiples of the base, as the published ones were."""
    below = np.floor(answers / base)
    up = generator.random(len(answers)) < answers / base - below
    return LinearMeasurement.rounded(base * (below + up), measurement.clique, base, measurement.query, random=True)


def _shifted(
    measurement: LinearMeasurement,
    low: np.ndarray,
    high: np.ndarray,
    answers: np.ndarray,
    generator: np.random.Generator,
) -> LinearMeasurement:
    """Return ends as far apart as those of the measurement, with the answers uniformly between them.

    Open ends, and facts, whose ends are equal, stay as they are.
    """
    closed = np.isfinite(high) & (high > low)
    widths = np.where(closed, np.where(closed, high, low) - low, 0.0)
    starts = np.where(closed, answers - generator.uniform(size=len(answers)) * widths, low)
    ends = np.where(closed, starts + widths, high)
    return LinearMeasurement.between(starts, ends, measurement.clique, measurement.query)
