"""Roots of a metric's inverse mass matrix: from the whole Hessian, or from the marginals that several cliques share.

`pgmest.models.posterior.metric` explains the matrix.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular

from pgmest.models.posterior.density import Curvature, PosteriorDensity

MOST_ROWS = 1000
"""The largest number of cells of shared marginals, the best measured first: 8 MB, and half a millisecond a product."""
WORTH_KEEPING = 0.1
"""Eigenvalues of G G^T below this are left out."""

RIDGE = 1e-8
"""The number added to the diagonal of the Hessian, in scaled coordinates, so that it can be factorized."""

UNSHARED = 8192
"""The largest number of entries of a matrix whose product with a vector BLAS computes in one thread. Shared products
would make threads wait for each other, because chains run in threads already."""


class Root(Protocol):
    """L, the root of the inverse mass matrix L L^T in scaled coordinates; it acts on the last axis of arrays."""

    def forward(self, values: np.ndarray) -> np.ndarray:
        """Return L times the vectors."""
        ...

    def transposed(self, values: np.ndarray) -> np.ndarray:
        """Return L^T times the vectors."""
        ...

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """Return L L^T times one vector."""
        ...

    def momentum(self, values: np.ndarray) -> np.ndarray:
        """Return L^-T times the vectors."""
        ...


@dataclass(frozen=True, eq=False)
class DenseRoot:
    """The root from the factor of the whole Hessian; see `Root`.

    Attributes:
        chosen: the coordinates that move.
        factor: the Hessian's Cholesky factor, lower triangular, which is L^-T.
        root: L.
        product: L L^T.
    """

    chosen: np.ndarray
    factor: np.ndarray
    root: np.ndarray
    product: np.ndarray

    @classmethod
    def of(cls, curvature: Curvature, scale: np.ndarray) -> DenseRoot:
        """Factorize the Hessian of the coordinates with a scale."""
        chosen = np.flatnonzero(scale)
        matrix = scale[chosen, None] * curvature.block(chosen) * scale[chosen]
        matrix[np.diag_indices(len(chosen))] += RIDGE
        factor = cholesky(matrix, lower=True) if len(chosen) else matrix
        root = solve_triangular(factor, np.eye(len(chosen)), lower=True).T if len(chosen) else matrix
        return cls(chosen, factor, root, root @ root.T)

    def _on(self, matrix: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Apply a matrix to the coordinates that move."""
        found = values.copy()
        found[..., self.chosen] = _product(matrix, values[..., self.chosen])
        return found

    def forward(self, values: np.ndarray) -> np.ndarray:
        return self._on(self.root, values)

    def transposed(self, values: np.ndarray) -> np.ndarray:
        return self._on(self.root.T, values)

    def inverse(self, values: np.ndarray) -> np.ndarray:
        return self._on(self.product, values)

    def momentum(self, values: np.ndarray) -> np.ndarray:
        return self._on(self.factor, values)


