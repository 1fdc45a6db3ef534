"""The choice of the solver: by name, for "auto", for a soft prior, and for approximate oracles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pgmest.errors import ArgumentError
from pgmest.losses.base import FlatLoss
from pgmest.losses.l2 import L2Loss
from pgmest.losses.smoothed import KinkedLoss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.solvers.accelerated import AcceleratedMirrorDescent
from pgmest.solvers.dual_averaging import DualAveraging
from pgmest.solvers.facts import counts_cells
from pgmest.solvers.ipf import IterativeProportionalFitting
from pgmest.solvers.lbfgs import LBFGS
from pgmest.solvers.local_least_squares import LocalLeastSquares
from pgmest.solvers.mirror_descent import MirrorDescent
from pgmest.solvers.mirror_flow import MirrorFlow
from pgmest.solvers.penalty import EntropyPenalty
from pgmest.solvers.problem import Problem
from pgmest.solvers.proximal_point import ProximalPoint
from pgmest.solvers.smoothing import AcceleratedSmoothing
from pgmest.solvers.solver import Solver
from pgmest.solvers.universal import UniversalAccelerated

UNEQUAL = 100.0
"""The ratio of precisions of whole tables above which the proximal point method is chosen."""

SOLVERS: dict[str, type[Solver[Any]]] = {
    "accelerated": AcceleratedMirrorDescent,
    "proximal_point": ProximalPoint,
    "mirror_descent": MirrorDescent,
    "dual_averaging": DualAveraging,
    "smoothing": AcceleratedSmoothing,
    "universal": UniversalAccelerated,
    "lbfgs": LBFGS,
    "ipf": IterativeProportionalFitting,
    "mirror_flow": MirrorFlow,
}
"""The names of the solvers in `estimate(method=...)`."""


def choose_solver(
    method: str | Solver[Any], loss: FlatLoss, measurements: Iterable[LinearMeasurement] = ()
) -> Solver[Any]:
    """Return the named solver; for "auto", choose by the table in `pgmest.solvers`.

    Args:
        method: the argument `method` of `estimate`.
        loss: the loss.
        measurements: the answers, of which exact ones restrict the choice.

    Raises:
        ArgumentError: `method` is not the name of a solver.
    """
    if isinstance(method, Solver):
        return method
    if not isinstance(method, str) or method not in ("auto", *SOLVERS):
        raise ArgumentError.of("method", method, ["auto", *SOLVERS])
    if method != "auto":
        return SOLVERS[method]()
    if isinstance(loss, L2Loss) and loss.inequality > UNEQUAL and all(map(counts_cells, measurements)):
        return ProximalPoint()
    if loss.smooth:
        return AcceleratedMirrorDescent()
    return AcceleratedSmoothing() if isinstance(loss, KinkedLoss) else UniversalAccelerated()


def penalized_solver(problem: Problem, prior_weight: float) -> Solver[Any]:
    """Return the solver of min loss + prior_weight * total * KL(p || prior), with the problem's base as the prior."""
    _, log_partition = problem.marginals(problem.base)
    penalty = EntropyPenalty(problem.base, float(prior_weight) * problem.total, log_partition)
    if problem.loss.smooth:
        return AcceleratedMirrorDescent(penalty=penalty, name="penalized")
    return AcceleratedSmoothing(penalty=penalty, name="penalized smoothing")


def region_solver(problem: Problem, method: str | Solver[Any]) -> Solver[Any]:
    """Return the solver for the approximate oracle, "convex".

    Raises:
        ArgumentError: `method` is not the name of a solver.
    """
    if isinstance(method, str) and method == "auto" and LocalLeastSquares.fits(problem):
        return LocalLeastSquares()
    return choose_solver(method, problem.loss)
