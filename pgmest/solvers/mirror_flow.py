"""A mirror flow with early stopping by held-out answers, often closer to the truth than the optimum of the loss."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.losses.l2 import WeightedSquares, is_positive_squares
from pgmest.solvers.held_out import HeldOut, split_noise
from pgmest.solvers.implicit_step import ImplicitStep
from pgmest.solvers.independent import fit_one_way, independent_potentials, one_way_shares
from pgmest.solvers.penalized import penalized
from pgmest.solvers.penalty import difference
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status

TIMES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0, 64.0)
"""The times at which the flow may stop, in the units of `MirrorFlow`."""


@dataclass(kw_only=True)
class FlowState(State):
    """The state of the flow: `theta` and `p` are its last accepted point, initially the start.

    Attributes:
        time: the time of the point, in the units of `MirrorFlow`.
        flow: the later points with their times, computed on demand.
        acceptances: for each later point, whether the flow may go there; computed on demand.
    """

    time: float = 0.0
    flow: Iterator[tuple[float, State]]
    acceptances: Iterator[bool]


@dataclass(frozen=True)
class MirrorFlow(Solver[FlowState]):
    r"""$d\theta / dt = -\nabla f(p_\theta) / u$ from the independent model, stopped early on purpose.

    The optimum of the loss also fits the noise, above all in cells whose counts are below the noise. The flow first
    fits signals that many answers share, and leaves such cells near their start for long. It moves toward the same
    optimum, within the same exponential family, and stops where its held-out loss is smallest. Choose it if accuracy on
    the truth matters more than the loss; the gap in the report then bounds the loss that was given up.

    - Start: the prior if there is one, otherwise independent attributes with shares from all answers
      (`one_way_shares`), which the structural zeros do not change (`fit_one_way`). The `init` of `estimate` is not
      used.
    - Time: the unit is u, the median over cells of total / stddev, so that equal times mean the same at any noise. An
      implicit step of length h minimizes $f(p) + (u / h) \, KL(p \| p_t)$ (entropic proximal point; Bregman iteration)
      to a certified gap. One iteration of `estimate` is one such step and takes many oracle calls.
    - Stop: the flow is run first on the answers plus fresh noise, and scored on the answers minus that noise
      (`split_noise`). It stops when its score exceeds its best score by more than one standard error (`HeldOut`).

    Attributes:
        time: the time at which to stop, which replaces the search. Large times give the optimum of the loss. A time of
            2 is safe at most noise levels.
        seed: the seed of the noise that splits the answers; equal seeds give equal models.

    Raises:
        ArgumentError: the time is not positive, or the seed is not a nonnegative integer.
    """

    time: float | None = None
    seed: int = 0
    name: str = "mirror_flow"

    def __post_init__(self) -> None:
        if self.time is not None and not (isinstance(self.time, int | float | np.number) and 0 < self.time < math.inf):
            raise ArgumentError.of("time", self.time, "a positive number, or None to choose it by held-out answers")
        if not isinstance(self.seed, int | np.integer) or self.seed < 0:
            raise ArgumentError.of("seed", self.seed, "an integer of at least 0")

    @property
    def times(self) -> tuple[float, ...]:
        """The times at which the flow may stop; with a fixed time, the times of its steps."""
        return TIMES if self.time is None else (*(t for t in TIMES if t < self.time), float(self.time))

    def start(self, problem: Problem, theta: np.ndarray) -> FlowState:
        """Return the state at the start of the flow; `theta` is not used."""
        _checked(problem)
        theta = flow_start(problem)
        p, log_partition = problem.marginals(theta)
        flow = mirror_flow(problem, theta, self.times)
        return FlowState(theta, p, log_partition, flow=flow, acceptances=self._acceptances(problem))

    def step(self, problem: Problem, state: FlowState) -> FlowState:
        """Go to the next point of the flow, or stop if the held-out answers reject it."""
        reason = ""
        if not next(state.acceptances):
            reason = "chosen by held-out answers"
        else:
            state.time, point = next(state.flow)
            state.theta, state.p, state.log_partition = point.theta, point.p, point.log_partition
            if state.time == self.times[-1]:
                reason = "the last it tries" if self.time is None else "as asked"
        if reason:
            state.status, state.detail = Status.EARLY, f"at time {state.time:g} of the mirror flow, {reason}"
        return state

    def lower_bound(self, problem: Problem, state: FlowState, sufficient_gap: float) -> float:
        """Return the bound of the duality gap, which is loose far from the optimum, or the constant of the loss."""
        loss = _checked(problem)
        return max(super().lower_bound(problem, state, sufficient_gap), loss.constant)

    def _acceptances(self, problem: Problem) -> Iterator[bool]:
        if self.time is not None:
            return repeat(True)
        fitted, held = split_noise(problem, np.random.default_rng(self.seed))
        rule = HeldOut(held)
        return (rule.accepts(point.p) for _, point in mirror_flow(fitted, flow_start(fitted), self.times))


def mirror_flow(problem: Problem, start: np.ndarray, times: tuple[float, ...] = TIMES) -> Iterator[tuple[float, State]]:
    """Yield each time and the point of the flow from potentials `start` at that time, by implicit steps.

    Each step starts from a linear extrapolation of the step before.
    """
    theta, unit, before = start, unit_strength(_checked(problem)), 0.0
    dual, speed = ImplicitStep(problem), np.zeros_like(start)
    for time in times:
        length = time - before
        point = penalized(problem, theta, unit / length, theta + length * speed, dual)
        speed = difference(point.theta, theta) / length
        theta, before = point.theta, time
        yield time, point


def flow_start(problem: Problem) -> np.ndarray:
    """Return flat potentials of the prior if there is one, otherwise of the measured shares of single attributes.

    The attributes are independent, or as nearly so as the structural zeros let them be (maximum entropy).
    """
    if np.any(problem.base[np.isfinite(problem.base)]):
        return problem.base.copy()
    shares = one_way_shares(_checked(problem))
    start = independent_potentials(problem, shares)
    return fit_one_way(problem, start, shares) if np.isneginf(start).any() else start


def unit_strength(loss: WeightedSquares) -> float:
    """Return the unit of penalties of relative entropy: total / stddev, the median over cells.

    In this unit a penalty has the same effect at every scale: with x = count / stddev, a cell contributes
    1/2 (x - y)^2 + strength * x log(x / x_prior).
    """
    precision = loss.curvature_floor()
    return float(np.median(np.sqrt(precision))) if precision.size else 1.0


def _checked(problem: Problem) -> WeightedSquares:
    """Return the loss of the problem; raise ArgumentError if it is not weighted squares."""
    if is_positive_squares(problem.loss):
        return problem.loss
    raise ArgumentError(
        "method='mirror_flow' needs loss='l2' and identity measurements: it splits and averages noisy counts. "
        "Use method='auto', which takes any query and any loss."
    )
