r"""The metric of Hamiltonian Monte Carlo: in which units the coordinates of a posterior move.

Coordinates are divided by their own scale (`Curvature.scales`). What is left of the curvature has a few eigenvalues far
above 1, because marginals that overlap move together; they alone would force short steps. The largest of them are found
by a randomized subspace iteration and scaled down to where the others begin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pgmest.models.posterior.density import Curvature

DIRECTIONS = 40
PASSES = 4
"""Each pass of the subspace iteration takes a product with the Hessian for each direction."""

WORTH_SCALING = 2.0
"""Directions whose curvature is below this, in units of the diagonal, are left alone."""


@dataclass(frozen=True, eq=False)
class Metric:
    r"""The inverse mass matrix $D (I + V \mathrm{diag}(w) V^T) D$, positive definite.

    Attributes:
        scale: the diagonal of D, shape (size,); 0 where a coordinate does not move.
        directions: V, orthonormal rows, shape (k, size).
        weights: w, each in (-1, 0], shape (k,).
    """

    scale: np.ndarray
    directions: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, curvature: Curvature, point: np.ndarray, moves: np.ndarray, generator: np.random.Generator) -> Metric:
        """From the curvature at a point; `moves` says which coordinates do."""
        scale = np.where(moves, curvature.scales(point), 0.0)
        count = min(DIRECTIONS, int(np.count_nonzero(moves)) // 4)
        if count == 0:
            return cls(scale, np.zeros((0, len(scale))), np.zeros(0))

        def product(rows: np.ndarray) -> np.ndarray:
            return np.stack([scale * curvature.product(scale * row) for row in rows])

        rows = _orthonormal(generator.standard_normal((count, len(scale))) * moves)
        for _ in range(PASSES):
            rows = _orthonormal(product(rows))
        values, turn = np.linalg.eigh(rows @ product(rows).T)
        kept = values > WORTH_SCALING
        floor = max(WORTH_SCALING, float(values[kept].min(initial=np.inf))) if kept.any() else 1.0
        return cls(scale, np.ascontiguousarray((turn.T @ rows)[kept]), floor / values[kept] - 1.0)

    def velocity(self, momentum: np.ndarray) -> np.ndarray:
        """The inverse mass matrix times a momentum in scaled coordinates."""
        if not len(self.weights):
            return momentum
        inside = np.einsum("kn,n->k", self.directions, momentum)
        return momentum + np.einsum("kn,k->n", self.directions, self.weights * inside)

    def momentum(self, generator: np.random.Generator) -> np.ndarray:
        """A normal momentum with the mass matrix as covariance, in scaled coordinates."""
        drawn = generator.standard_normal(len(self.scale)) * (self.scale > 0)
        inside = np.einsum("kn,n->k", self.directions, drawn)
        return drawn + np.einsum("kn,k->n", self.directions, (1.0 / np.sqrt(1.0 + self.weights) - 1.0) * inside)


def _orthonormal(rows: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the rows' span, as rows."""
    return np.ascontiguousarray(np.linalg.qr(rows.T)[0].T)
