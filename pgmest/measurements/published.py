"""The arithmetic of published tables: ends of percentages, their total, and the correction of swapped records."""

from __future__ import annotations

import numpy as np

END_ROUNDING = 1e-9
"""A bound, in counts, on the floating-point error of the ends that are computed from percentages."""


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
