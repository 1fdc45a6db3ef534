r"""Accelerated mirror descent as an engine of parts; `accelerated`, `smoothing` and `universal` say which parts.

One step, with z the mirror iterate (potentials $\theta$), x the average and a its momentum:

.. math::
    y = (1-a) x + a z, \quad g = \nabla h(y), \quad
    \theta' = \theta - \frac{g}{a L}, \quad z' = p_{\theta'}, \quad x' = (1-a) x + a z'

(Auslender and Teboulle 2006; adaptive L as in Hanzely, Richtarik and Xiao 2021.) The step is accepted when
$h(x') \le h(y) + \langle g, x' - y \rangle + a^2 L \, KL(z' \| z)$, where both sides are known exactly: the KL is
that of the joint distributions, from their log-partition functions, and for a quadratic loss the left side minus
the linear part is a quadratic in z' - z. So L is as small as the inequality allows, far below the worst case.
One oracle call a step, and another one in the few steps where L has to grow.

The momentum follows L: with s = 1 / (a L) the size of the step and A the sum of the sizes before, a = s / (A + s).
Then $h(x) - h(q) \le KL(q \| z_0) / A$ for every q however L has changed on the way. With a momentum that knows
the number of steps alone, long epochs lose what they have gained where L falls.

After an epoch of steps the method restarts: x := z, a := 1. Averages x leave the exponential family of the measured
cliques, but z never does, and restarting from z rather than from x makes z itself converge at the accelerated rate. So
what is returned is z with its potentials: a member of the family, and hence, among all optimal distributions, the one
that PGM asks for (maximum entropy, or least relative entropy to the prior), also where the junction tree needed fill
edges.

========== ============================================================ ==============================================
part       what it decides                                              choices
========== ============================================================ ==============================================
surrogate  h, what an epoch minimizes in place of f; its lower bound    `ExactLoss`, `RoundedLoss`, `Subgradients`
penalty    what is added to the loss, inside the proximal step          `NoPenalty`, `EntropyPenalty`
acceptance how much of the inequality may be missing                    `Acceptance`
step rule  how L follows the curvature that is met                      `StepRule`
restarts   how long the epochs are                                      `Restarts`
========== ============================================================ ==============================================
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.passes import SEPARATE_PASSES, Passes, PassesOfSquares
from pgmest.solvers.penalty import NoPenalty, Penalty
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status

MAX_DOUBLINGS = 60
FIRST_STIFFNESS = 1e-3
"""L at first, as a share of the guess; at most MAX_DOUBLINGS times it doubles in one step."""

LONGEST_MOVE = 5.0
STEEPEST = 1e6
"""Where the loss can be infinite, potentials move by at most LONGEST_MOVE (nats) in a step, and no
epoch starts from marginals whose gradient is larger than that at the average by more than a factor of STEEPEST."""

SMALLEST_DIVERGENCE = 1e-28
"""A step that moves the distribution by less is accepted: both sides of the inequality are rounding errors."""


class Surrogate(Protocol):
    """h: the function that an epoch minimizes in place of the loss f, nowhere above it."""

    @property
    def problem(self) -> Problem:
        """The problem with h as its loss."""
        ...

    @property
    def stiffness(self) -> float | None:
        """A guess at the smoothness of h relative to the entropy, where there is one."""
        ...

    def excess(self, state: AcceleratedState) -> float:
        """[h(x') - h(y) - <g, x' - y>] / a^2 for the step proposed, where x' - y = a (z' - z); inf where not finite."""
        ...

    def restartable(self, state: AcceleratedState) -> bool:
        """Whether an epoch can start from z; if not, this one goes on."""
        ...

    def record(self, state: AcceleratedState) -> None:
        """Take note of an accepted step."""

    def renewed(self, state: AcceleratedState) -> Surrogate:
        """For the next epoch, before the state is restarted."""
        ...

    def lower_bound(self, state: AcceleratedState, penalty: Penalty, enough: float) -> float:
        """On the minimum of f + penalty; `enough` as for `Solver.lower_bound`."""
        ...


@dataclass(frozen=True)
class Acceptance:
    """How much of the inequality, divided by a^2, may be missing: width / (2 a).

    Attributes:
        width: epsilon, in the units of the loss.
        narrowing: factor on it at each restart.
    """

    width: float = 0.0
    narrowing: float = 1.0

    def slack(self, momentum: float) -> float:
        """What may be missing at this momentum."""
        return 0.5 * self.width / momentum

    def renewed(self) -> Acceptance:
        """For the next epoch."""
        return Acceptance(self.width * self.narrowing, self.narrowing)


@dataclass(frozen=True)
class StepRule:
    """How L follows the curvature: it doubles at a refused step.

    Attributes:
        shrink: factor on L after a step accepted with room to spare, so that it can fall again.
        least: L stays above this share of the largest one so far.
    """

    shrink: float
    least: float = 0.0


@dataclass(frozen=True)
class Restarts:
    """Steps of the first epoch, and how much longer each one is than the one before."""

    epoch: int
    growth: float


@dataclass(frozen=True)
class Parts:
    """What an accelerated solver is made of."""

    surrogate: Surrogate
    penalty: Penalty
    steps: StepRule
    restarts: Restarts
    acceptance: Acceptance = Acceptance()


@dataclass(kw_only=True)
class AcceleratedState(State):
    """theta, p: the mirror iterate z. The arrays from `gradient` on are overwritten by every step.

    Attributes:
        parts: the solver's; `surrogate` and `acceptance` are those of this epoch.
        average: the accelerated iterate x.
        smoothness: L, the constant of the last accepted step, already shrunk for the next; `largest`: the largest one.
        epoch: length of this epoch.
        steps_left: until the next restart.
        gradient, value, point, change, move: g, h(y), y, z' - z, theta' - theta.
        next_theta, next_p: theta', z'.
        barrier: whether the loss was infinite at a step that was tried.
        momentum: a, the share of z in x.
        gained: A, the sum of the step sizes 1 / (a L) of this epoch.
    """

    parts: Parts
    surrogate: Surrogate
    acceptance: Acceptance
    average: np.ndarray
    smoothness: float
    epoch: float
    steps_left: int
    gradient: np.ndarray
    point: np.ndarray
    change: np.ndarray
    move: np.ndarray
    next_theta: np.ndarray
    next_p: np.ndarray
    passes: Passes
    barrier: bool = False
    value: float = 0.0
    momentum: float = 1.0
    gained: float = 0.0
    largest: float = 0.0


class AcceleratedSolver(Solver[AcceleratedState]):
    """The engine. Solvers made with it choose their `parts`, and nothing else."""

    @abstractmethod
    def parts(self, problem: Problem, theta: np.ndarray, p: np.ndarray) -> Parts:
        """For a problem, and the potentials and marginals to start from."""

    def start(self, problem: Problem, theta: np.ndarray) -> AcceleratedState:
        p, log_partition = problem.marginals(theta)
        p = p.astype(np.float64, copy=False)  # whatever the oracle's precision
        parts = self.parts(problem, theta, p)
        surrogate = parts.surrogate
        _, gradient = surrogate.problem.loss_and_gradient(p)
        return AcceleratedState(
            theta,
            p,
            log_partition,
            parts=parts,
            surrogate=surrogate,
            acceptance=parts.acceptance,
            average=p.copy(),
            smoothness=surrogate.stiffness or _first_smoothness(surrogate.problem, gradient),
            epoch=float(parts.restarts.epoch),
            steps_left=parts.restarts.epoch,
            gradient=gradient,
            point=np.empty_like(p),
            change=np.empty_like(p),
            move=np.empty_like(p),
            next_theta=np.empty_like(p),
            next_p=np.empty_like(p),
            passes=_passes(parts),
        )

    def step(self, problem: Problem, state: AcceleratedState) -> AcceleratedState:
        if state.steps_left == 0:
            if state.surrogate.restartable(state):
                _restart(state)
            else:
                state.steps_left = int(state.epoch)
        for _ in range(MAX_DOUBLINGS):
            if _try_step(state):
                break
        else:
            state.status = Status.PRECISION
            return state
        state.surrogate.record(state)
        state.steps_left -= 1
        state.settled = state.steps_left == 0
        return state

    def objective(self, problem: Problem, state: AcceleratedState) -> float:
        return problem.loss_and_gradient(state.p)[0] + state.parts.penalty.value(state)

    def lower_bound(self, problem: Problem, state: AcceleratedState, enough: float) -> float:
        return state.surrogate.lower_bound(state, state.parts.penalty, enough)


def _passes(parts: Parts) -> Passes:
    """Those of squares, where that is all there is."""
    alone = isinstance(parts.surrogate, ExactLoss) and isinstance(parts.penalty, NoPenalty)
    return (PassesOfSquares.of(parts.surrogate.problem) if alone else None) or SEPARATE_PASSES


def _first_smoothness(problem: Problem, gradient: np.ndarray) -> float:
    """A share of the first that is known and not zero: the Lipschitz constant, the gradient's spread, its size."""
    slopes = (np.ptp(gradient), np.abs(gradient).max()) if gradient.size else ()
    guess = next((float(guess) for guess in (problem.lipschitz, *slopes) if guess), 1.0)
    return max(guess * FIRST_STIFFNESS, np.finfo(float).tiny)


