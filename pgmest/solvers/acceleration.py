r"""Accelerated mirror descent, assembled from parts that `accelerated`, `smoothing` and `universal` choose.

One step, with z the mirror iterate (potentials $\theta$), x the average and a the momentum:

.. math::
    y = (1-a) x + a z, \quad g = \nabla h(y), \quad
    \theta' = \theta - \frac{g}{a L}, \quad z' = p_{\theta'}, \quad x' = (1-a) x + a z'

(Auslender and Teboulle 2006; adaptive L as in Hanzely, Richtarik and Xiao 2021.) The step is accepted when
$h(x') \le h(y) + \langle g, x' - y \rangle + a^2 L \, KL(z' \| z)$. Both sides are known exactly: the KL divergence is
that of the joint distributions and follows from their log-partition functions, and for a quadratic loss the left side
minus the linear part is a quadratic in z' - z. So L can be as small as the inequality allows, far below the worst case.
A step takes one oracle call, plus one for each time that L has to grow.

The momentum follows L: with s = 1 / (a L) the size of the step and A the sum of the earlier sizes, a = s / (A + s).
Then $h(x) - h(q) \le KL(q \| z_0) / A$ for every q, for any sequence of L. If the momentum depended only on the number
of steps, long epochs would lose their progress whenever L falls.

After an epoch of steps the method restarts: x := z, a := 1. The averages x leave the exponential family of the measured
cliques, but z never does, and restarting from z rather than from x makes z itself converge at the accelerated rate.
Therefore z and its potentials are returned. They lie in the family, so among all optimal distributions they approach
the one that PGM asks for (maximum entropy, or least relative entropy to the prior), also where the junction tree needed
fill edges.

========== ============================================================ ================================================
part       meaning                                                      choices
========== ============================================================ ================================================
surrogate  h, which an epoch minimizes in place of f; its lower bound   `ExactLoss`, `SmoothedSurrogate`, `Subgradients`
penalty    the term added to the loss, inside the proximal step         `NoPenalty`, `EntropyPenalty`
acceptance the slack by which a step may violate the inequality         `Acceptance`
========== ============================================================ ================================================
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pgmest.losses.base import dot
from pgmest.solvers.passes import SEPARATE_PASSES, FusedSquaresPasses, Passes
from pgmest.solvers.penalty import NoPenalty, Penalty
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status

MAX_DOUBLINGS = 60
FIRST_SMOOTHNESS = 1e-3
"""The first L as a share of its first guess, and the most doublings of L in one step. A guess that is too small costs a
few doublings; one that is too large costs many short steps."""

LONGEST_MOVE = 5.0
STEEPEST = 1e6
"""Limits for losses that can be infinite: the largest change of a potential in one step, in nats, and the largest ratio
of the gradient at z to the gradient at the average x from which an epoch may start."""

SHRINK = 0.97
"""The factor on L after a step that satisfies the inequality with room to spare, which lets L fall again."""

NARROWING = 0.4
"""The factor on the width of the slack at each restart."""

SMALLEST_DIVERGENCE = 1e-28
"""Steps with a smaller KL divergence are accepted, because both sides of the inequality are rounding errors."""


class Surrogate(Protocol):
    """A function h that an epoch minimizes in place of the loss f, with h <= f everywhere."""

    @property
    def problem(self) -> Problem:
        """The problem with h as its loss."""
        ...

    @property
    def smoothness_guess(self) -> float | None:
        """A guess at the smoothness of h relative to the entropy; None if there is no guess."""
        ...

    def excess(self, state: AcceleratedState) -> float:
        """Return [h(x') - h(y) - <g, x' - y>] / a^2 for the proposed step, x' - y = a (z' - z); inf if not finite."""
        ...

    def restartable(self, state: AcceleratedState) -> bool:
        """Return whether an epoch can start from z; otherwise the current epoch continues."""
        ...

    def record(self, state: AcceleratedState) -> None:
        """Update the surrogate after an accepted step."""

    def next_epoch(self, state: AcceleratedState) -> Surrogate:
        """Return the surrogate of the next epoch; called before the state is restarted."""
        ...

    def lower_bound(self, state: AcceleratedState, penalty: Penalty, sufficient_gap: float) -> float:
        """Return a lower bound on the minimum of f + penalty; `sufficient_gap` as for `Solver.lower_bound`."""
        ...


@dataclass(frozen=True)
class Acceptance:
    """The slack by which an accepted step may violate the inequality divided by a^2: width / (2 a).

    Attributes:
        width: epsilon, in the units of the loss.
    """

    width: float = 0.0

    def slack(self, momentum: float) -> float:
        """Return the slack at this momentum."""
        return 0.5 * self.width / momentum

    def next_epoch(self) -> Acceptance:
        """Return the acceptance of the next epoch."""
        return Acceptance(self.width * NARROWING)


@dataclass(frozen=True)
class Parts:
    """The parts of an accelerated solver.

    Attributes:
        surrogate, penalty, acceptance: what an epoch minimizes, and the slack of its steps.
        epoch: the number of steps of the first epoch.
        growth: the ratio of the lengths of consecutive epochs.
        least_smoothness: the smallest L, as a share of the largest L so far.
    """

    surrogate: Surrogate
    penalty: Penalty
    epoch: int
    growth: float
    least_smoothness: float = 0.0
    acceptance: Acceptance = Acceptance()


@dataclass(kw_only=True)
class AcceleratedState(State):
    """The state of accelerated mirror descent: `theta` and `p` are the mirror iterate z.

    Every step overwrites the arrays from `gradient` on.

    Attributes:
        parts: the parts of the solver.
        surrogate, acceptance: the surrogate and the acceptance of this epoch.
        average: the accelerated iterate x.
        smoothness: L of the last accepted step, already shrunk for the next step.
        largest_smoothness: the largest L so far.
        epoch: the length of this epoch, in steps.
        steps_left: the number of steps until the next restart.
        gradient, value, point, change, move: g, h(y), y, z' - z, theta' - theta.
        next_theta, next_p: theta', z'.
        passes: the array operations of a step.
        barrier: whether the loss was infinite at a step that was tried.
        momentum: a, the share of z in x.
        step_sum: A, the sum of the step sizes 1 / (a L) of this epoch.
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
    step_sum: float = 0.0
    largest_smoothness: float = 0.0


