"""AttributeStrategy: the queries that are measured on one attribute, and their least-squares solution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest.queries import MatrixQuery, as_matrix_query, identity

GRID_STEPS = 255
"""The largest entry of a strategy after rounding to integers; integer queries have exact answers and integer noise."""


@dataclass(frozen=True, eq=False)
class AttributeStrategy:
    r"""An integer matrix A of full column rank on an attribute of n values; None is the identity.

    Let K = A^T A, k = K^-1 1 and m = 1^T k. The vectors on the attribute are the sum of a component along k, which the
    total determines, and of a component that is orthogonal to it in the inner product of K. K and 1 1^T are both
    diagonal in this decomposition. For the identity k = 1 and m = n.
    """

    n: int
    matrix: np.ndarray | None = None

    @classmethod
    def rounded(cls, strategy: np.ndarray) -> AttributeStrategy:
        """Return a p-Identity strategy (scaled identity rows, then others) scaled and rounded to integers.

        Identity entries that round to 0 become 1 if the rounded matrix lacks full column rank without them. This
        happens if the workload has few queries on the attribute, such as one range.
        """
        n = strategy.shape[1]
        entries = np.rint(strategy * (GRID_STEPS / strategy.max()))
        diagonal = entries.diagonal()
        if not diagonal.all() and np.linalg.matrix_rank(entries) < n:
            np.fill_diagonal(entries[:n], np.maximum(diagonal, 1.0))
        return cls(n, entries)

    @cached_property
    def query(self) -> MatrixQuery:
        """The queries, as a matrix query."""
        return identity(self.n) if self.matrix is None else as_matrix_query(self.matrix)

    @cached_property
    def _inverse(self) -> np.ndarray:
        assert self.matrix is not None
        return np.linalg.inv(self.matrix.T @ self.matrix)

    @cached_property
    def k(self) -> np.ndarray:
        """The vector K^-1 1, shape (n,)."""
        return np.ones(self.n) if self.matrix is None else self._inverse.sum(axis=1)

    @property
    def m(self) -> float:
        """The number 1^T K^-1 1, the variance of the total if it is estimated from answers of variance 1."""
        return float(self.k.sum())

    def errors(self, gram: np.ndarray | None) -> tuple[float, float]:
        """Return the parts of the error tr(K^-1 G): besides the total, and of the total, k^T G k / m; None is G = I."""
        if self.matrix is None:
            whole = float(self.n if gram is None else np.trace(gram))
        else:
            whole = float(np.trace(self._inverse) if gram is None else np.sum(self._inverse * gram))
        along = float(self.k @ self.k if gram is None else self.k @ gram @ self.k) / self.m
        return whole - along, along

    def centered(self, values: np.ndarray, axis: int) -> np.ndarray:
        """Return K^-1 v - k (k^T v) / m along an axis."""
        moved = np.moveaxis(values, axis, 0)
        solved = moved if self.matrix is None else np.tensordot(self._inverse, moved, 1)
        along = np.tensordot(self.k, moved, 1) / self.m
        return np.moveaxis(solved - np.multiply.outer(self.k, along), 0, axis)

    def summed(self, values: np.ndarray, axis: int) -> np.ndarray:
        """Return k^T v / sqrt(m) along an axis, whose length becomes 1."""
        return np.expand_dims(np.tensordot(values, self.k, ([axis], [0])), axis) / np.sqrt(self.m)
