r"""Nonnegative least squares for all areas of a level at once, given the tables of the areas above.

The problem is, over tables x_c of the areas c,

    minimize sum_c 1/2 x_c^T H x_c - b_c^T x_c
    subject to x_c >= 0, sum over the children of each parent = the parent's table, A x_c = or between given ends.

All areas have the same H. So the alternating direction method of multipliers (ADMM; Boyd et al. 2011) needs one product
with (H + rho I)^-1 a step for the whole level, and the sums over children are met in closed form: without inequalities,
each child is its parent's mean child plus its own deviation, and every correction is shared evenly among the children.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest._base.stages import out_of_time
from pgmest.mechanisms.topdown.constraints import Limits
from pgmest.mechanisms.topdown.curvature import Curvature

MOST_STEPS = 3_000
"""The most steps of the solver for a level."""

CHECKED = 20
"""The steps between two looks at the errors, after which the penalty is adapted."""

RELAXATION = 1.6
"""The over-relaxation of ADMM, which is usual."""

UNEVEN = 3.0
"""The ratio of the errors at which the penalty is changed."""

SINGULAR = 1e-10
"""Directions of equations whose relative eigenvalue is below this depend on others."""


@dataclass(frozen=True, eq=False)
class Family:
    """The areas of a level, and what the level above says about them.

    Attributes:
        parents: the parent of each area, in increasing order, shape (areas,); None for a root.
        tables: the tables of the parents, shape (parents, cells).
    """

    parents: np.ndarray | None
    tables: np.ndarray

    @cached_property
    def starts(self) -> np.ndarray:
        """The first child of each parent."""
        assert self.parents is not None
        return np.searchsorted(self.parents, np.arange(len(self.tables)))

    @cached_property
    def children(self) -> np.ndarray:
        """The number of children of each parent, as floats."""
        assert self.parents is not None
        return np.bincount(self.parents, minlength=len(self.tables)).astype(np.float64)

    def mean_child(self) -> np.ndarray:
        """Return each parent's table divided by the number of its children, for each child."""
        return (self.tables / self.children[:, None])[self.parents]

    def deviations(self, rows: np.ndarray) -> np.ndarray:
        """Return rows minus the mean over their siblings."""
        means = np.add.reduceat(rows, self.starts, axis=0) / self.children[:, None]
        return rows - means[self.parents]


def nonnegative(
    curvature: Curvature,
    linear: np.ndarray,
    family: Family,
    limits: Limits,
    start: np.ndarray,
    tolerance: float,
) -> np.ndarray:
    """Return nonnegative tables of all areas of a level; sums and limits hold up to the tolerance.

    Args:
        curvature: H.
        linear: b_c for each area, shape (areas, cells).
        family: the level above.
        limits: the constraints of each area.
        start: the tables to start from, shape (areas, cells).
        tolerance: the largest error of a cell, in counts, at which the solver ends.
    """
    positive = curvature.values[curvature.values > SINGULAR * curvature.values.max(initial=0.0)]
    finest = float(positive.min()) if positive.size else 1.0
    return _Solver(curvature, linear, family, limits, finest, tolerance).run(start)


class _Solver:
    """ADMM on one level; `z` holds the nonnegative tables, `ends` the answers to A within the given ends."""

    def __init__(
        self,
        curvature: Curvature,
        linear: np.ndarray,
        family: Family,
        limits: Limits,
        finest: float,
        tolerance: float,
    ) -> None:
        self.curvature, self.linear, self.family = curvature, linear, family
        self.limits, self.finest, self.tolerance = limits, finest, tolerance
        hard = limits.hard
        self.hard, self.wanted = limits.rows[hard], limits.low[:, hard]
        self.soft, self.low, self.high = limits.rows[~hard], limits.low[:, ~hard], limits.high[:, ~hard]
        norms = np.linalg.norm(self.soft, axis=1)
        self.soft, self.low, self.high = self.soft / norms[:, None], self.low / norms, self.high / norms
        largest = float(curvature.values.max(initial=0.0)) or 1.0
        self._set_penalty(np.sqrt(finest * largest))

    def _set_penalty(self, penalty: float) -> None:
        """Factor H + penalty (I + A^T A), in which A has the soft rows."""
        self.penalty = penalty
        self.inverse = 1.0 / (self.curvature.values + penalty)
        if len(self.soft):
            self.spread = self._plain(self.soft)
            self.inner = np.linalg.inv(np.eye(len(self.soft)) / penalty + self.soft @ self.spread.T)
        if len(self.hard):
            solved = self._solve(self.hard)
            gram = self.hard @ solved.T
            self.correct = np.linalg.pinv(gram, rcond=SINGULAR, hermitian=True) @ solved

    def _plain(self, rows: np.ndarray) -> np.ndarray:
        return self.curvature.cells(self.curvature.coordinates(rows) * self.inverse)

    def _solve(self, rows: np.ndarray) -> np.ndarray:
        """Return the solution of the factored system for each row."""
        found = self._plain(rows)
        return found - (found @ self.soft.T) @ self.inner @ self.spread if len(self.soft) else found

    def _with_sums(self, rows: np.ndarray) -> np.ndarray:
        """Return the nearest tables, in the metric of the system, with the parents' sums and the hard rows."""
        if self.family.parents is None:
            return rows - (rows @ self.hard.T - self.wanted) @ self.correct if len(self.hard) else rows
        rows = self.family.deviations(rows)
        if len(self.hard):
            rows -= (rows @ self.hard.T - self.family.deviations(self.wanted)) @ self.correct
        rows += self.family.mean_child()
        return rows

    def run(self, z: np.ndarray) -> np.ndarray:
        """Return the tables after convergence, or after `MOST_STEPS`, or at the deadline of the run."""
        z = np.where(self.limits.possible, np.maximum(z, 0.0), 0.0)
        ends = np.clip(z @ self.soft.T, self.low, self.high)
        dual, dual_ends = np.zeros_like(z), np.zeros_like(ends)
        for step in range(1, MOST_STEPS + 1):
            right = self.linear + self.penalty * (z - dual)
            if len(self.soft):
                right += (self.penalty * (ends - dual_ends)) @ self.soft
            x = self._with_sums(self._solve(right))
            relaxed = RELAXATION * x + (1.0 - RELAXATION) * z + dual
            last, z = z, np.where(self.limits.possible, np.maximum(relaxed, 0.0), 0.0)
            dual = relaxed - z
            answers = x @ self.soft.T
            relaxed = RELAXATION * answers + (1.0 - RELAXATION) * ends + dual_ends
            ends = np.clip(relaxed, self.low, self.high)
            dual_ends = relaxed - ends
            if step % CHECKED and step < MOST_STEPS:
                continue
            apart = max(_largest(x - z), _largest(answers - ends))
            moved = _largest(z - last) * max(1.0, self.penalty / self.finest)
            if max(apart, moved) <= self.tolerance or out_of_time():
                break
            factor = np.sqrt(apart / max(moved, 1e-300))
            if not 1.0 / UNEVEN < factor < UNEVEN:
                factor = float(np.clip(factor, 0.1, 10.0))
                dual, dual_ends = dual / factor, dual_ends / factor
                self._set_penalty(self.penalty * factor)
        return z


def _largest(values: np.ndarray) -> float:
    return float(np.abs(values).max(initial=0.0))
