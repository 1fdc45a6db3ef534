"""Solvers of min L(mu) over the marginal polytope: their contract, the run, its certificate, and one file per solver.

A solver takes a `Problem` and returns potentials, their marginals and a report (`solver`, `run`); it does not use
models. An instance of each class here can be the `method=` of `pgmest.estimate`. `method="auto"` chooses as follows:

=======================================================  ========================================================
the problem                                              the solver
=======================================================  ========================================================
a smooth loss ("l2", "huber", Gaussian likelihoods)      `AcceleratedMirrorDescent`
squares of whole tables of very unequal noise            `ProximalPoint`
absolute residuals ("l1", Laplace likelihoods)           `AcceleratedSmoothing`
any other convex loss                                    `UniversalAccelerated`
with prior_weight: a smooth loss, absolute residuals     the first two, with a penalty of relative entropy
oracle="convex": least squares of whole marginals        `LocalLeastSquares`
oracle="convex": any other loss or query                 the same solver as with the exact oracle
=======================================================  ========================================================

The other solvers are chosen by name only: `MirrorDescent` (PGM Algorithm 1), `DualAveraging` (PGM Algorithm 2), `LBFGS`
(PGM A.3), `IterativeProportionalFitting` for exact marginals, and `MirrorFlow`, which stops before the optimum.

Exact answers are facts (`facts`, `facts_oracle`): every solver minimizes over the distributions that meet them.
"""

from pgmest.solvers.accelerated import AcceleratedMirrorDescent
from pgmest.solvers.choose import SOLVERS
from pgmest.solvers.dual_averaging import DualAveraging
from pgmest.solvers.ipf import IterativeProportionalFitting
from pgmest.solvers.lbfgs import LBFGS
from pgmest.solvers.local_least_squares import LocalLeastSquares
from pgmest.solvers.mirror_descent import MirrorDescent
from pgmest.solvers.mirror_flow import MirrorFlow
from pgmest.solvers.proximal_point import ProximalPoint
from pgmest.solvers.report import ApproximateReport, EstimationReport
from pgmest.solvers.smoothing import AcceleratedSmoothing
from pgmest.solvers.solver import Solver, State
from pgmest.solvers.status import Status
from pgmest.solvers.universal import UniversalAccelerated

__all__ = [
    "LBFGS",
    "SOLVERS",
    "AcceleratedMirrorDescent",
    "AcceleratedSmoothing",
    "ApproximateReport",
    "DualAveraging",
    "EstimationReport",
    "IterativeProportionalFitting",
    "LocalLeastSquares",
    "MirrorDescent",
    "MirrorFlow",
    "ProximalPoint",
    "Solver",
    "State",
    "Status",
    "UniversalAccelerated",
]
