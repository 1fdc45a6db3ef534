"""GUM: records approach tables step by step, by copying and rewriting a few of them at a time (PrivSyn)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, at_least
from pgmest.sampling.systematic import random_round, systematic
from pgmest.synthesis.starts import as_rows, independent_columns
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor

Callback = Callable[[int, float], object]
"""A function that is called after each iteration with the iteration's number and the mean total-variation error of the
tables before their updates, as a fraction."""

Step = Callable[[np.ndarray, np.ndarray, float, np.random.Generator], tuple[np.ndarray, np.ndarray]]
"""A function from each cell's missing records (negative for a surplus), its count, alpha and a generator to the numbers
of records that each cell gains and loses."""

SCHEDULES: Mapping[str, Callable[[int, float, int], float]] = {
    "step": lambda t, decay, period: decay ** (t // period),
    "exponential": lambda t, decay, period: math.exp(-decay * t),
    "linear": lambda t, decay, period: 1 / (1 + decay * t),
    "square_root": lambda t, decay, period: 1 / math.sqrt(1 + decay * t),
}
"""The factor of alpha in iteration t = 0, 1, ..., by the name of the schedule (DPSyn A.3)."""


@dataclass(frozen=True, kw_only=True)
class GradualUpdate:
    r"""The gradually updating method (Zhang et al. 2021, PrivSyn section 5; DPSyn section 5.5 and appendix A).

    Every iteration visits all tables in random order. Cells that have fewer records than their table's count gain
    records, and cells that have more lose the same number in all. A share `duplicate` of the gains are copies of the
    cell's records with all their attributes, which preserves other tables. The remaining gains are records of other
    cells that are rewritten in the table's attributes and keep their other attributes. alpha decreases by a schedule,
    so that the updates of different tables converge.

    step="proportional" (the default, not from the papers): a cell gains alpha * min(deficit, count), an empty cell
    gains alpha * deficit, and cells lose in proportion to their excess. step="capped" is the published one: a cell with
    n_s records and target n_t gains min(n_t - n_s, alpha n_s), and an empty cell gains nothing; other cells lose
    min(n_s - n_t, beta n_s), with the beta that keeps the number of records. After a few iterations these gains are the
    whole deficit, even for a small alpha; on a census table with 85 pairs the error then stays a fifth larger.
    `GradualUpdate.as_published()` has the published constants.

    >>> GradualUpdate(schedule="linear", decay=0.5).alpha_of(2)
    0.5

    Args:
        iterations: the number of passes over all tables.
        alpha: the gain of a cell in the first iteration, as a share of its records.
        decay: the rate k of the schedule.
        period: the period s of the schedule "step", in iterations.
        duplicate: the share of copies among the gains, 0 to 1. More copies match the tables more closely, but noisy
            tables profit less from that.
        last_duplicate: the share of copies in the last iteration; the share changes linearly from `duplicate` to this
            (DPSyn A.2 prefers copies once records are close to their tables). None keeps `duplicate`.
        schedule: the alpha of iteration t: "step", alpha k^floor(t / s); "exponential", alpha exp(-k t); "linear",
            alpha / (1 + k t); or "square_root", alpha / sqrt(1 + k t).
        step: "proportional" or "capped".

    Raises:
        ArgumentError: a parameter is out of its range.
    """

    iterations: int = 50
    alpha: float = 1.0
    decay: float = 0.84
    period: int = 5
    duplicate: float = 0.5
    last_duplicate: float | None = None
    schedule: str = "step"
    step: str = "proportional"

    def __post_init__(self) -> None:
        for name in ("iterations", "period"):
            object.__setattr__(self, name, at_least(name, getattr(self, name), 1))
        shares = ("duplicate",) if self.last_duplicate is None else ("duplicate", "last_duplicate")
        for name in ("alpha", "decay", *shares):
            if isinstance(getattr(self, name), bool) or not isinstance(getattr(self, name), Real):
                raise ArgumentError.of(name, getattr(self, name), "a number")
        for name in ("alpha", "decay"):
            if not 0 < getattr(self, name) <= 1:
                raise ArgumentError.of(name, getattr(self, name), "above 0 and at most 1")
        for name in shares:
            if not 0 <= getattr(self, name) <= 1:
                raise ArgumentError.of(name, getattr(self, name), "a share between 0 and 1")
        for name, known in (("schedule", tuple(SCHEDULES)), ("step", tuple(STEPS))):
            if getattr(self, name) not in known:
                raise ArgumentError.of(name, getattr(self, name), known)

    @classmethod
    def as_published(cls, **parameters: Any) -> GradualUpdate:
        """Return the published method, whose share of copies grows to 1; `parameters` override its constants.

        alpha is 0.2, that of the contest. The rate and the period of the decay are not published; the defaults are
        used.
        """
        return cls(**{"alpha": 0.2, "duplicate": 0.0, "last_duplicate": 1.0, "step": "capped", **parameters})

    def alpha_of(self, iteration: int) -> float:
        """Return alpha in iteration t = 0, 1, ..."""
        return self.alpha * SCHEDULES[self.schedule](iteration, self.decay, self.period)

    def duplicate_of(self, iteration: int) -> float:
        """Return the share of copies in iteration t = 0, 1, ..."""
        if self.last_duplicate is None:
            return self.duplicate
        return self.duplicate + (self.last_duplicate - self.duplicate) * iteration / max(1, self.iterations - 1)

    def records(
        self,
        tables: Sequence[Factor],
        domain: Domain,
        n: int,
        generator: np.random.Generator,
        callback: Callback | None = None,
    ) -> list[np.ndarray]:
        """Return n records whose marginals are close to the tables: one column of codes for each attribute.

        Args:
            tables: consistent tables of counts that together contain every attribute; negative counts count as 0.
            domain: the attributes of the records, in order.
            n: the number of records.
            generator: the source of all random choices.
            callback: see `Callback`.
        """
        rows = as_rows(independent_columns(tables, domain, n, generator), domain)
        targets = [_Target(table, domain, n, generator) for table in tables]
        buffers = _Buffers(n, generator)
        for iteration in range(self.iterations):
            rule = UpdateRule(self.alpha_of(iteration), self.duplicate_of(iteration), STEPS[self.step])
            errors = [
                targets[place].update(rows, rule, buffers, generator) for place in generator.permutation(len(targets))
            ]
            if callback is not None:
                callback(iteration + 1, float(np.mean(errors)))
        return [np.ascontiguousarray(rows[:, axis]) for axis in range(len(domain))]


class _Buffers:
    """The kernels and the workspace that all updates of n records share."""

    def __init__(self, n: int, generator: np.random.Generator):
        from pgmest.sampling.kernels import take_records
        from pgmest.synthesis import kernels

        self.kernels, self.take_records = kernels, take_records
        self.cells, self.victims, self.sources = (np.empty(n, dtype=np.int32) for _ in range(3))
        self.state = generator.integers(2**64, size=1, dtype=np.uint64)


def proportional_step(
    missing: np.ndarray, counts: np.ndarray, alpha: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the gains alpha * min(deficit, count) of the cells, and losses of the same sum, proportional to excess."""
    deficit, excess = np.maximum(missing, 0), np.maximum(-missing, 0)
    allowed = alpha * np.where(counts > 0, np.minimum(deficit, counts), deficit)
    gains = np.minimum(random_round(allowed, generator), deficit)
    return gains, systematic(excess, int(gains.sum()), generator)