def _restart(state: AcceleratedState) -> None:
    """Forget the momentum; the next epoch is longer."""
    state.surrogate = state.surrogate.renewed(state)
    state.acceptance = state.acceptance.renewed()
    np.copyto(state.average, state.p)
    state.gained = 0.0
    state.epoch *= state.parts.restarts.growth
    state.steps_left = int(state.epoch)


def _try_step(state: AcceleratedState) -> bool:
    """One step with the state's L, which doubles if the inequality refuses it."""
    smoothness = state.smoothness
    size = (1.0 + math.sqrt(1.0 + 4.0 * state.gained * smoothness)) / (2.0 * smoothness)
    state.momentum = size / (state.gained + size)
    state.passes.propose(state)
    theta, z = state.next_theta, state.next_p
    _, log_partition = state.surrogate.problem.marginals(theta, out=z)
    if not _accepted(state, *state.passes.compare(state, log_partition)):
        return False
    state.passes.accept(state)
    state.next_theta, state.next_p = state.theta, state.p
    state.theta, state.p, state.log_partition = theta, z, log_partition
    state.gained += size
    return True


def _accepted(state: AcceleratedState, distance: float, excess: float) -> bool:
    """Whether the inequality holds with this KL(z' || z) and excess; L follows."""
    steps = state.parts.steps
    allowed, slack = state.smoothness * distance, state.acceptance.slack(state.momentum)
    if distance > SMALLEST_DIVERGENCE or excess == math.inf:
        if excess > allowed + slack:
            state.smoothness *= 2.0
            return False
        if excess <= allowed + 0.25 * slack:
            state.smoothness *= steps.shrink
    state.largest = max(state.largest, state.smoothness)
    state.smoothness = max(state.smoothness, steps.least * state.largest)
    return True


