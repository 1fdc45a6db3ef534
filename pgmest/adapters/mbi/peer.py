"""The installed mbi: this module alone imports it, and handles the differences between its releases."""

from __future__ import annotations

import concurrent.futures
import importlib
from contextlib import AbstractContextManager
from typing import Any

from pgmest.errors import OptionalDependencyError


def installed(name: str = "mbi") -> Any:
    """Return a module of mbi, or mbi itself.

    Raises:
        OptionalDependencyError: mbi is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise OptionalDependencyError.of("mbi", "pgmest.adapters.mbi") from None


def available(name: str) -> Any | None:
    """Return a module that not every release of mbi has, or None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


mbi: Any = installed()
jax: Any = installed("jax")
maximal_subset: Any = installed("mbi.clique_utils").maximal_subset


def clique_list(cliques: Any) -> Any:
    """Return cliques in the type of the installed release: a list before mbi 2.0, a tuple since."""
    return mbi.CliqueVector(mbi.Domain([], []), list(cliques)[:0], {}).cliques.__class__(cliques)


def double_precision() -> AbstractContextManager[None]:
    """Return a context in which JAX computes in float64, whatever the user of mbi has chosen."""
    module = jax if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental")
    return module.enable_x64(True)


def done() -> concurrent.futures.Future[None]:
    """Return a future that is done, for mbi's functions that compile in the background, which pgmest does not need."""
    future: concurrent.futures.Future[None] = concurrent.futures.Future()
    future.set_result(None)
    return future


def traced(*values: Any) -> bool:
    """Return whether JAX is tracing a function of these values, so that pgmest has no numbers to work with."""
    leaves = jax.tree_util.tree_leaves(values)
    return any(isinstance(leaf, jax.core.Tracer | jax.ShapeDtypeStruct) for leaf in leaves)


def is_plain(query: Any) -> bool:
    """Return whether a query of mbi is the marginal itself."""
    return query is None or query == mbi.Factor.datavector or type(query).__name__ == "DatavectorQuery"
