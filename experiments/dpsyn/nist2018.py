"""The three scores of the NIST 2018 differential privacy synthetic data challenge.

Definitions: Ridgeway et al., NIST Technical Note 2151 (2021), and DPSyn. The marginals and conditions of the challenge
came from other random generators: the scores agree with the published ones in distribution only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, DataError
from pgmest.queries import Kron, compress, identity, subset
from pgmest.tables.domain import Clique, Domain
from pgmest.workloads import Item, Projectable, Workload, random_kway

Members = dict[str, np.ndarray]
"""A range query: for each attribute with a condition, whether each of its codes satisfies it."""

PERFECT = 1e6
"""The score of a perfect estimate."""

SMALLEST_FRACTION = 1e-6
"""The fraction of records that replaces smaller ones, whose logarithm would dominate the score."""


def density_score(
    true: Dataset,
    estimated: Projectable,
    *,
    numeric: Iterable[str] = (),
    buckets: int = 100,
    k: int = 3,
    count: int = 100,
    seed: int | np.random.Generator | None = None,
) -> float:
    """Return the score of density estimation: 10^6 (1 - d / 2), with d the mean L1 distance of random k-way marginals.

    Marginals are compared as fractions of the records. 1,000,000 is perfect; 0 means that no cell is shared.

    Args:
        true: the records.
        estimated: records, a model, or a mechanism's result, compared as fractions of the estimated total.
        numeric: attributes that are cut into `buckets` ranges of about equal length if they have more values.
        buckets: the number of ranges, 100 in the challenge.
        k: the number of attributes of a marginal, 3 in the challenge.
        count: the number of marginals, 100 in the challenge; at most all.
        seed: the seed of their choice.

    Raises:
        DataError: one of the two has no records.
    """
    domain, grouped = true.domain, set(true.domain.clique(dict.fromkeys(numeric)))
    possible = math.comb(len(domain), k)
    chosen = random_kway(domain, k, min(count, possible), seed).cliques

    def bucketed(name: str) -> Any:
        size = domain[name]
        if name not in grouped or size <= buckets:
            return identity(size)
        return compress(size, (np.arange(size) * buckets // size).tolist())

    workload = Workload(tuple(Item(clique, Kron({name: bucketed(name) for name in clique})) for clique in chosen))
    pairs = zip(_fractions(true, workload), _fractions(estimated, workload), strict=True)
    distance = float(np.mean([np.abs(mine - theirs).sum() for mine, theirs in pairs]))
    return PERFECT * (1.0 - distance / 2.0)


def range_score(
    true: Dataset,
    estimated: Projectable,
    *,
    numeric: Iterable[str] = (),
    probability: float = 0.33,
    count: int = 300,
    seed: int | np.random.Generator | None = None,
) -> float:
    """Return the score of range queries: 10^6 max(0, 1 - D / ln 1000).

    D is the root mean square of ln(estimated / true fraction); fractions below 1e-6 count as 1e-6. Each query is a
    conjunction: each attribute has a condition with the given probability, and queries without conditions are drawn
    again.

    Conditions are drawn as in DPSyn section 5.1, which states a probability of 0.33. For a numeric attribute they
    allow a range with two random ends; for another attribute they allow a random number of random codes; queries that
    no record satisfies are drawn again.

    Args:
        true: the records.
        estimated: records, a model, or a mechanism's result.
        numeric: attributes whose codes have an order.
        probability: the probability of a condition on an attribute, 0.33 in DPSyn.
        count: the number of queries, 300 in the challenge.
        seed: the seed of the queries.

    Raises:
        DataError: one of the two has no records.
        ArgumentError: `probability` is not in (0, 1].
    """
    if not 0 < probability <= 1:
        raise ArgumentError.of("probability", probability, "in (0, 1]")
    if not true.records:
        raise DataError("the data have no records from which conditions could be drawn.")
    rng, ordered = np.random.default_rng(seed), set(true.domain.clique(dict.fromkeys(numeric)))
    drawn = [conditions(true, probability, ordered, rng) for _ in range(count)]
    mine, theirs = (
        np.maximum(_satisfying(source, drawn, true.domain), SMALLEST_FRACTION) for source in (true, estimated)
    )
    deviation = float(np.sqrt(np.mean(np.log(theirs / mine) ** 2)))
    return PERFECT * max(0.0, 1.0 - deviation / math.log(1000.0))


@dataclass(frozen=True)
class PayGapDeviation:
    """The mean square deviations of two statistics of income over the cities of the true data; 0 is perfect.

    Attributes:
        gini: the mean square deviation of the cities' Gini indices of income, each in 0..1.
        rank: the mean square deviation of the cities' ranks by pay gap, each in 1..cities.
        cities: the number of cities in the true data.
    """

    gini: float
    rank: float
    cities: int

    @property
    def score(self) -> float:
        """The average of the two components of the score, from 0 to 10^6 (DPSyn section 5.1).

        The components' definition is not published. Here a component is one minus the root mean square of the
        deviations, at least 0; for ranks, the deviation is a share of that of the reversed order,
        sqrt((cities^2 - 1) / 3).

        >>> PayGapDeviation(gini=0.01, rank=0.0, cities=5).score
        950000.0
        """
        reversed_order = math.sqrt((self.cities**2 - 1) / 3) or 1.0
        parts = 1.0 - math.sqrt(self.gini), 1.0 - math.sqrt(self.rank) / reversed_order
        return PERFECT * sum(max(0.0, part) for part in parts) / 2


def pay_gap_deviation(
    true: Projectable,
    estimated: Projectable,
    *,
    city: str,
    sex: str,
    income: str,
    values: Any = None,
    men: int = 0,
    women: int = 1,
) -> PayGapDeviation:
    """Return the mean square deviations of the cities' Gini indices and of their ranks by pay gap (the third score).

    A city's pay gap is the men's mean income minus the women's, or 0 if the city has no men or no women. Cities are
    ranked by their pay gap; ties share their mean rank. If the estimate has nobody in a city, the deviation of its
    index counts as 1, and that of its rank as cities - 1. The definition does not say how the challenge combined the
    two deviations; see `PayGapDeviation.score`.

    Args:
        true, estimated: anything with marginals in counts.
        city, sex, income: the attributes.
        values: the income of each code, at least 0; by default the codes themselves.
        men, women: codes of `sex`.

    Raises:
        ArgumentError: `values` does not have a finite number of at least 0 for each code of income.
        DataError: the true data have no records.
    """
    from scipy.stats import rankdata

    mine, theirs = (source.project((city, sex, income)).values for source in (true, estimated))
    amounts = np.arange(mine.shape[2], dtype=np.float64) if values is None else np.asarray(values, dtype=np.float64)
    if amounts.shape != mine.shape[2:] or not np.isfinite(amounts).all() or (amounts < 0).any():
        raise ArgumentError.of("values", values, f"{mine.shape[2]} finite numbers of at least 0, one for each code")
    inhabited = mine.sum(axis=(1, 2)) > 0
    cities = int(inhabited.sum())
    if not cities:
        raise DataError("the data have no records, so there is no city to compare.")
    mine, theirs = mine[inhabited], np.maximum(theirs[inhabited], 0.0)
    absent = theirs.sum(axis=(1, 2)) <= 0
    gini = np.where(absent, 1.0, gini_index(mine.sum(axis=1), amounts) - gini_index(theirs.sum(axis=1), amounts))
    ranks = [rankdata(_pay_gap(table, amounts, men, women)) for table in (mine, theirs)]
    rank = np.where(absent, cities - 1.0, ranks[0] - ranks[1])
    return PayGapDeviation(float(np.mean(gini**2)), float(np.mean(rank**2)), cities)


def gini_index(counts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the Gini index of each row of counts, shape (rows, codes); 0 if the row's mean is 0.

    The index is sum_ij n_i n_j |x_i - x_j| / (2 n^2 mean).

    >>> gini_index(np.array([[1.0, 1.0], [0.0, 5.0]]), np.array([0.0, 10.0]))
    array([0.5, 0. ])
    """
    order = np.argsort(values, kind="stable")
    people, money = counts[:, order], counts[:, order] * values[order]
    n, total = people.sum(axis=1), money.sum(axis=1)
    # The index is 1 minus twice the area under the Lorenz curve, a sum of trapezoids.
    below = np.cumsum(money, axis=1)
    area = (people * (2 * below - money)).sum(axis=1)
    return np.where(total > 0, 1.0 - area / np.where(total > 0, n * total, 1.0), 0.0)


