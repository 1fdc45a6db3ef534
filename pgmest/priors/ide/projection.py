"""The L1 projection of a noisy partial answer onto the answers of distributions, in closed form (IDE Algorithm 1).

Several answers can be equally near in L1. The projection takes the one that changes the distribution least in KL: each
cell's answer, clipped at t times its mass. Sorting finds t without iteration.

The paper projects without regard to the distribution, so a cell without mass gets its answer, too (IDE Definition 3.1,
second and fourth case: in equal parts to its records). The relative entropy to the prior is then infinite. Here such a
cell stays empty by default; the argument `records` selects the published form.
"""

from __future__ import annotations

import numpy as np


def project_answer(
    fractions: np.ndarray, masses: np.ndarray, outside: float, records: np.ndarray | None = None
) -> tuple[np.ndarray, float]:
    """Return the masses of a partial workload's cells, and of the records in no cell, after an update.

    Let y = max(fractions, 0), and S its sum over the cells that can have mass. There are four cases:

    1. A cell that cannot have mass stays at 0, and its answer is ignored.
    2. If S <= 1 and records in no cell can have mass, cells get y and these records 1 - S.
    3. If S < 1 and records in no cell cannot have mass, some cells must exceed their answers; cells get
       max(y, t * mass).
    4. If S > 1, cells get min(y, t * mass), and records in no cell get 0.

    The factor t makes the sum 1. Each result is a nearest answer in L1 among those of distributions over the same
    records. By default a cell can have mass if it has some now. In the published form a cell can have mass if it has
    records; cells that have records and no mass then get y, or, in case 4, a share of what the other cells leave.

    >>> project_answer(np.array([0.6, 0.2, -0.1]), np.array([0.5, 0.3, 0.2]), 0.0)
    (array([0.6 , 0.24, 0.16]), 0.0)
    >>> project_answer(np.array([0.5, 0.5]), np.array([1.0, 0.0]), 0.0)
    (array([1., 0.]), 0.0)
    >>> project_answer(np.array([0.5, 0.5]), np.array([1.0, 0.0]), 0.0, records=np.array([7, 2, 0]))
    (array([0.5, 0.5]), 0.0)

    Args:
        fractions: the noisy answers, as fractions of the total, shape (k,).
        masses: the present mass of each cell, shape (k,); at least one of them, or `outside`, is positive.
        outside: the present mass of the records in no cell.
        records: the number of the prior's records in each cell and, last, in no cell, shape (k + 1,), for the published
            form; None for the default form.

    Returns:
        the new masses of the cells, shape (k,), and of the records in no cell; their sum is 1.
    """
    if records is not None:
        return _published_answer(fractions, masses, outside, np.asarray(records) > 0)
    wanted = np.where(masses > 0, np.maximum(fractions, 0.0), 0.0)
    total = wanted.sum()
    if total > 1:
        return balance(wanted, np.zeros_like(masses), masses, 0.0)[:2]
    if outside > 0:
        return wanted, 1.0 - float(total)
    return balance(wanted, masses, np.full_like(masses, np.inf), 0.0)[:2]


def _published_answer(
    fractions: np.ndarray, masses: np.ndarray, outside: float, has_records: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return the projection in the published form, in which cells that have records but no mass can get mass.

    Among all nearest answers this is the one with the least mass in those cells. The cells with mass share the rest of
    the mass by a projection of their answers, scaled up to that rest.
    """
    wanted = np.where(has_records[:-1], np.maximum(fractions, 0.0), 0.0)
    total, emptied = float(wanted.sum()), has_records[:-1] & (masses <= 0)
    if total <= 1 and has_records[-1]:
        return wanted, 1.0 - total
    held, back = float(wanted[~emptied].sum()), float(wanted[emptied].sum())
    share = min(back, max(0.0, 1.0 - held))
    found = np.where(emptied, wanted * (share / back if back > 0 else 0.0), 0.0)
    rest = 1.0 - share
    holding = masses > 0
    if rest <= 0 or not holding.any():  # the emptied cells get everything, or all mass was in no cell
        full = found.sum()
        return (found / full, 0.0) if full > 0 else (found, 1.0)
    scaled = np.where(emptied, 0.0, wanted) / rest
    kept, _ = project_answer(scaled, np.where(holding, masses, 0.0), 0.0)
    return found + rest * kept, 0.0


def balance(wanted: np.ndarray, low: np.ndarray, high: np.ndarray, outside: float) -> tuple[np.ndarray, float, float]:
    """Return clip(wanted, t * low, t * high), t * outside, and t, for the t > 0 for which the first two sum to 1.

    The sum is a piecewise linear, non-decreasing function of t. Its kinks are sorted, and the piece that contains 1 is
    solved.

    Args:
        wanted: the masses to clip, non-negative, shape (k,).
        low, high: bounds with 0 <= low <= high, shape (k,); `high` may be inf.
        outside: a non-negative mass. The sum must reach 1 for some t.

    Returns:
        the clipped masses, shape (k,), t * outside, and t.
    """
    capped, floored = np.isfinite(high) & (high > 0), low > 0
    above, below = high[capped], low[floored]
    leave, enter = wanted[capped] / above, wanted[floored] / below  # the t at which a cell stops, and resumes, growing
    order, again = np.argsort(leave), np.argsort(enter)
    # Sums over cells go from small to large terms, so that bounds of very different size do not cancel.
    kinks = np.concatenate([[0.0], leave, enter])
    kinks.sort()
    left, entered = leave[order].searchsorted(kinks, "right"), enter[again].searchsorted(kinks, "right")
    slopes = outside + _sums(above[order][::-1])[::-1][left] + _sums(below[again])[entered]
    fixed = wanted[np.isinf(high)].sum() + _sums(wanted[capped][order])[left] - _sums(wanted[floored][again])[entered]
    piece = max(int(np.searchsorted(fixed + slopes * kinks, 1.0)) - 1, 0)
    scale = max((1.0 - fixed[piece]) / slopes[piece], kinks[piece]) if slopes[piece] > 0 else kinks[piece]
    most = np.where(capped, scale * np.where(capped, high, 0.0), np.where(high > 0, np.inf, 0.0))
    masses = np.minimum(np.maximum(wanted, scale * low), most)
    rest = scale * outside
    total = masses.sum() + rest  # 1 but for rounding
    return masses / total, float(rest / total), float(scale)


def _sums(values: np.ndarray) -> np.ndarray:
    """Return the sums of the first 0, 1, ... values."""
    return np.concatenate([[0.0], np.cumsum(values)])
