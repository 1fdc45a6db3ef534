"""What mbi's `loss_fn` argument becomes: measurements and the name of a loss, or a loss of ours around its function."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.adapters.mbi.measurements import from_mbi_measurements
from pgmest.adapters.mbi.names import Names
from pgmest.adapters.mbi.peer import double_precision, jax, maximal_subset, mbi
from pgmest.adapters.mbi.tables import from_mbi_potentials
from pgmest.losses import KLLoss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique


@dataclass(frozen=True)
class Objective:
    """What to minimise, in our terms.

    Attributes:
        cliques: of mbi's loss, in its attributes: those that the model's potentials are to be on.
        measurements: of which `loss` is made; () where the loss holds everything itself.
        loss: the argument `loss` of `pgmest.estimate`.
        theirs: mbi's measurements, where the loss is made of some.
        given_as_list: whether the caller gave the measurements themselves, so that they may tell the total.
    """

    cliques: tuple[tuple[Any, ...], ...]
    measurements: Sequence[LinearMeasurement]
    loss: Any
    theirs: Sequence[Any] = ()
    given_as_list: bool = False


def objective(loss_fn: Any, names: Names) -> Objective:
    """mbi's loss in our terms.

    Args:
        loss_fn: a list of `mbi.LinearMeasurement`, or any `mbi.MarginalLossFn`. Those of mbi's own making, also
            normalized ones and the likelihood of marginals, get the loss of ours with the same minimum; another
            function is differentiated by JAX.
        names: of the domain.

    Raises:
        ArgumentError: it is neither.
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
    """The norm and the measurements of a loss that `from_linear_measurements` made; normalizing moves no minimum."""
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
    """The marginals of a loss that `mle_loss_fn` made, unless two of them are over the same attributes."""
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

    Nothing is known of its smoothness, so it counts as having kinks, and the universal method minimises it.

    Args:
        loss_fn: mbi's.
        names: of the domain.
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
        if any(leaf is loss_fn for leaf in leaves):  # before 2.0 it is no tree of arrays: compiled for itself
            self._run = jax.jit(lambda marginals: _value_and_gradient(marginals, loss_fn))
        else:
            self._run = lambda marginals: _compiled(marginals, loss_fn)

    def value_and_gradient(self, marginals: CliqueVector) -> tuple[float, dict[Clique, np.ndarray]]:
        """As `pgmest.loss.Loss` says. Cliques of mbi's that permute each other share one table and its gradient."""
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
UNKNOWN_NOISE = 1e-3


def tolerance_for(goal: Objective, tolerance: float) -> float:
    """The relative gap to stop at: smaller where the stated noise would drown the answers, or nothing is known of it.

    mbi's measurements have a stddev of 1 unless one is given, and their values may be fractions. A gap relative to the
    noise would then call any table good enough. It is made smaller as the answers' mean square, in variances of the
    noise, falls below 100.
    """
    if isinstance(goal.loss, FunctionOfMarginals):
        return tolerance * UNKNOWN_NOISE
    energy = answers = 0.0
    for measurement in goal.measurements:
        energy += float(np.sum((measurement.values / measurement.stddev) ** 2))
        answers += measurement.rows
    return tolerance * min(1.0, energy / (SIGNAL * answers)) if energy > 0 else tolerance
