r"""Error bars: how far the noise of the measurements can have moved an answer.

A parametric bootstrap. The model stands in for the truth: it answers the questions that were measured, fresh noise of
the measurements' own kind and size is added, and a model is estimated from that in the same way. The answers of many
such *replicates* scatter around the model's answer as the model's answer does around the truth. Their root-mean-square
distance from it, bias included, is the standard error.

The delta method, through the curvature of the estimate, would be cheaper for single answers, but it takes the estimate
for a linear function of the measurements. Near zero it is not: no count is negative, which holds cells at zero, takes
noise out of them, and shifts what it takes onto others; and most cells of most tables are small. In
`experiments/results/coverage.md` its intervals are wider, by up to a half, and hold the truth too often; those of
replicates are as wide as they must be. Replicates also serve every method and loss, functions that are not linear, and
any number of questions for the price of one estimate each.

What the error bars cover is the noise, the total's included where it was estimated, and the bias that the estimate has
where counts are small. They do not cover

- structure that was not measured: a model without the pair (a, b) has its own idea of how a and b depend, every
  replicate has the same idea, and their scatter does not tell how wrong it is;
- the choice of what to measure, where a mechanism made it by looking at the data;
- sampling: the truth is the table that was measured, not a population that it came from;
- noise other than stated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.errors import ArgumentError, QueryError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.measurements.noise import discrete_laplace, noise_scale
from pgmest.models.distribution import Distribution
from pgmest.solvers.status import Status
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.factor import Factor

if TYPE_CHECKING:
    from pgmest.solvers.refit import Refit

LOOSE = 1e-2
"""Replicates need not be solved further than this tolerance: within a tenth of a standard deviation of the noise."""

FEWEST = 2


@dataclass(frozen=True)
class Uncertainty:
    """An answer and how far it may be from the truth because of noise; all in the units of the answer.

    Attributes:
        answer: the model's own.
        stddev: the standard error: root-mean-square distance of the replicates' answers from it, bias included.
        bias: the mean of the replicates' answers minus the answer.
        replicates: how many there were.
    """

    answer: Factor
    stddev: Factor
    bias: Factor
    replicates: int

    @classmethod
    def of(cls, answer: Factor, replicated: Sequence[Factor]) -> Uncertainty:
        """From the answers of the replicates."""
        differences = np.stack([replicate.values for replicate in replicated]) - answer.values
        return cls(
            answer,
            Factor.owning(answer.domain, np.sqrt(np.mean(differences**2, axis=0))),
            Factor.owning(answer.domain, np.mean(differences, axis=0)),
            len(differences),
        )

    def interval(self, level: float = 0.95) -> tuple[Factor, Factor]:
        """The ends of an interval that is to hold the truth with probability `level`: answer -/+ z stddev.

        It is not cut off at zero.

        Raises:
            ArgumentError: `level` is not between 0 and 1.
        """
        if not 0 < level < 1:
            raise ArgumentError.of("level", level, "a number between 0 and 1, such as 0.95")
        reach = NormalDist().inv_cdf(0.5 + 0.5 * level) * self.stddev
        return self.answer - reach, self.answer + reach


@dataclass(frozen=True, eq=False)
class Replicates:
    """Models estimated from a model's own answers plus fresh noise, kept as their potentials and totals."""

    asked: int
    seed: int
    estimates: tuple[tuple[CliqueVector, float], ...]


def check_replicates(replicates: Any) -> None:
    """See that it is a number of models whose answers can scatter.

    Raises:
        ArgumentError: it is not.
    """
    if isinstance(replicates, bool) or not isinstance(replicates, int | np.integer) or replicates < FEWEST:
        raise ArgumentError.of("replicates", replicates, f"an integer of at least {FEWEST}")


def replicate(
    model: Distribution,
    refit: Refit | None,
    measurements: Sequence[LinearMeasurement] | None,
    count: int,
    seed: int,
) -> Replicates:
    """Estimate `count` models from a model's answers plus fresh noise, as that model was estimated.

    Ctrl-C ends this early, with the replicates made so far if there are at least two.

    Raises:
        ArgumentError: the model does not know how it was estimated, or from what.
    """
    from tqdm import tqdm

    if refit is None or measurements is None:
        if model.no_error_bars:
            raise ArgumentError(
                f"this model has no error bars: {model.no_error_bars}. The one that pg.estimate returned has them."
            )
        raise ArgumentError(
            "this model does not know what it was estimated from, so its answers have no error bars: ask the model "
            "that pg.estimate returned, not one that was loaded, conditioned or put together."
        )
    if not refit.repeatable:
        raise ArgumentError(
            "this model was estimated with a loss that holds the answers itself, so they cannot be drawn anew: give "
            "estimate(loss=...) a name, or a function of measurements and domain that makes the loss."
        )
    generator, oracle = np.random.default_rng(seed), refit.oracle()
    exact = [model.answer(measurement).datavector() for measurement in measurements]
    estimates: list[tuple[CliqueVector, float]] = []
    for _ in tqdm(range(count), desc="estimating replicates", disable=None, leave=False):
        drawn = [redraw(m, answers, generator) for m, answers in zip(measurements, exact, strict=True)]
        potentials, total, report = refit.again(drawn, oracle, max(refit.tolerance, LOOSE))
        if report.status is Status.INTERRUPTED:
            if len(estimates) < FEWEST:
                raise KeyboardInterrupt
            break
        estimates.append((potentials, total))
    return Replicates(count, seed, tuple(estimates))


def redraw(measurement: LinearMeasurement, answers: np.ndarray, generator: np.random.Generator) -> LinearMeasurement:
    """The measurement as it might have been, had `answers` been the exact ones.

    Answers of a model are no integers, so discrete Gaussian noise is drawn from the Gaussian of the same parameter.
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
    """Rounded at random to multiples of the base, as the published ones were."""
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
    """Ends as far apart, with the answers uniformly between them; open ends stay."""
    closed = np.isfinite(high)
    widths = np.where(closed, np.where(closed, high, low) - low, 0.0)
    starts = np.where(closed, answers - generator.uniform(size=len(answers)) * widths, low)
    ends = np.where(closed, starts + widths, high)
    return LinearMeasurement.between(starts, ends, measurement.clique, measurement.query)


def ask(model: Distribution, query: Any, clique: Iterable[str] | str | None, given: Mapping[str, int] | None) -> Factor:
    """The answer to one question; `Model.uncertainty` says which kinds there are."""
    names = (query,) if isinstance(query, str) else query
    if clique is None and isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
        return model.project(names, given)
    if clique is None and callable(query):
        answer = query(model)
        return answer if isinstance(answer, Factor) else Factor({}, answer)
    if isinstance(query, list) and clique is None:
        raise QueryError("uncertainty takes one query at a time; replicates are kept, so asking again is cheap.")
    return model.answer(query, clique, given)
