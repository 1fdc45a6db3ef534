"""Tables that a model's errors make plausible, without the negative counts that drawn errors leave."""

from __future__ import annotations

import numpy as np

FIT_ROUNDS = 5
"""The number of rounds of iterative proportional fitting to the margins of a table."""
LEAST = 1e-9
"""Sums of counts below this are not fitted."""


def without_negative_counts(tables: np.ndarray) -> np.ndarray:
    """Return tables with 0 for each negative count, and with the margins that they had.

    Zeros alone would add records to cells with large errors, and so weaken dependence. Iterative proportional fitting
    takes them away again: it fits each table to its margins of one attribute fewer, whose negative counts were replaced
    in the same way before.

    Args:
        tables: counts, shape (tables, *shape).
    """
    return _fitted(tables, tuple(range(tables.ndim - 1)), {})


def _fitted(tables: np.ndarray, names: tuple[int, ...], done: dict[tuple[int, ...], np.ndarray]) -> np.ndarray:
    """Return tables on some of the attributes, which are done once for all tables that have them as a margin."""
    if names not in done:
        found = np.maximum(tables, 0.0)
        if tables.ndim > 1 and not np.array_equal(found, tables):
            margins = [
                _fitted(tables.sum(axis=place + 1), names[:place] + names[place + 1 :], done)
                for place in range(len(names))
            ]
            for _ in range(FIT_ROUNDS):
                for axis, wanted in enumerate(margins, 1):
                    sums = found.sum(axis=axis)
                    ratio = np.divide(wanted, sums, out=np.zeros_like(sums), where=sums > LEAST)
                    found *= np.expand_dims(ratio, axis)
        done[names] = found
    return done[names]
