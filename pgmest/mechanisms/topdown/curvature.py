"""Curvature: the Hessian of a weighted least-squares fit to queries on the detail cells, in a basis of eigenvectors.

All areas of a level are asked the same queries with the same noise, so their least-squares problems share one Hessian,
H = sum_q w_q Q_q^T Q_q. For marginals it is diagonal in a product basis whose first vector along each attribute is
constant. For other queries the eigenvectors are computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from pgmest.errors import QueryError
from pgmest.mechanisms.topdown.questions import Question

MERGED_CELLS = 256
"""Neighboring attributes are merged into one axis of at most this many cells, since large matrix products are fast."""

MOST_EIGENVECTORS = 2_500
"""The most detail cells of which the eigenvectors of queries other than marginals are computed, which takes a minute
for this many."""


@dataclass(frozen=True, eq=False)
class Curvature:
    """The Hessian U diag(values) U^T, with U the Kronecker product of `bases`.

    Attributes:
        bases: an orthonormal matrix for each axis; the axes are the detail attributes, or some of them merged.
        values: the eigenvalues, shape (cells,).
    """

    bases: tuple[np.ndarray, ...]
    values: np.ndarray

    @classmethod
    def of(cls, shape: Sequence[int], questions: Sequence[Question], weights: Iterable[float]) -> Curvature:
        """Return the Hessian of queries with weights, one over the variance of the noise of each."""
        if all(question.is_marginal for question in questions):
            return cls(_merged(shape), _marginal_values(shape, questions, weights))
        hessian = np.zeros((math.prod(shape), math.prod(shape)))
        for question, weight in zip(questions, weights, strict=True):
            hessian += weight * reduce(np.kron, question.grams(shape), np.ones((1, 1)))
        values, vectors = np.linalg.eigh(hessian)
        return cls((vectors,), np.maximum(values, 0.0))

    def coordinates(self, rows: np.ndarray) -> np.ndarray:
        """Return U^T x for each row x; shape (rows, cells)."""
        return _along(rows, [basis.T for basis in self.bases])

    def cells(self, rows: np.ndarray) -> np.ndarray:
        """Return U y for each row y; shape (rows, cells)."""
        return _along(rows, self.bases)


def check_questions(shape: Sequence[int], questions: Sequence[Question]) -> None:
    """Raise QueryError if there are other queries than marginals, and more than `MOST_EIGENVECTORS` cells."""
    cells = math.prod(shape)
    if cells > MOST_EIGENVECTORS and not all(question.is_marginal for question in questions):
        raise QueryError(
            f"TopDown takes queries other than marginals on at most {MOST_EIGENVECTORS:,} cells of detail, and there "
            f"are {cells:,}: ask for marginals, or drop or coarsen attributes."
        )


def _along(rows: np.ndarray, matrices: Sequence[np.ndarray]) -> np.ndarray:
    """Multiply the cells of each row by a Kronecker product of square matrices."""
    if len(matrices) == 1:
        return rows @ matrices[0].T
    table = rows.reshape(len(rows), *(len(matrix) for matrix in matrices))
    for axis, matrix in enumerate(matrices):
        table = np.moveaxis(np.tensordot(table, matrix, axes=(axis + 1, 1)), -1, axis + 1)
    return np.ascontiguousarray(table).reshape(rows.shape)


def _merged(shape: Sequence[int]) -> tuple[np.ndarray, ...]:
    """Return an orthonormal basis for each axis, some of which are merged."""
    bases: list[np.ndarray] = []
    for size in shape:
        basis = _contrasts(size)
        if bases and len(bases[-1]) * size <= MERGED_CELLS:
            bases[-1] = np.kron(bases[-1], basis)
        else:
            bases.append(basis)
    return tuple(bases) or (np.ones((1, 1)),)


def _contrasts(size: int) -> np.ndarray:
    """Return an orthonormal basis whose first vector is constant; shape (size, size), vectors in columns."""
    start = np.eye(size)
    start[:, 0] = 1.0
    return np.linalg.qr(start)[0]


def _marginal_values(shape: Sequence[int], questions: Sequence[Question], weights: Iterable[float]) -> np.ndarray:
    """Return the eigenvalue of each product of contrasts: a marginal sees contrasts of its attributes only."""
    values = np.zeros(tuple(shape))
    for question, weight in zip(questions, weights, strict=True):
        own = [size if axis in question.axes else 1 for axis, size in enumerate(shape)]
        summed = np.prod([size for axis, size in enumerate(shape) if axis not in question.axes])
        values[tuple(slice(length) for length in own)] += weight * summed
    return values.reshape(-1)
