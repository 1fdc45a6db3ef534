"""A graphical model of a public table, to serve as a prior: which marginals it keeps, and how it is fitted."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np

from pgmest._base.errors import ArgumentError, DataError
from pgmest.data.dataset import Dataset
from pgmest.graph.junction_tree import JunctionTree
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.exact import Model
from pgmest.models.fitted_model import fitted_model
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor
from pgmest.tables.information import mutual_information

PRIOR_MEGABYTES = 4.0
"""The default limit: an oracle call on such a tree takes milliseconds."""

RANKED_RECORDS = 1_000_000
"""Pairs are ranked on at most about this many records, evenly spread over the table."""

FIT_TOLERANCE, FIT_ROUNDS = 1e-4, 200
"""When iterative proportional fitting stops."""


def public_model(
    data: Dataset,
    measured: Iterable[Iterable[str] | str] = (),
    *,
    max_megabytes: float = PRIOR_MEGABYTES,
    smoothing: float = 1.0,
) -> Model:
    r"""The maximum-likelihood model of a public table on the measured cliques and the most dependent pairs.

    As `pg.estimate(..., prior=...)` it decides what the measurements leave open. To the measured cliques, where the
    answers speak for themselves, pairs of attributes are added, those of most mutual information first, for as long as
    the junction tree stays within `max_megabytes`. Pairs whose dependence is no more than chance (by the Bayesian
    information criterion: N I <= (degrees of freedom) log(N) / 2) are left out.

    Only counts are used, so tables of ten million records take seconds.

    Zeros in a public table must not forbid what private records may do. So the table is smoothed first: mixed with
    `smoothing` records' worth of independent attributes, whose shares are themselves mixed with uniform ones. Every
    combination keeps a positive, small probability, and all marginals agree with each other exactly.

    >>> data = Dataset.from_codes(np.array([[0, 0], [0, 0], [1, 1]]), {"a": 2, "b": 2})
    >>> public_model(data, [("a", "b")]).project(("a", "b")).values.round(2)
    array([[1.79, 0.18],
           [0.18, 0.86]])

    Args:
        data: the public table; weights, where it has some, count.
        measured: cliques that are to be in the model in any case.
        max_megabytes: the limit for the junction tree's tables; where the measured cliques alone need more, that.
        smoothing: how many records of independent attributes are mixed in, positive.

    Returns:
        the model, whose total is that of the table; its report says how well it reproduces the table's marginals.

    Raises:
        DataError: the table has no records.
        ArgumentError: a limit or smoothing that is not positive.
        UnknownAttributeError: a measured clique names what the table does not have.
    """
    for name, value in (("max_megabytes", max_megabytes), ("smoothing", smoothing)):
        if isinstance(value, bool) or not 0 < value < math.inf:
            raise ArgumentError.of(name, value, "a positive number")
    if not data.total > 0:
        raise DataError(
            "the public table has no records (or none of positive weight), so it says nothing; leave it out."
        )
    cliques = prior_cliques(data, [data.domain.clique(clique) for clique in measured], max_megabytes)
    marginals = smoothed_marginals(data, cliques, smoothing)
    exact = [
        LinearMeasurement(marginal, marginal.domain.attributes, np.sqrt(np.maximum(marginal.datavector(), 1.0)))
        for marginal in marginals
    ]
    return fitted_model(exact, data.domain, data.total, FIT_TOLERANCE, FIT_ROUNDS)


def prior_cliques(data: Dataset, measured: list[Clique], max_megabytes: float) -> list[Clique]:
    """The measured cliques, pairs by falling mutual information, attributes in neither; of these the maximal ones."""
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
    """The pairs that depend on each other by more than chance, by falling mutual information."""
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
    """The number of values that occur, of each attribute of a two-way table."""
    return [int(np.count_nonzero(table.values.sum(axis=1 - axis))) for axis in (0, 1)]


def smoothed_marginals(data: Dataset, cliques: list[Clique], smoothing: float) -> list[Factor]:
    """The marginals of the table mixed with independent attributes, in counts that sum to the table's total."""
    total = data.total
    kept, mixed = total / (total + smoothing), smoothing / (total + smoothing)
    shares = _shares(data, smoothing)
    return [
        counts * kept + independent(data.domain.project(clique), shares) * (mixed * total)
        for clique, counts in zip(cliques, data.project_many(cliques), strict=True)
    ]


def _shares(data: Dataset, smoothing: float) -> dict[str, np.ndarray]:
    """Each attribute's shares, mixed with `smoothing` records that are uniform."""
    ways = data.project_many([(name,) for name in data.domain])
    return {
        name: (way.values + smoothing / size) / (data.total + smoothing)
        for (name, size), way in zip(data.domain.items(), ways, strict=True)
    }


def independent(domain: Domain, shares: dict[str, np.ndarray]) -> Factor:
    """The product of the attributes' shares."""
    values = np.ones(())
    for name in domain:
        values = np.multiply.outer(values, shares[name])
    return Factor(domain, values)
