"""An audit in one run: many canaries, each in the table or not by a coin of its own, and a guess about each of them.

If every guess were right more often than the claim allows, the claim is false (Steinke, Nasr, Jagielski 2023). One run
of anything private is enough, so this audits what is too slow to run a thousand times; the bound is weaker than that of
many runs, because all canaries share one budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.data.dataset import Dataset


@dataclass(frozen=True)
class OneRunReport:
    """A lower bound on epsilon from one run.

    Attributes:
        epsilon: the bound, of (epsilon, delta)-DP for one record more or less.
        delta: of it.
        most_epsilon: the bound if all guesses had been right: more cannot be shown by so many.
        correct: how many guesses were right.
        guesses: of how many; about the others nothing was guessed.
        canaries: how many records were put in or left out.
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
    """Run something private once, and bound what it cost by how well canaries are recognized.

    Args:
        private: what is audited, a function of a dataset.
        base: records that are always there.
        canaries: records each of which is there with probability one half.
        score: of what `private` returned, a number for each canary, the higher the likelier it was there.
        guesses: how many are guessed: half of them those with the highest scores, half with the lowest. By default a
            quarter of the canaries.
        delta: the delta of the approximate differential privacy that `epsilon` is about.
        confidence: of the bound.
        seed: of the coins.

    Raises:
        ArgumentError: no canaries, more guesses than canaries, or numbers that are no probabilities.
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
    """The largest epsilon that so many right guesses refute, rounded down.

    >>> round(one_run_epsilon(90, 100, 100), 2), one_run_epsilon(50, 100, 100)
    (1.44, 0.0)
    """
    low, high = 0.0, 1.0
    if one_run_p_value(correct, guesses, canaries, 0.0, delta) > 1 - confidence:
        return 0.0
    while high < 64 and one_run_p_value(correct, guesses, canaries, high, delta) <= 1 - confidence:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        refuted = one_run_p_value(correct, guesses, canaries, middle, delta) <= 1 - confidence
        low, high = (middle, high) if refuted else (low, middle)
    return low


def one_run_p_value(correct: int, guesses: int, canaries: int, epsilon: float, delta: float = 0.0) -> float:
    """How likely so many right guesses are at most, if (epsilon, delta)-DP holds.

    With delta zero the number of right guesses is at most binomial, of `guesses` coins of probability
    e^epsilon / (1 + e^epsilon). Otherwise 2 delta canaries max_i P(correct - i <= B < correct) / i is added, for B so
    distributed.
    """
    from scipy.stats import binom

    chance = 1 / (1 + math.exp(-epsilon))
    tail = float(binom.sf(correct - 1, guesses, chance))
    if not delta or not correct:
        return min(1.0, tail)
    below = np.cumsum(binom.pmf(np.arange(correct - 1, -1, -1), guesses, chance))
    return min(1.0, tail + 2 * delta * canaries * float((below / np.arange(1, correct + 1)).max()))