class AcceleratedSolver(Solver[AcceleratedState]):
    """The base of the accelerated solvers, which differ only in their `parts`."""

    @abstractmethod
    def parts(self, problem: Problem, theta: np.ndarray, p: np.ndarray) -> Parts:
        """Return the parts for a problem, given the potentials and marginals to start from."""

    def start(self, problem: Problem, theta: np.ndarray) -> AcceleratedState:
        p, log_partition = problem.marginals(theta)
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
            smoothness=surrogate.smoothness_guess or _first_smoothness(surrogate.problem, gradient),
            epoch=float(parts.epoch),
            steps_left=parts.epoch,
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

    def lower_bound(self, problem: Problem, state: AcceleratedState, sufficient_gap: float) -> float:
        return state.surrogate.lower_bound(state, state.parts.penalty, sufficient_gap)


def _passes(parts: Parts) -> Passes:
    """Return fused passes for weighted squares without a penalty, and separate passes otherwise."""
    alone = isinstance(parts.surrogate, ExactLoss) and isinstance(parts.penalty, NoPenalty)
    return (FusedSquaresPasses.of(parts.surrogate.problem) if alone else None) or SEPARATE_PASSES


def _first_smoothness(problem: Problem, gradient: np.ndarray) -> float:
    """Return the first L: a share of the Lipschitz constant, or of the spread or size of the gradient without one."""
    slopes = (np.ptp(gradient), np.abs(gradient).max()) if gradient.size else ()
    guess = next((float(guess) for guess in (problem.lipschitz, *slopes) if guess), 1.0) * FIRST_SMOOTHNESS
    if problem.facts is not None and gradient.size:  # a run at far potentials costs many sweeps to meet facts
        guess = max(guess, float(np.ptp(gradient)) / LONGEST_MOVE)
    return max(guess, np.finfo(float).tiny)


