"""The one loop of adaptive mechanisms: select what the model gets most wrong, measure it, estimate again, anneal.

AIM, MWEM, PMW-Pub, PPSyn and PrivMRF are this loop with parts of their own:

- candidates: what could be measured in a round, and how each is scored (`exponential_selection.Candidate`);
- schedule: the round budgets, how many rounds there are, and annealing (`EqualRounds`, `Annealing`);
- estimator: what learns from the measurements (`estimation.GraphicalModel`, multiplicative weights, ...);
- selection: how one candidate is chosen, by default `exponential_selection`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pgmest._base.memory import without_collection
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.exponential_selection import MEAN_ABSOLUTE, Candidate, exponential_selection
from pgmest.mechanisms.parameters import MEASURING
from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.tables.domain import Clique, Domain

ROUNDS_PER_ATTRIBUTE = 16
"""How many rounds the first round budgets are made for where nothing is said: annealing makes them fewer."""


@dataclass(frozen=True)
class Round:
    """A round that is about to begin.

    Attributes:
        number: 1, 2, ...
        budget: what it may cost, selection and measurement together.
        last: whether no other follows; its measurement then gets all that is left.
        reserve: what a further round needs at least: if the measurement would leave less, this round is the last.
    """

    number: int
    budget: Budget
    last: bool
    reserve: Budget | None = None

    def spent(self, curator: Curator) -> float:
        """The share of the whole budget that is spent when the round is over."""
        return 1 - (curator.remaining - self.budget) / curator.budget


class Schedule(Protocol):
    """The round budgets."""

    def following(self, curator: Curator) -> Round:
        """The next round."""
        ...

    def observe(self, measurement: LinearMeasurement, before: Any, after: Any) -> None:
        """A round is over; the models before and after it."""
        ...


class RoundEstimator(Protocol):
    """A model that learns from a curator's measurements, round after round."""

    @property
    def model(self) -> Any:
        """The present one."""
        ...

    def learn(self, curator: Curator, last: bool) -> None:
        """Take in what was measured since; at the end with more care."""
        ...


@dataclass(frozen=True, eq=False)
class Adaptive:
    """The loop.

    Attributes:
        candidates: what could be measured, from the round and the present model; at least one. Only what is public, or
            was paid for, may decide.
        schedule: the round budgets.
        estimator: has a model already, and learns.
        measuring: the share of a round that pays for the measurement; the rest pays for the selection.
        selection: chooses one of the candidates, given the curator, the model, the candidates and what it may cost.
    """

    candidates: Callable[[Round, Any], Sequence[Candidate]]
    schedule: Schedule
    estimator: RoundEstimator
    measuring: float = MEASURING
    selection: Callable[..., Candidate] = exponential_selection

    def run(self, curator: Curator) -> list[Clique]:
        """Spend what remains of the curator's budget; the cliques chosen, in order."""
        chosen: list[Clique] = []
        last = False
        while not last:
            turn = self.schedule.following(curator)
            model = self.estimator.model
            with without_collection():
                options = list(self.candidates(turn, model))
                label = f"round {turn.number}: one of {len(options)}"
                best = self.selection(curator, model, options, turn.budget * (1 - self.measuring), label=label)
            spend = best.spend or turn.budget * self.measuring
            last = turn.last or (turn.reserve is not None and curator.remaining <= spend + turn.reserve)
            label = f"round {turn.number}: {' x '.join(best.clique)}"
            measurement = curator.measure(best.clique, curator.remaining if last else spend, best.measured, label=label)
            chosen.append(best.clique)
            self.estimator.learn(curator, last)
            self.schedule.observe(measurement, model, self.estimator.model)
        return chosen


class EqualRounds:
    """A fixed number of rounds, each with an equal share of what remains.

    Args:
        rounds: how many.
    """

    def __init__(self, rounds: int):
        self._rounds, self._number = rounds, 0

    def following(self, curator: Curator) -> Round:
        """See `Schedule`."""
        self._number += 1
        left = self._rounds + 1 - self._number
        return Round(self._number, curator.remaining / left, left == 1)

    def observe(self, measurement: LinearMeasurement, before: Any, after: Any) -> None:
        """Nothing changes."""


class Annealing:
    r"""Round budgets that grow when the model moved less than noise alone would move it (AIM, PPSyn).

    After a measurement with noise of standard deviation sigma on each of its answers, if
    $\eta \lVert Q (\hat x_t - \hat x_{t-1}) \rVert_1 \le \sqrt{2 / \pi} \, \sigma \cdot rows$, the rounds that follow
    cost four times as much, so that their noise is half as large. The round that leaves less than another one's budget
    is the last.

    Args:
        budget: of the first round.
        eta: how much noise a measurement may have, as a share of what it changes.
    """

    def __init__(self, budget: Budget, eta: float = 1.0):
        self._budget, self._eta, self._number = budget, eta, 0

    def following(self, curator: Curator) -> Round:
        """See `Schedule`."""
        self._number += 1
        last = curator.remaining / self._budget < 2
        return Round(self._number, curator.remaining if last else self._budget, last)

    def observe(self, measurement: LinearMeasurement, before: Any, after: Any) -> None:
        """Compare what the measurement changed with its noise."""
        moved = measurement.answer(after.project(measurement.clique))
        moved = np.abs(moved - measurement.answer(before.project(measurement.clique))).sum()
        if self._eta * float(moved) <= MEAN_ABSOLUTE * float(np.mean(measurement.stddev)) * measurement.rows:
            self._budget = self._budget * 4


def planned_rounds(rounds: int | None, domain: Domain) -> int:
    """How many rounds the first round budget is made for: as asked, or `ROUNDS_PER_ATTRIBUTE` for each attribute."""
    return rounds or ROUNDS_PER_ATTRIBUTE * len(domain)
