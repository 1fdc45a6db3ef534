"""The loop of adaptive mechanisms: select a marginal that the model gets wrong, measure it, estimate again, anneal.

AIM, MWEM, PMW-Pub, PPSyn and PrivMRF run this loop and differ in four parts:

- candidates: the marginals that a round can measure, with their scores (`exponential_selection.Candidate`);
- schedule: the round budgets, the number of rounds, and annealing (`EqualRounds`, `Annealing`);
- estimator: the model that learns from the measurements (`estimation.GraphicalModel`, multiplicative weights, ...);
- selection: the private choice of a candidate, by default `exponential_selection`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pgmest._base.memory import without_collection
from pgmest._base.stages import possible_rounds
from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.exponential_selection import Candidate, exponential_selection
from pgmest.mechanisms.parameters import MEASURING_SHARE
from pgmest.privacy.budgets import Budget
from pgmest.privacy.curator import Curator
from pgmest.tables.domain import Clique, Domain

ROUNDS_PER_ATTRIBUTE = 16
"""The default number of rounds per attribute for which the first round budget is made; annealing shortens the run."""


@dataclass(frozen=True)
class Round:
    """A round that is about to begin.

    Attributes:
        number: 1, 2, ...
        budget: the cost of selection and measurement together.
        last: whether the round is the last; its measurement then gets the whole remaining budget.
        reserve: the least budget of a further round; if the measurement would leave less, this round is the last.
    """

    number: int
    budget: Budget
    last: bool
    reserve: Budget | None = None

    def spent(self, curator: Curator) -> float:
        """Return the share of the whole budget that is spent at the end of the round."""
        return 1 - (curator.remaining - self.budget) / curator.budget


class Schedule(Protocol):
    """The round budgets."""

    def following(self, curator: Curator) -> Round:
        """Return the next round."""
        ...

    def observe(self, measurement: LinearMeasurement, before: Any, after: Any) -> None:
        """Take note of a round that has ended: its measurement, and the models before and after it."""
        ...


class RoundEstimator(Protocol):
    """A model that learns from a curator's measurements, round after round."""

    @property
    def model(self) -> Any:
        """The current model."""
        ...

    def learn(self, curator: Curator, last: bool) -> None:
        """Update the model with the new measurements; more accurately after the last round."""
        ...


@dataclass(frozen=True, eq=False)
class Adaptive:
    """The loop of an adaptive mechanism.

    Attributes:
        candidates: a function that returns the candidates of a round, at least one, from the round and the current
            model. It may depend only on public facts and on answers that were paid for.
        schedule: the round budgets.
        estimator: the estimator, which has a first model already.
        measuring_share: the share of a round's budget that pays for the measurement; the rest pays for the selection.
        selection: a function that chooses a candidate, given the curator, the model, the candidates and its cost.
    """

    candidates: Callable[[Round, Any], Sequence[Candidate]]
    schedule: Schedule
    estimator: RoundEstimator
    measuring_share: float = MEASURING_SHARE
    selection: Callable[..., Candidate] = exponential_selection

    def run(self, curator: Curator) -> list[Clique]:
        """Spend the curator's remaining budget, and return the chosen cliques, in order."""
        chosen: list[Clique] = []
        last = False
        while not last:
            turn = self.schedule.following(curator)
            model = self.estimator.model
            with without_collection():
                options = list(self.candidates(turn, model))
                label = f"round {turn.number}: one of {len(options)}"
                best = self.selection(curator, model, options, turn.budget * (1 - self.measuring_share), label=label)
            spend = best.spend or turn.budget * self.measuring_share
            last = turn.last or (turn.reserve is not None and curator.remaining <= spend + turn.reserve)
            label = f"round {turn.number}: {' x '.join(best.clique)}"
            measurement = curator.measure(best.clique, curator.remaining if last else spend, best.measured, label=label)
            chosen.append(best.clique)
            self.estimator.learn(curator, last)
            self.schedule.observe(measurement, model, self.estimator.model)
        return chosen


class EqualRounds:
    """A fixed number of rounds, each with an equal share of the remaining budget.

    Args:
        rounds: the number of rounds.
    """

    def __init__(self, rounds: int):
        self._rounds, self._number = rounds, 0

    def following(self, curator: Curator) -> Round:
        """Return the next round."""
        self._number += 1
        left = self._rounds + 1 - self._number
        return Round(self._number, curator.remaining / left, left == 1)

    def observe(self, measurement: LinearMeasurement, before: Any, after: Any) -> None:
        """Do nothing: the round budgets are fixed."""


class Annealing:
    r"""Round budgets that grow when the model moved less than noise alone would move it (AIM, PPSyn).

    After a measurement with noise of standard deviation sigma on each of its answers, if
    $\eta \lVert Q (\hat x_t - \hat x_{t-1}) \rVert_1 \le \sqrt{2 / \pi} \, \sigma \cdot rows$, the rounds that follow
    cost four times as much, so that their noise is half as large. A round is the last if it would leave less than a
    round's budget. Under a limit of time, rounds cost as much as it takes to spend the budget within the limit.

    Args:
        budget: the budget of the first round.
        eta: the largest ratio of a measurement's noise to the change of the model at which budgets stay as they are.
    """

    def __init__(self, budget: Budget, eta: float = 1.0):
        self._budget, self._eta, self._number = budget, eta, 0
        self._began = time.perf_counter()

    def following(self, curator: Curator) -> Round:
        """Return the next round."""
        budget, wanted = self._budget, curator.remaining / self._budget
        possible = possible_rounds(wanted, self._number, self._began)
        if possible < wanted:
            budget = curator.remaining / possible
        self._number += 1
        last = curator.remaining / budget < 2
        return Round(self._number, curator.remaining if last else budget, last)

    def observe(self, measurement: LinearMeasurement, before: Any, after: Any) -> None:
        """Raise the round budgets if the measurement changed the model less than noise would."""
        moved = measurement.answer(after.project(measurement.clique))
        moved = np.abs(moved - measurement.answer(before.project(measurement.clique))).sum()
        if self._eta * float(moved) <= MEAN_ABSOLUTE * float(np.mean(measurement.stddev)) * measurement.rows:
            self._budget = self._budget * 4


def planned_rounds(rounds: int | None, domain: Domain) -> int:
    """Return the number of rounds for which the first round budget is made: the given one, or the default."""
    return rounds or ROUNDS_PER_ATTRIBUTE * len(domain)
