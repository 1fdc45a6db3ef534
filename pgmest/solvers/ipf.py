"""Iterative proportional fitting: marginals that are exact and agree with each other, matched one clique at a time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pgmest._base.errors import ArgumentError, ImpossibleModelError
from pgmest.inference.exact.belief_propagation import MarginalOracle
from pgmest.losses.l2 import WeightedSquares
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status
from pgmest.tables.clique_vector import Layout
from pgmest.tables.factor import divide

SETTLED_SHARE = 0.1
"""A table nearer to its marginal than this share of the tolerance is not worth a run of the oracle."""

STALLED, LEAST_ROUNDS = 0.9, 4
"""The last round is one that leaves more than this share of the distance that was left after half as many, if not among
the first. Tables that agree but have zeros in common may only get closer as 1 / rounds, which halves it."""


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
        for cells in clique_cells(problem.loss.layout):
            before = state.theta[cells].copy()
            _match(state.theta[cells], state.target[cells], state.p[cells])
            try:
                _, state.log_partition = problem.marginals(state.theta, out=state.p)
            except ImpossibleModelError:
                state.theta[cells] = before
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


def fit_tables(
    oracle: MarginalOracle, theta: np.ndarray, target: np.ndarray, tolerance: float, rounds: int
) -> tuple[float, int]:
    """The same for tables of which nothing is to be proven: potentials are moved in place until tables match.

    Args:
        oracle: of the tables' cliques.
        theta: flat potentials.
        target: tables that sum to one, flat, nearly agreeing with each other.
        tolerance: ends after a round in which no marginal was further than this from its table (L1).
        rounds: or after at most so many, or where the largest distance no longer falls, as of tables that disagree.

    Returns:
        the largest such distance in the last round, and the number of rounds.
    """
    stretches = clique_cells(oracle.layout)
    (p, _), distances = oracle.run(theta), [np.inf]
    for done in range(1, rounds + 1):
        worst = 0.0
        for cells in stretches:
            apart = float(np.abs(p[cells] - target[cells]).sum())
            worst = max(worst, apart)
            if apart <= SETTLED_SHARE * tolerance:
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
    """Where the tables of a layout's cliques lie in flat arrays."""
    return [slice(start, end) for start, end in pairwise(layout.offsets[: len(layout.cliques) + 1].tolist())]


def _match(theta: np.ndarray, target: np.ndarray, p: np.ndarray) -> None:
    """Add log(target / p) to a table's potentials, where that is possible."""
    ratio = divide(target, p)
    with np.errstate(divide="ignore"):
        theta += np.where(np.isposinf(ratio), 0.0, np.log(ratio))
