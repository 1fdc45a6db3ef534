"""Audits: run a private function many times on two neighboring datasets, and bound its privacy loss from below.

A bound above the claim of the ledger proves that the claim is false. A bound below it proves nothing, but with a good
statistic it would show noise that is clearly too small. The best statistic is the likelihood ratio of all answers
(`pgmest.privacy.transcript`). The number of trials limits the bound that can be shown: a report states this limit,
and an audit of a claim refuses trials that could not contradict it. `one_run` audits a single run with many canaries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, BudgetTypeError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.privacy.budgets import GDP, ApproxDP, Budget, Epsilon, Rho

ORDERS = np.concatenate([[1.0], np.geomspace(1.01, 100.0, 60)])
"""The Renyi orders at which rho is bounded."""


@dataclass(frozen=True)
class AuditReport:
    """Lower bounds on a privacy loss, each of which holds with the stated confidence.

    Attributes:
        epsilon: the bound on the epsilon of (epsilon, delta)-DP.
        delta: the delta given to `audit`; 0 for pure differential privacy.
        rho: the bound on the rho of zCDP.
        trials: the number of runs on each dataset.
        confidence: the probability that a bound is not above the truth.
        mu: the bound on the mu of Gaussian differential privacy.
        most_epsilon, most_rho, most_mu: the largest bounds that this number of trials can show, which it shows if the
            datasets are distinguished every time.
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
        """Return whether the claim is false, with the stated confidence.

        Raises:
            BudgetTypeError: if the claim is no budget, or an ApproxDP with another delta than the audited one.
        """
        bound, claimed = _compared((self.epsilon, self.rho, self.mu), claim, self.delta)
        return bound > claimed

    def __str__(self) -> str:
        shown = (("epsilon", self.epsilon, self.most_epsilon), ("rho", self.rho, self.most_rho))
        bounds = [*shown, ("mu", self.mu, self.most_mu)]
        lines = [f"{name} at least {bound:.4g} (at most {most:.4g} can be shown)" for name, bound, most in bounds]
        return f"Audit of {self.trials} trials each, confidence {self.confidence:g}:\n  " + "\n  ".join(lines)


def _compared(bounds: tuple[float, float, float], claim: Budget, delta: float) -> tuple[float, float]:
    """Return the bound in the type of the claim, and the claim as a number."""
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
    bound its probabilities p and q under the two datasets by Clopper and Pearson's method. Then epsilon is at least
    log((p - delta) / q), rho is at least D_alpha(p, q) / alpha for the Renyi divergence of every order, and mu is at
    least Phi^-1(p) - Phi^-1(q) (Dong, Roth, Su 2022). If a threshold is given, it defines the event, and all runs bound
    its probabilities.

    >>> from pgmest.privacy import Curator, Epsilon
    >>> one, two = (Dataset.from_codes(np.zeros((records, 1), int), {"sex": 2}) for records in (1, 2))
    >>> def count(data: Dataset, seed: int) -> float:
    ...     curator = Curator(data, Epsilon(1.0), backend="simulation", seed=seed)
    ...     return curator.count(Epsilon(1.0)).values[0]
    >>> 0.5 < audit(count, one, two).epsilon < 1.0
    True

    Args:
        private: the audited function of a dataset and a seed.
        data: a dataset.
        neighbor: a neighbor of it under the claimed relation.
        statistic: a function that turns an output into a number. The better it distinguishes the datasets, the stronger
            the audit.
        trials: the number of runs on each dataset, at least 4.
        delta: the delta of the approximate differential privacy that is audited.
        confidence: the confidence of each bound.
        seed: the seed from which the seeds of the runs are drawn.
        claim: the claim to contradict if it is false.
        threshold: the threshold of the statistic. For a likelihood ratio, 0 is nearly optimal for rho and mu.

    Raises:
        ArgumentError: if there are too few trials, `confidence` or `delta` is not a probability, or the trials could
            not contradict the claim even if it were entirely false.
    """
    for name, value in (("delta", delta), ("confidence", confidence)):
        if not 0 <= value < 1:
            raise ArgumentError.of(name, value, "at least 0 and below 1")
    if trials < 4:
        raise ArgumentError.of("trials", trials, "an integer of at least 4")
    level = (1 - confidence) / 2
    most = _most(trials if threshold is not None else trials - trials // 2, level, delta)
    if claim is not None:
        bound, claimed = _compared(most, claim, delta)
        if not bound > claimed:
            needed = least_trials(claim, 1 - 2 * level, delta, threshold is not None)
            raise ArgumentError.of(
                "trials", trials, f"at least {needed}: fewer show at most {bound:.3g}, and cannot contradict {claim}"
            )
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
    """Return the number of trials that contradict a claim if the datasets are distinguished every time.

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
    """Return the largest epsilon, rho and mu that this number of runs can show."""
    p, q = _limits(np.array([runs]), np.array([0]), runs, level)
    epsilon = math.log((p[0] - delta) / q[0]) if p[0] - delta > q[0] else 0.0
    return epsilon, float(_rho(p, q)[0]), float(_mu(p, q)[0])


def likelihood_ratio(data: Dataset, neighbor: Dataset) -> Callable[[Any], float]:
    """Return a statistic of a `Curator` or a `Result`: the log-likelihood ratio of its measurements.

    This is the best statistic for measurements. The noise is taken as continuous.
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
    """Return a bound on the loss of the event that is best in the first half of the runs, by the second half.

    With a threshold, the event is a statistic at or above it, and all runs bound its loss.
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
    """Return events as rows (sign, threshold), each meaning sign * statistic >= threshold."""
    values = np.unique(np.quantile(seen, np.linspace(0, 1, 201), method="nearest"))
    return np.concatenate([np.stack([np.full(len(values), sign), sign * values], 1) for sign in (1.0, -1.0)])


def _share(events: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Return the number of outputs in each event."""
    return (events[:, :1] * outputs >= events[:, 1:]).sum(axis=1)


def _limits(hits: np.ndarray, others: np.ndarray, runs: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return Clopper and Pearson's lower limit of the first probability and upper limit of the second."""
    from scipy.special import betaincinv

    lower = np.where(hits > 0, betaincinv(np.maximum(hits, 1), runs - hits + 1, level), 0.0)
    upper = np.where(others < runs, betaincinv(others + 1, np.maximum(runs - others, 1), 1 - level), 1.0)
    return lower, upper


def _mu(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return Phi^-1(p) - Phi^-1(q), and zero where p <= q."""
    from scipy.special import ndtri

    with np.errstate(invalid="ignore"):
        return np.where((p > q) & (p > 0) & (q < 1), ndtri(p) - ndtri(q), 0.0)


def _rho(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the maximum over orders of D_alpha(Bernoulli(p), Bernoulli(q)) / alpha, and zero where p <= q."""
    p, q = p[:, None], np.clip(q[:, None], 1e-300, 1 - 1e-16)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.nan_to_num(p * np.log(p / q)) + np.nan_to_num((1 - p) * np.log((1 - p) / (1 - q)))
        orders = ORDERS[1:]
        logs = np.logaddexp(
            orders * np.log(p) + (1 - orders) * np.log(q), orders * np.log1p(-p) + (1 - orders) * np.log1p(-q)
        )
    losses = np.concatenate([relative, logs / (orders - 1) / orders], axis=1).max(axis=1)
    return np.where((p > q)[:, 0], losses, 0.0)
