"""The arguments `prior=`, `prior_weight=` and `init=` of `estimate`: checks, and the potentials or support in them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError
from pgmest.inference.support.support import Support
from pgmest.losses import FlatLoss
from pgmest.losses.smoothed import KinkedLoss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.exact import Model
from pgmest.models.support import SupportModel
from pgmest.priors.public_model import PRIOR_MEGABYTES, public_model
from pgmest.solvers.problem import Problem
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor


def as_support(prior: Any, domain: Domain) -> Support | None:
    """Return the records to which the prior confines the distribution, or None if the prior is no support.

    Raises:
        ArgumentError: the support is over another domain.
    """
    support = prior.reweighted if isinstance(prior, SupportModel) else prior
    if not isinstance(support, Support):
        return None
    _check_domain(support.domain, "prior", domain)
    return support


def prior_potentials(prior: Any, loss: FlatLoss, max_megabytes: float | None) -> CliqueVector:
    """Return the log-potentials of the prior.

    Those of a public Dataset are its `public_model` on measured cliques; those of a Factor, a seed of counts, their
    logs.

    Raises:
        ArgumentError: the prior is of a wrong type, or over another domain, or a seed has no or negative counts.
        DataError: a Dataset without records.
    """
    if isinstance(prior, Factor):
        return seed_potentials(prior, loss.domain)
    if isinstance(prior, Dataset):
        _check_domain(prior.domain, "prior", loss.domain)
        limit = PRIOR_MEGABYTES if max_megabytes is None else min(PRIOR_MEGABYTES, max_megabytes)
        return public_model(prior, loss.cliques, max_megabytes=limit).potentials
    return potentials_of(prior, "prior", loss.domain)


def seed_potentials(seed: Factor, domain: Domain) -> CliqueVector:
    """Return the log-potentials of a table of counts, the seed of iterative proportional fitting.

    A zero in the seed is a structural zero: it stays zero in every estimate.

    Raises:
        ArgumentError: the seed is over other attributes than those of the domain, or its counts are negative, not
            finite, or all zero.
    """
    unknown = [name for name, size in seed.domain.items() if domain.get(name) != size]
    if unknown:
        raise ArgumentError(
            f"prior= is a table over {', '.join(map(repr, unknown))}, which the domain lacks or has with another "
            "number of values: make it over attributes of the domain."
        )
    counts = seed.values
    if not np.isfinite(counts).all() or (counts < 0).any() or not counts.any():
        raise ArgumentError(
            "prior= is a table with negative, infinite or no counts: a seed has finite counts of at least 0, some "
            "above it. Give log-potentials as a CliqueVector."
        )
    return CliqueVector(domain, {seed.domain.attributes: seed.log()})


def impossible_cells(base: Sequence[CliqueVector]) -> CliqueVector | None:
    """Return tables whose -inf cells are impossible under potentials to be added; None if every cell is possible."""
    tables: dict[Clique, Factor] = {}
    for potentials in base:
        for clique, table in potentials.items():
            if np.isneginf(table.values).any():
                tables[clique] = tables[clique] + table if clique in tables else table
    domain = next((potentials.domain for potentials in base), None)
    return None if domain is None or not tables else CliqueVector(domain, tables)


def warn_of_smoothing(prior: Any, measurements: Sequence[LinearMeasurement]) -> None:
    """Warn if records are the prior of published tables: reweighting the records is probably meant."""
    if isinstance(prior, Dataset) and measurements and not any(measurement.noisy for measurement in measurements):
        warnings.warn(
            "prior= is a Dataset, from which a smoothed graphical model is made. To reweight its records to the "
            "tables, as raking does, use pg.rake, or give prior=pgmest.priors.Support(data); to keep the model "
            "without this warning, give prior=pgmest.priors.public_model(data, cliques).",
            stacklevel=3,
        )


def potentials_of(source: Any, name: str, domain: Domain) -> CliqueVector:
    """Return the log-potentials in an argument.

    Raises:
        ArgumentError: the argument is no Model, SupportModel or CliqueVector, or is over another domain.
    """
    potentials = source.potentials if isinstance(source, Model | SupportModel) else source
    if not isinstance(potentials, CliqueVector):
        allowed = "a Model or a CliqueVector of log-potentials"
        if name == "prior":
            allowed = f"{allowed}, a Factor of counts (a seed), a Dataset or a Support"
        raise ArgumentError.of(name, source, allowed)
    _check_domain(potentials.domain, name, domain)
    return potentials


def warm_start(problem: Problem, potentials: CliqueVector) -> np.ndarray:
    """Return the base potentials plus those of `potentials` that the loss's cliques can express, flat.

    Cells at -inf keep their base potential: a cell that the start excludes may be possible in the new problem.
    """
    measured = problem.loss.cliques
    # Bit masks of the measured cliques that hold each attribute: a potential can be expressed if one clique holds it.
    holders = dict.fromkeys(problem.layout.domain, 0)
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
    """Check that a penalty on the divergence from the prior can be minimized.

    Raises:
        ArgumentError: the weight is not a positive number, or does not go with the other arguments.
    """
    number = isinstance(prior_weight, int | float | np.number) and not isinstance(prior_weight, bool)
    if not number or not 0 < prior_weight < math.inf:
        raise ArgumentError.of("prior_weight", prior_weight, "a positive number, or None to fit the answers first")
    if prior is None:
        raise ArgumentError(f"prior_weight={prior_weight!r} without a prior: give prior=..., such as a public Dataset.")
    if not isinstance(method, str) or method != "auto":
        raise ArgumentError.of("method", method, "'auto' with prior_weight, for which the solver is fixed")
    if total == "fit":
        raise ArgumentError("total='fit' cannot be combined with prior_weight: give the total, or let it be estimated.")
    if not loss.smooth and not isinstance(loss, KinkedLoss):
        raise ArgumentError('prior_weight needs a smooth loss such as "l2", or absolute residuals as in "l1".')


def _check_domain(given: Domain, name: str, domain: Domain) -> None:
    """Check that an argument is over the domain of the measurements.

    Raises:
        ArgumentError: it is over another domain.
    """
    if given != domain:
        raise ArgumentError(f"{name}= is over another domain than the measurements: make it over the same domain.")
