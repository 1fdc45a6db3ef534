"""`mbi.estimation` on pgmest: its functions and its estimators, with mbi's arguments, minimised by `pgmest.estimate`.

mbi's estimators differ in the path they take to one and the same optimum. Here all of them go there by the solver that
`pgmest.estimate(method="auto")` would choose, and stop at a proven distance from it; `method=` chooses another.
"""

from __future__ import annotations

import concurrent.futures
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.adapters.mbi.constraints import zero_rule
from pgmest.adapters.mbi.field import EstimatedModel, from_mbi, wrapped
from pgmest.adapters.mbi.losses import Objective, objective, tolerance_for
from pgmest.adapters.mbi.measurements import minimum_variance_unbiased_total as minimum_variance_unbiased_total
from pgmest.adapters.mbi.measurements import total_of
from pgmest.adapters.mbi.names import Names, from_mbi_dataset
from pgmest.adapters.mbi.peer import available, installed, mbi
from pgmest.adapters.mbi.tables import clique_vector, from_mbi_potentials
from pgmest.data.dataset import Dataset
from pgmest.estimation.estimate import estimate as pgmest_estimate
from pgmest.inference.support.support import Support
from pgmest.losses import KLLoss
from pgmest.models.exact import Model
from pgmest.tables.clique_vector import CliqueVector, Layout

CALLBACK_EVERY = getattr(installed("mbi.estimation"), "CALLBACK_EVERY", 50)
"""A callback is called once for so many iterations, as in mbi."""

PASSED_ON = ("prior", "prior_weight", "max_megabytes", "oracle", "loss")
TOLERANCE = 1e-3


def estimate(
    domain: Any,
    loss_fn: Any,
    known_total: float | None = None,
    constraints: Sequence[Any] = (),
    iters: int = 5000,
    callback_fn: Callable[[Any], Any] | None = None,
    warm_start: Any = None,
    tol: float | None = None,
    patience: int = 2,
    *,
    potentials: Any = None,
    method: Any = "auto",
    marginal_oracle: Any = None,
    stepsize: float | None = None,
    mesh: Any = None,
    stateful: bool = False,
    **options: Any,
) -> Any:
    """`pgmest.estimate` with the arguments of mbi's estimators, from mbi's types to a model in mbi's protocol.

    Args:
        domain: an `mbi.Domain`.
        loss_fn: a list of `mbi.LinearMeasurement`, or an `mbi.MarginalLossFn`.
        known_total: the number of records. By default estimated from a list of measurements, of those which determine
            it and do not say `use_for_total_estimation=False`; as in mbi, 1 where that leaves none, or with a loss
            function.
        constraints: `mbi.Constraint` values; what they exclude has probability zero.
        iters: most iterations; it mostly stops well before, at its gap.
        callback_fn: called with the marginals on the loss's cliques, an `mbi.CliqueVector`, once for each
            `CALLBACK_EVERY` of `iters`; without `tol` also after the optimum is reached, with the final ones.
        warm_start, potentials: a model or potentials of mbi's or ours to start from.
        tol: the relative duality gap to stop at, by default 1e-3; mbi's is about the change of the loss.
        method: the solver of `pgmest.estimate`.
        patience, marginal_oracle, stepsize, mesh, stateful: accepted and not needed: the gap says when to stop, the
            solver finds its steps, and the oracle is ours.
        options: further arguments of `pgmest.estimate`: `prior`, `prior_weight`, `oracle`, `max_megabytes`, `loss`.

    Returns:
        a `MarkovRandomField`; with a `Support` prior a `SupportField`, with `oracle="convex"` `PseudoMarginals`.

    Raises:
        ArgumentError: an argument that is none of these.
        QueryError, MeasurementError, ModelTooLarge, ...: as for `pgmest.estimate`.
    """
    unknown = sorted(set(options) - {*PASSED_ON})
    if unknown:
        raise ArgumentError.of("an argument", unknown[0], [*PASSED_ON, "and those of mbi's estimators"])
    names = Names(domain)
    goal = objective(loss_fn, names)
    loss = options.pop("loss", goal.loss)
    total = _total(known_total, goal, names)
    listener = _Listener(callback_fn, goal, names, total)
    model = pgmest_estimate(
        goal.measurements,
        names.domain,
        total=total,
        loss=loss,
        prior=_prior(options.pop("prior", None), names),
        init=_start(warm_start if warm_start is not None else potentials, names),
        structural_zeros=[zero_rule(constraint, names) for constraint in constraints] or None,
        max_iterations=int(iters),
        tolerance=tolerance_for(goal, TOLERANCE if tol is None else tol),
        callback=listener if callback_fn is not None else None,
        method=method,
        **options,
    )
    made = wrapped(model, names, goal.cliques, tuple(constraints))
    if callback_fn is not None:
        listener.finish(made, math.ceil(iters / CALLBACK_EVERY) if tol is None else 0)
    return made


