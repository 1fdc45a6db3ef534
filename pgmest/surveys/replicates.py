"""Replicate weights: the sampling variance of any statistic of weighted rows, by repeating it with other weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pgmest.data.codes import as_weights, read_only
from pgmest.errors import ArgumentError, ControlError, DataError, ShapeError, at_least, plural
from pgmest.models.intervals import check_level
from pgmest.surveys.rake import rake

Statistic = Callable[[np.ndarray], Any]
"""A function of the weights of all rows, shape (rows,), that returns a number or an array of numbers."""

LEAST_EIGENVALUE = 1e-10
"""The smallest eigenvalue, of the Gram matrix of replicates of length 1, that counts towards their rank."""


@dataclass(frozen=True, eq=False)
class SurveyEstimate:
    """A statistic of a survey and its standard error due to sampling.

    Attributes:
        value: the statistic with the full sample's weights.
        stderr: its standard error, of the same shape.
        degrees: the degrees of freedom of the standard error; inf for a normal distribution.
    """

    value: np.ndarray
    stderr: np.ndarray
    degrees: float = math.inf

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of an interval for the population's value, by Student's t distribution.

        Raises:
            ArgumentError: `level` is not between 0 and 1.
        """
        check_level(level)
        from scipy.special import stdtrit  # imported late: schemas with weights need no SciPy

        reach = stdtrit(self.degrees, 0.5 + 0.5 * level) * self.stderr
        return self.value - reach, self.value + reach


@dataclass(frozen=True, eq=False)
class ReplicateWeights:
    r"""Weights of the full sample, and weights of replicates of it.

    The variance of a statistic $\hat\theta$ is $\sum_r c_r (\hat\theta_r - \hat\theta)^2$ over the replicates.

    >>> weights = jackknife(np.full(4, 25.0))
    >>> found = weights.estimate(lambda w: np.average([1.0, 2.0, 3.0, 6.0], weights=w))
    >>> float(found.value), round(float(found.stderr), 4), found.degrees  # the textbook's s / sqrt(n), with n - 1
    (3.0, 1.0801, 3.0)

    Args:
        full: the weights of the full sample, shape (rows,).
        replicates: the weights of each replicate, shape (rows, replicates), such as PWGTP1 to PWGTP80 of the ACS.
        scales: c, a number for all replicates, or one for each: 4 / 80 for the ACS (successive differences), 1 / R for
            R bootstrap replicates or balanced repeated replication.
        degrees: the degrees of freedom of standard errors. The default is one less than the rank of the replicates with
            a scale above 0, which is the number of sampled units less that of strata, or the number of replicates less
            one if there are fewer of them. Surveys that round their weights state this number in their documentation.

    Raises:
        ShapeError, DataError, ArgumentError: the weights have other shapes, are not valid, a scale is negative, or
            `degrees` is not positive.
    """

    full: np.ndarray
    replicates: np.ndarray
    scales: Any
    degrees: Any = None

    def __post_init__(self) -> None:
        full = as_weights(self.full, len(self.full))
        replicates = np.array(self.replicates, dtype=np.float64)
        if replicates.ndim != 2 or len(replicates) != len(full) or not replicates.shape[1]:
            raise ShapeError.of(
                "replicates", (len(full), "replicates"), replicates.shape, "Give a column for each replicate."
            )
        if not np.isfinite(replicates).all():  # those of successive differences may be negative
            raise DataError("a replicate weight is missing or not finite.")
        scales = np.asarray(self.scales, dtype=np.float64)
        if scales.shape not in ((), (replicates.shape[1],)) or not (np.isfinite(scales) & (scales >= 0.0)).all():
            raise ArgumentError.of(
                "scales", self.scales, f"a number of at least 0, or one for each of {replicates.shape[1]} replicates"
            )
        degrees = _degrees(replicates, scales, self.degrees)
        object.__setattr__(self, "degrees", degrees)
        object.__setattr__(self, "full", full)
        object.__setattr__(self, "replicates", read_only(replicates))
        object.__setattr__(self, "scales", read_only(np.broadcast_to(scales, replicates.shape[1:])))

    def raked(self, frame: Any, margins: Mapping[Any, Any], **options: Any) -> ReplicateWeights:
        """Return the weights raked to control totals, each replicate by itself, so that variances include the raking.

        Args:
            frame, margins, options: as for `pgmest.rake`; rows as in `full`.

        Raises:
            as `pgmest.rake`; the error names the replicate.
        """
        full = rake(frame, margins, self.full, **options)
        try:
            replicates = rake(frame, margins, self.replicates, **options)
        except ControlError as error:
            raise ControlError(
                f"{error} A replicate lacks some respondents: combine categories until every replicate has all."
            ) from None
        return replace(self, full=full, replicates=replicates)

    def estimate(self, statistic: Statistic) -> SurveyEstimate:
        """Return a statistic with its standard error.

        Args:
            statistic: a function of weights, shape (rows,), such as `lambda w: np.average(income, weights=w)`.
        """
        value = np.asarray(statistic(self.full), dtype=np.float64)
        others = np.stack([np.asarray(statistic(column), dtype=np.float64) for column in self.replicates.T], axis=-1)
        stderr = np.sqrt(((others - value[..., None]) ** 2) @ self.scales)
        return SurveyEstimate(value, stderr, self.degrees)


