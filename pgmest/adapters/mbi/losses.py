"""mbi's `loss_fn` argument as arguments of `pgmest.estimate`: measurements and the name of a loss, or a loss."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.adapters.mbi.measurements import from_mbi_measurements
from pgmest.adapters.mbi.names import Names
from pgmest.adapters.mbi.peer import double_precision, jax, maximal_subset, mbi
from pgmest.adapters.mbi.tables import from_mbi_potentials
from pgmest.errors import ArgumentError
from pgmest.losses import KLLoss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique


@dataclass(frozen=True)
class Objective:
    """The objective as arguments of `pgmest.estimate`.

    Attributes:
        cliques: the cliques of mbi's loss, in mbi's attributes, on which the model has potentials.
        measurements: the measurements of the loss; () if `loss` does not need any.
        loss: the argument `loss` of `pgmest.estimate`.
        theirs: mbi's measurements of the loss, if any.
        given_as_list: whether the caller gave a list of measurements, which then may determine the total.
    """

    cliques: tuple[tuple[Any, ...], ...]
    measurements: Sequence[LinearMeasurement]
    loss: Any
    theirs: Sequence[Any] = ()
    given_as_list: bool = False


def objective(loss_fn: Any, names: Names) -> Objective:
    """Return mbi's loss as arguments of `pgmest.estimate`.

    Args:
        loss_fn: a list of `mbi.LinearMeasurement`, or any `mbi.MarginalLossFn`. A loss of mbi, including normalized
            losses and the likelihood of marginals, becomes a pgmest loss with the same minimum; JAX differentiates
            other functions.
        names: the names of the domain's attributes.

    Raises:
        ArgumentError: `loss_fn` is neither.
        QueryError, MeasurementError, ...: as for `from_mbi_measurement`.
    """
    if isinstance(loss_fn, list | tuple):
        cliques = tuple(maximal_subset([tuple(measurement.clique) for measurement in loss_fn]))
        return Objective(cliques, from_mbi_measurements(loss_fn, names.theirs), "l2", loss_fn, given_as_list=True)
    if not isinstance(loss_fn, mbi.MarginalLossFn):
        raise ArgumentError.of("loss_fn", loss_fn, "a list of mbi.LinearMeasurement, or an mbi.MarginalLossFn")
    cliques = tuple(tuple(clique) for clique in loss_fn.cliques)
    linear = _linear(loss_fn)
    if linear is not None:
        norm, measurements = linear
        return Objective(cliques, from_mbi_measurements(measurements, names.theirs), norm, measurements)
    target = _likelihood_target(loss_fn)
    if target is not None:
        return Objective(cliques, (), KLLoss(from_mbi_potentials(target, names)))
    return Objective(cliques, (), FunctionOfMarginals(loss_fn, names))


def _linear(loss_fn: Any) -> tuple[str, Sequence[Any]] | None:
    """Return the norm and the measurements of a loss that `from_linear_measurements` made, else None.

    A normalized loss has the same minimum.
    """
    kinds = {"_l2_loss": "l2", "_normalized_l2_loss": "l2", "_l1_loss": "l1", "_normalized_l1_loss": "l1"}
    module = getattr(loss_fn.loss_fn, "__module__", "")
    name = getattr(loss_fn.loss_fn, "__qualname__", "")
    if module != "mbi.marginal_loss":
        return None
    if name in kinds:
        return kinds[name], loss_fn.data
    if name == "from_linear_measurements.<locals>.loss_fn":  # mbi 1.1: a closure
        known = inspect.getclosurevars(loss_fn.loss_fn).nonlocals
        if {"norm", "measurements"} <= known.keys():
            return known["norm"], known["measurements"]
    return None


def _likelihood_target(loss_fn: Any) -> Any | None:
    """Return the marginals of a loss that `mle_loss_fn` made, None if two of them are over the same attributes."""
    named = getattr(loss_fn.loss_fn, "__qualname__", "").startswith("mle_loss_fn.")
    data: Any = getattr(loss_fn, "data", None)
    if not named or not isinstance(data, mbi.CliqueVector) or set(data.cliques) != set(loss_fn.cliques):
        return None
    tables = [np.asarray(data[clique].values) for clique in data.cliques]
    distinct = len({frozenset(clique) for clique in data.cliques}) == len(data.cliques)
    return data if distinct and all(np.all((table >= 0) & np.isfinite(table)) for table in tables) else None


def _value_and_gradient(marginals: Any, loss_fn: Any) -> Any:
    return jax.value_and_grad(lambda mu: jax.numpy.asarray(loss_fn(mu), dtype=float).reshape(()))(marginals)


_compiled = jax.jit(_value_and_gradient)


class FunctionOfMarginals:
    """Any `mbi.MarginalLossFn` as a loss of `pgmest.estimate`: JAX differentiates it, in float64.

    Its smoothness is unknown. It therefore counts as not smooth, and the universal method minimizes it.

    Args:
        loss_fn: mbi's function.
        names: the names of the domain's attributes.
    """

    lipschitz = None
    smooth = False

    def __init__(self, loss_fn: Any, names: Names):
        self._names = names
        self._order = tuple(tuple(clique) for clique in loss_fn.cliques)
        first: dict[frozenset[str], Clique] = {}
        for clique in map(names.clique, self._order):
            first.setdefault(frozenset(clique), clique)
        self.cliques: tuple[Clique, ...] = tuple(first.values())
        self._first = first
        leaves = jax.tree_util.tree_leaves(loss_fn)
        if any(leaf is loss_fn for leaf in leaves):  # before mbi 2.0 it is not a pytree, and is compiled separately
            self._run = jax.jit(lambda marginals: _value_and_gradient(marginals, loss_fn))
        else:
            self._run = lambda marginals: _compiled(marginals, loss_fn)

    def value_and_gradient(self, marginals: CliqueVector) -> tuple[float, dict[Clique, np.ndarray]]:
        """Return the loss and its gradient; mbi's cliques over the same attributes share one table and its gradient."""
        with double_precision():
            value, slopes = self._run(self._tables(marginals))
            gradients = {clique: np.zeros(marginals[clique].values.shape) for clique in self.cliques}
            for theirs in self._order:
                ours = self._names.clique(theirs)
                kept = self._first[frozenset(ours)]
                slope = np.asarray(slopes[theirs].values, dtype=np.float64)
                gradients[kept] += slope.transpose([ours.index(name) for name in kept])
        return float(value), gradients

    def _tables(self, marginals: CliqueVector) -> Any:
        theirs = self._names.theirs
        factors = {
            clique: mbi.Factor(theirs.project(clique), jax.numpy.asarray(marginals[self._names.clique(clique)].values))
            for clique in self._order
        }
        return mbi.CliqueVector(theirs, list(factors), factors)


SIGNAL = 100.0
"""The mean square of the answers, in variances of their noise, below which the gap to stop at is made smaller."""

UNKNOWN_NOISE = 1e-3
"""The factor of the gap to stop at if the loss does not say how large the noise is."""


def tolerance_for(goal: Objective, tolerance: float) -> float:
    """Return the relative gap to stop at, which is smaller if the stated noise exceeds the answers, or is unknown.

    mbi's measurements have a stddev of 1 unless one is given, and their values may be fractions. With a gap relative to
    that noise, any table would be accurate enough. The gap therefore decreases with the answers' mean square, in
    variances of the noise, below `SIGNAL`.
    """
    if isinstance(goal.loss, FunctionOfMarginals):
        return tolerance * UNKNOWN_NOISE
    energy = answers = 0.0
    for measurement in goal.measurements:
        energy += float(np.sum((measurement.values / measurement.stddev) ** 2))
        answers += measurement.rows
    return tolerance * min(1.0, energy / (SIGNAL * answers)) if energy > 0 else tolerance