class _Listener:
    """Passes on to mbi's callback what it expects: marginals, once for each `CALLBACK_EVERY` iterations."""

    def __init__(self, callback: Callable[[Any], Any] | None, goal: Objective, names: Names, total: float):
        self._callback, self._names, self._total = callback, names, total
        self._wanted = [names.clique(clique) for clique in goal.cliques]
        self._layout: Layout | None = None
        self.calls = 0

    def __call__(self, progress: Any) -> None:
        if progress.iteration % CALLBACK_EVERY or not progress.iteration or self._callback is None:
            return
        problem = progress._problem
        tables = CliqueVector.of(problem.layout, np.array(progress.marginals))
        self._callback(clique_vector(self._names, ((c, _table(tables, c)) for c in self._wanted)))
        self.calls += 1

    def finish(self, model: EstimatedModel, calls: int) -> None:
        """The final marginals, at least once, and as often as is still missing."""
        assert self._callback is not None
        marginals = model.marginals
        for _ in range(max(1, calls - self.calls)):
            self._callback(marginals)


def _table(tables: CliqueVector, clique: tuple[str, ...]) -> np.ndarray:
    return tables[tables.cliques[tables.layout.cover(clique)]].project(clique).values


def _total(known: Any, goal: Objective, names: Names) -> float:
    if known is not None:
        return float(known)
    return total_of(goal.theirs, goal.measurements, names.domain) if goal.given_as_list else 1.0


def _prior(prior: Any, names: Names) -> Any:
    """A prior of ours, or records or a model of mbi's."""
    if isinstance(prior, mbi.CliqueVector):
        return from_mbi_potentials(prior, names)
    if isinstance(prior, mbi.Dataset):
        return from_mbi_dataset(prior)
    return from_mbi(prior) if isinstance(prior, EstimatedModel | mbi.MarkovRandomField) else prior


def _start(start: Any, names: Names) -> Any:
    """Where to start from: potentials of ours."""
    if start is None or isinstance(start, Model | CliqueVector):
        return start
    if isinstance(start, mbi.CliqueVector):
        return from_mbi_potentials(start, names)
    if hasattr(start, "potentials"):
        return from_mbi_potentials(start.potentials, names)
    ones = {(name,): np.asarray(start.project(names.back((name,))).values, float) for name in names.domain}
    return CliqueVector(names.domain, {c: np.log(np.maximum(v / v.sum(), 1e-300)) for c, v in ones.items()})


# -- the estimators of mbi 2 ------------------------------------------------------------------------------------------

_SIGNATURE = inspect.signature(estimate)


@dataclass(frozen=True, kw_only=True)
class Estimator:
    """An estimator object as mbi 2 has them, for code that calls `estimator.estimate(domain, loss_fn, ...)`.

    Args:
        method: the solver of `pgmest.estimate`.
        marginal_oracle, mesh, stepsize: mbi's, accepted and not needed.
        options: further arguments of `pgmest.estimate`, as for `estimate` here.
    """

    method: Any = "auto"
    marginal_oracle: Any = None
    mesh: Any = None
    stepsize: float | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def estimate(self, domain: Any, loss_fn: Any, *arguments: Any, **options: Any) -> Any:
        """As the function `estimate` here, with the same arguments; those of this object hold where none is given."""
        chosen = {"method": self.method, **self.options, **options}
        given = _SIGNATURE.bind(domain, loss_fn, *arguments, **chosen)
        model = estimate(*given.args, **given.kwargs)
        given.apply_defaults()
        tol, known_total, constraints = (given.arguments[name] for name in ("tol", "known_total", "constraints"))
        if tol is not None and self._loss_value(model, loss_fn, known_total, constraints) is None:
            raise ValueError(f"{type(self).__name__} does not support tol: its _loss_value gives None.")
        return model

    def _loss_value(self, state: Any, loss_fn: Any, known_total: Any, constraints: Any = ()) -> float | None:
        """mbi's hook: subclasses that return None have no loss to watch."""
        return None if state.report is None else state.report.loss

    def precompile(
        self,
        domain: Any,
        measurements: Any = None,
        *,
        extra_cliques: Any = None,
        constraints: Sequence[Any] = (),
    ) -> concurrent.futures.Future[None]:
        """Nothing is compiled for a set of cliques: a future that is done."""
        done: concurrent.futures.Future[None] = concurrent.futures.Future()
        done.set_result(None)
        return done


