r"""Presolve: ends of single variables by interval arithmetic, and the part of a linear program that these leave.

An equation $\sum_j a_j z_j = b$ and the ends of all variables but one bound that one (activity bounds; Savelsbergh
1994). Repeated over all equations, this fixes most cells that published totals determine. Fixed variables and equations
that the ends imply leave the program, and what remains falls into components that share no equation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from pgmest.models.bounds.polytope import TablePolytope

SWEEPS = 50
"""The largest number of passes over all equations; each pass is valid by itself."""
PROGRESS = 1e-3
"""Passes end when no end moves by more than this share of the scale of the numbers."""
WHOLE_TOLERANCE, REAL_TOLERANCE = 1e-10, 1e-7
"""Violations up to this share of the scale count as rounding errors, for whole numbers and for others.

Others may have been computed in single precision.
"""
SOLVER_TOLERANCE = 1e-6
"""Violations up to this number of records count as rounding errors, because HiGHS allows 1e-7 in each equation."""
NEGLIGIBLE = 1e-9
"""Variables with ends within this share of the scale of the numbers count as fixed."""
EXACT_INTEGERS = 2.0**52
"""Sums of whole numbers below this are exact in floating point."""


@dataclass(frozen=True, eq=False)
class Presolved:
    """A polytope with tight ends, and the part of its program that they do not decide.

    Attributes:
        polytope: the polytope with the tightened ends.
        scale: the largest finite number of the polytope, at least 1.
        empty: whether the ends alone prove that no table is compatible.
        rows, columns: the equations and variables that remain.
        row_parts, column_parts: the component of each of them.
    """

    polytope: TablePolytope
    scale: float
    empty: bool
    rows: np.ndarray
    columns: np.ndarray
    row_parts: np.ndarray
    column_parts: np.ndarray

    @classmethod
    def of(cls, polytope: TablePolytope) -> Presolved:
        """Tighten the ends of a polytope and drop what they decide."""
        scale, tolerance = scale_of(polytope), tolerance_of(polytope)
        low, high, violation = _tightened(polytope, scale, tolerance)
        rows, columns, unmet = _undecided(polytope, low, high, scale)
        parts = np.zeros(0, dtype=np.int64)
        if len(rows):
            graph = abs(polytope.equations[rows][:, columns])
            links = sparse.block_array([[None, graph], [graph.T, None]])
            parts = csgraph.connected_components(links, directed=False)[1]
        tight = replace(polytope, low=low, high=high)
        return cls(
            tight, scale, max(violation, unmet) > tolerance, rows, columns, parts[: len(rows)], parts[len(rows) :]
        )


def scale_of(polytope: TablePolytope) -> float:
    """Return the largest finite number of a polytope, at least 1."""
    numbers = np.concatenate([polytope.low, polytope.high, polytope.right])
    return max(1.0, float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0)))


def tolerance_of(polytope: TablePolytope) -> float:
    """Return the violation, in records, up to which answers count as compatible."""
    whole = _whole(polytope.low) and _whole(polytope.high) and _whole(polytope.right)
    return SOLVER_TOLERANCE + (WHOLE_TOLERANCE if whole else REAL_TOLERANCE) * scale_of(polytope)


class _Entries:
    """The entries of the equations, by row and by column, and a bound on the rounding error of sums along rows."""

    def __init__(self, polytope: TablePolytope):
        entries = polytope.equations.tocoo()
        self.row, self.column, self.value = entries.row, entries.col, entries.data
        self.rows, self.columns = len(polytope.right), len(polytope.low)
        self.by_column = np.argsort(self.column, kind="stable")
        self.present, self.starts = np.unique(self.column[self.by_column], return_index=True)
        counts = np.bincount(self.row, minlength=self.rows)
        self.unit = (counts + 4.0) * np.finfo(float).eps
        self.whole_matrix = bool(np.all(np.abs(self.value) == 1.0))

    def sums(self, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return, for each row, the sum of the finite terms and the number of infinite ones."""
        finite = np.isfinite(terms)
        total = np.bincount(self.row, np.where(finite, terms, 0.0), minlength=self.rows)
        return total, np.bincount(self.row, ~finite, minlength=self.rows)

    def others(self, terms: np.ndarray, unbounded: float) -> np.ndarray:
        """Return, for each entry, the sum of the other terms of its row; `unbounded` if one of these is infinite."""
        total, infinite = self.sums(terms)
        own = ~np.isfinite(terms)
        rest = total[self.row] - np.where(own, 0.0, terms)
        return np.where(infinite[self.row] - own > 0, unbounded, rest)

    def rounding(self, polytope: TablePolytope, terms: np.ndarray) -> np.ndarray:
        """Return a bound on the rounding error of the sums of each row, 0 for whole numbers."""
        finite = np.where(np.isfinite(terms), np.abs(terms), 0.0)
        sizes = np.bincount(self.row, finite, minlength=self.rows) + np.abs(polytope.right)
        whole = self.whole_matrix and _whole(terms) and _whole(polytope.right)
        return np.where(whole & (sizes < EXACT_INTEGERS), 0.0, sizes * self.unit)


