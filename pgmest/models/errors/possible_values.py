r"""The least and the largest value that a function of a table may have, where a few tables tell.

A function is *between* if its value for a mixture of two tables always lies between its values for the two: shares,
conditional probabilities, means, quantiles and counts are, but correlations and coefficients are not. A table of
nonnegative counts whose number of records lies between two ends is a mixture of tables of one cell each, of as many
records as one of the ends. Therefore no value of such a function is outside those for the tables of one cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

MOST_CELLS = 1_000
"""The largest number of cells of a table of which each is tried."""
TRIED = 60
"""The number of mixtures that are tried to find out whether a function is between. They are of tables with a single
cell for each combination of codes of some attributes, or with a random share of the cells: a function of groups of
cells, such as one of each age, is then tried where each group has one cell or few."""
TRIED_TOTALS = 5
"""The number of tables whose values are compared for both numbers of records."""
ROUNDING = 1e-9
"""Values are between others if they are outside by no more than this share of the largest one."""


def possible_values(
    answered: Callable[[np.ndarray], np.ndarray], possible: np.ndarray, totals: tuple[float, float], seed: int
) -> tuple[np.ndarray | float, np.ndarray | float]:
    """Return the least and the largest value of a function of a table; infinite where they are not known.

    Args:
        answered: the function of the counts of a table.
        possible: the cells that may have records.
        totals: the least and the largest number of records.
        seed: chooses the mixtures that are tried.

    Returns:
        two arrays of the shape of the function's values; or two numbers for all of them.
    """
    cells = np.flatnonzero(possible)
    if not 1 <= len(cells) <= MOST_CELLS or totals[1] <= 0:
        return -math.inf, math.inf
    try:
        with np.errstate(all="ignore"):
            return _values_of_cells(answered, possible, totals, np.random.default_rng(seed))
    except Exception:  # a function need not have a value for a table of one cell
        return -math.inf, math.inf


def _values_of_cells(
    answered: Callable[[np.ndarray], np.ndarray],
    possible: np.ndarray,
    totals: tuple[float, float],
    generator: np.random.Generator,
) -> tuple[np.ndarray | float, np.ndarray | float]:
    between, scaled = np.array(True), False
    for tried in range(TRIED):
        (one, other), share = _two_tables(possible, generator), generator.uniform(0.1, 0.9)
        ends = answered(totals[1] * one), answered(totals[1] * other)
        between = between & _is_between(answered(totals[1] * (share * one + (1 - share) * other)), *ends)
        if tried < TRIED_TOTALS and not scaled:
            scaled = not np.array_equal(answered(totals[0] * one), ends[0], equal_nan=True)
        if not between.any():
            return -math.inf, math.inf
    reached = list[np.ndarray]()
    for cell in zip(*np.nonzero(possible), strict=True):
        for total in totals[0 if scaled else 1 :]:
            table = np.zeros(possible.shape)
            table[cell] = total
            reached.append(answered(table))
    least, most = np.fmin.reduce(reached), np.fmax.reduce(reached)
    return np.where(between & ~np.isnan(least), least, -np.inf), np.where(between & ~np.isnan(most), most, np.inf)


def _two_tables(possible: np.ndarray, generator: np.random.Generator) -> list[np.ndarray]:
    """Return two tables of one record with few cells."""
    order, found = generator.random((2, *possible.shape)) * possible, list[np.ndarray]()
    if generator.random() < 0.5:
        free = tuple(np.flatnonzero(generator.random(possible.ndim) < 0.5)) or tuple(range(possible.ndim))
        chosen = [(one == one.max(axis=free, keepdims=True)) & possible for one in order]
    else:
        kept = possible.size ** -generator.random()
        chosen = [(one >= 1 - kept) | (one == one.max()) for one in order]
    for one in chosen:
        found.append(one / one.sum())
    return found


def _is_between(value: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return where a value is between two others; if one of these is not defined, it must be the other one."""
    low, high = np.fmin(one, other), np.fmax(one, other)
    room = np.maximum(np.abs(low), np.abs(high))
    room = ROUNDING * np.where(np.isfinite(room), room, 0.0)
    return ((value >= low - room) & (value <= high + room)) | (np.isnan(value) & np.isnan(low))
