"""AttributeStrategy: the queries measured on one attribute, and what least squares needs of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest.queries import MatrixQuery, as_matrix_query, identity

GRID_STEPS = 255
"""The largest entry of a strategy, in integers, so that its answers are exact and get integer noise."""


@dataclass(frozen=True, eq=False)
class AttributeStrategy:
    r"""An integer matrix A of full column rank on an attribute of n values; None is the identity.

    With K = A^T A, k = K^-1 1 and m = 1^T k, the vectors on the attribute split into what the total determines,
    along k, and the rest; K and 1 1^T are diagonal in that splitting. For the identity k = 1 and m = n.
    """

    n: int
    matrix: np.ndarray | None = None

    @classmethod
    def rounded(cls, strategy: np.ndarray) -> AttributeStrategy:
        """A real-valued strategy as an integer one, in proportion."""
        return cls(strategy.shape[1], np.rint(strategy * (GRID_STEPS / strategy.max())))

    @cached_property
    def query(self) -> MatrixQuery:
        """The queries."""
        return identity(self.n) if self.matrix is None else as_matrix_query(self.matrix)

    @cached_property
    def _inverse(self) -> np.ndarray:
        assert self.matrix is not None
        return np.linalg.inv(self.matrix.T @ self.matrix)

    @cached_property
    def k(self) -> np.ndarray:
        """K^-1 1, shape (n,)."""
        return np.ones(self.n) if self.matrix is None else self._inverse.sum(axis=1)

    @property
    def m(self) -> float:
        """1^T K^-1 1: the variance of the total, estimated from answers of variance one."""
        return float(self.k.sum())

    def errors(self, gram: np.ndarray | None) -> tuple[float, float]:
        """tr(K^-1 G) split into the part besides the total, and the total's, k^T G k / m; None is G = I."""
        if self.matrix is None:
            whole = float(self.n if gram is None else np.trace(gram))
        else:
            whole = float(np.trace(self._inverse) if gram is None else np.sum(self._inverse * gram))
        along = float(self.k @ self.k if gram is None else self.k @ gram @ self.k) / self.m
        return whole - along, along

    def centered(self, values: np.ndarray, axis: int) -> np.ndarray:
        """K^-1 v - k (k^T v) / m along an axis."""
        moved = np.moveaxis(values, axis, 0)
        solved = moved if self.matrix is None else np.tensordot(self._inverse, moved, 1)
        along = np.tensordot(self.k, moved, 1) / self.m
        return np.moveaxis(solved - np.multiply.outer(self.k, along), 0, axis)

    def summed(self, values: np.ndarray, axis: int) -> np.ndarray:
        """k^T v / sqrt(m) along an axis, which stays with length one."""
        return np.expand_dims(np.tensordot(values, self.k, ([axis], [0])), axis) / np.sqrt(self.m)