def jackknife(
    weights: Any, *, clusters: Any = None, strata: Any = None, sampled: float | Mapping[Any, float] = 0.0
) -> ReplicateWeights:
    """Return jackknife replicates: each leaves one sampled unit out, and weighs the others of its stratum more.

    Args:
        weights: the design weights, shape (rows,).
        clusters: the sampled unit of each row, such as the household or the school district; by default the row.
            Units of the same label in two strata are two units.
        strata: the stratum of each row, with at least two units each; one stratum by default.
        sampled: the share of the population's units that were sampled, by which the variance is smaller (finite
            population correction): a number, or one for each stratum.

    Raises:
        ArgumentError, DataError, ShapeError: an argument has another form or length, or a stratum has a single unit.
    """
    full, units, stratum, labels = _design(weights, clusters, strata)
    shares = _shares(sampled, labels)
    count = np.bincount(stratum)
    replicates = np.repeat(full[:, None], len(stratum), axis=1)
    scales = np.empty(len(stratum))
    for unit, own in enumerate(stratum):
        same = stratum[units] == own
        replicates[same, unit] *= count[own] / (count[own] - 1)
        replicates[units == unit, unit] = 0.0
        scales[unit] = (count[own] - 1) / count[own] * (1.0 - shares[own])
    free = float(sum(n - 1 for n, share in zip(count, shares, strict=True) if share < 1.0))
    return ReplicateWeights(full, replicates, scales, max(free, 1.0))


def bootstrap(
    weights: Any,
    *,
    clusters: Any = None,
    strata: Any = None,
    replicates: int = 200,
    seed: int | np.random.Generator | None = 0,
) -> ReplicateWeights:
    """Return bootstrap replicates: each draws n - 1 of the n units of each stratum with replacement (Rao, Wu 1988).

    Args:
        weights, clusters, strata: as for `jackknife`.
        replicates: the number of replicates.
        seed: the seed of the draws.

    Raises:
        ArgumentError, DataError, ShapeError: as for `jackknife`.
    """
    at_least("replicates", replicates, 2)
    full, units, stratum, _ = _design(weights, clusters, strata)
    generator = np.random.default_rng(seed)
    factors = np.zeros((len(stratum), replicates))
    strata_count = int(stratum.max()) + 1
    for own in range(strata_count):
        members = np.flatnonzero(stratum == own)
        n = len(members)
        drawn = generator.multinomial(n - 1, np.full(n, 1.0 / n), size=replicates).T
        factors[members] = drawn * (n / (n - 1))
    degrees = float(min(len(stratum) - strata_count, replicates - 1))
    return ReplicateWeights(full, full[:, None] * factors[units], 1.0 / replicates, degrees)


def _design(weights: Any, clusters: Any, strata: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[Any]]:
    """Return the weights, the unit of each row, the stratum of each unit, and the strata's labels.

    Raises:
        ArgumentError, DataError, ShapeError: as for `jackknife`.
    """
    full = as_weights(weights, np.asarray(weights).shape[0] if np.ndim(weights) else 0)
    if not len(full):
        raise DataError("there are no rows, so there are no replicates.")
    of_row, labels = _numbered("strata", np.zeros(len(full)) if strata is None else strata, len(full))
    unit, _ = _numbered("clusters", np.arange(len(full)) if clusters is None else clusters, len(full))
    _, first, units = np.unique(of_row * (unit.max() + 1) + unit, return_index=True, return_inverse=True)
    stratum = of_row[first]
    lonely = np.flatnonzero(np.bincount(stratum) < 2)
    if lonely.size:
        raise DataError(
            f"{plural(lonely.size, 'stratum') if lonely.size == 1 else f'{lonely.size} strata'} with a single unit, "
            f"such as {labels[lonely[0]]!r}: combine it with another stratum."
        )
    return full, units.reshape(-1), stratum, labels


def _degrees(replicates: np.ndarray, scales: np.ndarray, given: Any) -> float:
    """Return the degrees of freedom of standard errors: those given, or one less than the rank of the replicates.

    Raises:
        ArgumentError: the given number is not positive.
    """
    if given is None:
        gram = replicates.T @ replicates
        counts = np.flatnonzero((np.diag(gram) > 0.0) & (scales > 0.0))
        lengths = np.sqrt(np.diag(gram)[counts])
        values = np.linalg.eigvalsh(gram[np.ix_(counts, counts)] / np.outer(lengths, lengths))
        return float(max(np.sum(values > LEAST_EIGENVALUE) - 1, 1))
    if isinstance(given, bool) or not isinstance(given, int | float | np.number) or not given > 0.0:
        raise ArgumentError.of("degrees", given, "a positive number, or None for the rank of the replicates less one")
    return float(given)


def _numbered(name: str, given: Any, rows: int) -> tuple[np.ndarray, list[Any]]:
    """Return a number for each distinct label, and the labels."""
    items = np.asarray(given).tolist() if np.ndim(given) == 1 else None
    if items is None or len(items) != rows:
        raise ShapeError.of(name, (rows,), np.shape(given), "Give one label for each row.")
    known: dict[Any, int] = {}
    for item in items:
        if item is None or item != item:
            raise DataError(f"a row has no label in {name}=; leave it out, or give it a unit of its own.")
        known.setdefault(item, len(known))
    return np.array([known[item] for item in items], dtype=np.int64), list(known)


def _shares(sampled: Any, labels: list[Any]) -> list[float]:
    """Return the sampled share of each stratum.

    Raises:
        ArgumentError: one is missing, or not between 0 and 1.
    """
    shares = [sampled.get(label, math.nan) if isinstance(sampled, Mapping) else sampled for label in labels]
    if not all(isinstance(share, int | float | np.number) and 0.0 <= share <= 1.0 for share in shares):
        raise ArgumentError.of("sampled", sampled, "a share between 0 and 1, or one for each stratum")
    return [float(share) for share in shares]
