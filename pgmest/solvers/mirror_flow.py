"""A mirror flow stopped where held-out answers say so: closer to the truth than the optimum of the loss is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.losses.l2 import WeightedSquares
from pgmest.solvers.held_out import HeldOut, split_noise
from pgmest.solvers.implicit_step import ImplicitStep
from pgmest.solvers.independent import independent_potentials, one_way_shares
from pgmest.solvers.penalized import penalized
from pgmest.solvers.penalty import difference
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status

TIMES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0, 64.0)
"""Where the flow may stop."""


@dataclass(kw_only=True)
class FlowState(State):
    """theta, p: the point of the flow at `time`, the last one accepted; at first where it starts.

    Attributes:
        time: as `MirrorFlow` counts it.
        flow: the points to come.
        verdicts: whether to go on to each of them, found out when asked for.
    """

    time: float = 0.0
    flow: Iterator[tuple[float, State]]
    verdicts: Iterator[bool]


@dataclass(frozen=True)
class MirrorFlow(Solver[FlowState]):
    r"""$d\theta / dt = -\nabla f(p_\theta) / u$ from the independent model, stopped early on purpose.

    The optimum of the loss fits the noise too, above all in cells whose counts the noise hides. The flow fits first
    what many answers agree on, and leaves such cells near its start until late. It runs toward the same optimum,
    through the same exponential family, and is stopped where it predicts best. Choose it where accuracy on the truth
    matters more than the loss; the report's gap is then what was given up of the loss.

    - The start has the attributes independent, with shares from all answers (`one_way_shares`), times what is possible
      under structural zeros. With a prior, it is the prior. `estimate`'s `init` is not used.
    - Time is measured in units of u, the median over cells of total / stddev, so that it means the same at any noise.
      An implicit step of length h minimizes $f(p) + (u / h) \, KL(p \| p_t)$ (entropic proximal point; Bregman
      iteration), to a certified gap. One iteration of `estimate` is one such step, of many oracle calls.
    - Where to stop: the flow is run first on the answers plus fresh noise, and scored on the answers minus that noise
      (`split_noise`); it goes on until its score is worse than its best by more than a standard error (`HeldOut`).

    Attributes:
        time: stop at this time and search for none. Large: close to the optimum of the loss. 2 is safe at most noise.
        seed: of the noise that splits the answers; the same seed gives the same model.
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
        """Where the flow may stop, or, with a fixed time, what it passes on the way."""
        return TIMES if self.time is None else (*(t for t in TIMES if t < self.time), float(self.time))

    def start(self, problem: Problem, theta: np.ndarray) -> FlowState:
        """At the start of the flow; `theta` is not used."""
        _checked(problem)
        theta = flow_start(problem)
        p, log_partition = problem.marginals(theta)
        flow = mirror_flow(problem, theta, self.times)
        return FlowState(theta, p, log_partition, flow=flow, verdicts=self._verdicts(problem))

    def step(self, problem: Problem, state: FlowState) -> FlowState:
        """The next point of the flow, unless held-out answers refuse it."""
        reason = ""
        if not next(state.verdicts):
            reason = "chosen by held-out answers"
        else:
            state.time, point = next(state.flow)
            state.theta, state.p, state.log_partition = point.theta, point.p, point.log_partition
            if state.time == self.times[-1]:
                reason = "the last it tries" if self.time is None else "as asked"
        if reason:
            state.status, state.detail = Status.EARLY, f"at time {state.time:g} of the mirror flow, {reason}"
        return state

    def lower_bound(self, problem: Problem, state: FlowState, enough: float) -> float:
        """By the duality gap, which is loose far from the optimum, or by what no marginals can fit."""
        loss = _checked(problem)
        return max(super().lower_bound(problem, state, enough), loss.constant)

    def _verdicts(self, problem: Problem) -> Iterator[bool]:
        if self.time is not None:
            return repeat(True)
        fitted, held = split_noise(problem, np.random.default_rng(self.seed))
        rule = HeldOut(held)
        return (rule.accepts(point.p) for _, point in mirror_flow(fitted, flow_start(fitted), self.times))


def mirror_flow(problem: Problem, start: np.ndarray, times: tuple[float, ...] = TIMES) -> Iterator[tuple[float, State]]:
    """Each of the times, with the point of the flow from potentials `start` there, by implicit steps.

    A step is looked for from where it would lead were the flow as fast as in the step before.
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
    """Flat potentials of the prior, if there is one; else of independent attributes with the measured shares."""
    if np.any(problem.base[np.isfinite(problem.base)]):
        return problem.base.copy()
    return independent_potentials(problem, one_way_shares(_checked(problem)))


def unit_strength(loss: WeightedSquares) -> float:
    """The penalty of relative entropy that counts as 1: total / stddev, the median over cells.

    In this unit penalties act alike at every scale: with x = count / stddev a cell costs
    1/2 (x - y)^2 + strength * x log(x / x_prior).
    """
    precision = loss.curvature_floor()
    return float(np.median(np.sqrt(precision))) if precision.size else 1.0


def _checked(problem: Problem) -> WeightedSquares:
    loss = problem.loss
    if not isinstance(loss, WeightedSquares) or not np.all(loss.curvature_floor() > 0):
        raise ArgumentError(
            "method='mirror_flow' needs loss='l2' and identity measurements: it splits and averages noisy counts. "
            "Use method='auto', which takes any query and any loss."
        )
    return loss
