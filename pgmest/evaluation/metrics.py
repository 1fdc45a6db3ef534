"""Distances between a true marginal and its estimate."""

from __future__ import annotations

import numpy as np

from pgmest._base.errors import DataError
from pgmest.tables.factor import Factor


def total_variation(true: Factor, estimated: Factor) -> float:
    """Half the L1 distance between two tables of counts, as a fraction of the true total.

    0 is a perfect estimate; two distributions of the same total without a common cell are at 1. For an estimate of
    another total, or noisy counts below zero, the same formula holds and may exceed 1.

    >>> total_variation(Factor({"sex": 2}, [60, 40]), Factor({"sex": 2}, [50, 50]))
    0.1

    Args:
        true: counts.
        estimated: counts over the same attributes, in any order.

    Raises:
        DomainError: the attributes differ.
        DataError: the true counts sum to zero.
    """
    records = float(true.values.sum())
    if records <= 0:
        raise DataError("the true marginal holds no records, so no fraction of them can be formed.")
    difference = true.values - estimated.transpose(true.domain.attributes).values
    return 0.5 * float(np.abs(difference).sum()) / records
