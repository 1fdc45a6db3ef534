"""What `estimate` makes of `prior=`, `prior_weight=` and `init=`: potentials, or a support."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from operator import and_
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.data.dataset import Dataset
from pgmest.inference.support.support import Support
from pgmest.losses import FlatLoss
from pgmest.losses.smoothed import KinkedLoss
from pgmest.models.exact import Model
from pgmest.models.support import SupportModel
from pgmest.priors.public_model import PRIOR_MEGABYTES, public_model
from pgmest.solvers.problem import Problem, SolverOracle
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Domain


def as_support(prior: Any, domain: Domain) -> Support | None:
    """The records to which a support as prior confines the distribution; None for any other prior.

    Raises:
        ArgumentError: the support is over another domain.
    """
    support = prior.reweighted if isinstance(prior, SupportModel) else prior
    if not isinstance(support, Support):
        return None
    _check_domain(support.domain, "prior", domain)
    return support


def support_oracle(support: Support) -> Callable[[Layout], SolverOracle]:
    """What makes the oracle of a support for given cliques."""

    def make(layout: Layout) -> SolverOracle:
        from pgmest.inference.support.support_oracle import SupportOracle

        return SupportOracle(support, layout)

    return make


def prior_potentials(prior: Any, loss: FlatLoss, max_megabytes: float | None) -> CliqueVector:
    """Log-potentials of the prior; of a public Dataset, those of its `public_model` on the measured cliques.

    Raises:
        ArgumentError: something that is no prior, or over another domain.
        DataError: a Dataset without records.
    """
    if isinstance(prior, Dataset):
        _check_domain(prior.domain, "prior", loss.domain)
        limit = PRIOR_MEGABYTES if max_megabytes is None else min(PRIOR_MEGABYTES, max_megabytes)
        return public_model(prior, loss.cliques, max_megabytes=limit).potentials
    return potentials_of(prior, "prior", loss.domain)


def potentials_of(source: Any, name: str, domain: Domain) -> CliqueVector:
    """The log-potentials that an argument gives.

    Raises:
        ArgumentError: it is no Model, SupportModel or CliqueVector, or over another domain.
    """
    potentials = source.potentials if isinstance(source, Model | SupportModel) else source
    if not isinstance(potentials, CliqueVector):
        allowed = "a Model or a CliqueVector of log-potentials"
        raise ArgumentError.of(name, source, f"{allowed}, a Dataset or a Support" if name == "prior" else allowed)
    _check_domain(potentials.domain, name, domain)
    return potentials


def warm_start(problem: Problem, potentials: CliqueVector) -> np.ndarray:
    """Base potentials plus those of `potentials` that the loss's cliques can express, -inf left to the base."""
    measured = problem.loss.cliques
    holders = dict.fromkeys(problem.layout.domain, 0)  # of each attribute, the measured cliques, as a mask
    for position, clique in enumerate(measured):
        for name in clique:
            holders[name] |= 1 << position
    everywhere = (1 << len(measured)) - 1
    fitting = {c: t for c, t in potentials.items() if reduce(and_, map(holders.__getitem__, c), everywhere)}
    theta = problem.base.copy()
    if fitting:
        expressed = CliqueVector(problem.layout.domain, fitting).expand(measured).flat
        theta[problem.measured] += np.where(np.isneginf(expressed), 0.0, expressed)
    return theta


def check_prior_weight(prior_weight: Any, prior: Any, method: Any, total: Any, loss: FlatLoss) -> None:
    """See that a soft penalty was asked for in a way that makes sense.

    Raises:
        ArgumentError: it was not.
    """
    number = isinstance(prior_weight, int | float | np.number) and not isinstance(prior_weight, bool)
    if not number or not 0 < prior_weight < math.inf:
        raise ArgumentError.of("prior_weight", prior_weight, "a positive number, or None to fit the answers first")
    if prior is None:
        raise ArgumentError(
            f"prior_weight={prior_weight!r} without a prior: say what to stay close to with prior=..., "
            "such as a public Dataset."
        )
    if not isinstance(method, str) or method != "auto":
        raise ArgumentError.of("method", method, "'auto' with prior_weight, which has a solver of its own")
    if total == "fit":
        raise ArgumentError("total='fit' cannot be combined with prior_weight: give the total, or let it be estimated.")
    if not loss.smooth and not isinstance(loss, KinkedLoss):
        raise ArgumentError('prior_weight needs a smooth loss such as "l2", or absolute residuals as in "l1".')


def _check_domain(given: Domain, name: str, domain: Domain) -> None:
    if given != domain:
        raise ArgumentError(f"{name}= is over another domain than the measurements; make it over the same.")
