r"""The proximal point method in relative entropy, for tables of very unequal noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.losses.l2 import is_positive_squares
from pgmest.solvers.certificate import NEGLIGIBLE_GAP, lower_bound
from pgmest.solvers.implicit_step import DualPoint, ImplicitStep
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status

SHRINK = 0.2
"""The factor on the strength s after each step."""

STEP_CALLS = 300
"""The most oracle calls of one step."""

ACCURACY = 3e-4
FINEST = 0.1 * NEGLIGIBLE_GAP
"""A step ends at a certified gap of ACCURACY of the loss, or of FINEST noise floors if that is more."""

REFUSALS = 5
STRONGER = 2.5
WEAKEST = 1e-6
"""A step that raises the loss is refused, since weak steps multiply rounding errors, and the next one is stronger by
STRONGER. The run ends after REFUSALS of them, or when the strength is below WEAKEST noise floors."""


@dataclass(kw_only=True)
class ProximalState(State):
    """The state of the proximal point method.

    Attributes:
        loss: the loss at p.
        strength: s of the next step.
        dual: the solver of the steps.
        point: the multipliers of the last step, before the first one None.
        refusals: the number of refused steps.
    """

    loss: float
    strength: float
    dual: ImplicitStep
    point: DualPoint | None = None
    refusals: int = 0


@dataclass(frozen=True)
class ProximalPoint(Solver[ProximalState]):
    r"""Minimize $f(p) + s \, KL(p \| p_k)$ for falling s, each by limited-memory BFGS in the dual (`ImplicitStep`).

    Steps of mirror descent are as short as the most precise table demands. Here each precision scales its own
    multipliers, so tables with noise of 1 and of 10^6 are fitted together in the time of equal ones (Rockafellar 1976;
    with relative entropy: Censor and Zenios 1992). The multipliers of the last step certify the loss.

    Raises:
        ArgumentError: at the start of a run, if the loss is not a sum of squares with a positive weight in each cell,
            or if a fact does not count cells.
    """

    name: str = "proximal_point"

    def start(self, problem: Problem, theta: np.ndarray) -> ProximalState:
        if not is_positive_squares(problem.loss):
            raise ArgumentError(
                "method='proximal_point' needs loss='l2' and whole marginals without queries. Use method='auto'."
            )
        if problem.facts is not None and not problem.facts.counting:
            raise ArgumentError(
                "method='proximal_point' needs exact answers that count cells of a table. Use method='auto'."
            )
        p, log_partition = problem.marginals(theta)
        loss, _ = problem.loss_and_gradient(p)
        strength = max(SHRINK * loss, problem.loss.noise_floor)
        return ProximalState(theta, p, log_partition, loss=loss, strength=strength, dual=ImplicitStep(problem))

    def step(self, problem: Problem, state: ProximalState) -> ProximalState:
        floor = problem.loss.noise_floor
        sufficient = max(FINEST * floor, ACCURACY * state.loss)
        point = state.dual.approach(state.theta, state.strength, state.theta, sufficient, STEP_CALLS)
        loss, _ = problem.loss_and_gradient(point.p)
        if loss > state.loss + sufficient:
            state.refusals += 1
            state.strength *= STRONGER
        else:
            state = ProximalState(
                point.theta,
                point.p,
                point.log_partition,
                settled=True,
                loss=loss,
                strength=SHRINK * state.strength,
                dual=state.dual,
                point=point,
                refusals=state.refusals,
            )
        if state.refusals >= REFUSALS or state.strength < WEAKEST * floor:
            state.status = Status.PRECISION
        return state

    def lower_bound(self, problem: Problem, state: ProximalState, sufficient_gap: float) -> float:
        """Return the bound of the last step's multipliers."""
        target = None if state.point is None else state.dual.targets(state.point)
        return lower_bound(problem, state.p, sufficient_gap, target)
