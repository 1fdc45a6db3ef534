"""The arithmetic of published tables: ends of percentages, their total, and the correction of swapped records."""

from __future__ import annotations

import numpy as np

from pgmest.errors import MeasurementError, MeasurementShapeError

END_ROUNDING = 1e-9
"""A bound, in counts, on the floating-point error of the ends that are computed from percentages."""


def without_nobody(shares: np.ndarray, totals: np.ndarray, where: str) -> np.ndarray:
    """Return percentages, which are 0 instead of NaN where their total is 0.

    Args:
        shares: the percentages.
        totals: the counts that are 100 %.
        where: what the percentages are of, for errors.

    Raises:
        MeasurementShapeError: the totals do not broadcast to the percentages.
    """
    try:
        fits = np.broadcast_shapes(shares.shape, totals.shape) == shares.shape
    except ValueError:
        fits = False
    if not fits:
        raise MeasurementShapeError(
            f"{where}: of has the shape {totals.shape}, which does not broadcast to the percentages' {shares.shape}. "
            "Give row totals as a column (totals[:, None]), or a Series with the name of its attribute."
        )
    return np.where((totals == 0) & np.isnan(shares), 0.0, shares) if shares.dtype.kind == "f" else shares


def check_percentages(shares: np.ndarray, totals: np.ndarray, decimals: int, where: str) -> None:
    """Check that percentages can be those of totals, which broadcast to them; the arguments are as above.

    Raises:
        MeasurementError: a percentage is not between 0 and 100, has more decimals, or is not 0 of a total of 0; or a
            total is negative.
    """
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
