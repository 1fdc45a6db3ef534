"""GUM: records moved step by step toward tables, by copying and by rewriting a few of them at a time (PrivSyn)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError, at_least
from pgmest.sampling.systematic import random_round, systematic
from pgmest.synthesis.starts import as_rows, independent_columns
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor

Callback = Callable[[int, float], object]
"""Called after each iteration with its number and the mean total-variation error of the tables that it found."""

Step = Callable[[np.ndarray, np.ndarray, float, np.random.Generator], tuple[np.ndarray, np.ndarray]]
"""From what each cell misses (negative: has too many) and has, and alpha: what it gains and what it loses."""

SCHEDULES: Mapping[str, Callable[[int, float, int], float]] = {
    "step": lambda t, decay, period: decay ** (t // period),
    "exponential": lambda t, decay, period: math.exp(-decay * t),
    "linear": lambda t, decay, period: 1 / (1 + decay * t),
    "square_root": lambda t, decay, period: 1 / math.sqrt(1 + decay * t),
}
"""What alpha is multiplied by in iteration t = 0, 1, ... (DPSyn A.3)."""


@dataclass(frozen=True, kw_only=True)
class GradualUpdate:
    r"""The gradually updating method (Zhang et al. 2021, PrivSyn section 5; DPSyn section 5.5 and appendix A).

    Every iteration visits all tables in random order. Where a cell has fewer records than its table says, it gains
    some, and cells with too many lose as many in all. Of what a cell gains, the share `duplicate` are copies of records
    that are there already, which bring their other attributes with them and so keep what other tables say; the others
    are records that keep their other attributes and are rewritten in those of the table. alpha falls by a schedule, so
    that the updates of different tables come to terms.

    step="proportional" is ours: a cell gains alpha * min(deficit, records there), an empty one alpha * deficit, and
    cells lose in proportion to their excess. step="capped" is the published one: with n_s records where n_t are wanted
    a cell gains min(n_t - n_s, alpha n_s), nothing where it is empty, and others lose min(n_s - n_t, beta n_s) with the
    beta that keeps the number of records. That soon is all of the deficit, however small alpha: on a census table with
    85 pairs the records then stay a fifth further off. `GradualUpdate.as_published()` has its constants.

    >>> GradualUpdate(schedule="linear", decay=0.5).alpha_of(2)
    0.5

    Args:
        iterations: how often all tables are visited.
        alpha: the share of a cell's records that may be added in the first iteration.
        decay: of the schedule: k.
        period: of the schedule "step": s.
        duplicate: the share of copies, 0 to 1. More copies fit the tables better, but help a noisy release less.
        last_duplicate: the share of copies in the last iteration, to which it then goes evenly (DPSyn A.2: once records
            are close to their tables copies are preferable); None for the same in all.
        schedule: of alpha: "step", alpha k^floor(t / s); "exponential", alpha exp(-k t); "linear", alpha / (1 + k t);
            or "square_root", alpha / sqrt(1 + k t).
        step: "proportional" or "capped".

    Raises:
        ArgumentError: a parameter out of its range.
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
        """The published step, with copies preferred in the end; other parameters can be given.

        alpha is 0.2, that of the contest. The rate and period of the decay are not published; ours are used.
        """
        return cls(**{"alpha": 0.2, "duplicate": 0.0, "last_duplicate": 1.0, "step": "capped", **parameters})

    def alpha_of(self, iteration: int) -> float:
        """alpha in iteration t = 0, 1, ..."""
        return self.alpha * SCHEDULES[self.schedule](iteration, self.decay, self.period)

    def duplicate_of(self, iteration: int) -> float:
        """The share of copies in iteration t = 0, 1, ..."""
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
        """n records that have nearly these tables: a column of codes per attribute.

        Args:
            tables: of counts that agree, covering every attribute; negative ones count as 0.
            domain: the attributes of the records, in order.
            n: how many.
            generator: for all random choices.
            callback: see `Callback`.
        """
        rows = as_rows(independent_columns(tables, domain, n, generator), domain)
        goals = [_Goal(table, domain, n, generator) for table in tables]
        buffers = _Buffers(n, generator)
        for iteration in range(self.iterations):
            moves = Moves(self.alpha_of(iteration), self.duplicate_of(iteration), STEPS[self.step])
            errors = [
                goals[place].update(rows, moves, buffers, generator) for place in generator.permutation(len(goals))
            ]
            if callback is not None:
                callback(iteration + 1, float(np.mean(errors)))
        return [np.ascontiguousarray(rows[:, axis]) for axis in range(len(domain))]


