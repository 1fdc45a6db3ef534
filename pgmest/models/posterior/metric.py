r"""The metric of Hamiltonian Monte Carlo: in which units, and along which directions, a posterior moves.

Coordinates are divided by their own scale (`Curvature.scales`). Those about which the answers say more than the prior
depend on each other: cells of one marginal through its total, marginals that overlap through what they share, by orders
of magnitude. Their block of the Hessian is made by covariance products, and its inverse is their part of the inverse
mass matrix, so that all directions in it are equally long. What is left has a few eigenvalues above 1: the largest are
found by a randomized subspace iteration and scaled down to where the others begin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from pgmest.models.posterior.density import Curvature

MOST_DENSE = 1000
"""Coordinates in the block, those about which the answers say most: 8 MB, and half a millisecond a product."""
INFORMED = 0.3
"""Where not all coordinates fit, those are in the block about which the answers say so much of what the prior does."""

DIRECTIONS = 30
PASSES = 4
"""Each pass of the subspace iteration takes a product with the Hessian for each direction."""

WORTH_SCALING = 2.0
"""Directions whose curvature is below this, in units of the rest of the metric, are left alone."""

RIDGE = 1e-8


@dataclass(frozen=True, eq=False)
class Metric:
    r"""The inverse mass matrix $D L (I + V \mathrm{diag}(w) V^T) L^T D$, positive definite.

    Attributes:
        scale: the diagonal of D, shape (size,); 0 where a coordinate does not move.
        block: the coordinates whose part of L is dense, shape (k,); elsewhere L is the identity.
        inverse: L L^T on the block, shape (k, k).
        factor: L^-T on the block, lower triangular.
        directions: V, orthonormal rows.
        outward: L V, as rows.
        weights: w, each in (-1, 0].
    """

    scale: np.ndarray
    block: np.ndarray
    inverse: np.ndarray
    factor: np.ndarray
    directions: np.ndarray
    outward: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, curvature: Curvature, point: np.ndarray, moves: np.ndarray, generator: np.random.Generator) -> Metric:
        """From the curvature at a point; `moves` says which coordinates do."""
        scale = np.where(moves, curvature.scales(point), 0.0)
        block = _informed(curvature, moves)
        matrix = scale[block, None] * curvature.block(block) * scale[block]
        matrix[np.diag_indices(len(block))] += RIDGE
        factor = cholesky(matrix, lower=True) if len(block) else matrix
        root = solve_triangular(factor, np.eye(len(block)), lower=True).T if len(block) else matrix  # L
        none = np.zeros((0, len(scale)))
        flat = cls(scale, block, root @ root.T, factor, none, none, np.zeros(0))

        def product(rows: np.ndarray) -> np.ndarray:
            """L^T D H D L on rows."""
            out = rows.copy()
            out[:, block] = rows[:, block] @ root.T
            out = np.stack([scale * curvature.product(scale * row) for row in out])
            out[:, block] = out[:, block] @ root
            return out

        count = min(DIRECTIONS, int(np.count_nonzero(moves)) // 4)
        if count == 0:
            return flat
        rows = _orthonormal(generator.standard_normal((count, len(scale))) * moves)
        for _ in range(PASSES):
            rows = _orthonormal(product(rows))
        values, turn = np.linalg.eigh(rows @ product(rows).T)
        kept = values > WORTH_SCALING
        floor = max(WORTH_SCALING, float(values[kept].min(initial=np.inf))) if kept.any() else 1.0
        directions = np.ascontiguousarray((turn.T @ rows)[kept])
        outward = directions.copy()
        outward[:, block] = directions[:, block] @ root.T
        return cls(scale, block, flat.inverse, factor, directions, outward, floor / values[kept] - 1.0)

    def velocity(self, momentum: np.ndarray) -> np.ndarray:
        """The inverse mass matrix times a momentum, both in scaled coordinates."""
        found = momentum
        if len(self.block):
            found = momentum.copy()
            found[self.block] = np.einsum("ij,j->i", self.inverse, momentum[self.block])  # BLAS would start threads
        if len(self.weights):
            inside = np.einsum("kn,n->k", self.outward, momentum)
            found = found + np.einsum("kn,k->n", self.outward, self.weights * inside)
        return found

    def momentum(self, generator: np.random.Generator) -> np.ndarray:
        """A normal momentum with the mass matrix as covariance, in scaled coordinates."""
        drawn = generator.standard_normal(len(self.scale)) * (self.scale > 0)
        if len(self.weights):
            inside = np.einsum("kn,n->k", self.directions, drawn)
            drawn += np.einsum("kn,k->n", self.directions, (1.0 / np.sqrt(1.0 + self.weights) - 1.0) * inside)
        if len(self.block):
            drawn[self.block] = np.einsum("ij,j->i", self.factor, drawn[self.block])
        return drawn


def _informed(curvature: Curvature, moves: np.ndarray) -> np.ndarray:
    """The coordinates of the block, in order."""
    ratio = np.where(moves, curvature.informed, 0.0)
    chosen = np.flatnonzero(moves)
    if len(chosen) > MOST_DENSE:
        chosen = np.flatnonzero(ratio > INFORMED)
    if len(chosen) > MOST_DENSE:
        chosen = np.sort(chosen[np.argsort(-ratio[chosen], kind="stable")[:MOST_DENSE]])
    return chosen


def _orthonormal(rows: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the rows' span, as rows."""
    return np.ascontiguousarray(np.linalg.qr(rows.T)[0].T)
