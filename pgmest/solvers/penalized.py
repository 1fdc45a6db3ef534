"""The minimizer of a loss plus a penalty of relative entropy: the implicit step of the mirror flow."""

from __future__ import annotations

import numpy as np

from pgmest.losses.l2 import WeightedSquares
from pgmest.solvers.accelerated import AcceleratedMirrorDescent
from pgmest.solvers.implicit_step import ImplicitStep
from pgmest.solvers.penalty import EntropyPenalty
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import State

GAP_SHARE = 1e-3
"""The certified gap at which an implicit step stops, as a share of the loss's noise floor."""

CHECK_EVERY = 10
MAX_STEPS = 3000


def penalized(
    problem: Problem, prior: np.ndarray, strength: float, start: np.ndarray, dual: ImplicitStep | None = None
) -> State:
    r"""The minimizer of $f(p) + s \, KL(p \| q)$, to a certified gap of GAP_SHARE noise floors or for MAX_STEPS steps.

    By its dual where the loss is of weighted squares; by accelerated mirror descent elsewhere, or where the dual proves
    nothing in time.

    Args:
        problem: what f is; a smooth loss.
        prior: flat potentials of q.
        strength: s > 0, in the units of the loss.
        start: flat potentials to start from, -inf where those of `prior` are.
        dual: of the problem, to be used again for another step.
    """
    enough = GAP_SHARE * problem.loss.noise_floor
    if dual is None and _is_squares(problem):
        dual = ImplicitStep(problem)
    found = None if dual is None else dual.minimize(prior, strength, start, enough)
    return _accelerated(problem, EntropyPenalty(prior, strength), prior, enough) if found is None else found


def _is_squares(problem: Problem) -> bool:
    return isinstance(problem.loss, WeightedSquares) and bool(np.all(problem.loss.curvature_floor() > 0))


def _accelerated(problem: Problem, penalty: EntropyPenalty, start: np.ndarray, enough: float) -> State:
    solver = AcceleratedMirrorDescent(penalty=penalty)
    state = solver.start(problem, start.copy())
    for step in range(1, MAX_STEPS + 1):
        state = solver.step(problem, state)
        if state.status is not None:
            break
        if step % CHECK_EVERY == 0 and penalty.gap(problem, state) <= enough:
            break
    return State(state.theta, state.p, state.log_partition)
