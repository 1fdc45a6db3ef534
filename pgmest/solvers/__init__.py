"""Solvers of min L(mu) over the marginal polytope: their contract, the run, its certificate, and one file a solver.

They know no model. Each class can be the `method=` of `pgmest.estimate`, with parameters of its own.
"""

from pgmest.solvers.accelerated import AcceleratedMirrorDescent
from pgmest.solvers.dual_averaging import DualAveraging
from pgmest.solvers.ipf import IterativeProportionalFitting
from pgmest.solvers.lbfgs import LBFGS
from pgmest.solvers.mirror_descent import MirrorDescent
from pgmest.solvers.mirror_flow import MirrorFlow
from pgmest.solvers.smoothing import AcceleratedSmoothing
from pgmest.solvers.universal import UniversalAccelerated

__all__ = [
    "LBFGS",
    "AcceleratedMirrorDescent",
    "AcceleratedSmoothing",
    "DualAveraging",
    "IterativeProportionalFitting",
    "MirrorDescent",
    "MirrorFlow",
    "UniversalAccelerated",
]
