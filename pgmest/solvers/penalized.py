"""The minimizer of a loss plus a penalty of relative entropy, which is the implicit step of the mirror flow."""

from __future__ import annotations

import numpy as np

from pgmest._base.stages import out_of_time
from pgmest.losses.l2 import is_positive_squares
from pgmest.solvers.accelerated import AcceleratedMirrorDescent
from pgmest.solvers.certificate import NEGLIGIBLE_GAP
from pgmest.solvers.implicit_step import ImplicitStep
from pgmest.solvers.penalty import EntropyPenalty
from pgmest.solvers.problem import Problem
from pgmest.solvers.solver import State

GAP_SHARE = NEGLIGIBLE_GAP
"""The certified gap at which an implicit step stops, as a share of the loss's noise floor."""

CHECK_EVERY = 10
MAX_STEPS = 3000
"""Accelerated mirror descent computes the gap every CHECK_EVERY steps and ends after MAX_STEPS steps."""


def penalized(
    problem: Problem, prior: np.ndarray, strength: float, start: np.ndarray, dual: ImplicitStep | None = None
) -> State:
    r"""Minimize $f(p) + s \, KL(p \| q)$ to a certified gap of GAP_SHARE noise floors, or for at most MAX_STEPS steps.

    For weighted squares with positive precisions the dual is solved. For other losses, or if the dual method does not
    reach the gap, accelerated mirror descent is used.

    Args:
        problem: the problem with the smooth loss f.
        prior: flat potentials of q.
        strength: s > 0, in the units of the loss.
        start: flat potentials to start from, with -inf in the same cells as `prior`.
        dual: the dual solver of the problem from an earlier step, which saves building another.
    """
    sufficient_gap = GAP_SHARE * problem.loss.noise_floor
    if dual is None and is_positive_squares(problem.loss):
        dual = ImplicitStep(problem)
    found = None if dual is None else dual.minimize(prior, strength, start, sufficient_gap)
    return _accelerated(problem, EntropyPenalty(prior, strength), prior, sufficient_gap) if found is None else found


def _accelerated(problem: Problem, penalty: EntropyPenalty, start: np.ndarray, sufficient_gap: float) -> State:
    solver = AcceleratedMirrorDescent(penalty=penalty)
    state = solver.start(problem, start.copy())
    for step in range(1, MAX_STEPS + 1):
        state = solver.step(problem, state)
        if state.status is not None or out_of_time():
            break
        if step % CHECK_EVERY == 0 and penalty.gap(problem, state) <= sufficient_gap:
            break
    return State(state.theta, state.p, state.log_partition)