def _pay_gap(table: np.ndarray, amounts: np.ndarray, men: int, women: int) -> np.ndarray:
    people = table.sum(axis=2)
    means = np.divide(table @ amounts, people, out=np.zeros_like(people), where=people > 0)
    both = (people[:, men] > 0) & (people[:, women] > 0)
    return np.where(both, means[:, men] - means[:, women], 0.0)


def _fractions(source: Projectable, workload: Workload) -> Iterable[np.ndarray]:
    total = float(source.project(()))
    if not total > 0:
        raise DataError("there are no records, so fractions cannot be compared.")
    return (answers / total for answers in workload.iterate(source))


def _some_attributes(domain: Domain, probability: float, rng: np.random.Generator) -> Clique:
    while True:
        chosen = tuple(name for name in domain if rng.random() < probability)
        if chosen:
            return chosen


def conditions(data: Dataset, probability: float, ordered: set[str], rng: np.random.Generator) -> Members:
    """Return conditions that some record satisfies (DPSyn section 5.1)."""
    while True:
        members = {}
        for name in _some_attributes(data.domain, probability, rng):
            size = data.domain[name]
            if name in ordered:
                low, high = np.sort(rng.integers(size, size=2))
                members[name] = (np.arange(size) >= low) & (np.arange(size) <= high)
            else:
                members[name] = np.isin(np.arange(size), rng.permutation(size)[: rng.integers(1, size + 1)])
        if _inside(data, members).any():
            return members


def _satisfying(source: Projectable, drawn: list[Members], domain: Domain) -> np.ndarray:
    """Return the fraction that satisfies each query, counted from records if there are any, else from marginals."""
    if type(source) is Dataset and source.weights is None and source.records and source.domain == domain:
        return np.array([float(_inside(source, members).mean()) for members in drawn])
    kron = [Kron({name: subset(domain[name], codes) for name, codes in members.items()}) for members in drawn]
    workload = Workload(tuple(Item(tuple(members), query) for members, query in zip(drawn, kron, strict=True)))
    return np.concatenate(list(_fractions(source, workload)))


def _inside(data: Dataset, members: Members) -> np.ndarray:
    inside = np.ones(data.records, dtype=bool)
    for name, codes in members.items():
        inside &= codes[data.column(name)]
    return inside