class _Buffers:
    """What all updates of n records use."""

    def __init__(self, n: int, generator: np.random.Generator):
        from pgmest.sampling.kernels import take_records
        from pgmest.synthesis import kernels

        self.kernels, self.take_records = kernels, take_records
        self.cells, self.victims, self.sources = (np.empty(n, dtype=np.int32) for _ in range(3))
        self.state = generator.integers(2**64, size=1, dtype=np.uint64)


def proportional_step(
    missing: np.ndarray, counts: np.ndarray, alpha: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """What each cell gains and what it loses, as many in all: alpha of the least of its deficit and its records."""
    deficit, excess = np.maximum(missing, 0), np.maximum(-missing, 0)
    allowed = alpha * np.where(counts > 0, np.minimum(deficit, counts), deficit)
    gains = np.minimum(random_round(allowed, generator), deficit)
    return gains, systematic(excess, int(gains.sum()), generator)


def capped_step(
    missing: np.ndarray, counts: np.ndarray, alpha: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """As published: gains of min(n_t - n_s, alpha n_s), losses of min(n_s - n_t, beta n_s), as many in all."""
    deficit, excess = np.maximum(missing, 0), np.maximum(-missing, 0)
    gains = np.minimum(random_round(np.minimum(deficit, alpha * counts), generator), deficit)
    moved = int(gains.sum())
    return gains, systematic(np.minimum(excess, loss_rate(excess, counts, moved) * counts), moved, generator)


def loss_rate(excess: np.ndarray, counts: np.ndarray, moved: int) -> float:
    """The least beta with sum min(excess, beta counts) = moved, which is at most the whole excess.

    >>> loss_rate(np.array([4, 1, 0]), np.array([10, 10, 10]), 3)
    0.2
    """
    over = excess > 0
    if not moved or not over.any():
        return 0.0
    rates = excess[over] / counts[over]
    order = np.argsort(rates, kind="stable")
    rates, lost, have = rates[order], excess[over][order], counts[over][order]
    full = np.concatenate([[0.0], np.cumsum(lost)[:-1]])  # what the cells before lose, which lose all their excess
    rest = np.cumsum(have[::-1])[::-1]
    place = min(int(np.searchsorted(full + rates * rest, moved)), len(rates) - 1)
    return float(min(rates[place], (moved - full[place]) / rest[place]))


STEPS: Mapping[str, Step] = {"proportional": proportional_step, "capped": capped_step}
"""How many records cells gain and lose in an update."""


@dataclass(frozen=True)
class Moves:
    """An iteration's parameters: alpha, the share of copies, and what cells gain and lose."""

    alpha: float
    duplicate: float
    step: Step


class _Goal:
    """A table to be matched: how many of the n records each of its cells should hold."""

    def __init__(self, table: Factor, domain: Domain, n: int, generator: np.random.Generator):
        shape = table.domain.shape
        self.target = systematic(np.maximum(table.datavector(), 0.0), n, generator)
        self.axes = np.array(domain.axes(table.domain), dtype=np.int64)
        self.sizes = np.array(shape, dtype=np.int64)
        self.strides = np.array([math.prod(shape[axis + 1 :]) for axis in range(len(shape))], dtype=np.int64)
        self.counts = np.empty(self.target.size, dtype=np.int64)

    def update(self, rows: np.ndarray, moves: Moves, buffers: _Buffers, generator: np.random.Generator) -> float:
        """One update of the records; the total-variation error that was found, a fraction."""
        kernels, counts = buffers.kernels, self.counts
        kernels.count_cells(rows, self.axes, self.strides, buffers.cells, counts)
        missing = self.target - counts
        deficit = np.maximum(missing, 0)
        gains, losses = moves.step(missing, counts, moves.alpha, generator)
        moved = int(gains.sum())
        if moved:
            wanted = np.where(counts > 0, moves.duplicate * gains, 0.0)
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
