"""Losses written as JAX or PyTorch functions and differentiated automatically; both packages are optional."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from pgmest.errors import OptionalDependencyError
from pgmest.losses.compose import FunctionLoss
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain

Function = Callable[[dict[Clique, Any]], Any]


def jax_loss(
    function: Function,
    domain: Domain | Mapping[str, int],
    cliques: Iterable[Iterable[str]],
) -> FunctionLoss:
    """Make a loss from a JAX function, which JAX compiles and differentiates in float64.

    Args:
        function: takes a dict from clique to a JAX array of counts of the clique's shape; returns a scalar.
        domain, cliques: as for FunctionLoss. Set `smooth = False` on the loss of a function with kinks.

    Raises:
        OptionalDependencyError: JAX is not installed.
    """
    jax = _import("jax", "a loss written in JAX")
    enable_x64 = (jax if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental")).enable_x64
    compiled = jax.jit(jax.value_and_grad(lambda tables: function(dict(zip(order, tables, strict=True)))))

    def value_and_gradient(marginals: CliqueVector) -> tuple[float, dict[Clique, np.ndarray]]:
        with enable_x64(True):
            value, gradients = compiled([marginals[clique].values for clique in order])
            return float(value), dict(zip(order, map(np.asarray, gradients), strict=True))

    loss = FunctionLoss(value_and_gradient, domain, cliques)
    order = loss.cliques
    return loss


def torch_loss(
    function: Function,
    domain: Domain | Mapping[str, int],
    cliques: Iterable[Iterable[str]],
) -> FunctionLoss:
    """Make a loss from a PyTorch function, which PyTorch differentiates in float64.

    Args:
        function: takes a dict from clique to a float64 tensor of counts of the clique's shape; returns a scalar.
        domain, cliques: as for FunctionLoss. Set `smooth = False` on the loss of a function with kinks.

    Raises:
        OptionalDependencyError: PyTorch is not installed.
    """
    torch = _import("torch", "a loss written in PyTorch")

    def value_and_gradient(marginals: CliqueVector) -> tuple[float, dict[Clique, np.ndarray]]:
        tables = {clique: torch.tensor(marginals[clique].values, requires_grad=True) for clique in marginals}
        value = function(tables)
        value.backward()
        zeros = ((clique, table.new_zeros(table.shape)) for clique, table in tables.items())
        gradients = {clique: tables[clique].grad if tables[clique].grad is not None else zero for clique, zero in zeros}
        return float(value.detach()), {clique: gradient.numpy() for clique, gradient in gradients.items()}

    return FunctionLoss(value_and_gradient, domain, cliques)


def _import(package: str, feature: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise OptionalDependencyError.of(package, feature) from None
