"""Hamiltonian Monte Carlo with trajectory lengths drawn from the times at which trajectories turn (eHMC; Wu, Stoehr,
Robert 2018).

A chain adapts the step size by dual averaging (Hoffman, Gelman 2014). Then it records after how many steps trajectories
turn back, and draws the lengths of all later trajectories from fractions of these numbers. So trajectories are about
as long as those of NUTS, without its doubling, and each is an ordinary Metropolis proposal. Steps are the two-stage
splitting of least energy error (Blanes, Casas, Sanz-Serna 2014), which is more exact than two leapfrog steps of half
the length, for the same two gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pgmest.losses.base import dot
from pgmest.models.posterior.metric import Metric

Energy = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""From a point to its energy and gradient."""

TWO_STAGE = 0.21178
"""The share of a step that its first kick takes (Blanes, Casas, Sanz-Serna 2014); 1/4 would be two leapfrog steps."""

TARGET_ACCEPTANCE = 0.8
"""The acceptance probability to which the step size is adapted, as in NUTS."""
FIRST_STEP = 0.1
"""The step size before adaptation, in scaled coordinates."""
DIVERGENT = 1000.0
"""A trajectory whose energy error is larger than this, in nats, counts as divergent."""

PART_OF_TURN = (0.25, 0.75)
"""The trajectory length as a fraction of the U-turn time, uniform between these. If all directions are equally long, a
whole turn ends opposite to its start, as far from the center as before, so that spreads would not mix; a quarter of the
circle forgets the start."""

LONGEST = 1024
"""The largest number of steps of a trajectory whose turn is measured."""
TURNS = 15
"""The number of trajectories whose turns are measured."""

TURNED = 0.05
"""A trajectory has turned once the product of displacement and momentum is below this share of its maximum."""

LONGER = 2.0
"""U-turn times are cut off at this multiple of their median: later turns are rare and cost the most."""

WARM_UP_LENGTH = 16
"""The number of steps of a trajectory before turns are measured."""


@dataclass
class _State:
    """A point with its energy and gradient."""

    point: np.ndarray
    energy: float
    gradient: np.ndarray


@dataclass
class Chain:
    """One Markov chain, with its own generator and density.

    Attributes:
        energy: returns the energy and the gradient at a point.
        gradient: returns any number that is finite where the energy is, and the gradient; it costs less.
        redrawn: draws new values along the directions that no answer identifies, given everything else.
        identified: removes these directions from a step.
        metric: the mass matrix.
        generator: the chain's random numbers.
        step: the step size, in scaled coordinates.
        lengths: numbers of steps, one of which each trajectory draws.
        divergent: the number of divergent trajectories after the warm-up.
        acceptance: the mean acceptance probability after the warm-up.
    """

    energy: Energy
    gradient: Energy
    redrawn: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    identified: Callable[[np.ndarray], np.ndarray]
    metric: Metric
    generator: np.random.Generator
    step: float = FIRST_STEP
    lengths: list[int] = field(default_factory=list)
    divergent: int = 0
    acceptance: float = 0.0

    def warm_up(self, point: np.ndarray, count: int) -> np.ndarray:
        """Adapt the step size and the lengths over `count` transitions, and return the last point."""
        state = _State(point, *self.energy(point))
        self.lengths = [WARM_UP_LENGTH]
        for turns in (TURNS // 3, TURNS):
            state = self._adapt(state, max(1, count // 2))
            lengths = [self._turn(state) for _ in range(turns)]
            most = round(LONGER * float(np.median(lengths)))
            self.lengths = [min(length, most) for length in lengths]
        return state.point

    def draw(self, point: np.ndarray, count: int, keep: Callable[[np.ndarray], None]) -> None:
        """Make `count` transitions and pass each point to `keep`."""
        state, accepted = _State(point, *self.energy(point)), 0.0
        for _ in range(count):
            state, probability, lost = self._transition(state, self.step, self._length())
            accepted += probability
            self.divergent += lost
            keep(state.point)
            state = self._redraw(state)
        self.acceptance = accepted / max(count, 1)

    def _length(self) -> int:
        """Draw the number of steps of a trajectory."""
        share = self.generator.uniform(*PART_OF_TURN)
        return max(1, round(share * int(self.generator.choice(self.lengths))))

    def _adapt(self, state: _State, count: int) -> _State:
        """Make transitions while dual averaging adapts the log of the step size."""
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
        """Draw new values along unidentified directions, a Gibbs step."""
        point = self.redrawn(state.point, self.generator)
        return _State(point, *self.energy(point))

    def _transition(self, state: _State, step: float, length: int) -> tuple[_State, float, bool]:
        """Make a Metropolis step along a trajectory; return the state, the acceptance probability, and whether it
        diverged.
        """
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
        """Make one two-stage step (kick, drift, kick, drift, kick), with the energy itself only after the last one."""
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
        """Return the number of steps after which a trajectory turns back towards its start."""
        momentum, moved, largest = self.metric.momentum(self.generator), state, 0.0
        scale = self.metric.scale
        inverse = np.divide(1.0, scale, out=np.zeros(len(scale)), where=scale > 0)
        for length in range(1, LONGEST + 1):
            moved, momentum = self._move(moved, momentum, self.step)
            if not math.isfinite(moved.energy):
                return length
            away = dot(self.identified(moved.point - state.point) * inverse, momentum[: len(inverse)])
            if away < TURNED * largest:
                return length
            largest = max(largest, away)
        return LONGEST
