"""Audits: run something private many times on two neighboring datasets, and bound from below what it cost.

A bound above what the ledger claims proves that the claim is false. A bound below proves nothing, but a statistic that
looks where the noise is would show noise that is clearly too small. The best statistic is the likelihood ratio of all
that was answered (`pgmest.privacy.transcript`). So many trials can show so much and no more: a report says how much,
and an audit of a claim refuses trials that could not contradict it. One run, with many canaries: `one_run`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError, BudgetTypeError
from pgmest.data.dataset import Dataset
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.privacy.budgets import GDP, ApproxDP, Budget, Epsilon, Rho

ORDERS = np.concatenate([[1.0], np.geomspace(1.01, 100.0, 60)])
"""The Renyi orders that the bound on rho tries."""


@dataclass(frozen=True)
class AuditReport:
    """Lower bounds on a privacy loss, each of which holds with the confidence stated.

    Attributes:
        epsilon: of (epsilon, delta)-DP with the `delta` here.
        delta: given to `audit`; 0 for pure differential privacy.
        rho: of zCDP.
        trials: runs on each dataset.
        confidence: the probability that a bound is not above the truth.
        mu: of Gaussian differential privacy.
        most_epsilon, most_rho, most_mu: the largest bounds that so many trials can show: those of datasets that are
            distinguished every time.
    """

    epsilon: float
    delta: float
    rho: float
    trials: int
    confidence: float
    mu: float = 0.0
    most_epsilon: float = math.inf
    most_rho: float = math.inf
    most_mu: float = math.inf

    def contradicts(self, claim: Budget) -> bool:
        """Whether the claim is false, with the confidence stated.

        Raises:
            BudgetTypeError: no budget, or an ApproxDP of another delta than was audited.
        """
        bound, claimed = _compared((self.epsilon, self.rho, self.mu), claim, self.delta)
        return bound > claimed

    def could_contradict(self, claim: Budget) -> bool:
        """Whether so many trials could have contradicted the claim.

        Raises:
            BudgetTypeError: as for `contradicts`.
        """
        bound, claimed = _compared((self.most_epsilon, self.most_rho, self.most_mu), claim, self.delta)
        return bound > claimed

    def __str__(self) -> str:
        shown = (("epsilon", self.epsilon, self.most_epsilon), ("rho", self.rho, self.most_rho))
        bounds = [*shown, ("mu", self.mu, self.most_mu)]
        lines = [f"{name} at least {bound:.4g} (at most {most:.4g} can be shown)" for name, bound, most in bounds]
        return f"Audit of {self.trials} trials each, confidence {self.confidence:g}:\n  " + "\n  ".join(lines)


def _compared(bounds: tuple[float, float, float], claim: Budget, delta: float) -> tuple[float, float]:
    """The bound that a claim is about, and what it claims."""
    epsilon, rho, mu = bounds
    if isinstance(claim, Rho):
        return rho, claim.rho
    if isinstance(claim, GDP):
        return mu, claim.mu
    if (isinstance(claim, Epsilon) and not delta) or (isinstance(claim, ApproxDP) and claim.delta == delta):
        return epsilon, claim.epsilon
    raise BudgetTypeError.of(f"the claim about an audit with delta={delta}", Rho, claim)


def audit(
    private: Callable[[Dataset, int], Any],
    data: Dataset,
    neighbor: Dataset,
    *,
    statistic: Callable[[Any], float] = float,
    trials: int = 1000,
    delta: float = 0.0,
    confidence: float = 0.999,
    seed: int = 0,
    claim: Budget | None = None,
    threshold: float | None = None,
) -> AuditReport:
    """Bound a privacy loss from below by events that tell the datasets apart.

    An event is that the statistic is above, or below, a threshold. Half of the runs choose the event; the other half
    bound its probabilities p and q under the two datasets, by Clopper and Pearson. Then epsilon is at least
    log((p - delta) / q), rho is at least D_alpha(p, q) / alpha for the Renyi divergence of every order, and mu at least
    Phi^-1(p) - Phi^-1(q) (Dong, Roth, Su 2022). A threshold that is given is the event; all runs then bound it.

    >>> from pgmest.privacy import Curator, Epsilon
    >>> one, two = (Dataset.from_codes(np.zeros((records, 1), int), {"sex": 2}) for records in (1, 2))
    >>> def count(data: Dataset, seed: int) -> float:
    ...     curator = Curator(data, Epsilon(1.0), backend="simulation", seed=seed)
    ...     return curator.count(Epsilon(1.0)).values[0]
    >>> 0.5 < audit(count, one, two).epsilon < 1.0
    True

    Args:
        private: what is audited, a function of a dataset and of a seed that gives an output.
        data: a dataset.
        neighbor: another, its neighbor under the relation claimed.
        statistic: an output as one number; the better it tells the datasets apart, the stronger the audit.
        trials: runs on each dataset, at least 4.
        delta: the delta of the approximate differential privacy that `epsilon` is about.
        confidence: of each bound.
        seed: of the seeds of the runs.
        claim: what is to be contradicted, if it is false.
        threshold: of the statistic; of a likelihood ratio 0 is near the best for rho and mu.

    Raises:
        ArgumentError: too few trials, or a confidence or delta that is not a probability; trials that could not
            contradict the claim, however false.
    """
    for name, value in (("delta", delta), ("confidence", confidence)):
        if not 0 <= value < 1:
            raise ArgumentError.of(name, value, "at least 0 and below 1")
    if trials < 4:
        raise ArgumentError.of("trials", trials, "an integer of at least 4")
    level = (1 - confidence) / 2
    most = _most(trials if threshold is not None else trials - trials // 2, level, delta)
    if claim is not None:
        _check_power(most, claim, trials, level, delta, threshold is not None)
    seeds = np.random.default_rng(seed).integers(2**31, size=(2, trials)).tolist()
    first, second = (
        np.array([statistic(private(records, one)) for one in row])
        for records, row in zip((data, neighbor), seeds, strict=True)
    )

    def epsilon(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(np.log((p - delta) / q), nan=0.0, neginf=0.0)

    bounds = [max(0.0, _bound(loss, first, second, level, threshold)) for loss in (epsilon, _rho, _mu)]
    return AuditReport(bounds[0], delta, bounds[1], trials, confidence, bounds[2], *most)


def least_trials(claim: Budget, confidence: float = 0.999, delta: float = 0.0, threshold: bool = False) -> int:
    """How many trials it takes to contradict a claim, if the datasets are distinguished every time.

    >>> least_trials(Epsilon(1.0)), least_trials(Epsilon(8.0))
    (49, 45323)
    """
    low, high, level = 2, 4, (1 - confidence) / 2

    def enough(trials: int) -> bool:
        bound, claimed = _compared(_most(trials if threshold else trials - trials // 2, level, delta), claim, delta)
        return bound > claimed

    while not enough(high):
        if high > 2**60:
            raise ArgumentError.of("claim", claim, "one that can be contradicted by any number of trials")
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return max(4, high)


def _most(runs: int, level: float, delta: float) -> tuple[float, float, float]:
    """The largest epsilon, rho and mu that so many runs can show."""
    p, q = _limits(np.array([runs]), np.array([0]), runs, level)
    epsilon = math.log((p[0] - delta) / q[0]) if p[0] - delta > q[0] else 0.0
    return epsilon, float(_rho(p, q)[0]), float(_mu(p, q)[0])


def _check_power(
    most: tuple[float, float, float], claim: Budget, trials: int, level: float, delta: float, threshold: bool
) -> None:
    bound, claimed = _compared(most, claim, delta)
    if not bound > claimed:
        needed = least_trials(claim, 1 - 2 * level, delta, threshold)
        raise ArgumentError.of(
            "trials", trials, f"at least {needed}: so few can show {bound:.3g} at most, and cannot contradict {claim}"
        )


def likelihood_ratio(data: Dataset, neighbor: Dataset) -> Callable[[Any], float]:
    """A statistic of a `Curator` or of a mechanism's result: how much better its noisy answers fit `data`.

    It is the log-likelihood ratio of the measurements, the best statistic for these; the noise is taken as continuous.
    """

    def statistic(result: Any) -> float:
        return sum(_log_ratio(measurement, data, neighbor) for measurement in result.measurements)

    return statistic


def _log_ratio(measurement: LinearMeasurement, data: Dataset, neighbor: Dataset) -> float:
    residuals = [
        (measurement.values - measurement.answer(records.project(measurement.clique))) / measurement.stddev
        for records in (data, neighbor)
    ]
    losses = [
        math.sqrt(2) * np.abs(residual).sum() if "laplace" in measurement.noise else residual @ residual / 2
        for residual in residuals
    ]
    return float(losses[1] - losses[0])


def _bound(
    loss: Callable[[np.ndarray, np.ndarray], np.ndarray],
    first: np.ndarray,
    second: np.ndarray,
    level: float,
    threshold: float | None = None,
) -> float:
    """The loss of the event that looks best in the first half of the runs, bounded with the second half.

    Of a threshold the event in which `first` is the likelier one: at or above it; bounded with all runs.
    """
    if threshold is not None:
        event = np.array([[1.0, threshold]])
        return float(loss(*_limits(_share(event, first), _share(event, second), len(first), level))[0])
    half = len(first) // 2
    events = _events(np.concatenate([first[:half], second[:half]]))
    best, chosen = -math.inf, None
    for swap in (False, True):
        one, two = (second, first) if swap else (first, second)
        losses = loss(*_limits(_share(events, one[:half]), _share(events, two[:half]), half, level))
        if losses.max() > best:
            best, chosen = float(losses.max()), (swap, events[[int(losses.argmax())]])
    assert chosen is not None
    swap, event = chosen
    one, two = (second[half:], first[half:]) if swap else (first[half:], second[half:])
    return float(loss(*_limits(_share(event, one), _share(event, two), len(one), level))[0])


def _events(seen: np.ndarray) -> np.ndarray:
    """Events as rows (sign, threshold): sign * statistic >= threshold."""
    values = np.unique(np.quantile(seen, np.linspace(0, 1, 201), method="nearest"))
    return np.concatenate([np.stack([np.full(len(values), sign), sign * values], 1) for sign in (1.0, -1.0)])


def _share(events: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """How many of the outputs are in each event."""
    return (events[:, :1] * outputs >= events[:, 1:]).sum(axis=1)


def _limits(hits: np.ndarray, others: np.ndarray, runs: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Clopper and Pearson's lower limit of the first probability, upper limit of the second."""
    from scipy.special import betaincinv

    lower = np.where(hits > 0, betaincinv(np.maximum(hits, 1), runs - hits + 1, level), 0.0)
    upper = np.where(others < runs, betaincinv(others + 1, np.maximum(runs - others, 1), 1 - level), 1.0)
    return lower, upper


def _mu(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Phi^-1(p) - Phi^-1(q), zero where p <= q."""
    from scipy.special import ndtri

    with np.errstate(invalid="ignore"):
        return np.where((p > q) & (p > 0) & (q < 1), ndtri(p) - ndtri(q), 0.0)


def _rho(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """max over orders of D_alpha(Bernoulli(p), Bernoulli(q)) / alpha, zero where p <= q."""
    p, q = p[:, None], np.clip(q[:, None], 1e-300, 1 - 1e-16)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.nan_to_num(p * np.log(p / q)) + np.nan_to_num((1 - p) * np.log((1 - p) / (1 - q)))
        orders = ORDERS[1:]
        logs = np.logaddexp(
            orders * np.log(p) + (1 - orders) * np.log(q), orders * np.log1p(-p) + (1 - orders) * np.log1p(-q)
        )
    losses = np.concatenate([relative, logs / (orders - 1) / orders], axis=1).max(axis=1)
    return np.where((p > q)[:, 0], losses, 0.0)
