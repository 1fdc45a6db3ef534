r"""The metric (mass matrix) of Hamiltonian Monte Carlo: the units and the directions in which a posterior moves.

Coordinates are divided by their scale (`Curvature.scales`), D. The rest of the Hessian has large eigenvalues where many
cells move one well-known number together, above all the rows of tables that share attributes. As functions of the
coordinates, the marginals that several cliques share have the derivative J (a cell moves its row by its mean count, and
all rows a little the other way), and the answers about them have the information K. So the mass matrix is

.. math:: D^{-1} (I + G^T G) D^{-1} , \qquad G = K^{1/2} J D ,

whose inverse and root need only the eigenvectors of $G G^T$, which has a row for each cell of the shared marginals. For
a small problem the whole Hessian is computed by covariance products instead. Large eigenvalues that remain are found by
a randomized subspace iteration and scaled down.

The log count of a rare value has a long left tail, along which all cells of its row move together. Such rows get
separate momenta: with a column of B for each, in proportion to the row's uncertainty, positions move by

.. math:: \dot\theta = M^{-1} p + B q , \qquad \dot p = -\nabla U , \qquad \dot q = -B^T \nabla U ,

where q is standard normal. These are Hamilton's equations in redundant coordinates.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular

from pgmest.losses.base import dot
from pgmest.models.posterior.density import Curvature, PosteriorDensity
from pgmest.models.posterior.student_cells import EFFECT_SCALE

MOST_DENSE = 1000
"""The largest number of coordinates for which the whole Hessian is factorized: 8 MB, and half a millisecond a
product."""
MOST_ROWS = 1000
"""The largest number of cells of shared marginals, the best measured first: 8 MB, and half a millisecond a product."""
WORTH_KEEPING = 0.1
"""Eigenvalues of G G^T below this are left out."""

WIDEST = 0.6
"""The largest scale of a cell, in nats. Cells that may be nearly empty have longer scales, because of a left tail in
which their counts hardly change. Where they are not empty a shorter scale is right, and it limits all steps."""

DIRECTIONS = 20
"""The number of directions of the subspace iteration."""
PASSES = 3
"""The passes of the subspace iteration, each of which takes a product with the Hessian for each direction."""

WORTH_SCALING = 3.0
"""Directions whose curvature is below this multiple of the rest of the metric are not scaled."""

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


@dataclass(frozen=True, eq=False)
class Metric:
    r"""The inverse mass matrix $D L (I + V \mathrm{diag}(w) V^T) L^T D$, and separate momenta for rare rows.

    Attributes:
        scale: the diagonal of D, shape (size,); 0 for a coordinate that does not move.
        root: L.
        directions: V, orthonormal rows.
        outward: L V, as rows.
        weights: w, each in (-1, 0].
        rows, columns: B^T, and B.
    """

    scale: np.ndarray
    root: Root
    directions: np.ndarray
    outward: np.ndarray
    weights: np.ndarray
    rows: sparse.csr_array
    columns: sparse.csr_array

    @classmethod
    def of(
        cls, density: PosteriorDensity, point: np.ndarray, moves: np.ndarray, generator: np.random.Generator
    ) -> Metric:
        """Build the metric from the curvature at a point; `moves` are the coordinates that move."""
        curvature = density.curvature(point)
        rows = _rare_rows(density, curvature)
        rare = rows, sparse.csr_array(rows.T)
        scale, moved = curvature.scales(point)
        scale = np.where(moves, scale, 0.0)
        none = np.zeros((0, len(scale)))
        if np.count_nonzero(moves) <= MOST_DENSE:
            return cls(scale, DenseRoot.of(curvature, scale), none, none, np.zeros(0), *rare)
        scale[: density.cells] = np.minimum(scale[: density.cells], WIDEST)
        flat = cls(scale, SharedRoot.of(curvature, density, scale, moved), none, none, np.zeros(0), *rare)
        count = min(DIRECTIONS, int(np.count_nonzero(moves)) // 4)
        return flat._with_directions(curvature, count, generator) if count else flat

    def _with_directions(self, curvature: Curvature, count: int, generator: np.random.Generator) -> Metric:
        """Add the directions of the largest eigenvalues that remain, by randomized subspace iteration."""

        def product(rows: np.ndarray) -> np.ndarray:
            """Return L^T D H D L times the rows."""
            out = self.root.forward(rows)
            return self.root.transposed(np.stack([self.scale * curvature.product(self.scale * row) for row in out]))

        rows = _orthonormal(generator.standard_normal((count, len(self.scale))) * (self.scale > 0))
        for _ in range(PASSES):
            rows = _orthonormal(product(rows))
        values, turn = np.linalg.eigh(rows @ product(rows).T)
        kept = values > WORTH_SCALING
        floor = max(WORTH_SCALING, float(values[kept].min(initial=np.inf))) if kept.any() else 1.0
        directions = np.ascontiguousarray((turn.T @ rows)[kept])
        outward = np.ascontiguousarray(self.root.forward(directions))
        return replace(self, directions=directions, outward=outward, weights=floor / values[kept] - 1.0)

    def velocity(self, momentum: np.ndarray) -> np.ndarray:
        """Return the velocity of a point, shape (size,)."""
        own, rest = self._parts(momentum)
        found = self._inverse(own)
        found *= self.scale
        if len(rest):
            found += self.columns @ rest
        return found

    def force(self, gradient: np.ndarray) -> np.ndarray:
        """Return the decrease of the momentum along a gradient, shape (size + rows,)."""
        return np.concatenate([self.scale * gradient, self.rows @ gradient])

    def kinetic(self, momentum: np.ndarray) -> float:
        """Return the kinetic energy of a momentum."""
        own, rest = self._parts(momentum)
        return 0.5 * (dot(own, self._inverse(own)) + dot(rest, rest))

    def _parts(self, momentum: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return momentum[: len(self.scale)], momentum[len(self.scale) :]

    def _inverse(self, momentum: np.ndarray) -> np.ndarray:
        """Return L (I + V diag(w) V^T) L^T times a vector."""
        from pgmest.models.posterior.kernels import add_along

        found = self.root.inverse(momentum)
        add_along(self.outward, self.weights, momentum, found)
        return found

    def momentum(self, generator: np.random.Generator) -> np.ndarray:
        """Draw a momentum: in scaled coordinates normal with the mass matrix as covariance, standard normal for rare
        rows; shape (size + rows,).
        """
        from pgmest.models.posterior.kernels import add_along

        drawn = generator.standard_normal(len(self.scale)) * (self.scale > 0)
        add_along(self.directions, 1.0 / np.sqrt(1.0 + self.weights) - 1.0, drawn.copy(), drawn)
        return np.concatenate([self.root.momentum(drawn), generator.standard_normal(len(self.rows.indptr) - 1)])


def _rare_rows(density: PosteriorDensity, curvature: Curvature) -> sparse.csr_array:
    """Return the rows of values so rare that their log count is uncertain by more than WIDEST, in the smallest clique
    of each.

    The entries of a row are that uncertainty, from the answers about the value and the prior of its effect.
    """
    layout, counts, known = density.layout, curvature.counts, curvature.cell_information
    rows: list[tuple[np.ndarray, float]] = []
    for name, size in layout.domain.items():
        information, smallest = np.zeros(size), None
        for clique, domain, start in zip(layout.cliques, layout.domains, layout.offsets[:-1], strict=True):
            if name not in clique:
                continue
            cells = int(start) + np.arange(domain.size())
            code = np.indices(domain.shape)[clique.index(name)].reshape(-1)
            information += np.bincount(code, counts[cells] ** 2 * known[cells], size)
            if smallest is None or len(cells) < len(smallest[0]):
                smallest = cells, code
        if smallest is not None and density.open[smallest[0]].all():
            spread = 1.0 / np.sqrt(information + EFFECT_SCALE**-2.0)
            cells, code = smallest
            rows += [(cells[code == x], spread[x]) for x in np.flatnonzero(spread > WIDEST)]
    sizes = [len(cells) for cells, _ in rows]
    pointers = np.cumsum([0, *sizes])
    columns = np.concatenate([np.zeros(0, dtype=np.int64), *(cells for cells, _ in rows)])
    return sparse.csr_array((np.repeat([one for _, one in rows], sizes), columns, pointers), (len(rows), density.size))


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


def _orthonormal(rows: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the rows' span, as rows."""
    return np.ascontiguousarray(np.linalg.qr(rows.T)[0].T)
