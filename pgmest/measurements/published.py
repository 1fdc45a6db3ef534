"""The arithmetic of published tables: the ends of their true answers, and the correction of swapped records."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pgmest.errors import MeasurementError, ShapeError
from pgmest.tables.domain import Clique

END_ROUNDING = 1e-9
"""A bound, in counts, on the floating-point error of the ends that are computed from percentages."""

EXACT_STDDEV = 0.05
OPEN_STDDEV = 1e6
"""The standard deviations, in counts, of an exact answer and of an answer without an upper end, for methods that use
only standard deviations: far below one record, and so large that the answer has hardly any weight."""


def checked_ends(
    low: np.ma.MaskedArray, high: np.ma.MaskedArray, where: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ends in one shape, 0 where either is masked, and the mask.

    Args:
        low, high: the ends, in counts.
        where: the subject of errors.

    Raises:
        MeasurementError: an end is not a number, a lower end is infinite, or low is above high.
    """
    below, above = np.broadcast_arrays(np.ma.getdata(low), np.ma.getdata(high))
    hidden = np.broadcast_to(np.ma.getmaskarray(low) | np.ma.getmaskarray(high), below.shape)
    below, above = (np.where(hidden, 0.0, end) for end in (below, above))
    if np.isnan(above).any() or not np.isfinite(below).all():
        raise MeasurementError(f"{where}: the ends must be numbers, and the lower ones finite; only high may be inf.")
    if (below > above).any():
        first = np.argwhere(below > above)[0].tolist()
        raise MeasurementError(f"{where}: low is above high at index {first}; give low <= high.")
    return below, above, hidden


def middles(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the middles of the ends, the lower end where `high` is inf, and the standard deviations of a place between
    them that is equally likely everywhere."""
    closed = np.isfinite(high)
    reached = np.where(closed, high, low)
    spread = np.where(closed, (reached - low) / math.sqrt(12.0), OPEN_STDDEV)
    return np.where(closed, 0.5 * (low + reached), low), np.maximum(spread, EXACT_STDDEV)


def suppressed_ends(table: np.ndarray, below: float, least: float, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of counts of which those below a threshold are NaN, and others of any size inf.

    `LinearMeasurement.suppressed` explains the arguments.

    Raises:
        MeasurementError: a published count is below the threshold but not below `least`.
    """
    hidden, complementary = np.isnan(table), np.isposinf(table)
    if ((table < below) & (table >= max(least, 1.0))).any():
        raise MeasurementError(
            f"{where}: a published value is below the threshold {below:g}; "
            "give suppressed counts as NaN, and other exact counts with LinearMeasurement.exact."
        )
    low = np.where(hidden, least, np.where(complementary, 0.0, table))
    return low, np.where(hidden, max(math.ceil(below) - 1, least), table)


def between_text(query: str, widths: np.ndarray) -> str:
    """Return a line about answers between ends that are this far apart."""
    answers = "1 answer" if len(widths) == 1 else f"{len(widths):,} answers"
    if not widths.any():
        return f"{answers}, {query}, exact"
    if np.isinf(widths).all():
        return f"{answers}, {query}, of which the least values are known"
    spread = f"{widths.min():.4g}" if np.ptp(widths) == 0 else f"{widths.min():.4g} to {widths.max():.4g}"
    return f"{answers}, {query}, between ends {spread} apart"


def without_nobody(shares: np.ndarray, totals: np.ndarray, where: str) -> np.ndarray:
    """Return percentages, which are 0 instead of NaN where their total is 0.

    Args:
        shares: the percentages.
        totals: the counts that are 100 %.
        where: what the percentages are of, for errors.

    Raises:
        ShapeError: the totals do not broadcast to the percentages.
    """
    try:
        fits = np.broadcast_shapes(shares.shape, totals.shape) == shares.shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"{where}: of has the shape {totals.shape}, which does not broadcast to the percentages' {shares.shape}. "
            "Give row totals as a column (totals[:, None]), or a Series with the name of its attribute."
        )
    return np.where((totals == 0) & np.isnan(shares), 0.0, shares) if shares.dtype.kind == "f" else shares