@dataclass(frozen=True)
class ExactLoss:
    """h = f: no surrogate at all, for a smooth loss."""

    problem: Problem
    stiffness: float | None = None

    def excess(self, state: AcceleratedState) -> float:
        """From the loss's quadratic form where it has one, else from its values.

        A loss may be infinite where a marginal is zero. Once a step has met that, x' must be where it is finite, and
        no potential may move far in one step: averages x hide from the inequality how near to zero z has come.
        """
        quadratic = self.problem.curvature_along(state.change)
        if quadratic is not None:
            return quadratic
        if state.barrier and np.abs(state.move).max(initial=0.0) > LONGEST_MOVE:
            return math.inf
        a = state.momentum
        after, _ = self.problem.loss_and_gradient(state.point + a * state.change)
        if not math.isfinite(after):
            state.barrier = True
            return math.inf
        rounding = 1e-13 * (abs(after) + abs(state.value))
        return max(after - state.value - a * dot(state.gradient, state.change) - rounding, 0.0) / (a * a)

    def restartable(self, state: AcceleratedState) -> bool:
        """Not where the loss is infinite, or all but: there its gradient dwarfs that at the average."""
        if self.problem.curvature_along(state.change) is not None:
            return True
        loss, at_z = self.problem.loss_and_gradient(state.p)
        _, at_x = self.problem.loss_and_gradient(state.average)
        return math.isfinite(loss) and bool(np.abs(at_z).max(initial=0.0) <= STEEPEST * np.abs(at_x).max(initial=0.0))

    def record(self, state: AcceleratedState) -> None:
        """Nothing to note."""

    def renewed(self, state: AcceleratedState) -> ExactLoss:
        """The same in every epoch."""
        return self

    def lower_bound(self, state: AcceleratedState, penalty: Penalty, enough: float) -> float:
        """By the penalty's certificate for a smooth loss."""
        return penalty.lower_bound(self.problem, state, enough)
