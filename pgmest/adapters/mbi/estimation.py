"""The functions and estimators of `mbi.estimation`, with mbi's arguments, minimized by `pgmest.estimate`.

mbi's estimators have the same optimum and take different paths to it. Here all of them use the solver that
`pgmest.estimate(method="auto")` chooses and stop at a proven distance from the optimum; `method=` chooses another.
"""

from __future__ import annotations

import concurrent.futures
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pgmest.adapters.mbi.constraints import zero_rule
from pgmest.adapters.mbi.field import EstimatedModel, from_mbi, wrapped
from pgmest.adapters.mbi.losses import Objective, objective, tolerance_for
from pgmest.adapters.mbi.measurements import minimum_variance_unbiased_total as minimum_variance_unbiased_total
from pgmest.adapters.mbi.measurements import total_of
from pgmest.adapters.mbi.names import Names, from_mbi_dataset
from pgmest.adapters.mbi.peer import available, done, installed, mbi
from pgmest.adapters.mbi.tables import clique_vector, from_mbi_potentials
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError
from pgmest.estimation.estimate import estimate as pgmest_estimate
from pgmest.inference.support.support import Support
from pgmest.losses import KLLoss
from pgmest.models.exact import Model
from pgmest.tables.clique_vector import CliqueVector

CALLBACK_EVERY = getattr(installed("mbi.estimation"), "CALLBACK_EVERY", 50)
"""The number of iterations between two calls of a callback, as in mbi."""

PASSED_ON = ("prior", "prior_weight", "max_megabytes", "oracle", "loss")
"""The further arguments of `pgmest.estimate` that `estimate` accepts."""

TOLERANCE = 1e-3
"""The default relative duality gap, far below the noise of the measurements."""


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
    """Estimate a model by `pgmest.estimate`, with the arguments and types of mbi's estimators.

    Args:
        domain: an `mbi.Domain`.
        loss_fn: a list of `mbi.LinearMeasurement`, or an `mbi.MarginalLossFn`.
        known_total: the number of records. The default is an estimate from the measurements that determine the number
            and do not have `use_for_total_estimation=False`; without such measurements, or with a loss function, it is
            1, as in mbi.
        constraints: `mbi.Constraint` values; the combinations they exclude have probability zero.
        iters: the most iterations; the solver usually stops long before, at its tolerance.
        callback_fn: called with the marginals on the loss's cliques, an `mbi.CliqueVector`, once per `CALLBACK_EVERY`
            of `iters`; without `tol` the remaining calls get the final marginals after the optimum is reached.
        warm_start, potentials: a model, or potentials, of mbi or pgmest to start from.
        tol: the relative duality gap to stop at, by default 1e-3; in mbi it is the change of the loss.
        method: the solver of `pgmest.estimate`.
        patience, marginal_oracle, stepsize, mesh, stateful: accepted and not used: the solver stops at the gap and
            chooses its steps, and the oracle is pgmest's.
        options: further arguments of `pgmest.estimate`: `prior`, `prior_weight`, `oracle`, `max_megabytes`, `loss`.

    Returns:
        a `MarkovRandomField`; with a `Support` prior a `SupportField`, with `oracle="convex"` `PseudoMarginals`.

    Raises:
        ArgumentError: there is no such argument.
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
    """A callback that calls mbi's callback with marginals, once per `CALLBACK_EVERY` iterations."""

    def __init__(self, callback: Callable[[Any], Any] | None, goal: Objective, names: Names, total: float):
        self._callback, self._names, self._total = callback, names, total
        self._wanted = [names.clique(clique) for clique in goal.cliques]
        self.calls = 0

    def __call__(self, progress: Any) -> None:
        if progress.iteration % CALLBACK_EVERY or not progress.iteration or self._callback is None:
            return
        problem = progress._problem
        tables = CliqueVector.of(problem.layout, np.array(progress.marginals))
        self._callback(clique_vector(self._names, ((c, _table(tables, c)) for c in self._wanted)))
        self.calls += 1

    def finish(self, model: EstimatedModel, calls: int) -> None:
        """Call mbi's callback with the final marginals, at least once, until it has been called `calls` times."""
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
    """Return the prior as pgmest's, from potentials, records or a model of mbi or a prior of pgmest."""
    if isinstance(prior, mbi.CliqueVector):
        return from_mbi_potentials(prior, names)
    if isinstance(prior, mbi.Dataset):
        return from_mbi_dataset(prior)
    return from_mbi(prior) if isinstance(prior, EstimatedModel | mbi.MarkovRandomField) else prior


