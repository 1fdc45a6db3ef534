"""Hamiltonian Monte Carlo with lengths drawn from where trajectories turned (Wu, Stoehr, Robert 2018, eHMC).

A chain adapts the step size by dual averaging (Hoffman, Gelman 2014), then records after how many steps trajectories
begin to return, and draws the lengths of all later ones from parts of these: an order of NUTS without its doubling,
every trajectory an ordinary Metropolis proposal. Steps are the two-stage splitting of least energy error (Blanes,
Casas, Sanz-Serna 2014), which is more exact than two leapfrogs of half the length for the same two gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pgmest.losses.base import dot
from pgmest.models.posterior.metric import Metric

Energy = Callable[[np.ndarray], tuple[float, np.ndarray]]

TWO_STAGE = 0.21178
"""The share of a step that its first kick takes; 1/4 would be two leapfrogs."""

TARGET_ACCEPTANCE = 0.8
FIRST_STEP = 0.1
DIVERGENT = 1000.0
"""A trajectory whose energy is off by more is counted as divergent."""

PART_OF_TURN = (0.25, 0.75)
"""Of the way to where it turns. Where all directions are equally long a whole turn ends opposite to its start, as far
from the center as before, so that spreads would not mix; a quarter of the circle forgets the start."""

LONGEST = 1024
TURNS = 15
"""So many trajectories say when they turn; none is followed for more than LONGEST steps."""

TURNED = 0.05
"""Of the largest product of way and momentum: less says that it has turned."""

LONGER = 2.0
"""Trajectories that turn only after so many times the median number of steps end then: few are, and cost most."""

WARM_UP_LENGTH = 16


@dataclass
class _State:
    point: np.ndarray
    energy: float
    gradient: np.ndarray


@dataclass
class Chain:
    """One Markov chain, with a generator and a density of its own.

    Attributes:
        energy: of a point, with its gradient.
        gradient: that, with anything that is finite where the energy is, which costs less.
        redrawn: a point with new values along directions that no answer identifies, given everything else.
        held: a step without these directions.
        step: the step size, in scaled coordinates.
        lengths: numbers of steps, of which every trajectory draws one.
        divergent: how many trajectories lost their energy, after the warm-up.
        acceptance: the mean acceptance probability, after the warm-up.
    """

    energy: Energy
    gradient: Energy
    redrawn: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    held: Callable[[np.ndarray], np.ndarray]
    metric: Metric
    generator: np.random.Generator
    step: float = FIRST_STEP
    lengths: list[int] = field(default_factory=list)
    divergent: int = 0
    acceptance: float = 0.0

    def warm_up(self, point: np.ndarray, count: int) -> np.ndarray:
        """Find the step size and the lengths; the last point."""
        state = _State(point, *self.energy(point))
        self.lengths = [WARM_UP_LENGTH]
        for turns in (TURNS // 3, TURNS):
            state = self._adapt(state, max(1, count // 2))
            lengths = [self._turn(state) for _ in range(turns)]
            most = round(LONGER * float(np.median(lengths)))
            self.lengths = [min(length, most) for length in lengths]
        return state.point

    def draw(self, point: np.ndarray, count: int, keep: Callable[[np.ndarray], None]) -> None:
        """Make `count` transitions and hand each point to `keep`."""
        state, accepted = _State(point, *self.energy(point)), 0.0
        for _ in range(count):
            state, probability, lost = self._transition(state, self.step, self._length())
            accepted += probability
            self.divergent += lost
            keep(state.point)
            state = self._redraw(state)
        self.acceptance = accepted / max(count, 1)

    def _length(self) -> int:
        share = self.generator.uniform(*PART_OF_TURN)
        return max(1, round(share * int(self.generator.choice(self.lengths))))

    def _adapt(self, state: _State, count: int) -> _State:
        """Dual averaging of the step size's log."""
        center, drift, average = math.log(2.0 * self.step), 0.0, math.log(self.step)
        for n in range(1, count + 1):
            state, probability, _ = self._transition(self._redraw(state), self.step, self._length())
            drift += (TARGET_ACCEPTANCE - probability - drift) / (n + 10.0)
            log_step = center - math.sqrt(n) / 0.1 * drift
            average += n**-0.75 * (log_step - average)
            self.step = math.exp(log_step)
        self.step = math.exp(average)
        return state

    def _redraw(self, state: _State) -> _State:
        point = self.redrawn(state.point, self.generator)
        return _State(point, *self.energy(point))

    def _transition(self, state: _State, step: float, length: int) -> tuple[_State, float, bool]:
        """A Metropolis step along a trajectory: the new state, its acceptance probability, whether it diverged."""
        momentum = self.metric.momentum(self.generator)
        before = state.energy + self.metric.kinetic(momentum)
        step *= self.generator.uniform(0.9, 1.1)
        moved = state
        for left in range(length - 1, -1, -1):
            moved, momentum = self._move(moved, momentum, step, last=left == 0)
            if not math.isfinite(moved.energy):
                return state, 0.0, True
        gain = before - moved.energy - self.metric.kinetic(momentum)
        probability = math.exp(min(0.0, gain)) if math.isfinite(gain) else 0.0
        chosen = moved if self.generator.random() < probability else state
        return chosen, probability, not gain > -DIVERGENT

    def _move(self, state: _State, momentum: np.ndarray, step: float, last: bool = False) -> tuple[_State, np.ndarray]:
        """One two-stage step: kick, drift, kick, drift, kick; with the energy itself only after the last one."""
        metric = self.metric
        momentum = momentum - TWO_STAGE * step * metric.force(state.gradient)
        point = state.point + 0.5 * step * metric.velocity(momentum)
        energy, gradient = self.gradient(point)
        if not math.isfinite(energy):
            return _State(point, math.inf, gradient), momentum
        momentum -= (1.0 - 2.0 * TWO_STAGE) * step * metric.force(gradient)
        point += 0.5 * step * metric.velocity(momentum)
        energy, gradient = self.energy(point) if last else self.gradient(point)
        if math.isfinite(energy):
            momentum -= TWO_STAGE * step * metric.force(gradient)
        return _State(point, energy, gradient), momentum

    def _turn(self, state: _State) -> int:
        """After how many steps a trajectory begins to return to where it started."""
        momentum, moved, largest = self.metric.momentum(self.generator), state, 0.0
        scale = self.metric.scale
        inverse = np.divide(1.0, scale, out=np.zeros(len(scale)), where=scale > 0)
        for length in range(1, LONGEST + 1):
            moved, momentum = self._move(moved, momentum, self.step)
            if not math.isfinite(moved.energy):
                return length
            away = dot(self.held(moved.point - state.point) * inverse, momentum[: len(inverse)])
            if away < TURNED * largest:
                return length
            largest = max(largest, away)
        return LONGEST
