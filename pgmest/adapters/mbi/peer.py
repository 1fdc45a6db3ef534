"""The mbi that is installed: one place that imports it, and what differs between its releases."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from typing import Any

from pgmest._base.errors import OptionalDependencyError

TESTED = ("1.1", "2.0")
"""The releases that the tests run with."""


def installed(name: str = "mbi") -> Any:
    """A module of mbi's, or mbi itself.

    Raises:
        OptionalDependencyError: mbi is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise OptionalDependencyError.of("mbi", "pgmest.adapters.mbi") from None


def available(name: str) -> Any | None:
    """A module that not every release of mbi has, or None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


mbi: Any = installed()
jax: Any = installed("jax")
maximal_subset: Any = installed("mbi.clique_utils").maximal_subset


def clique_list(cliques: Any) -> Any:
    """Cliques as this release keeps them: a list before mbi 2.0, to which callers add lists, and a tuple since."""
    return mbi.CliqueVector(mbi.Domain([], []), list(cliques)[:0], {}).cliques.__class__(cliques)


def double_precision() -> AbstractContextManager[None]:
    """JAX in float64 for as long as the context lasts, whatever mbi's user has chosen."""
    module = jax if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental")
    return module.enable_x64(True)


def traced(*values: Any) -> bool:
    """Whether JAX is tracing a function of these: then there are no numbers yet for pgmest to work with."""
    leaves = jax.tree_util.tree_leaves(values)
    return any(isinstance(leaf, jax.core.Tracer | jax.ShapeDtypeStruct) for leaf in leaves)


def is_plain(query: Any) -> bool:
    """Whether a query of mbi's is the marginal itself."""
    return query is None or query == mbi.Factor.datavector or type(query).__name__ == "DatavectorQuery"