def _whole(numbers: np.ndarray) -> bool:
    finite = numbers[np.isfinite(numbers)]
    return bool(np.all(finite == np.rint(finite)))


def _tightened(polytope: TablePolytope, scale: float, tolerance: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Return ends that all points of the polytope keep, and by how much the ends of a variable exclude each other."""
    entries, low, high = _Entries(polytope), polytope.low, polytope.high
    violation = float(np.max(low - high, initial=0.0))
    for _ in range(SWEEPS):
        below, above = _sweep(entries, polytope, low, high)
        violation = max(violation, float(np.max(below - above, initial=0.0)))
        below, above = np.minimum(below, above), np.maximum(below, above)
        moved = _moved(low, below, scale) or _moved(high, above, scale)
        low, high = below, above
        if violation > tolerance or not moved:
            break
    return low, high, violation


def _sweep(
    entries: _Entries, polytope: TablePolytope, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends that follow from those before and from each equation by itself."""
    new = _implied(entries, polytope, low, high)
    return _by_column(entries, new[0], np.maximum, low), _by_column(entries, new[1], np.minimum, high)


def _implied(entries: _Entries, polytope: TablePolytope, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return, for each entry, the ends of its variable that its equation implies, shape (2, entries)."""
    ends = np.stack([entries.value * low[entries.column], entries.value * high[entries.column]])
    least, most = ends.min(axis=0), ends.max(axis=0)
    slack = np.maximum(entries.rounding(polytope, least), entries.rounding(polytope, most))[entries.row]
    right = polytope.right[entries.row]
    own = np.stack([right - entries.others(most, np.inf) - slack, right - entries.others(least, -np.inf) + slack])
    own /= entries.value
    return np.stack([own.min(axis=0), own.max(axis=0)])


def _by_column(entries: _Entries, ends: np.ndarray, tighter: np.ufunc, old: np.ndarray) -> np.ndarray:
    found = old.copy()
    if len(ends):
        best = tighter.reduceat(ends[entries.by_column], entries.starts)
        found[entries.present] = tighter(old[entries.present], best)
    return found


def _moved(old: np.ndarray, new: np.ndarray, scale: float) -> bool:
    """Return whether an end has become finite, or has moved by more than `PROGRESS` of its size."""
    changed = old != new
    if not changed.any():
        return False
    before, after = old[changed], new[changed]
    infinite = ~np.isfinite(before)
    return bool(infinite.any() or np.any(np.abs(after - before) > PROGRESS * np.maximum(np.abs(before), 1e-3 * scale)))


def _undecided(
    polytope: TablePolytope, low: np.ndarray, high: np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the equations and the variables that tightened ends do not decide, and the largest violation of the rest.

    An answer whose own ends are implied by those of its cells leaves together with its equation.
    """
    free = high - low > NEGLIGIBLE * scale
    remains = np.ones(len(polytope.right), dtype=bool)
    implied = _implied_answers(polytope, low, high, scale)
    first = len(polytope.right) - len(implied)
    remains[first:] = ~implied
    free[polytope.cells :] &= ~implied
    entries = polytope.equations.tocoo()
    linked = np.bincount(entries.row, free[entries.col], minlength=len(polytope.right)) > 0
    decided, rows = np.flatnonzero(remains & ~linked), np.flatnonzero(remains & linked)
    fixed = np.where(free, 0.0, midpoints(low, high))
    unmet = float(np.abs(polytope.equations[decided] @ fixed - polytope.right[decided]).max(initial=0.0))
    present = np.zeros(len(low), dtype=bool)
    present[polytope.equations[rows].indices] = True
    return rows, np.flatnonzero(free & present), unmet


def _implied_answers(polytope: TablePolytope, low: np.ndarray, high: np.ndarray, scale: float) -> np.ndarray:
    """Return whether the ends of the cells keep each answer between its own ends."""
    answers, cells = len(polytope.answers), polytope.cells
    sums = polytope.equations[len(polytope.right) - answers :][:, :cells]
    up, down = sums.maximum(0.0), (-sums).maximum(0.0)
    within = NEGLIGIBLE * scale
    with np.errstate(invalid="ignore"):
        least, most = up @ low[:cells] - down @ high[:cells], up @ high[:cells] - down @ low[:cells]
        return (least >= polytope.low[cells:] - within) & (most <= polytope.high[cells:] + within)


def midpoints(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the middle between two ends, the finite one if the other is infinite, and 0 if both are."""
    below, above = np.where(np.isfinite(low), low, high), np.where(np.isfinite(high), high, low)
    return np.where(np.isfinite(below), 0.5 * below + 0.5 * above, 0.0)
