"""Distances between a true marginal and its estimate."""

from __future__ import annotations

import numpy as np

from pgmest.errors import DataError
from pgmest.tables.factor import Factor


def total_variation(true: Factor, estimated: Factor) -> float:
    """Return half the L1 distance between two tables of counts, as a fraction of the true total.

    A perfect estimate has distance 0; two tables with the same total and no common cell have distance 1. The distance
    may exceed 1 if the totals differ or if counts are negative.

    >>> total_variation(Factor({"sex": 2}, [60, 40]), Factor({"sex": 2}, [50, 50]))
    0.1

    Args:
        true: the true counts.
        estimated: the estimated counts, over the same attributes in any order.

    Raises:
        DomainError: the attributes differ.
        DataError: the true counts sum to zero.
    """
    records = float(true.values.sum())
    if records <= 0:
        raise DataError("the true marginal holds no records, so a fraction of the records is undefined.")
    difference = true.values - estimated.transpose(true.domain.attributes).values
    return 0.5 * float(np.abs(difference).sum()) / records