def _start(start: Any, names: Names) -> Any:
    """Return the start of the solver, from a model, potentials or marginals of mbi or pgmest."""
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
    """An estimator object as in mbi 2, for code that calls `estimator.estimate(domain, loss_fn, ...)`.

    Args:
        method: the solver of `pgmest.estimate`.
        marginal_oracle, mesh, stepsize: arguments of mbi, accepted and not used.
        options: further arguments of `pgmest.estimate`, as for `estimate` here.
    """

    method: Any = "auto"
    marginal_oracle: Any = None
    mesh: Any = None
    stepsize: float | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def estimate(self, domain: Any, loss_fn: Any, *arguments: Any, **options: Any) -> Any:
        """Call the function `estimate` of this module; the attributes of this object are the default arguments."""
        chosen = {"method": self.method, **self.options, **options}
        given = _SIGNATURE.bind(domain, loss_fn, *arguments, **chosen)
        model = estimate(*given.args, **given.kwargs)
        given.apply_defaults()
        tol, known_total, constraints = (given.arguments[name] for name in ("tol", "known_total", "constraints"))
        if tol is not None and self._loss_value(model, loss_fn, known_total, constraints) is None:
            raise ValueError(f"{type(self).__name__} does not support tol: its _loss_value gives None.")
        return model

    def _loss_value(self, state: Any, loss_fn: Any, known_total: Any, constraints: Any = ()) -> float | None:
        """Return the loss for mbi's `tol`; subclasses without a loss return None."""
        return None if state.report is None else state.report.loss

    def precompile(
        self,
        domain: Any,
        measurements: Any = None,
        *,
        extra_cliques: Any = None,
        constraints: Sequence[Any] = (),
    ) -> concurrent.futures.Future[None]:
        """Return a future that is done, since pgmest compiles nothing for a set of cliques."""
        return done()


@dataclass(frozen=True)
class MirrorDescent(Estimator):
    """mbi's mirror descent; `stepsize` is accepted and not used, since the solver chooses its steps."""

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
    """Return the field of maximum entropy with given marginals, an `mbi.CliqueVector`, in counts."""
    names = Names(marginals.domain)
    loss = KLLoss(from_mbi_potentials(marginals, names))
    model = pgmest_estimate([], names.domain, total=float(known_total), loss=loss, max_iterations=int(iters))
    return wrapped(model, names, marginals.cliques)


# -- the approximate estimator ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ApproxMirrorDescent:
    """mbi's estimator for cliques whose junction tree is too large: pseudo-marginals by convex message passing.

    Args:
        stepsize, oracle_iters, damping, mesh: arguments of mbi, accepted and not used.
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
        """Return the pseudo-marginals on the loss's cliques, in counts, as an `mbi.CliqueVector`."""
        made = estimate(domain, loss_fn, known_total, (), iters, callback_fn, potentials, oracle="convex")
        return made.marginals

    def precompile(self, *arguments: Any, **options: Any) -> concurrent.futures.Future[None]:
        """Return a future that is done, since pgmest compiles nothing for a set of cliques."""
        return done()


def reweighted_records(
    domain: Any, loss_fn: Any, seed_data: Any, known_total: float | None = None, **options: Any
) -> Any:
    """Return the distribution over public records that fits best, like mbi's `ReweightedDatasetEstimator`.

    Args:
        domain, loss_fn, known_total, options: as for `estimate`.
        seed_data: the records, an `mbi.Dataset` or a `pgmest.Dataset`.
    """
    records = seed_data if isinstance(seed_data, Dataset) else from_mbi_dataset(seed_data)
    return estimate(domain, loss_fn, known_total, prior=Support(records), **options)


_peer = available("mbi.estimation")


def __getattr__(name: str) -> Any:
    """Return a name of mbi's own module."""
    return getattr(_peer, name)
