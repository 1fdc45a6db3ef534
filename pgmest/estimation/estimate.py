"""`estimate`: the front door, from noisy measurements to a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal, Unpack, overload

from pgmest.data.dataset import Dataset
from pgmest.estimation.arguments import Options, check_numbers, checked_measurements
from pgmest.estimation.oracle_argument import (
    EXACT_ORACLES,
    check_exact,
    exact_oracle,
    offering_approximations,
    region_oracle,
)
from pgmest.estimation.prior_argument import (
    as_support,
    check_prior_weight,
    potentials_of,
    prior_potentials,
    support_oracle,
    warm_start,
)
from pgmest.inference.exact.structural_zeros import StructuralZeros, oracle_with_functions, zero_potentials, zero_rules
from pgmest.inference.regions.region_oracle import RegionOracle
from pgmest.inference.support.support import Support
from pgmest.losses import make_loss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.exact import Model
from pgmest.models.fitted_model import solved_model
from pgmest.models.region import ApproximateModel
from pgmest.models.support import SupportModel
from pgmest.solvers.choose import SOLVERS, choose_solver, penalized_solver, region_solver
from pgmest.solvers.problem import Problem, SolverOracle
from pgmest.solvers.refit import Objective, Refit, Total, starting_total
from pgmest.solvers.report import ApproximateReport, EstimationReport
from pgmest.solvers.run import Callback, Stopping
from pgmest.solvers.solver import Solver, State
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Domain, as_domain

__all__ = ["SOLVERS", "estimate"]


@overload
def estimate(
    measurements: Iterable[LinearMeasurement],
    domain: Domain | Mapping[str, int],
    *,
    prior: Model | CliqueVector | Dataset | None = None,
    oracle: Literal["exact", "gpu"] = "exact",
    **options: Unpack[Options],
) -> Model: ...


@overload
def estimate(
    measurements: Iterable[LinearMeasurement],
    domain: Domain | Mapping[str, int],
    *,
    prior: Model | CliqueVector | Dataset | None = None,
    oracle: Literal["convex", "loopy"],
    **options: Unpack[Options],
) -> ApproximateModel: ...


@overload
def estimate(
    measurements: Iterable[LinearMeasurement],
    domain: Domain | Mapping[str, int],
    *,
    prior: Support | SupportModel,
    oracle: Literal["exact"] = "exact",
    **options: Unpack[Options],
) -> SupportModel: ...


def estimate(
    measurements: Iterable[LinearMeasurement],
    domain: Domain | Mapping[str, int],
    *,
    total: float | Literal["fit"] | None = None,
    method: str | Solver[Any] = "auto",
    loss: Any = "l2",
    prior: Model | CliqueVector | Dataset | Support | SupportModel | None = None,
    prior_weight: float | None = None,
    init: Model | SupportModel | CliqueVector | None = None,
    structural_zeros: StructuralZeros | None = None,
    tolerance: float = 1e-3,
    max_iterations: int = 5000,
    callback: Callback | None = None,
    max_megabytes: float | None = 8000,
    oracle: Literal["exact", "gpu", "convex", "loopy"] = "exact",
) -> Model | SupportModel | ApproximateModel:
    r"""The distribution over all attributes that fits the measurements best.

    Minimizes $L(\mu)$ over the marginals $\mu$ of distributions on the domain (PGM Problem 1), by default
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
        loss: "l2", "l1", "huber", "likelihood", or any object with the loss protocol (`pgmest.losses`).
        prior: a distribution to stay close to: of all distributions that fit best, the one of least relative entropy
            to it is approached, and mirror descent starts there. A model or log-potentials; a public Dataset, of which
            `pgmest.priors.public_model` is then made; or a `pgmest.priors.Support`, public records to which the answer
            is confined: it is then a `SupportModel`.
        prior_weight: minimize loss + prior_weight * total * KL(p || prior) instead, in nats. At weight 1 that is the
            most probable table if its records were drawn from the prior; below 1 the prior counts for less. A public
            sample of m records deserves at most m / (m + total), and less the more it differs from the private one.
        init: where to start from; affects the time taken, not the answer. Potentials on cliques that the new
            measurements do not cover are left out.
        structural_zeros: what cannot occur, and has a probability of exactly zero: rules from `pgmest.zeros`
            (impossible combinations, the only possible ones, attributes that are functions of others), or a mapping of
            attributes to impossible combinations, as tuples of codes or as a boolean table (True: impossible).
        tolerance: stop when the duality gap is at most this share of the larger of the optimal loss and the noise floor
            (`pgmest.solvers.run`): about the mean squared distance from the exact optimum, in noise variances.
        max_iterations: stop after this many steps, converged or not; `model.report` says which. With total="fit" of all
            its rounds together.
        callback: called after each iteration with a `Progress`; return True to stop.
        max_megabytes: refuse junction trees whose tables would need more (None: no limit).
        oracle: "exact"; "gpu" for the same on an NVIDIA GPU (extra `gpu`), which is for cliques of many cells; or what
            to do where the junction tree is too wide (`ModelTooLarge`): "convex" for tables that agree with each other
            but need not be marginals of any distribution, by convex message passing on a graph of regions; "loopy" for
            loopy belief propagation there. The result is then an `ApproximateModel`.

    Returns:
        the model, with `model.report`. Ctrl-C stops early and returns the model so far; its `status` says so.

    Raises:
        MeasurementError, UnknownAttributeError, QueryError: a measurement does not fit the domain.
        TotalError: no total was given and no measurement determines it.
        ModelTooLarge: the junction tree of the measured cliques needs too much memory; names the culprits.
        ImpossibleModelError: the structural zeros leave no possible record.
        DeviceError: oracle="gpu", and there is no GPU, or nothing to use it with.
        ArgumentError: an argument that is not valid.
    """
    domain = as_domain(domain)
    measurements = checked_measurements(measurements, domain)
    check_numbers(total, tolerance, max_iterations)
    flat_loss = make_loss(loss, measurements, domain)
    solver = choose_solver(method, flat_loss)
    known = starting_total(total, measurements, domain)
    rules = zero_rules(structural_zeros)
    base = [zero_potentials(rules, domain)] if rules else []
    if prior_weight is not None:
        check_prior_weight(prior_weight, prior, method, total, flat_loss)
    support = as_support(prior, domain)
    if support is not None:
        check_exact(oracle)
        make_oracle: Callable[[Layout], SolverOracle] = support_oracle(support)
    else:
        if oracle in EXACT_ORACLES:
            make_oracle = exact_oracle(oracle, rules, max_megabytes)
        else:
            make_oracle = region_oracle(oracle, max_megabytes)
        if prior is not None:
            base.append(prior_potentials(prior, flat_loss, max_megabytes))
    problem = offering_approximations(lambda: Problem.of(flat_loss, known.value, base, oracle=make_oracle))
    theta = problem.base.copy() if init is None else warm_start(problem, potentials_of(init, "init", domain))
    if prior_weight is not None:
        solver = penalized_solver(problem, prior_weight)
    elif support is None and oracle not in EXACT_ORACLES:
        solver = region_solver(problem, method, oracle)
    objective = Objective(total, loss, solver, Stopping(tolerance, max_iterations, callback))
    solved = objective.minimize(problem, theta)
    spread = known.stddev if total is None else None
    if support is not None:
        return _support_model(support, *solved, measurements, spread)
    if isinstance(problem.oracle, RegionOracle):
        return _region_model(oracle, problem.oracle, *solved, measurements, spread)
    return solved_model(*solved, objective, measurements, spread)


def refit_of(
    measurements: Iterable[LinearMeasurement],
    domain: Domain | Mapping[str, int],
    *,
    total: Total = None,
    structural_zeros: StructuralZeros | None = None,
    tolerance: float = 1e-3,
    max_iterations: int = 5000,
    max_megabytes: float | None = 8000,
) -> Refit:
    """How `estimate` would estimate from these measurements by least squares, without doing it; raises as it does."""
    domain = as_domain(domain)
    checked = checked_measurements(measurements, domain)
    loss = make_loss("l2", checked, domain)
    rules = zero_rules(structural_zeros)
    base = [zero_potentials(rules, domain)] if rules else []
    oracle = partial(oracle_with_functions, zeros=rules, max_megabytes=max_megabytes)
    problem = Problem.of(loss, starting_total(total, checked, domain).value, base, oracle=oracle)
    return Refit.of(problem, Objective(total, "l2", choose_solver("auto", loss), Stopping(tolerance, max_iterations)))


def _support_model(
    support: Support,
    problem: Problem,
    state: State,
    report: EstimationReport,
    measurements: tuple[LinearMeasurement, ...],
    total_stddev: float | None,
) -> SupportModel:
    potentials = CliqueVector.of(problem.layout, state.theta)
    return SupportModel(support, potentials, problem.total, report, total_stddev, measurements)


def _region_model(
    name: str,
    oracle: RegionOracle,
    problem: Problem,
    state: State,
    report: EstimationReport,
    measurements: tuple[LinearMeasurement, ...],
    total_stddev: float | None,
) -> ApproximateModel:
    tables = CliqueVector.of(problem.layout, state.p * problem.total)
    approximate = ApproximateReport.of(report, name, oracle.inconsistency)
    return ApproximateModel(tables, problem.total, approximate, total_stddev, measurements)
