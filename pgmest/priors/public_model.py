"""A graphical model of a public table, to serve as a prior."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, DataError
from pgmest.graph.junction_tree import JunctionTree
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.exact import Model
from pgmest.models.fitted_model import fitted_model
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor
from pgmest.tables.information import mutual_information

PRIOR_MEGABYTES = 4.0
"""The default limit for the tables of the prior's junction tree; an oracle call on such a tree takes milliseconds."""

RANKED_RECORDS = 1_000_000
"""Pairs are ranked by the mutual information in at most about this many records, taken at equal distances."""

FIT_TOLERANCE, FIT_ROUNDS = 1e-4, 200
"""The relative tolerance and the largest number of rounds of iterative proportional fitting."""


def public_model(
    data: Dataset,
    measured: Iterable[Iterable[str] | str] = (),
    *,
    max_megabytes: float = PRIOR_MEGABYTES,
    smoothing: float = 1.0,
) -> Model:
    r"""Return the maximum-likelihood model of a public table on the measured cliques and the most dependent pairs.

    As the `prior=` of `pg.estimate` the model determines what the measurements leave open. Its cliques are the measured
    ones and pairs of attributes in order of falling mutual information I, as long as the junction tree stays within
    `max_megabytes`. A pair is left out if its dependence is not significant by the Bayesian information criterion,
    N I <= (degrees of freedom) log(N) / 2.

    The model is computed from counts alone, so tables of ten million records take seconds.

    Private records may lie in cells that are empty in the public table, so the table is smoothed first: it is mixed
    with `smoothing` records of independent attributes, whose distributions are themselves mixed with uniform ones.
    Every combination gets a small positive probability, and all marginals are exactly consistent.

    >>> data = Dataset.from_codes(np.array([[0, 0], [0, 0], [1, 1]]), {"a": 2, "b": 2})
    >>> public_model(data, [("a", "b")]).project(("a", "b")).values.round(2)
    array([[1.79, 0.18],
           [0.18, 0.86]])

    Args:
        data: the public table; its weights count if it has any.
        measured: cliques that the model always includes.
        max_megabytes: the limit for the junction tree's tables; the measured cliques may exceed it, but then no pair is
            added that makes the tree larger.
        smoothing: the number of records of independent attributes that are mixed in, above 0.

    Returns:
        the model, with the table's total; its report states how well the model reproduces the table's marginals.

    Raises:
        DataError: the table has no records of positive weight.
        ArgumentError: `max_megabytes` or `smoothing` is not a positive number.
        UnknownAttributeError: a measured clique has an attribute that the table lacks.
    """
    for name, value in (("max_megabytes", max_megabytes), ("smoothing", smoothing)):
        if isinstance(value, bool) or not 0 < value < math.inf:
            raise ArgumentError.of(name, value, "a positive number")
    if not data.total > 0:
        raise DataError(
            "the public table has no records of positive weight, so it cannot serve as a prior; leave it out."
        )
    cliques = prior_cliques(data, [data.domain.clique(clique) for clique in measured], max_megabytes)
    marginals = smoothed_marginals(data, cliques, smoothing)
    exact = [
        LinearMeasurement(marginal, marginal.domain.attributes, np.sqrt(np.maximum(marginal.datavector(), 1.0)))
        for marginal in marginals
    ]
    return fitted_model(exact, data.domain, data.total, FIT_TOLERANCE, FIT_ROUNDS)


def prior_cliques(data: Dataset, measured: list[Clique], max_megabytes: float) -> list[Clique]:
    """Return the maximal ones of the measured cliques, the dependent pairs that fit, and attributes in neither."""
    domain = data.domain
    chosen = list(measured)
    limit = max(max_megabytes * 1e6 / 8, JunctionTree.from_cliques(domain, chosen, effort="low").total_cells)
    covered = [frozenset(clique) for clique in chosen]
    for pair in dependent_pairs(data):
        if any(clique.issuperset(pair) for clique in covered) or domain.size(pair) > limit:
            continue
        if JunctionTree.from_cliques(domain, [*chosen, pair], effort="low").total_cells <= limit:
            chosen.append(pair)
            covered.append(frozenset(pair))
    chosen += [(name,) for name in domain if not any(name in clique for clique in covered)]
    distinct = list({frozenset(clique): clique for clique in reversed(chosen)}.values())[::-1]
    return [clique for clique in distinct if not any(set(clique) < set(other) for other in distinct)]


def dependent_pairs(data: Dataset) -> list[Clique]:
    """Return the pairs of attributes with significant dependence, by falling mutual information."""
    ranked = data.take(slice(None, None, math.ceil(data.records / RANKED_RECORDS)))
    pairs = list(itertools.combinations(data.domain.attributes, 2))
    scored = []
    for pair in pairs:
        table = ranked.project(pair)
        information = mutual_information(table, pair[:1], pair[1:])
        freedom = math.prod(size - 1 for size in occupied(table))
        if ranked.total * information > 0.5 * freedom * math.log(max(ranked.total, 2.0)):
            scored.append((information, pair))
    return [pair for _, pair in sorted(scored, key=lambda item: -item[0])]


def occupied(table: Factor) -> list[int]:
    """Return the number of occurring values of each attribute of a two-way table."""
    return [int(np.count_nonzero(table.values.sum(axis=1 - axis))) for axis in (0, 1)]


def smoothed_marginals(data: Dataset, cliques: list[Clique], smoothing: float) -> list[Factor]:
    """Return the marginals of the smoothed table (see `public_model`), in counts that sum to the table's total."""
    total = data.total
    kept, mixed = total / (total + smoothing), smoothing / (total + smoothing)
    shares = _shares(data, smoothing)
    return [
        counts * kept + independent(data.domain.project(clique), shares) * (mixed * total)
        for clique, counts in zip(cliques, data.project_many(cliques), strict=True)
    ]


def _shares(data: Dataset, smoothing: float) -> dict[str, np.ndarray]:
    """Return each attribute's distribution, mixed with `smoothing` records that are uniform."""
    ways = data.project_many([(name,) for name in data.domain])
    return {
        name: (way.values + smoothing / size) / (data.total + smoothing)
        for (name, size), way in zip(data.domain.items(), ways, strict=True)
    }


def independent(domain: Domain, shares: dict[str, np.ndarray]) -> Factor:
    """Return the product of the attributes' distributions."""
    values = np.ones(())
    for name in domain:
        values = np.multiply.outer(values, shares[name])
    return Factor(domain, values)