@dataclass(frozen=True, eq=False)
class SharedRoot:
    """The root from the shared marginals, L = (I + G^T G)^(-1/2), which is symmetric; see `Root`.

    Attributes:
        rows, columns: J D, rows of shared marginals by coordinates, before they are centered; and its transpose.
        shares: the share of each row in its marginal.
        starts: the first row of each marginal.
        total: D times the counts of the rows: their derivative in the log of the number of records.
        weights: the root of K, for each row.
        root, back: the cores, in the space of rows, of L and of L^-1.
        triangle: the core of L L^T, its lower triangle row after row.
    """

    rows: sparse.csr_array
    columns: sparse.csr_array
    shares: np.ndarray
    starts: np.ndarray
    total: np.ndarray
    weights: np.ndarray
    root: np.ndarray
    back: np.ndarray
    triangle: np.ndarray

    @classmethod
    def of(cls, curvature: Curvature, density: PosteriorDensity, scale: np.ndarray, moved: np.ndarray) -> SharedRoot:
        """Build the root from the information of the answers, and how far each coordinate moves its cell's count."""
        shared = _SharedMarginals.of(curvature, density, scale * moved)
        rows = shared.rows
        total, weights = scale[-1] * shared.counts, np.sqrt(shared.information)
        found = cls(
            rows, sparse.csr_array(rows.T), shared.shares, shared.starts, total, weights, *(np.zeros((0, 0)),) * 3
        )
        gram = sparse.csr_array(rows @ found.columns).toarray()
        gram = found._centered(found._centered(gram.T).T) + np.outer(total, total)
        values, vectors = np.linalg.eigh(weights[:, None] * gram * weights)
        kept = values > WORTH_KEEPING
        values, vectors = values[kept], vectors[:, kept]
        root, back, product = (
            (vectors * (change(values) / values)) @ vectors.T
            for change in (lambda v: (1 + v) ** -0.5 - 1, lambda v: (1 + v) ** 0.5 - 1, lambda v: 1 / (1 + v) - 1)
        )
        return replace(found, root=root, back=back, triangle=product[np.tril_indices(len(product))])

    def _centered(self, values: np.ndarray) -> np.ndarray:
        """Subtract from each row its share of its marginal's sum, on the last axis."""
        if not len(self.starts):
            return values
        sums = np.add.reduceat(values, self.starts, axis=-1)
        return values - self.shares * np.repeat(sums, np.diff(self.starts, append=values.shape[-1]), axis=-1)

    def _add(self, core: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return (I + G^T core G) times the vectors."""
        if not len(self.weights):
            return values
        moved = self._centered((self.rows @ values.T).T) + values[..., -1:] * self.total
        inside = self.weights * _product(core, self.weights * moved)
        sums = np.add.reduceat(inside * self.shares, self.starts, axis=-1)
        spread = inside - np.repeat(sums, np.diff(self.starts, append=inside.shape[-1]), axis=-1)
        found = values + (self.columns @ spread.T).T
        found[..., -1] += inside @ self.total
        return found

    def forward(self, values: np.ndarray) -> np.ndarray:
        return self._add(self.root, values)

    transposed = forward

    def inverse(self, values: np.ndarray) -> np.ndarray:
        from pgmest.models.posterior.kernels import add_shared

        found, count = values.copy(), len(self.weights)
        add_shared(
            self.rows.indptr, self.rows.indices, self.rows.data, self.shares, self.starts, self.total, self.weights,
            self.triangle, values, np.empty(count), np.empty(count), found,
        )  # fmt: skip
        return found

    def momentum(self, values: np.ndarray) -> np.ndarray:
        return self._add(self.back, values)


@dataclass(frozen=True, eq=False)
class _SharedMarginals:
    """The marginals that several cliques share, with a row for each of their cells.

    Attributes:
        rows: the change of each row with each coordinate, in units of the coordinate's scale.
        counts, shares: the counts of the rows, and the same as shares of the number of records.
        starts: the first row of each marginal.
        information: the information of the answers about each row.
    """

    rows: sparse.csr_array
    counts: np.ndarray
    shares: np.ndarray
    starts: np.ndarray
    information: np.ndarray

    @classmethod
    def of(cls, curvature: Curvature, density: PosteriorDensity, moved: np.ndarray) -> _SharedMarginals:
        """Collect the shared marginals of a density's cliques, the best measured first, up to MOST_ROWS rows.

        Args:
            curvature: the curvature of the density.
            density: the density.
            moved: the change of each cell's count with its coordinate, in units of the coordinate's scale.
        """
        found = list(_shared_tables(curvature, density, moved))
        found.sort(key=lambda one: -float(one[1].max(initial=0.0)))
        kept, room = [], MOST_ROWS
        for counts, strength, information, row_of, columns in found:
            if len(counts) <= room and strength.max(initial=0.0) > WORTH_KEEPING:
                kept.append((counts, information, row_of, columns))
                room -= len(counts)
        starts = np.cumsum([0, *(len(one[0]) for one in kept)])
        rows = [start + one[2] for start, one in zip(starts[:-1], kept, strict=True)]
        index = tuple(np.concatenate([np.zeros(0, np.int64), *parts]) for parts in (rows, [one[3] for one in kept]))
        matrix = sparse.csr_array((moved[index[1]], index), shape=(int(starts[-1]), density.size))
        counts, information = (np.concatenate([np.zeros(0), *(one[k] for one in kept)]) for k in (0, 1))
        return cls(matrix, counts, counts / max(float(np.exp(curvature.log_total)), 1.0), starts[:-1], information)


def _shared_tables(
    curvature: Curvature, density: PosteriorDensity, moved: np.ndarray
) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield, for each intersection of cliques: counts, strength in units of its cells, information, and row and column
    of each entry.
    """
    layout, counts, cells = density.layout, curvature.counts, curvature.cell_information
    sets = [frozenset(clique) for clique in layout.cliques]
    shared = {one & other for one, other in itertools.combinations(sets, 2)} - {frozenset()}
    for names in sorted(tuple(name for name in layout.domain if name in one) for one in shared):
        size, rows, columns = layout.domain.size(names), [], []
        information, table = np.zeros(size), None
        for clique, domain, start in zip(layout.cliques, layout.domains, layout.offsets[:-1], strict=True):
            if not set(names) <= set(clique):
                continue
            codes = dict(zip(clique, np.indices(domain.shape).reshape(len(clique), -1), strict=True))
            row = np.zeros(domain.size(), dtype=np.int64)
            for name in names:
                row = row * layout.domain[name] + codes[name]
            column = int(start) + np.arange(domain.size())
            rows.append(row)
            columns.append(column)
            sums = np.bincount(row, counts[column], size)
            table = sums if table is None else table
            share = counts[column] / np.maximum(sums[row], 1e-300)
            information += np.bincount(row, share**2 * cells[column], size)
        assert table is not None
        row, column = np.concatenate(rows), np.concatenate(columns)
        moves = np.bincount(row, moved[column] ** 2, size)
        yield table, information * moves, information, row, column


def _product(matrix: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Multiply vectors on the last axis by a matrix, in blocks so small that BLAS stays in one thread."""
    if values.ndim > 1 or not matrix.size:
        return values @ matrix.T
    piece = max(1, UNSHARED // max(matrix.shape[1], 1))
    whole = len(matrix) - len(matrix) % piece
    found = np.empty(len(matrix))
    np.matmul(matrix[:whole].reshape(-1, piece, matrix.shape[1]), values, out=found[:whole].reshape(-1, piece))
    np.matmul(matrix[whole:], values, out=found[whole:])
    return found