def check_percentages(shares: np.ndarray, totals: np.ndarray, decimals: Any, where: str) -> None:
    """Check that percentages can be those of totals, which broadcast to them; the arguments are as above.

    Raises:
        MeasurementError: a percentage is not between 0 and 100, has more decimals, or is not 0 of a total of 0; a total
            is negative; or `decimals` is not an integer from 0 to 12.
    """
    if isinstance(decimals, bool) or not isinstance(decimals, int | np.integer) or not 0 <= decimals <= 12:
        raise MeasurementError(f"{where}: decimals must be an integer from 0 to 12, got {decimals!r}.")
    if shares.size and (shares.min() < 0 or shares.max() > 100):
        raise MeasurementError(f"{where}: percentages must be between 0 and 100; counts need no percentages().")
    scaled = shares * 10.0**decimals
    finer = np.abs(scaled - np.round(scaled)) > 1e-6 + 1e-15 * scaled
    if finer.any():
        raise MeasurementError(
            f"{where}: the percentage {shares[finer][0]:.10g} has more decimals than decimals={decimals} says. Give "
            "decimals= as published; multiply shares of 1 by 100."
        )
    if not (totals >= 0).all():
        raise MeasurementError(f"{where}: of must not be negative: it is the count that is 100 %.")
    if ((totals == 0) & (shares > 0)).any():
        raise MeasurementError(f"{where}: of is 0 where a percentage is positive; percentages of nobody are 0 or NaN.")


def percentage_ends(
    shares: np.ndarray, totals: np.ndarray, decimals: int, hidden: np.ndarray, whole_table: bool
) -> tuple[np.ndarray, np.ndarray, float | None]:
    """Return the least and the largest counts that round to percentages, and the total that the percentages state.

    Counts of records are whole numbers. Other tables may have no whole number between the ends, which then stay, or no
    whole numbers that add up to the totals, although others do; then all ends stay.

    Args:
        shares: the percentages.
        totals: the counts that are 100 %, which broadcast to the percentages.
        decimals: the number of decimals of the percentages.
        hidden: True for unknown percentages; broadcasts to the percentages.
        whole_table: whether the percentages are those of a whole table, and so may state its total.
    """
    half = 0.5 * 10.0**-decimals
    low, high = (np.clip(shares + end, 0.0, 100.0) * totals / 100.0 for end in (-half, half))
    inner, outer = np.ceil(low - END_ROUNDING), np.floor(high + END_ROUNDING)
    whole = inner <= outer
    ends = [(np.where(whole, inner, low), np.where(whole, outer, high)), (low, high)]
    if whole_table:
        for below, above in ends:
            total = _stated_total(below, np.where(hidden, np.inf, above), totals)
            if total is not None:
                return below, above, total
    return *ends[0], None


def _stated_total(low: np.ndarray, high: np.ndarray, totals: np.ndarray) -> float | None:
    """Return the sum of the totals of percentages if each can be the total of its counts; None if they are parts.

    Args:
        low, high: the ends of the counts, of the table's shape.
        totals: one number, or an array that broadcasts to the table; each is the total of the cells that share it.
    """
    shape = (1,) * (low.ndim - totals.ndim) + totals.shape
    shared = tuple(axis for axis, size in enumerate(shape) if size == 1)
    least, most = low.sum(axis=shared), high.sum(axis=shared)
    each = np.broadcast_to(totals, low.shape).max(axis=shared, initial=0.0)
    fits = np.all((least - END_ROUNDING <= each) & (each <= most + END_ROUNDING))
    return float(np.sum(totals)) if fits else None


def check_swap(table: np.ndarray, clique: Clique, swapped: Clique, share: float, where: str) -> None:
    """Check the arguments of `LinearMeasurement.swapped`.

    Raises:
        MeasurementError: the swapped attributes are not some, but not all, of the clique's; the share is not at least 0
            and below 1; or the table is not one of counts with an axis for each attribute.
    """
    if not swapped or not set(swapped) < set(clique):
        raise MeasurementError(f"{where}: swapped attributes must be some, but not all, of the clique's.")
    if isinstance(share, bool) or not 0 <= share < 1:
        raise MeasurementError(f"{where}: share must be at least 0 and below 1, got {share!r}.")
    if table.ndim != len(clique) or (table < 0).any() or not table.sum() > 0:
        raise MeasurementError(f"{where}: values must be counts, an array with an axis for each attribute.")


def unswapped(table: np.ndarray, axes: tuple[int, ...], share: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the unbiased correction of counts of swapped records, and its standard deviation.

    `LinearMeasurement.swapped` explains both.

    Args:
        table: the published counts.
        axes: the axes of the attributes that were exchanged.
        share: the share of records that were swapped.
    """
    others = tuple(axis for axis in range(table.ndim) if axis not in axes)
    product = table.sum(axis=axes, keepdims=True) * table.sum(axis=others, keepdims=True) / table.sum()
    variance = share * (1.0 - share) * table + share * product
    return (table - share * product) / (1.0 - share), np.sqrt(variance) / (1.0 - share)
