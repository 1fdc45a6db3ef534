"""`estimate`: the front door, from noisy measurements to a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Unpack, overload

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.estimation.arguments import Options, check_numbers, checked_measurements
from pgmest.estimation.engines import ExactEngine, Solved, choose_engine
from pgmest.estimation.prior_argument import (
    as_support,
    check_prior_weight,
    impossible_cells,
    potentials_of,
    prior_potentials,
    warm_start,
    warn_of_smoothing,
)
from pgmest.inference.exact.structural_zeros import StructuralZeros, zero_potentials, zero_rules
from pgmest.inference.support.support import Support
from pgmest.losses import make_loss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.bounds.contradiction import check_facts
from pgmest.models.bounds.implied import allowed_total, emptied_cells, reconciled
from pgmest.models.exact import Model
from pgmest.models.region import ApproximateModel
from pgmest.models.support import SupportModel
from pgmest.solvers.choose import SOLVERS, choose_solver, penalized_solver
from pgmest.solvers.facts import Terms
from pgmest.solvers.problem import Problem
from pgmest.solvers.refit import Objective, Refit, Total, starting_total
from pgmest.solvers.run import Callback, Stopping
from pgmest.solvers.solver import Solver
from pgmest.solvers.total import TotalEstimate
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Domain, as_domain
from pgmest.tables.factor import Factor

__all__ = ["SOLVERS", "estimate"]


@overload
def estimate(
    measurements: Iterable[LinearMeasurement],
    domain: Domain | Mapping[str, int],
    *,
    prior: Model | CliqueVector | Factor | Dataset | None = None,
    oracle: Literal["exact"] = "exact",
    **options: Unpack[Options],
) -> Model: ...


@overload
def estimate(
    measurements: Iterable[LinearMeasurement],
    domain: Domain | Mapping[str, int],
    *,
    prior: Model | CliqueVector | Factor | Dataset | None = None,
    oracle: Literal["convex"],
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
    prior: Model | CliqueVector | Factor | Dataset | Support | SupportModel | None = None,
    prior_weight: float | None = None,
    init: Model | SupportModel | CliqueVector | None = None,
    structural_zeros: StructuralZeros | None = None,
    tolerance: float = 1e-3,
    max_iterations: int = 5000,
    callback: Callback | None = None,
    max_megabytes: float | None = 8000,
    oracle: Literal["exact", "convex"] = "exact",
) -> Model | SupportModel | ApproximateModel:
    r"""Estimate the distribution over all attributes that fits the measurements best.

    The estimate minimizes $L(\mu)$ over the marginals $\mu$ of distributions on the domain (PGM Problem 1), by default
    $\sum_i \tfrac12 \lVert (Q_i \mu - y_i) / \sigma_i \rVert^2$ with $\mu$ in counts. Among all distributions that
    attain the minimum, the model approaches the one of maximum entropy, or with a prior the one of least relative
    entropy to the prior. It is a graphical model on the measured cliques.

    ==============  =====================================================================================
    method          when to choose it
    ==============  =====================================================================================
    auto            "accelerated" for smooth losses, "proximal_point" for tables of very unequal noise, "smoothing" for
                    absolute residuals, "universal" for others
    accelerated     accelerated mirror descent with restarts: the fastest for smooth losses
    proximal_point  the fastest for whole tables of which some are far more precise than others; loss "l2"
    smoothing       accelerated on a smoothed loss: exact for "l1" and for Laplace likelihoods
    universal       the same with inexact line searches: any convex loss, such as your own with kinks
    mirror_descent  PGM Algorithm 1: monotone and simple; reaches high accuracy slowly
    dual_averaging  PGM Algorithm 2: no line search, needs a Lipschitz constant
    lbfgs           PGM A.3: quasi-Newton on the potentials; small problems with your own smooth losses
    ipf             iterative proportional fitting: exact, mutually consistent marginals without noise
    mirror_flow     not the optimum, but mostly closer to the truth: early stopping by held-out answers
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
        total: the number of records, which may be 0. By default it is the one that exact answers determine, or else
            estimated without bias from the measurements that determine it (`pgmest.solvers.total`). With "fit"
            it is a free parameter of the minimization. Then answers that do not determine the total by themselves
            contribute, too, but the estimate is biased, because tables cannot follow negative noise.
        method: a name from the table, or a solver object.
        loss: "l2", "l1", "huber", "likelihood", or any object with the loss protocol (`pgmest.losses`).
        prior: a distribution to stay close to: among all distributions that fit best, the estimate approaches the one
            of least relative entropy to the prior, and solvers start there. Give a model or log-potentials; a Factor of
            counts, the seed of iterative proportional fitting, whose zeros stay zero; a public Dataset, from which
            `pgmest.priors.public_model` makes a model; or a `pgmest.priors.Support`, public records to which the
            distribution is confined. With a support the result is a `SupportModel`.
        prior_weight: minimize loss + prior_weight * total * KL(p || prior) instead, in nats. Weight 1 gives the most
            probable table if its records were drawn from the prior. A public sample of m records deserves a weight of
            at most m / (m + total), and less the more it differs from the private table.
        init: the start of the solver. It affects the time, not the answer. Potentials on cliques that the measurements
            do not cover are ignored.
        structural_zeros: combinations that cannot occur and have a probability of exactly zero: rules from
            `pgmest.zeros` (impossible combinations, the only possible ones, attributes that are functions of others),
            or a mapping of attributes to impossible combinations, as tuples of codes or as a boolean table (True:
            impossible).
        tolerance: stop when the duality gap is at most this share of the larger of the optimal loss and the noise floor
            (`pgmest.solvers.run`). It is about the mean squared distance from the exact optimum, in noise variances.
        max_iterations: stop after this many steps, converged or not; `model.report` says which. With total="fit" the
            limit is for all rounds together.
        callback: a function that is called after each iteration with a `Progress`; it returns True to stop.
        max_megabytes: refuse junction trees whose tables would need more (None: no limit).
        oracle: "exact"; or, if the junction tree is too wide (`ModelTooLarge`), "convex" for convex message passing on
            a graph of regions. Its tables agree with each other but need not be marginals of any distribution; the
            result is an `ApproximateModel`.

    Returns:
        the model, with `model.report`. Ctrl-C stops early and returns the model so far; its `status` says so.

    Raises:
        MeasurementError, UnknownAttributeError, QueryError: a measurement does not fit the domain.
        TotalError: no total was given and no measurement determines it.
        ModelTooLarge: the junction tree of the measured cliques needs too much memory; the error names the cliques
            that make it wide.
        InconsistentMeasurementsError: answers without noise contradict each other; the error names some that do.
        ImpossibleModelError: the structural zeros leave no possible record.
        ArgumentError: an argument is not valid.
    """
    domain = as_domain(domain)
    checked = reconciled(checked_measurements(measurements, domain), domain)
    check_numbers(total, tolerance, max_iterations)
    flat_loss = make_loss(loss, checked, domain)
    solver = choose_solver(method, flat_loss, checked)
    known = starting_total(total, checked, domain)
    rules = zero_rules(structural_zeros)
    if prior_weight is not None:
        check_prior_weight(prior_weight, prior, method, total, flat_loss)
    support = as_support(prior, domain)
    engine = choose_engine(oracle, support, rules, max_megabytes, any(m.exact_rows.any() for m in checked))
    base = [zero_potentials(rules, domain)] if rules else []
    warn_of_smoothing(prior, checked)
    if prior is not None and support is None:
        base.append(prior_potentials(prior, flat_loss, max_megabytes))
    stated = float(total) if isinstance(total, int | float | np.number) else None
    zeros = impossible_cells(base)
    check_facts(checked, domain, total=stated, zeros=zeros)
    if stated is None and not known.known:
        value, determined = allowed_total(known.value, checked, domain, zeros)
        known = TotalEstimate(value, 0.0 if determined else known.stddev)
    if total != "fit" or known.known:
        emptied = emptied_cells(checked, domain, known.value, zeros)
        base += [] if emptied is None else [emptied]
    problem = engine.problem(Terms.of(loss, checked, domain), known.value, base)
    theta = problem.base.copy() if init is None else warm_start(problem, potentials_of(init, "init", domain))
    if prior_weight is None:
        solver = engine.solver(problem, method, solver)
    elif known.value > 0:
        solver = penalized_solver(problem, prior_weight)
    fixed = known.value if total == "fit" and known.known else total  # exact answers leave no total to fit
    objective = Objective(fixed, loss, solver, Stopping(tolerance, max_iterations, callback))
    solved = objective.minimize(problem, theta)
    spread = None if total is not None or known.known else known.stddev
    return engine.model(Solved(*solved, objective, checked, spread))


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
    """Return the recipe by which `estimate` would estimate from these measurements by least squares, without doing it.

    Arguments and errors are those of `estimate`.
    """
    domain = as_domain(domain)
    checked = checked_measurements(measurements, domain)
    solver = choose_solver("auto", make_loss("l2", checked, domain), checked)
    objective = Objective(total, "l2", solver, Stopping(tolerance, max_iterations))
    rules = zero_rules(structural_zeros)
    base = [zero_potentials(rules, domain)] if rules else []
    oracle = ExactEngine(rules, max_megabytes).oracle
    terms = Terms.of("l2", checked, domain)
    problem = Problem.of(terms, starting_total(total, checked, domain).value, base, oracle=oracle)
    return Refit.of(problem, objective)
