"""An audit in one run: each of many canaries is in the table by a coin flip, and is guessed to be in it or not.

If more guesses are right than the claim allows, the claim is false (Steinke, Nasr, Jagielski 2023). A single run
suffices, so functions can be audited that are too slow to run a thousand times. The bound is weaker than that of many
runs, because all canaries share one budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError
from pgmest.privacy.budgets import largest


@dataclass(frozen=True)
class OneRunReport:
    """A lower bound on epsilon from one run.

    Attributes:
        epsilon: the bound on the epsilon of (epsilon, delta)-DP for one record added or removed.
        delta: the delta of that definition.
        most_epsilon: the bound if all guesses had been right, the largest that this number of guesses can show.
        correct: the number of right guesses.
        guesses: the number of guesses. No guess is made about the other canaries.
        canaries: the number of records that were put in or left out.
        confidence: the probability that the bound is not above the truth.
    """

    epsilon: float
    delta: float
    most_epsilon: float
    correct: int
    guesses: int
    canaries: int
    confidence: float


def audit_in_one_run(
    private: Callable[[Dataset], Any],
    base: Dataset,
    canaries: Dataset,
    score: Callable[[Any], Any],
    *,
    guesses: int | None = None,
    delta: float = 0.0,
    confidence: float = 0.99,
    seed: int = 0,
) -> OneRunReport:
    """Run a private function once, and bound its privacy loss by the number of canaries that are recognized.

    Args:
        private: the audited function of a dataset.
        base: the records that are always in the table.
        canaries: the records each of which is in the table with probability one half.
        score: a function of the output that returns a number for each canary, larger for canaries that are more likely
            in the table.
        guesses: the number of guesses: half for the canaries with the highest scores, half for those with the lowest.
            By default a quarter of the canaries.
        delta: the delta of the approximate differential privacy that is audited.
        confidence: the confidence of the bound.
        seed: the seed of the coin flips.

    Raises:
        ArgumentError: if there are too few guesses or more than canaries, or `delta` or `confidence` is no probability.
    """
    total = canaries.records
    made = max(2, total // 4) if guesses is None else guesses
    if not 2 <= made <= total:
        raise ArgumentError.of("guesses", made, f"at least 2, and at most the {total} canaries")
    for name, value in (("delta", delta), ("confidence", confidence)):
        if not 0 <= value < 1:
            raise ArgumentError.of(name, value, "at least 0 and below 1")
    inside = np.random.default_rng(seed).random(total) < 0.5
    codes = np.concatenate([base.codes, canaries.take(inside).codes])
    scores = np.asarray(score(private(Dataset.from_codes(codes, base.domain))), dtype=np.float64)
    order = np.argsort(scores, kind="stable")
    low, high = order[: made // 2], order[total - (made - made // 2) :]
    correct = int((~inside[low]).sum() + inside[high].sum())
    bound = one_run_epsilon(correct, made, total, delta, confidence)
    return OneRunReport(
        bound, delta, one_run_epsilon(made, made, total, delta, confidence), correct, made, total, confidence
    )


def one_run_epsilon(correct: int, guesses: int, canaries: int, delta: float = 0.0, confidence: float = 0.99) -> float:
    """Return the largest epsilon that this number of right guesses refutes, rounded down.

    >>> round(one_run_epsilon(90, 100, 100), 2), one_run_epsilon(50, 100, 100)
    (1.44, 0.0)
    """
    level = 1 - confidence
    return largest(lambda one: one < 64 and one_run_p_value(correct, guesses, canaries, one, delta) <= level)


def one_run_p_value(correct: int, guesses: int, canaries: int, epsilon: float, delta: float = 0.0) -> float:
    """Return an upper bound on the probability of at least this number of right guesses under (epsilon, delta)-DP.

    With delta 0, the number of right guesses is dominated by a binomial variable B: `guesses` coins of probability
    e^epsilon / (1 + e^epsilon). Otherwise 2 delta canaries max_i P(correct - i <= B < correct) / i is added.
    """
    from scipy.stats import binom

    chance = 1 / (1 + math.exp(-epsilon))
    tail = float(binom.sf(correct - 1, guesses, chance))
    if not delta or not correct:
        return min(1.0, tail)
    below = np.cumsum(binom.pmf(np.arange(correct - 1, -1, -1), guesses, chance))
    return min(1.0, tail + 2 * delta * canaries * float((below / np.arange(1, correct + 1)).max()))
