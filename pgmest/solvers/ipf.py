"""Iterative proportional fitting: exact, mutually consistent marginals are matched one clique at a time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pgmest._base.stages import out_of_time
from pgmest.errors import ArgumentError, ImpossibleModelError
from pgmest.inference.exact.belief_propagation import MarginalOracle
from pgmest.losses.l2 import WeightedSquares
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status
from pgmest.tables.clique_vector import Layout
from pgmest.tables.factor import divide

SETTLED_SHARE = 0.1
"""A table whose distance to its marginal is below this share of the tolerance is skipped to save an oracle call."""

STALLED, LEAST_ROUNDS = 0.9, 4
"""From round LEAST_ROUNDS on, fitting ends if the distance is above STALLED times the distance after half the rounds.
For consistent tables with common zeros the distance may fall only like 1 / rounds, which is a factor of 1/2."""


@dataclass(kw_only=True)
class FittingState(State):
    """The state of iterative proportional fitting, with the target fraction of each cell."""

    target: np.ndarray


@dataclass(frozen=True)
class IterativeProportionalFitting(Solver[FittingState]):
    r"""$\theta_C \leftarrow \theta_C + \log(y_C / \mu_C)$, clique after clique (Deming and Stephan 1940).

    For noiseless, mutually consistent marginals it converges to the distribution of maximum entropy that has these
    marginals, also if they contain zeros, usually in a few rounds. One iteration is a round over all cliques, with one
    oracle call for each. Noisy marginals contradict each other; then it does not converge, and another method is
    needed.
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
        for cells in clique_cells(problem.loss.layout):
            if out_of_time():
                break
            before = state.theta[cells].copy()
            _match(state.theta[cells], state.target[cells], state.p[cells])
            try:
                _, state.log_partition = problem.marginals(state.theta, out=state.p)
            except ImpossibleModelError:  # the zeros of contradictory marginals leave no possible record
                state.theta[cells] = before
                _, state.log_partition = problem.marginals(state.theta, out=state.p)
                state.status = Status.IMPOSSIBLE
                return state
        return state

    def lower_bound(self, problem: Problem, state: FittingState, sufficient_gap: float) -> float:
        """Return the constant of the loss, which is the optimum for consistent marginals, or a tighter lower bound."""
        loss = problem.loss
        assert isinstance(loss, WeightedSquares)
        if self.objective(problem, state) - loss.constant <= sufficient_gap:
            return loss.constant
        return max(loss.constant, super().lower_bound(problem, state, sufficient_gap))


def fit_tables(
    oracle: MarginalOracle, theta: np.ndarray, target: np.ndarray, tolerance: float, rounds: int
) -> tuple[float, int]:
    """Fit potentials to tables by iterative proportional fitting, in place and without a certificate.

    The rounds also end if the largest distance stops falling, as it does for inconsistent tables.

    Args:
        oracle: the oracle of the tables' cliques.
        theta: flat potentials, changed in place.
        target: nearly consistent tables that sum to one, flat.
        tolerance: the L1 distance from every table to its marginal at which the rounds end.
        rounds: the largest number of rounds.

    Returns:
        the largest distance in the last round, and the number of rounds.
    """
    slices = clique_cells(oracle.layout)
    (p, _), distances = oracle.run(theta), [np.inf]
    for done in range(1, rounds + 1):
        worst = 0.0
        for cells in slices:
            distance = float(np.abs(p[cells] - target[cells]).sum())
            worst = max(worst, distance)
            if distance <= SETTLED_SHARE * tolerance:
                continue
            kept = theta[cells].copy()
            _match(theta[cells], target[cells], p[cells])
            try:
                oracle.run(theta, out=p)
            except ImpossibleModelError:  # zeros of tables that contradict each other
                theta[cells] = kept
                oracle.run(theta, out=p)
                return worst, done
        distances.append(worst)
        if worst <= tolerance or (done >= LEAST_ROUNDS and worst > STALLED * distances[done // 2]):
            return worst, done
    return distances[-1], rounds


def clique_cells(layout: Layout) -> list[slice]:
    """Return the slices of the cliques' tables in flat arrays of the layout."""
    return [slice(start, end) for start, end in pairwise(layout.offsets[: len(layout.cliques) + 1].tolist())]


def _match(theta: np.ndarray, target: np.ndarray, p: np.ndarray) -> None:
    """Add log(target / p) to a table's potentials, except in cells with p = 0, which no potential can raise."""
    ratio = divide(target, p)
    with np.errstate(divide="ignore"):
        theta += np.where(np.isposinf(ratio), 0.0, np.log(ratio))
