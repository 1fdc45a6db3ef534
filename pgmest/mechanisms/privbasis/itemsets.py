"""Frequent itemsets under differential privacy: select items and pairs, then measure the marginals of a basis set."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, DomainError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.privbasis.basis import LARGEST, Basis, basis_set
from pgmest.privacy.budgets import Budget, Epsilon
from pgmest.privacy.curator import Curator
from pgmest.privacy.scores import Scores
from pgmest.tables.domain import Clique

Itemset = frozenset[str]

BUDGET_SHARES = (0.05, 0.05, 0.4, 0.5)
"""The shares of the budget for the number of records, the numbers of frequent items and pairs, their selection, and the
basis set. The paper has 0.1, 0.4 and 0.5 for the last three and assumes that the number of records is public."""

MOST_PAIRS = 4096
"""The most candidate pairs, which bounds the number of selected items by the square root of twice this number."""


@dataclass(frozen=True, eq=False)
class FrequentItemsets:
    """The frequent itemsets found by `frequent_itemsets`.

    Attributes:
        supports: the noisy support of each frequent itemset in records, largest first.
        stddevs: the standard deviation of the noise of each support, in records.
        threshold: the least support of a frequent itemset, in records.
        items: the selected items.
        pairs: the selected pairs of items.
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


def frequent_itemsets(curator: Curator, spend: Budget, theta: float, *, largest: int = LARGEST) -> FrequentItemsets:
    r"""Find the itemsets whose support is at least a fraction theta of the records (PrivBasis, Li et al. 2012).

    Items are attributes with two codes; a record contains an item if the code is 1.

    1. The exponential mechanism selects lambda, the number of frequent items: the score of j is high if the supports of
       the j-th and the next most frequent item enclose theta N. It then selects lambda items one by one by support.
    2. If there are more than `largest` items, pairs of the selected items are selected in the same way: an itemset is
       frequent only if all its subsets are.
    3. The marginals of a basis set (`basis_set`) are measured. The support of an itemset is the sum of the cells of a
       basis that contain all of its items; several bases are averaged, weighted by their inverse variances. Itemsets
       outside all bases are not found.

    A record changes each support, and so each score, by at most one. Under `AddRemove` the supports of neighbors all
    move in one direction, which halves the noise of the selection.

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
        curator: the curator of the records.
        spend: the total cost, of the budget's type.
        theta: the least support as a fraction of the records, above 0 and at most 1.
        largest: the most items in a basis, from 2 to 20.

    Raises:
        ArgumentError: if `theta` or `largest` is out of its range.
        DomainError: if an attribute does not have two codes.
        BudgetExceeded, BudgetTypeError: as for `Curator.measure`.
    """
    if isinstance(theta, bool) or not 0 < theta <= 1:
        raise ArgumentError.of("theta", theta, "a fraction of the records, above 0 and at most 1")
    if not isinstance(largest, int) or not 2 <= largest <= 20:
        raise ArgumentError.of("largest", largest, "an integer from 2 to 20")
    other = [name for name, size in curator.domain.items() if size != 2]
    if other:
        raise DomainError(f"items are attributes with the codes 0 and 1; {other[0]!r} has {curator.domain[other[0]]}.")
    number, how_many, which, rest = spend.split(BUDGET_SHARES)
    threshold = theta * float(curator.public_total or max(1.0, float(curator.count(number).values.item())))
    names = list(curator.domain.attributes)
    most = min(len(names), int(math.sqrt(2 * MOST_PAIRS)))
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
    """Return the noisy support of an itemset in records and its standard deviation, from the marginals of bases.

    Raises:
        ArgumentError: if no basis contains the itemset.
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
    """The scores of itemsets by their support."""

    def evaluate(self, data: Dataset, candidates: Sequence[Clique]) -> list[float]:
        """Return the exact support of each candidate, for the curator alone."""
        return supports_of(data, candidates).tolist()


@dataclass(frozen=True, eq=False)
class FrequentCount(Scores[int]):
    r"""The scores of j as the number of itemsets whose support is at least a threshold t.

    For supports $s_1 \ge s_2 \ge \dots$ the score is $-\max(t - s_j, s_{j + 1} - t, 0)$, which is 0 for the exact
    number. (PrivBasis scores $-|s_j - t|$, which may prefer a number with an itemset far below t.) If no support
    changes by more than one between neighbors, neither does the j-th largest support, nor the score.

    Attributes:
        itemsets: the itemsets that are counted.
        threshold: t, in records.
    """

    itemsets: tuple[Clique, ...]
    threshold: float

    def evaluate(self, data: Dataset, candidates: Sequence[int]) -> list[float]:
        """Return the exact score of each number, for the curator alone."""
        descending = np.sort(supports_of(data, self.itemsets))[::-1]
        too_many = np.concatenate([[-np.inf], self.threshold - descending])
        too_few = np.concatenate([descending - self.threshold, [-np.inf]])
        scores = -np.maximum(0.0, np.maximum(too_many, too_few))
        return [float(scores[j]) for j in candidates]


def supports_of(data: Dataset, itemsets: Sequence[Clique]) -> np.ndarray:
    """Return the exact support of each itemset in records, shape (itemsets,), for the curator alone."""
    tables = data.project_many(list(itemsets))
    return np.array([float(table.values.reshape(-1)[-1]) for table in tables])


def _selected(
    curator: Curator,
    options: list[Clique],
    threshold: float,
    how_many: Budget,
    which: Budget,
    most: int,
    what: str,
) -> list[Clique]:
    """Select the number of frequent itemsets and then that many itemsets by support (steps 1 and 2)."""
    moved = float(curator.neighbors.records)  # under Replace, too: a replaced record moves a support by at most one
    closest = FrequentCount(tuple(options), threshold)
    count = curator.select(list(range(most + 1)), closest, moved, how_many, label=f"how many {what} are frequent")
    left, found = list(options), list[Clique]()
    monotone, scores = curator.public_total is None, Supports()
    for each in which.split(count) if count else []:
        best = curator.select(left, scores, moved, each, monotone=monotone, label=f"one of the frequent {what}")
        found.append(best)
        left.remove(best)
    return found


def _inside(bases: Iterable[Basis]) -> list[Itemset]:
    """Return all nonempty subsets of the bases."""
    found: dict[Itemset, None] = {}
    for basis in bases:
        names = sorted(basis)
        for size in range(1, len(names) + 1):
            found.update(dict.fromkeys(map(frozenset, itertools.combinations(names, size))))
    return list(found)