def capped_step(
    missing: np.ndarray, counts: np.ndarray, alpha: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the published gains min(n_t - n_s, alpha n_s) and losses min(n_s - n_t, beta n_s), of the same sum."""
    deficit, excess = np.maximum(missing, 0), np.maximum(-missing, 0)
    gains = np.minimum(random_round(np.minimum(deficit, alpha * counts), generator), deficit)
    moved = int(gains.sum())
    return gains, systematic(np.minimum(excess, loss_rate(excess, counts, moved) * counts), moved, generator)


def loss_rate(excess: np.ndarray, counts: np.ndarray, moved: int) -> float:
    """Return the smallest beta with sum min(excess, beta counts) = moved, where `moved` is at most the sum of `excess`.

    >>> loss_rate(np.array([4, 1, 0]), np.array([10, 10, 10]), 3)
    0.2
    """
    over = excess > 0
    if not moved or not over.any():
        return 0.0
    rates = excess[over] / counts[over]
    order = np.argsort(rates, kind="stable")
    rates, lost, have = rates[order], excess[over][order], counts[over][order]
    full = np.concatenate([[0.0], np.cumsum(lost)[:-1]])  # the losses of the cells before, which lose all their excess
    rest = np.cumsum(have[::-1])[::-1]
    place = min(int(np.searchsorted(full + rates * rest, moved)), len(rates) - 1)
    return float(min(rates[place], (moved - full[place]) / rest[place]))


STEPS: Mapping[str, Step] = {"proportional": proportional_step, "capped": capped_step}
"""The rules for the gains and losses of an update, by name."""


@dataclass(frozen=True)
class UpdateRule:
    """The parameters of an iteration: alpha, the share of copies, and the function of gains and losses."""

    alpha: float
    duplicate: float
    step: Step


class _Target:
    """A target table: the number of the n records that each of its cells should have."""

    def __init__(self, table: Factor, domain: Domain, n: int, generator: np.random.Generator):
        shape = table.domain.shape
        self.target = systematic(np.maximum(table.datavector(), 0.0), n, generator)
        self.axes = np.array(domain.axes(table.domain), dtype=np.int64)
        self.sizes = np.array(shape, dtype=np.int64)
        self.strides = np.array([math.prod(shape[axis + 1 :]) for axis in range(len(shape))], dtype=np.int64)
        self.counts = np.empty(self.target.size, dtype=np.int64)

    def update(self, rows: np.ndarray, rule: UpdateRule, buffers: _Buffers, generator: np.random.Generator) -> float:
        """Update the records; return the total-variation error before the update, as a fraction."""
        kernels, counts = buffers.kernels, self.counts
        kernels.count_cells(rows, self.axes, self.strides, buffers.cells, counts)
        missing = self.target - counts
        deficit = np.maximum(missing, 0)
        gains, losses = rule.step(missing, counts, rule.alpha, generator)
        moved = int(gains.sum())
        if moved:
            wanted = np.where(counts > 0, rule.duplicate * gains, 0.0)
            copies = np.minimum(random_round(wanted, generator), gains)
            taken = int(copies.sum())
            buffers.take_records(
                buffers.cells, losses + copies, counts, missing < 0, buffers.state, buffers.victims, buffers.sources
            )
            victims = buffers.victims[:moved]
            copied = generator.permutation(np.arange(moved) < taken)
            kernels.copy_records(rows, victims[copied], buffers.sources[:taken])
            filled = generator.permutation(np.repeat(np.arange(gains.size), gains - copies))
            kernels.rewrite_records(rows, victims[~copied], filled, self.axes, self.strides, self.sizes)
        return float(deficit.sum()) / max(1, len(rows))
