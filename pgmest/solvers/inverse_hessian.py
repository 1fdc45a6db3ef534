"""The limited-memory approximation of an inverse Hessian, which the quasi-Newton methods share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pgmest.losses.base import dot

SMALLEST_CURVATURE = 1e-12
"""Pairs (s, y) with <s, y> below this share of |s| |y| are dropped, because their curvature is rounding error."""

SHORTEST_STEP = 1e-14
BACKTRACK = 0.4
SUFFICIENT_DECREASE = 1e-4
"""Armijo's rule: the line search shortens the step by the factor BACKTRACK until the function decreases by the share
SUFFICIENT_DECREASE of its linear prediction, and fails below SHORTEST_STEP."""


@dataclass(frozen=True)
class InverseHessian:
    """The limited-memory approximation of an inverse Hessian (Nocedal 1980).

    Attributes:
        memory: the largest number of pairs.
        pairs: (s, y, <s, y>) for each step, the change of the variables and the change of the gradient, latest last.
    """

    memory: int
    pairs: tuple[tuple[np.ndarray, np.ndarray, float], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def updated(self, s: np.ndarray, y: np.ndarray) -> InverseHessian:
        """Return the approximation with one more pair, or itself if the pair has too little curvature."""
        curvature = dot(s, y)
        if curvature > SMALLEST_CURVATURE * np.sqrt(dot(s, s) * dot(y, y)):
            return InverseHessian(self.memory, (*self.pairs[-(self.memory - 1) :], (s, y, curvature)))
        return self

    def reset(self) -> InverseHessian:
        """Return an approximation without pairs."""
        return InverseHessian(self.memory)

    def descent(
        self,
        gradient: np.ndarray,
        diagonal: np.ndarray | None = None,
        projection: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> np.ndarray:
        """Return minus the product of the inverse Hessian and the gradient, by the two-loop recursion.

        Args:
            gradient: the gradient at the current point.
            diagonal: the diagonal of the initial inverse Hessian, up to a factor; ones by default.
            projection: an orthogonal projection onto a space that contains all gradients and steps; it is applied to
                the initial inverse Hessian.
        """
        direction, scratch, shares = -gradient, np.empty_like(gradient), []
        for s, y, curvature in reversed(self.pairs):
            share = dot(s, direction) / curvature
            shares.append(share)
            direction -= np.multiply(y, share, out=scratch)
        if diagonal is not None:
            direction *= diagonal
        if projection is not None:
            direction = projection(direction)
        if self.pairs:
            _, y, curvature = self.pairs[-1]
            direction *= curvature / dot(y, y if diagonal is None else np.multiply(y, diagonal, out=scratch))
        for (s, y, curvature), share in zip(self.pairs, reversed(shares), strict=True):
            direction += np.multiply(s, share - dot(y, direction) / curvature, out=scratch)
        return direction
