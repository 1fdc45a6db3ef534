"""Frequent itemsets under differential privacy: which items, which pairs, and the noisy counts of a basis set."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from pgmest._base.errors import ArgumentError, DomainError
from pgmest.data.dataset import Dataset
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.privbasis.basis import LARGEST, Basis, basis_set
from pgmest.privacy.budgets import Budget, Epsilon
from pgmest.privacy.curator import Curator
from pgmest.privacy.scores import Scores
from pgmest.tables.domain import Clique

Itemset = frozenset[str]

SHARES = (0.05, 0.05, 0.4, 0.5)
"""Of the budget: the number of records; how many items and pairs are frequent; which; and the basis set. The paper has
0.1, 0.4 and 0.5 for the last three, and takes the number of records as known."""

MOST_PAIRS = 4096
"""At most this many pairs are looked at; more items than that allows are not selected."""


@dataclass(frozen=True, eq=False)
class FrequentItemsets:
    """What was found.

    Attributes:
        supports: the estimated number of records with each frequent itemset, largest first.
        stddevs: the standard deviation of the noise on each.
        threshold: what counts as frequent, in records.
        items: the items selected.
        pairs: the pairs of them selected.
        bases: the basis set.
        measurements: the noisy marginal of each basis.
    """

    supports: dict[Itemset, float]
    stddevs: dict[Itemset, float]
    threshold: float
    items: tuple[str, ...]
    pairs: tuple[Itemset, ...]
    bases: tuple[Basis, ...]
    measurements: tuple[LinearMeasurement, ...] = field(repr=False)


def frequent_itemsets(
    curator: Curator, spend: Budget, theta: float, *, largest: int = LARGEST, max_items: int | None = None
) -> FrequentItemsets:
    r"""The itemsets that at least the share theta of the records contain, with their noisy supports (PrivBasis).

    Items are attributes with two codes, and a record contains an item whose code is 1.

    1. lambda, the number of frequent items, by the exponential mechanism: j scores by how close the supports of the
       j-th and the next most frequent item are to theta N. Then lambda items one after the other, each by its support.
    2. With more than `largest` items the same for pairs of them: an itemset is frequent only if all its subsets are.
    3. The basis set (`basis_set`), whose marginals are measured. The support of an itemset in a basis is the sum of the
       cells that have all of its items; bases that share it are averaged by the inverse of their variances. Itemsets
       that no basis holds, of more than `largest` items if not fewer, are not found.

    A record changes each support by at most one, and so each score; all is read through the curator, which charges it.
    Under `AddRemove` supports move in one direction, which halves the noise of selecting by them.

    >>> from pgmest.privacy import Rho
    >>> rng = np.random.default_rng(0)
    >>> bread, milk = rng.random((2, 5000)) < [[0.7], [0.5]]
    >>> names = {"bread": 2, "butter": 2, "tea": 2}
    >>> baskets = Dataset.from_codes([bread, bread & milk, rng.random(5000) < 0.01], names)
    >>> curator = Curator(baskets, Rho(0.1), backend="simulation", seed=0)
    >>> found = frequent_itemsets(curator, Rho(0.1), theta=0.2)
    >>> sorted(sorted(itemset) for itemset in found.supports)
    [['bread'], ['bread', 'butter'], ['butter']]

    Args:
        curator: has the records.
        spend: for everything, of the budget's type.
        theta: the share of the records, above 0 and at most 1.
        largest: the most items in a basis.
        max_items: the most items to select; by default as many as have `MOST_PAIRS` pairs.

    Raises:
        ArgumentError: a share or number that cannot be.
        DomainError: an attribute with other than two codes.
        BudgetExceeded, BudgetTypeError: as for `Curator.measure`.
    """
    if isinstance(theta, bool) or not 0 < theta <= 1:
        raise ArgumentError.of("theta", theta, "a share of the records, above 0 and at most 1")
    if not isinstance(largest, int) or not 2 <= largest <= 20:
        raise ArgumentError.of("largest", largest, "an integer from 2 to 20")
    other = [name for name, size in curator.domain.items() if size != 2]
    if other:
        raise DomainError(f"items are attributes with the codes 0 and 1; {other[0]!r} has {curator.domain[other[0]]}.")
    number, how_many, which, rest = spend.split(SHARES)
    threshold = theta * _records(curator, number)
    names = list(curator.domain.attributes)
    most = min(len(names), max_items or len(names), int(math.sqrt(2 * MOST_PAIRS)))
    two_stages = most > largest
    if two_stages:
        how_many, which = how_many / 2, which / 2
    items = _selected(curator, [(name,) for name in names], threshold, how_many, which, most, "items")
    chosen = [name for (name,) in items]
    pairs: list[Itemset] = []
    if len(chosen) > largest:
        options = list(itertools.combinations(curator.domain.ordered(chosen), 2))
        selected = _selected(curator, options, threshold, how_many, which, len(options), "pairs")
        pairs = [frozenset(pair) for pair in selected]
    power = 2.0 if isinstance(curator.budget, Epsilon) else 1.0
    bases = basis_set(chosen, pairs, power, largest)
    ordered = [curator.domain.ordered(basis) for basis in bases]
    measured = curator.measure_all(ordered, rest) if ordered else []
    supports = {one: support(one, measured) for one in _inside(bases)}
    frequent = sorted((one for one in supports if supports[one][0] >= threshold), key=lambda one: -supports[one][0])
    return FrequentItemsets(
        {one: supports[one][0] for one in frequent},
        {one: supports[one][1] for one in frequent},
        threshold,
        tuple(chosen),
        tuple(pairs),
        tuple(bases),
        tuple(measured),
    )


def support(itemset: Iterable[str], measured: Sequence[LinearMeasurement]) -> tuple[float, float]:
    """The number of records with all of some items, from the marginals of bases, and its standard deviation.

    Raises:
        ArgumentError: no basis holds the items.
    """
    items = set(itemset)
    values, precisions = [], []
    for measurement in measured:
        if items <= set(measurement.clique):
            table = measurement.values.reshape((2,) * len(measurement.clique))
            cells = table[tuple(1 if name in items else slice(None) for name in measurement.clique)]
            values.append(float(np.sum(cells)))
            precisions.append(1 / (float(np.mean(np.square(measurement.stddev))) * np.size(cells)))
    if not values:
        raise ArgumentError.of("itemset", sorted(items), "a part of a basis")
    return float(np.average(values, weights=precisions)), float(1 / math.sqrt(sum(precisions)))


@dataclass(frozen=True, eq=False)
class Supports(Scores[Clique]):
    """Scores that are the supports of itemsets."""

    def evaluate(self, data: Dataset, candidates: Sequence[Clique]) -> list[float]:
        """See `Scores`."""
        return supports_of(data, candidates).tolist()


@dataclass(frozen=True, eq=False)
class HowMany(Scores[int]):
    r"""How well j is the number of itemsets with at least a threshold of records.

    With the supports in descending order $s_1, s_2, \dots$ the score is $-\max(t - s_j, s_{j + 1} - t, 0)$, which is 0
    for the right number. (PrivBasis scores $-|s_j - t|$, which may prefer a number with an itemset far below t.)
    Neighbors that move every support by at most one move the j-th largest by at most one, and so each score.

    Attributes:
        itemsets: whose supports.
        threshold: t, in records.
    """

    itemsets: tuple[Clique, ...]
    threshold: float

    def evaluate(self, data: Dataset, candidates: Sequence[int]) -> list[float]:
        """See `Scores`."""
        descending = np.sort(supports_of(data, self.itemsets))[::-1]
        too_many = np.concatenate([[-np.inf], self.threshold - descending])
        too_few = np.concatenate([descending - self.threshold, [-np.inf]])
        scores = -np.maximum(0.0, np.maximum(too_many, too_few))
        return [float(scores[j]) for j in candidates]


def supports_of(data: Dataset, itemsets: Sequence[Clique]) -> np.ndarray:
    """The exact number of records with all items of each itemset, shape (itemsets,): for the curator alone."""
    tables = data.project_many(list(itemsets))
    return np.array([float(table.values.reshape(-1)[-1]) for table in tables])


def _records(curator: Curator, spend: Budget) -> float:
    """The number of records: public, or measured, at least 1."""
    return float(curator.public_total or max(1.0, float(curator.count(spend).values.item())))


def _selected(
    curator: Curator,
    options: list[Clique],
    threshold: float,
    how_many: Budget,
    which: Budget,
    most: int,
    what: str,
) -> list[Clique]:
    """About as many itemsets as are frequent, the most frequent ones: by the exponential mechanism (steps 1 and 2)."""
    moved = float(curator.neighbors.records)  # also of Replace: a support falls or rises by one for each record
    closest = HowMany(tuple(options), threshold)
    count = curator.select(list(range(most + 1)), closest, moved, how_many, label=f"how many {what} are frequent")
    left, found = list(options), list[Clique]()
    monotone, scores = curator.public_total is None, Supports()
    for each in which.split(count) if count else []:
        best = curator.select(left, scores, moved, each, monotone=monotone, label=f"one of the frequent {what}")
        found.append(best)
        left.remove(best)
    return found


def _inside(bases: Iterable[Basis]) -> list[Itemset]:
    """All itemsets that are parts of bases, but the empty one."""
    found: dict[Itemset, None] = {}
    for basis in bases:
        names = sorted(basis)
        for size in range(1, len(names) + 1):
            found.update(dict.fromkeys(map(frozenset, itertools.combinations(names, size))))
    return list(found)
