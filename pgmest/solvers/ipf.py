"""Iterative proportional fitting: marginals that are exact and agree with each other, matched one clique at a time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pgmest._base.errors import ArgumentError, ImpossibleModelError
from pgmest.losses.l2 import WeightedSquares
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status
from pgmest.tables.factor import divide


@dataclass(kw_only=True)
class FittingState(State):
    """The target fractions of each cell."""

    target: np.ndarray


@dataclass(frozen=True)
class IterativeProportionalFitting(Solver[FittingState]):
    r"""$\theta_C \leftarrow \theta_C + \log(y_C / \mu_C)$, clique after clique (Deming and Stephan 1940).

    For noiseless, mutually consistent marginals: then it converges to the distribution of maximum entropy that has
    them, zeros included, usually in a few rounds. One iteration is a round over all cliques, one oracle call each.
    Noisy marginals contradict each other, and it then cycles: use another method.
    """

    name: str = "ipf"

    def start(self, problem: Problem, theta: np.ndarray) -> FittingState:
        if not isinstance(problem.loss, WeightedSquares):
            raise ArgumentError(
                "method='ipf' needs loss='l2' and identity measurements: it fits whole marginals. Use method='auto'."
            )
        target = problem.loss.target
        if np.any(target < 0):
            raise ArgumentError(
                f"method='ipf' needs marginals without negative counts, but {int(np.sum(target < 0))} cells are "
                "negative: they are noisy. Use method='auto'."
            )
        p, log_partition = problem.marginals(theta)
        return FittingState(theta.copy(), p, log_partition, target=target)

    def step(self, problem: Problem, state: FittingState) -> FittingState:
        offsets = problem.layout.offsets[: len(problem.loss.cliques) + 1]
        for start, end in pairwise(offsets):
            before = state.theta[start:end].copy()
            ratio = divide(state.target[start:end], state.p[start:end])
            with np.errstate(divide="ignore"):
                state.theta[start:end] += np.where(np.isposinf(ratio), 0.0, np.log(ratio))
            try:
                _, state.log_partition = problem.marginals(state.theta, out=state.p)
            except ImpossibleModelError:
                state.theta[start:end] = before
                _, state.log_partition = problem.marginals(state.theta, out=state.p)
                state.status = Status.IMPOSSIBLE
                return state
        return state

    def lower_bound(self, problem: Problem, state: FittingState, enough: float) -> float:
        """What no marginals can fit: for marginals that agree with each other the optimum itself."""
        loss = problem.loss
        assert isinstance(loss, WeightedSquares)
        if self.objective(problem, state) - loss.constant <= enough:
            return loss.constant
        return max(loss.constant, super().lower_bound(problem, state, enough))
