"""The L1 projection of a noisy partial answer onto what a distribution can answer, in closed form (IDE Algorithm 1).

Several answers are equally near in L1. Of these the projection takes the one that moves the distribution least in KL,
which is where a line t * mass meets the answers: found by sorting, not by iteration.

The paper projects without looking at the distribution, so that a cell that holds no mass gets its answer all the same
(IDE Definition 3.1, second and fourth case: in equal parts to its records). Relative entropy to the prior is then
infinite. By default such a cell stays empty here; `records` asks for the published form.
"""

from __future__ import annotations

import numpy as np


def project_answer(
    fractions: np.ndarray, masses: np.ndarray, outside: float, records: np.ndarray | None = None
) -> tuple[np.ndarray, float]:
    """What the cells of a partial workload, and the records in none of them, are to hold after an update.

    Let y = max(fractions, 0), and S its sum over the cells that can hold mass. Four cases:

    1. A cell that cannot hold mass stays at 0 and its answer plays no part.
    2. S <= 1, and mass can lie outside of the cells: cells get y, the rest 1 - S.
    3. S < 1, and no mass can lie outside: something must be more than its answer; cells get max(y, t * mass).
    4. S > 1: cells get min(y, t * mass), the rest nothing.

    t makes the sum 1. Each is a nearest answer in L1 that some distribution over the same records gives. What can hold
    mass is what holds some now; or, as published, what has records. Cells that have records and no mass then get y,
    or of it what the others leave in case 4.

    >>> project_answer(np.array([0.6, 0.2, -0.1]), np.array([0.5, 0.3, 0.2]), 0.0)
    (array([0.6 , 0.24, 0.16]), 0.0)
    >>> project_answer(np.array([0.5, 0.5]), np.array([1.0, 0.0]), 0.0)
    (array([1., 0.]), 0.0)
    >>> project_answer(np.array([0.5, 0.5]), np.array([1.0, 0.0]), 0.0, records=np.array([7, 2, 0]))
    (array([0.5, 0.5]), 0.0)

    Args:
        fractions: the noisy answers, fractions of the total, shape (k,).
        masses: what each cell holds now, shape (k,); at least one of them, or `outside`, is positive.
        outside: the mass of the records in no cell.
        records: how many records of the prior each cell has and, last, how many are in none, shape (k + 1,): the
            published form. None: what holds no mass gets none.

    Returns:
        the new masses, shape (k,), and the new mass outside; together 1.
    """
    if records is not None:
        return _published_answer(fractions, masses, outside, np.asarray(records) > 0)
    wanted = np.where(masses > 0, np.maximum(fractions, 0.0), 0.0)
    total = wanted.sum()
    nothing = np.zeros_like(masses)
    if total > 1:
        return balance(wanted, nothing, masses, 0.0)[:2]
    if outside > 0:
        return wanted, 1.0 - float(total)
    return balance(wanted, masses, np.full_like(masses, np.inf), 0.0)[:2]


def _published_answer(
    fractions: np.ndarray, masses: np.ndarray, outside: float, has_records: np.ndarray
) -> tuple[np.ndarray, float]:
    """The nearest answer that emptied cells take part in: of all nearest ones, with the least mass in these.

    The cells with mass share what the emptied ones leave; that is a projection of its own, of answers scaled up.
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
    if rest <= 0 or not holding.any():  # all mass lay outside, or the emptied cells get everything
        full = found.sum()
        return (found / full, 0.0) if full > 0 else (found, 1.0)
    scaled = np.where(emptied, 0.0, wanted) / rest
    kept, _ = project_answer(scaled, np.where(holding, masses, 0.0), 0.0)
    return found + rest * kept, 0.0


def balance(wanted: np.ndarray, low: np.ndarray, high: np.ndarray, outside: float) -> tuple[np.ndarray, float, float]:
    """clip(wanted, t * low, t * high) and t * outside, with the t > 0 for which they sum to 1.

    Their sum is a piecewise linear, non-decreasing function of t; its kinks are sorted, then one piece is solved.

    Args:
        wanted: non-negative, shape (k,).
        low, high: 0 <= low <= high, shape (k,); high may be inf.
        outside: non-negative. Some t must make the sum 1 or more.

    Returns:
        the clipped masses, shape (k,), t * outside, and t.
    """
    capped, floored = np.isfinite(high) & (high > 0), low > 0
    above, below = high[capped], low[floored]
    leave, enter = wanted[capped] / above, wanted[floored] / below  # where a cell stops growing, and starts again
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
    """The sums of the first 0, 1, ... values."""
    return np.concatenate([[0.0], np.cumsum(values)])