@dataclass(frozen=True)
class MirrorDescent(Estimator):
    """mbi's mirror descent: `stepsize` is accepted, the solver finds its own."""

    stepsize: float | None = None
    marginal_oracle: Any = None
    mesh: Any = None


@dataclass(frozen=True)
class DualAveraging(Estimator):
    """mbi's regularized dual averaging."""

    marginal_oracle: Any = None
    mesh: Any = None


@dataclass(frozen=True)
class InteriorGradient(Estimator):
    """mbi's interior gradient method."""

    marginal_oracle: Any = None
    mesh: Any = None


@dataclass(frozen=True)
class LBFGS(Estimator):
    """mbi's L-BFGS."""

    marginal_oracle: Any = None


@dataclass(frozen=True)
class UniversalAcceleratedMethod(Estimator):
    """mbi's universal accelerated method; its line search is accepted and not needed."""

    marginal_oracle: Any = None
    max_iter_search: int = 30
    target_acc: float = 0.0
    norm: int = 2
    linesearch: bool = False


# -- the functions of mbi 1 -------------------------------------------------------------------------------------------

mirror_descent = estimate
dual_averaging = estimate
interior_gradient = estimate
lbfgs = estimate
universal_accelerated_method = estimate


def mle_from_marginals(marginals: Any, known_total: float, iters: int = 5000, *args: Any, **options: Any) -> Any:
    """The field of maximum entropy with given marginals, an `mbi.CliqueVector`, in counts."""
    names = Names(marginals.domain)
    loss = KLLoss(from_mbi_potentials(marginals, names))
    model = pgmest_estimate([], names.domain, total=float(known_total), loss=loss, max_iterations=int(iters))
    return wrapped(model, names, marginals.cliques)


# -- the approximate estimator ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ApproxMirrorDescent:
    """mbi's estimator for cliques whose junction tree would not fit: pseudo-marginals, by convex message passing.

    Args:
        stepsize, oracle_iters, damping, mesh: mbi's, accepted and not needed.
    """

    stepsize: float | None = None
    oracle_iters: int = 1
    damping: float = 0.5
    mesh: Any = None

    def estimate(
        self,
        domain: Any,
        loss_fn: Any,
        *,
        known_total: float | None = None,
        potentials: Any = None,
        iters: int = 1000,
        callback_fn: Callable[[Any], Any] | None = None,
    ) -> Any:
        """The pseudo-marginals on the loss's cliques, in counts, as an `mbi.CliqueVector`."""
        made = estimate(domain, loss_fn, known_total, (), iters, callback_fn, potentials, oracle="convex")
        return made.marginals

    def precompile(self, *arguments: Any, **options: Any) -> concurrent.futures.Future[None]:
        """Nothing is compiled for a set of cliques: a future that is done."""
        return Estimator().precompile(*arguments, **options)


def reweighted_records(
    domain: Any, loss_fn: Any, seed_data: Any, known_total: float | None = None, **options: Any
) -> Any:
    """The weights of public records that fit best, as mbi's `ReweightedDatasetEstimator` looks for them.

    Args:
        domain, loss_fn, known_total, options: as for `estimate`.
        seed_data: the records, an `mbi.Dataset` or ours.
    """
    records = seed_data if isinstance(seed_data, Dataset) else from_mbi_dataset(seed_data)
    return estimate(domain, loss_fn, known_total, prior=Support(records), **options)


_peer = available("mbi.estimation")


def __getattr__(name: str) -> Any:
    """What is not here is mbi's own."""
    return getattr(_peer, name)