def _restart(state: AcceleratedState) -> None:
    """Start the next, longer epoch from z, without momentum."""
    state.surrogate = state.surrogate.next_epoch(state)
    state.acceptance = state.acceptance.next_epoch()
    np.copyto(state.average, state.p)
    state.step_sum = 0.0
    state.epoch *= state.parts.growth
    state.steps_left = int(state.epoch)


def _try_step(state: AcceleratedState) -> bool:
    """Try one step with the current L; return whether the inequality holds. Otherwise L doubles."""
    smoothness = state.smoothness
    # The size s solves s = 1 / (a L) with a = s / (A + s), that is L s^2 = A + s.
    size = (1.0 + math.sqrt(1.0 + 4.0 * state.step_sum * smoothness)) / (2.0 * smoothness)
    state.momentum = size / (state.step_sum + size)
    state.passes.propose(state)
    theta, z = state.next_theta, state.next_p
    _, log_partition = state.surrogate.problem.marginals(theta, out=z)
    if not _accepted(state, *state.passes.compare(state, log_partition)):
        return False
    state.passes.accept(state)
    state.next_theta, state.next_p = state.theta, state.p
    state.theta, state.p, state.log_partition = theta, z, log_partition
    state.step_sum += size
    return True


def _accepted(state: AcceleratedState, distance: float, excess: float) -> bool:
    """Return whether the inequality holds, and adapt L.

    Args:
        state: the state; its L and its momentum are those of the step.
        distance: KL(z' || z).
        excess: the left side of the inequality divided by a^2, see `Surrogate.excess`.
    """
    allowed, slack = state.smoothness * distance, state.acceptance.slack(state.momentum)
    if distance > SMALLEST_DIVERGENCE or excess == math.inf:
        if excess > allowed + slack:
            state.smoothness *= 2.0
            return False
        if excess <= allowed + 0.25 * slack:
            state.smoothness *= SHRINK
    state.largest_smoothness = max(state.largest_smoothness, state.smoothness)
    state.smoothness = max(state.smoothness, state.parts.least_smoothness * state.largest_smoothness)
    return True


@dataclass(frozen=True)
class ExactLoss:
    """The loss itself as its surrogate, h = f, for smooth losses."""

    problem: Problem
    smoothness_guess: float | None = None

    def excess(self, state: AcceleratedState) -> float:
        """Return the excess, from the quadratic form of the loss if it has one, otherwise from values of the loss.

        A loss may be infinite where a marginal is zero. After the first step that reaches such a point, x' must have a
        finite loss, and no potential may move by more than LONGEST_MOVE in one step: the inequality sees only the
        averages x, which can be far from zero while z is close to it.
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
        """Return False if the loss at z is infinite, or so close to that that its gradient exceeds STEEPEST times that
        at the average."""
        if self.problem.curvature_along(state.change) is not None:
            return True
        loss, at_z = self.problem.loss_and_gradient(state.p)
        _, at_x = self.problem.loss_and_gradient(state.average)
        return math.isfinite(loss) and bool(np.abs(at_z).max(initial=0.0) <= STEEPEST * np.abs(at_x).max(initial=0.0))

    def record(self, state: AcceleratedState) -> None:
        """Do nothing: the loss has no state."""

    def next_epoch(self, state: AcceleratedState) -> ExactLoss:
        """Return itself: the loss is the same in every epoch."""
        return self

    def lower_bound(self, state: AcceleratedState, penalty: Penalty, sufficient_gap: float) -> float:
        """Return the lower bound of the penalty's certificate for smooth losses."""
        return penalty.lower_bound(self.problem, state, sufficient_gap)
