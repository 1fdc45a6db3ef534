"""`estimate`: the front door, from noisy measurements to a model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

from pgmest.clique_vector import CliqueVector
from pgmest.domain import Domain, as_domain
from pgmest.errors import ArgumentError, MeasurementError, TotalError
from pgmest.estimation.accelerated import AcceleratedMirrorDescent
from pgmest.estimation.dual_averaging import DualAveraging
from pgmest.estimation.fitted_total import fit_total
from pgmest.estimation.fitting import IterativeProportionalFitting
from pgmest.estimation.lbfgs import LBFGS
from pgmest.estimation.minimise import Callback, Minimisation
from pgmest.estimation.mirror_descent import MirrorDescent
from pgmest.estimation.mirror_flow import MirrorFlow
from pgmest.estimation.problem import Problem
from pgmest.estimation.report import EstimationReport
from pgmest.estimation.smoothing import AcceleratedSmoothing
from pgmest.estimation.solver import Solver, State
from pgmest.estimation.structural_zeros import StructuralZeros, zero_potentials
from pgmest.estimation.total import TotalEstimate, estimate_total
from pgmest.estimation.universal import UniversalAccelerated
from pgmest.loss import FlatLoss, make_loss
from pgmest.loss.smoothed import KinkedLoss
from pgmest.measurement import LinearMeasurement
from pgmest.model import Model

SOLVERS: dict[str, type[Solver[Any]]] = {
    "accelerated": AcceleratedMirrorDescent,
    "mirror_descent": MirrorDescent,
    "dual_averaging": DualAveraging,
    "smoothing": AcceleratedSmoothing,
    "universal": UniversalAccelerated,
    "lbfgs": LBFGS,
    "ipf": IterativeProportionalFitting,
    "mirror_flow": MirrorFlow,
}


def estimate(
    measurements: Iterable[LinearMeasurement],
    domain: Domain | Mapping[str, int],
    *,
    total: float | Literal["fit"] | None = None,
    method: str | Solver[Any] = "auto",
    loss: Any = "l2",
    prior: Model | CliqueVector | None = None,
    init: Model | CliqueVector | None = None,
    structural_zeros: StructuralZeros | None = None,
    tolerance: float = 1e-3,
    max_iterations: int = 5000,
    callback: Callback | None = None,
    max_megabytes: float | None = 8000,
) -> Model:
    r"""The distribution over all attributes that fits the measurements best.

    Minimises $L(\mu)$ over the marginals $\mu$ of distributions on the domain (PGM Problem 1), by default
    $\sum_i \tfrac12 \lVert (Q_i \mu - y_i) / \sigma_i \rVert^2$ with $\mu$ in counts. Among all distributions that
    attain the minimum the model approaches the one of maximum entropy, or with a prior the one of least relative
    entropy to it; it is a graphical model whose cliques are those measured.

    ==============  =====================================================================================
    method          when to choose it
    ==============  =====================================================================================
    auto            "accelerated" for smooth losses, "smoothing" for absolute residuals, "universal" for others
    accelerated     accelerated mirror descent with restarts: the fastest for smooth losses
    smoothing       the same on a rounded-off loss: exact for "l1" and for Laplace likelihoods
    universal       the same with slack: any convex loss, such as a function of your own with kinks
    mirror_descent  PGM Algorithm 1: monotone and simple; reaches high accuracy slowly
    dual_averaging  PGM Algorithm 2: no line search, needs a Lipschitz constant
    lbfgs           PGM A.3: quasi-Newton on the potentials; small problems with smooth losses of your own
    ipf             iterative proportional fitting: exact, mutually consistent marginals without noise
    mirror_flow     not the optimum, but mostly closer to the truth: stopped early, chosen by held-out answers
    ==============  =====================================================================================

    >>> import pgmest as pg
    >>> domain = pg.Domain({"age": 3, "sex": 2})
    >>> noisy = pg.LinearMeasurement([[20.3, 9.1], [31.2, 18.8], [8.9, 11.7]], ("age", "sex"), stddev=1.0)
    >>> model = pg.estimate([noisy], domain)
    >>> model.project(("sex",)).values.round(1)
    array([60.4, 39.6])

    Args:
        measurements: the noisy answers, in counts, each with its clique, query and noise.
        domain: the attributes, or a plain mapping of attribute to number of values.
        total: the number of records, in counts. Default: estimated from the measurements that determine it (PGM E.1),
            which is unbiased. "fit": a free parameter, the total under which the loss is least; it also learns from
            answers that do not determine the total by themselves, but negative noise that no table can have biases it.
        method: a name from the table, or a solver object.
        loss: "l2", "l1", "huber", "likelihood", or any object with the loss protocol (`pgmest.loss`).
        prior: a distribution to stay close to, as a model or as log-potentials: of all distributions that fit best, the
            one of least relative entropy to it is approached, and mirror descent starts there.
        init: where to start from; affects the time taken, not the answer. Potentials on cliques that the new
            measurements do not cover are left out.
        structural_zeros: attributes -> combinations of values that cannot occur, as tuples of codes or as a boolean
            table (True: impossible). Their probability is exactly zero.
        tolerance: stop when the duality gap is at most this share of the larger of the optimal loss and the noise floor
            (`pgmest.estimation.minimise`): about the mean squared distance from the exact optimum, in noise variances.
        max_iterations: stop after this many steps, converged or not; `model.report` says which.
        callback: called after each iteration with a `Progress`; return True to stop.
        max_megabytes: refuse junction trees whose tables would need more (None: no limit).

    Returns:
        the model, with `model.report`. Ctrl-C stops early and returns the model so far; its report says so.

    Raises:
        MeasurementError, UnknownAttributeError, QueryError: a measurement does not fit the domain.
        TotalError: no total was given and no measurement determines it.
        ModelTooLarge: the junction tree of the measured cliques needs too much memory; names the culprits.
        ImpossibleModelError: the structural zeros leave no possible record.
        ArgumentError: an argument that is not valid.
    """
    domain = as_domain(domain)
    measurements = _checked(measurements, domain)
    _check_numbers(total, tolerance, max_iterations)
    objective = make_loss(loss, measurements, domain)
    solver = _solver(method, objective)
    known = _total(total, measurements, domain)
    base = [zero_potentials(structural_zeros, domain)] if structural_zeros else []
    if prior is not None:
        base.append(_potentials(prior, "prior", domain))
    problem = Problem.of(objective, known.value, base, max_megabytes=max_megabytes)
    theta = problem.base.copy() if init is None else _warm_start(problem, _potentials(init, "init", domain))

    def solve(problem: Problem, theta: np.ndarray) -> tuple[State, EstimationReport]:
        return Minimisation(problem, solver, tolerance, max_iterations, callback).run(theta)

    if total == "fit":
        problem, state, report = fit_total(problem, theta, solve)
    else:
        state, report = solve(problem, theta)
    return Model(
        CliqueVector.of(problem.layout, state.theta),
        problem.total,
        report,
        total_stddev=known.stddev if total is None else None,
        measurements=tuple(measurements),
        plan=problem.oracle.plan,
    )


def _checked(measurements: Iterable[LinearMeasurement], domain: Domain) -> list[LinearMeasurement]:
    if isinstance(measurements, LinearMeasurement):
        measurements = [measurements]
    checked = list(measurements)
    for position, measurement in enumerate(checked):
        if not isinstance(measurement, LinearMeasurement):
            raise MeasurementError(
                f"measurements[{position}] is a {type(measurement).__name__}, not a LinearMeasurement; "
                "wrap the noisy values: LinearMeasurement(values, clique, stddev)."
            )
        measurement.check(domain)
    return checked


def _total(
    total: float | Literal["fit"] | None, measurements: list[LinearMeasurement], domain: Domain
) -> TotalEstimate:
    """The number of records to start from."""
    if total is None:
        return estimate_total(measurements, domain)
    if total != "fit":
        return TotalEstimate(float(total), 0.0)
    try:
        return estimate_total(measurements, domain)
    except TotalError:
        if not measurements:
            raise
        return TotalEstimate(max(1.0, *(float(np.abs(m.values).max(initial=0.0)) for m in measurements)), math.inf)


def _check_numbers(total: float | Literal["fit"] | None, tolerance: float, max_iterations: int) -> None:
    number = isinstance(total, int | float | np.number) and 0 < total < math.inf
    if not (total is None or number or (isinstance(total, str) and total == "fit")):
        raise ArgumentError.of("total", total, 'a positive number of records, None to estimate it, or "fit"')
    if not (isinstance(tolerance, int | float | np.number) and 0 <= tolerance < math.inf):
        raise ArgumentError.of("tolerance", tolerance, "a number of at least 0, such as 1e-3")
    if not isinstance(max_iterations, int | np.integer) or max_iterations < 0:
        raise ArgumentError.of("max_iterations", max_iterations, "an integer of at least 0")


def _solver(method: str | Solver[Any], loss: FlatLoss) -> Solver[Any]:
    if isinstance(method, Solver):
        return method
    if method == "auto":
        if loss.smooth:
            return AcceleratedMirrorDescent()
        return AcceleratedSmoothing() if isinstance(loss, KinkedLoss) else UniversalAccelerated()
    if not isinstance(method, str) or method not in SOLVERS:
        raise ArgumentError.of("method", method, ["auto", *SOLVERS])
    return SOLVERS[method]()


def _potentials(source: Model | CliqueVector, name: str, domain: Domain) -> CliqueVector:
    potentials = source.potentials if isinstance(source, Model) else source
    if not isinstance(potentials, CliqueVector):
        raise ArgumentError.of(name, source, "a Model or a CliqueVector of log-potentials")
    if potentials.domain != domain:
        raise ArgumentError(f"{name}= is over another domain than the measurements; make it over the same.")
    return potentials


def _warm_start(problem: Problem, potentials: CliqueVector) -> np.ndarray:
    """Base potentials plus those of `potentials` that the loss's cliques can express, -inf left to the base."""
    measured = problem.loss.cliques
    fitting = {c: t for c, t in potentials.items() if any(set(c) <= set(clique) for clique in measured)}
    theta = problem.base.copy()
    if fitting:
        expressed = CliqueVector(problem.layout.domain, fitting).expand(measured).flat
        theta[problem.measured] += np.where(np.isneginf(expressed), 0.0, expressed)
    return theta
