"""Accelerated mirror descent with restarts: the default, and the fastest known for smooth losses."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.losses.base import dot
from pgmest.solvers.certificate import duality_gap
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State, divergence

MOST_DOUBLINGS = 60
SMALLEST_DIVERGENCE = 1e-28
"""A step that moves the distribution by less is accepted: both sides of the inequality are rounding errors."""


def _no_cells() -> np.ndarray:
    return np.empty(0)


def check_finite_start(loss: float) -> None:
    """A solver can only go down from a number.

    Raises:
        ArgumentError: the loss is infinite or NaN where the solver starts.
    """
    if not math.isfinite(loss):
        raise ArgumentError(
            f"the loss is {loss} at the starting point. Where structural_zeros= or the prior make a cell impossible, "
            "the loss must not need records in it; else start from other potentials with init=, or mend the loss."
        )


@dataclass
class AcceleratedState(State):
    """theta, p: the mirror iterate z. The arrays below `steps_left` are overwritten by every step.

    Attributes:
        average: the accelerated iterate x.
        momentum: a, the share of z in x.
        gained: A, the sum of the step sizes 1 / (a L) of this epoch.
        smoothness: L, the constant of the last accepted step, already shrunk for the next.
        epoch: length of this epoch.
        steps_left: until the next restart.
        gradient, point, change, move: g, y, z' - z, theta' - theta.
        spare: arrays for the next theta and z.
    """

    average: np.ndarray = field(default_factory=_no_cells)
    momentum: float = 1.0
    gained: float = 0.0
    smoothness: float = 1.0
    epoch: float = 0.0
    steps_left: int = 0
    gradient: np.ndarray = field(default_factory=_no_cells)
    point: np.ndarray = field(default_factory=_no_cells)
    change: np.ndarray = field(default_factory=_no_cells)
    move: np.ndarray = field(default_factory=_no_cells)
    spare: tuple[np.ndarray, np.ndarray] = field(default_factory=lambda: (_no_cells(), _no_cells()))


@dataclass(frozen=True)
class AcceleratedMirrorDescent(Solver[AcceleratedState]):
    r"""Accelerated Bregman proximal gradient on the entropy of the model, restarted from its mirror iterate.

    One step, with z the mirror iterate (potentials $\theta$), x the average and a its momentum:

    .. math::
        y = (1-a) x + a z, \quad g = \nabla f(y), \quad
        \theta' = \theta - \frac{g}{a L}, \quad z' = p_{\theta'}, \quad x' = (1-a) x + a z'

    (Auslender and Teboulle 2006; adaptive L as in Hanzely, Richtarik and Xiao 2021.) The step is accepted when
    $f(x') \le f(y) + \langle g, x' - y \rangle + a^2 L \, KL(z' \| z)$, where both sides are known exactly: the KL is
    that of the joint distributions, from their log-partition functions, and for a quadratic loss the left side minus
    the linear part is a quadratic in z' - z. So L is as small as the inequality allows, far below the worst case.
    One oracle call a step, and another one in the few steps where L has to grow.

    The momentum follows L: with s = 1 / (a L) the size of the step and A the sum of the sizes before, a = s / (A + s).
    Then $f(x) - f(q) \le KL(q \| z_0) / A$ for every q however L has changed on the way. With a momentum that knows
    the number of steps alone, long epochs lose what they have gained where L falls.

    After an epoch of steps the method restarts: x := z, a := 1, and the next epoch is longer by `growth`. Averages x
    leave the exponential family of the measured cliques, but z never does, and restarting from z rather than from x
    makes z itself converge at the accelerated rate. So what is returned is z with its potentials: a member of the
    family, and hence, among all optimal distributions, the one that PGM asks for (maximum entropy, or least relative
    entropy to the prior), also where the junction tree needed fill edges.

    Attributes:
        epoch: steps of the first epoch.
        growth: how much longer each epoch is than the one before.
        shrink: factor on L after each accepted step, so that it can fall again.
    """

    epoch: int = 80
    growth: float = 2.0
    shrink: float = 0.97
    name: str = "accelerated"

    def start(self, problem: Problem, theta: np.ndarray) -> AcceleratedState:
        p, log_partition = problem.marginals(theta)
        loss, gradient = problem.loss_and_gradient(p)
        check_finite_start(loss)
        slopes = (np.ptp(gradient), np.abs(gradient).max()) if gradient.size else ()
        smoothness = next((float(guess) for guess in (problem.lipschitz, *slopes) if guess), 1.0)
        return AcceleratedState(
            theta,
            p,
            log_partition,
            average=p.copy(),
            smoothness=max(smoothness * 1e-3, np.finfo(float).tiny),
            epoch=float(self.epoch),
            steps_left=self.epoch,
            gradient=gradient,
            point=np.empty_like(p),
            change=np.empty_like(p),
            move=np.empty_like(p),
            spare=(np.empty_like(p), np.empty_like(p)),
        )

    def step(self, problem: Problem, state: AcceleratedState) -> AcceleratedState:
        if state.steps_left == 0:
            self.restart(problem, state)
        if not any(self._try_step(problem, state) for _ in range(MOST_DOUBLINGS)):
            state.finished = "the steps have become too small to change the loss in floating point"
            return state
        state.steps_left -= 1
        state.settled = state.steps_left == 0
        return state

    def lower_bound(self, problem: Problem, state: AcceleratedState, enough: float) -> float:
        """From the average x, whose gradient oscillates less than that of z."""
        loss, gradient = problem.loss_and_gradient(state.average)
        return loss - duality_gap(problem, state.average, gradient, enough=enough)

    def restart(self, problem: Problem, state: AcceleratedState) -> None:
        """Forget the momentum; the next epoch is longer."""
        np.copyto(state.average, state.p)
        state.gained = 0.0
        state.epoch *= self.growth
        state.steps_left = int(state.epoch)

    def _try_step(self, problem: Problem, state: AcceleratedState) -> bool:
        """One step with the state's L, which doubles if the inequality refuses it."""
        x, y, smoothness = state.average, state.point, state.smoothness
        size = (1.0 + math.sqrt(1.0 + 4.0 * state.gained * smoothness)) / (2.0 * smoothness)
        a = state.momentum = size / (state.gained + size)
        np.subtract(state.p, x, out=y)
        y *= a
        y += x
        at_y, _ = problem.loss_and_gradient(y, out=state.gradient)
        self.propose(state)
        if not math.isfinite(dot(state.move, state.move)):
            state.smoothness *= 2.0
            return False
        theta, z = state.spare
        np.add(state.theta, state.move, out=theta)
        _, log_partition = problem.marginals(theta, out=z)
        np.subtract(z, state.p, out=state.change)
        distance = divergence(state.move, state.change, z, state.log_partition, log_partition)
        curving = self.curving(problem, state, at_y)
        allowed, slack = smoothness * distance, self.slack(state)
        if distance > SMALLEST_DIVERGENCE:
            if curving > allowed + slack:
                state.smoothness *= 2.0
                return False
            if curving <= allowed + 0.25 * slack:
                state.smoothness *= self.shrink
        np.multiply(state.change, a, out=x)
        x += y
        state.spare = (state.theta, state.p)
        state.theta, state.p, state.log_partition = theta, z, log_partition
        state.gained += size
        return True

    def propose(self, state: AcceleratedState) -> None:
        """Write the step of the potentials for the present momentum and L into `state.move`."""
        np.multiply(state.gradient, -1.0 / (state.momentum * state.smoothness), out=state.move)

    def slack(self, state: AcceleratedState) -> float:
        """How much of the acceptance inequality, divided by a^2, may be missing."""
        return 0.0

    def curving(self, problem: Problem, state: AcceleratedState, at_y: float) -> float:
        """[f(x') - f(y) - <g, x' - y>] / a^2, where x' - y = a (z' - z)."""
        quadratic = problem.curvature_along(state.change)
        if quadratic is not None:
            return quadratic
        a = state.momentum
        after, _ = problem.loss_and_gradient(state.point + a * state.change)
        if not math.isfinite(after):  # outside the domain of the loss, such as a logarithm at 0: a shorter step
            return math.inf
        rounding = 1e-13 * (abs(after) + abs(at_y))
        return max(after - at_y - a * dot(state.gradient, state.change) - rounding, 0.0) / (a * a)
