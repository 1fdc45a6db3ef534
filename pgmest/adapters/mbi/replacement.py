"""The replacement of mbi's functions by pgmest's, for libraries that import mbi themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pgmest.adapters.mbi import estimation, marginal_oracles
from pgmest.adapters.mbi.field import MarkovRandomField
from pgmest.adapters.mbi.peer import available, installed

ESTIMATORS = ("MirrorDescent", "DualAveraging", "InteriorGradient", "LBFGS", "UniversalAcceleratedMethod")
FUNCTIONS = (
    "mirror_descent",
    "dual_averaging",
    "interior_gradient",
    "lbfgs",
    "universal_accelerated_method",
    "mle_from_marginals",
    "minimum_variance_unbiased_total",
)
QUESTIONS = (
    "variable_elimination",
    "bulk_variable_elimination",
    "calculate_many_marginals",
    "precompile_bulk_variable_elimination",
    "kron_query",
)
_MISSING = object()


def replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yield the module, the name and the replacement of each object of mbi that pgmest replaces."""
    peer = installed()
    theirs = installed("mbi.estimation")
    for name in (*ESTIMATORS, *FUNCTIONS):
        if hasattr(theirs, name):
            yield theirs, name, getattr(estimation, name)
    oracles = installed("mbi.marginal_oracles")
    for name in (*marginal_oracles.ORACLES, *QUESTIONS):
        if hasattr(oracles, name):
            yield oracles, name, getattr(marginal_oracles, name)
    extension = available("mbi.extensions.message_passing")
    for name, ours in marginal_oracles.CONSTRAINED.items():
        yield extension, name, ours
    approximate = available("mbi.approximate_oracles")
    if hasattr(approximate, "ApproxMirrorDescent"):
        yield approximate, "ApproxMirrorDescent", estimation.ApproxMirrorDescent
    for module in (peer, installed("mbi.markov_random_field")):
        yield module, "MarkovRandomField", MarkovRandomField


@contextmanager
def replacing_mbi() -> Iterator[None]:
    """Replace mbi's estimators, oracles and fields by pgmest's, in the whole process, as long as the context lasts.

    This is for libraries that import mbi themselves and take no estimator. Names that they imported before by
    `from mbi import ...` remain mbi's.
    """
    before = [(module, name, getattr(module, name, _MISSING)) for module, name, _ in replacements()]
    for module, name, ours in list(replacements()):
        setattr(module, name, ours)
    try:
        yield
    finally:
        for module, name, theirs in before:
            if theirs is not _MISSING:
                setattr(module, name, theirs)
