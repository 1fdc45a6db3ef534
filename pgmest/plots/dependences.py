"""The dependence of each pair of attributes in a release, as numbers and as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.plots.style import draw_matrix, pyplot_for
from pgmest.tables.factor import Factor
from pgmest.workloads import Projectable
from pgmest.workloads.answers import marginals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW_SHUFFLES, MANY_SHUFFLES = 20, 100
"""Pairs that `FEW_SHUFFLES` shuffles do not explain are shuffled this many times in all."""

CLEARLY = 4.0
"""The number of standard deviations of the shuffles by which a dependence must exceed their mean."""

MOST_SHUFFLED = 10**7
"""Tables of more records are shuffled as if they had this many, which bounds the time; chance adds little then."""


def dependences(source: Projectable, attributes: Sequence[str]) -> np.ndarray:
    r"""Return the dependence of each pair of attributes, from 0, no more than chance explains, to 1.

    This is the square root of the adjusted mutual information (Vinh, Epps, Bailey 2010),

    $$ \sqrt{(I - \bar I) / (\min(H_a, H_b) - \bar I)}, $$

    where I is the mutual information, H the entropy of an attribute, and $\bar I$ the mean mutual information of tables
    in which as many records have the same values in random order. It is 1 exactly if one attribute determines the
    other. It is 0 if I is not clearly above that of the random tables: for attributes of many values, I is far above 0
    by chance alone. The root makes small dependences of normal variables proportional to their correlation.

    Args:
        source: anything whose `project(clique)` is a Factor of counts; negative counts are treated as zero.
        attributes: the d attributes.

    Returns:
        a symmetric array of shape (d, d), with ones on the diagonal.
    """
    pairs = list(combinations(attributes, 2))
    found = np.eye(len(attributes))
    places = {name: place for place, name in enumerate(attributes)}
    for (a, b), table in zip(pairs, marginals(source, pairs), strict=True):
        found[places[a], places[b]] = found[places[b], places[a]] = np.sqrt(adjusted_information(table))
    return found


def adjusted_information(table: Factor) -> float:
    """Return the adjusted mutual information of the two attributes of a table of counts (see `dependences`), 0 to 1.

    >>> adjusted_information(Factor({"a": 2, "b": 2}, [[30.0, 0.0], [0.0, 10.0]]))
    1.0
    """
    counts = np.maximum(table.values, 0.0)
    total, records = float(counts.sum()), min(round(float(counts.sum())), MOST_SHUFFLED)
    if records < 2:
        return 0.0
    margins = [counts.sum(axis=axis) / total for axis in (1, 0)]
    whole = [whole_counts(margin, records) for margin in margins]
    if min(np.count_nonzero(margin) for margin in whole) < 2:  # where nothing can depend on anything
        return 0.0
    entropies = [-_sum_of_logs(margin) for margin in margins]
    information = _sum_of_logs(counts / total) + sum(entropies)
    constant = np.log(records) - sum(_sum_of_logs(margin) for margin in whole) / records
    shuffled = _shuffled_sums(*(margin[margin > 0] for margin in whole))
    drawn: list[float] = []
    for most in (FEW_SHUFFLES, MANY_SHUFFLES):
        drawn += [constant + next(shuffled) / records for _ in range(most - len(drawn))]
        chance = float(np.mean(drawn))
        if information <= max(*drawn, chance + CLEARLY * float(np.std(drawn))) + 1e-9:
            return 0.0
    return float(np.clip((information - chance) / (min(entropies) - chance), 0.0, 1.0))


def whole_counts(shares: np.ndarray, records: int) -> np.ndarray:
    """Return whole numbers with a given sum, each less than 1 away from its share of the sum.

    >>> whole_counts(np.array([0.26, 0.5, 0.24]), 10)
    array([3, 5, 2])
    """
    exact = shares * records
    counts = np.floor(exact).astype(np.int64)
    largest = np.argsort(counts - exact, kind="stable")
    counts[largest[: records - int(counts.sum())]] += 1
    return counts


def _shuffled_sums(rows: np.ndarray, columns: np.ndarray) -> Iterator[float]:
    """Yield the sum of x log x over the cells of random tables with these margins, without end."""
    generator, records = np.random.default_rng(0), int(rows.sum())
    if records < rows.size * columns.size:  # the records take less memory than the table
        first, second = (np.repeat(np.arange(margin.size), margin) for margin in (rows, columns))
        while True:
            cells = first * columns.size + generator.permutation(second)
            yield _sum_of_logs(np.unique(cells, return_counts=True)[1])
    from scipy.stats import random_table  # imported late: it takes a second

    tables = random_table(rows, columns, seed=generator)
    while True:
        yield _sum_of_logs(tables.rvs())


def _sum_of_logs(values: np.ndarray) -> float:
    """Return the sum of x log x."""
    positive = values[values > 0]
    return float(positive @ np.log(positive))


def draw_dependences(
    source: Projectable,
    attributes: Iterable[str],
    title: str = "",
    measured: Iterable[Iterable[str]] | None = None,
) -> Figure:
    """Draw the dependences of all pairs as a matrix with a row and a column for each attribute; dark is strong.

    Args:
        source: as for `dependences`.
        attributes: at least two, drawn in this order.
        title: a heading.
        measured: the pairs that were measured, which are marked by dots.

    Raises:
        OptionalDependencyError: matplotlib is not installed.
        ArgumentError: there are fewer than two attributes.
    """
    names = list(attributes)
    if len(names) < 2:
        raise ArgumentError.of("attributes", names, "at least two attributes")
    pyplot = pyplot_for("drawing dependences")
    matrix = dependences(source, names)
    np.fill_diagonal(matrix, np.nan)
    return draw_matrix(pyplot, matrix, names, title, "dependence beyond chance, 0 to 1", 1.0, measured)
