r"""The metric of Hamiltonian Monte Carlo: in which units, and along which directions, a posterior moves.

Coordinates are divided by their own scale (`Curvature.scales`), D. What is left of the Hessian has large eigenvalues
where many cells move one well-known number together: the rows of tables that share attributes, above all. The marginals
that several cliques share, as functions of the coordinates, have the derivative J (a cell moves its row by its mean
count, and all rows a little the other way), and their answers the information K. So the mass matrix is

.. math:: D^{-1} (I + G^T G) D^{-1} , \qquad G = K^{1/2} J D ,

whose inverse and root need the eigenvectors of $G G^T$ only: as many rows as shared marginals have cells. Where a
problem is small its whole Hessian is made by covariance products instead. What either leaves is found by a randomized
subspace iteration and scaled down.

A value that few records have may have any count that is small: its log has a long tail to the left, along which all
cells of its row move together, and these are many. So such rows have momenta of their own: with one column of B for
each, a row in proportion to how far it may go, positions move by

.. math:: \dot\theta = M^{-1} p + B q , \qquad \dot p = -\nabla U , \qquad \dot q = -B^T \nabla U ,

q standard normal: what Hamilton's equations are in coordinates of which these are more than needed.
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
"""Up to this number of coordinates the whole Hessian is factorized: 8 MB, and half a millisecond a product."""
MOST_ROWS = 1000
"""Cells of shared marginals: 8 MB, and half a millisecond a product; those about which the answers say most."""
WORTH_KEEPING = 0.1
"""Eigenvalues of G G^T below this are left out."""

WIDEST = 0.6
"""Of the scales of cells. Those of cells that may be nearly empty are longer, to the left, where their counts hardly
change; where they are not empty a shorter one is right, and all steps are as short as that needs."""

DIRECTIONS = 20
PASSES = 3
"""Each pass of the subspace iteration takes a product with the Hessian for each direction."""

WORTH_SCALING = 3.0
"""Directions whose curvature is below this, in units of the rest of the metric, are left alone."""

RIDGE = 1e-8

UNSHARED = 8192
"""Entries of a matrix whose product with a vector BLAS does not share between threads, which would wait for each other
while chains run in threads of their own."""


class Root(Protocol):
    """L, of the inverse mass matrix L L^T in scaled coordinates, on the last axis of arrays."""

    def forward(self, values: np.ndarray) -> np.ndarray:
        """L times these."""
        ...

    def transposed(self, values: np.ndarray) -> np.ndarray:
        """L^T times these."""
        ...

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """L L^T times one vector."""
        ...

    def momentum(self, values: np.ndarray) -> np.ndarray:
        """L^-T times these."""
        ...


@dataclass(frozen=True, eq=False)
class DenseRoot:
    """From the factor of the whole Hessian: see `Root`.

    Attributes:
        chosen: the coordinates that move.
        factor: its Cholesky factor, lower triangular, which is L^-T.
    """

    chosen: np.ndarray
    factor: np.ndarray
    root: np.ndarray
    product: np.ndarray

    @classmethod
    def of(cls, curvature: Curvature, scale: np.ndarray) -> DenseRoot:
        """Of the coordinates with a scale."""
        chosen = np.flatnonzero(scale)
        matrix = scale[chosen, None] * curvature.block(chosen) * scale[chosen]
        matrix[np.diag_indices(len(chosen))] += RIDGE
        factor = cholesky(matrix, lower=True) if len(chosen) else matrix
        root = solve_triangular(factor, np.eye(len(chosen)), lower=True).T if len(chosen) else matrix
        return cls(chosen, factor, root, root @ root.T)

    def _on(self, matrix: np.ndarray, values: np.ndarray) -> np.ndarray:
        found = values.copy()
        found[..., self.chosen] = _product(matrix, values[..., self.chosen])
        return found

    def forward(self, values: np.ndarray) -> np.ndarray:
        """See `Root`."""
        return self._on(self.root, values)

    def transposed(self, values: np.ndarray) -> np.ndarray:
        """See `Root`."""
        return self._on(self.root.T, values)

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """See `Root`."""
        return self._on(self.product, values)

    def momentum(self, values: np.ndarray) -> np.ndarray:
        """See `Root`."""
        return self._on(self.factor, values)


@dataclass(frozen=True, eq=False)
class SharedRoot:
    """From the shared marginals: L = (I + G^T G)^(-1/2), symmetric; see `Root`.

    Attributes:
        rows: J D, rows of shared marginals by coordinates, before they are centered.
        shares: of each row, its share of its marginal.
        starts: where each marginal's rows begin.
        total: D times the counts of the rows: what the log of the number of records moves.
        weights: the root of K, of each row.
        root, back: the cores, in the rows' space, of L and of L^-1.
        triangle: that of L L^T, its lower triangle row after row.
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
        """From the information of the answers, and how far each coordinate moves its cell's count."""
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
        """Rows less their share of their marginal's sum, on the last axis."""
        if not len(self.starts):
            return values
        sums = np.add.reduceat(values, self.starts, axis=-1)
        return values - self.shares * np.repeat(sums, np.diff(self.starts, append=values.shape[-1]), axis=-1)

    def _add(self, core: np.ndarray, values: np.ndarray) -> np.ndarray:
        """(I + G^T core G) times values."""
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
        """See `Root`."""
        return self._add(self.root, values)

    transposed = forward

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """See `Root`."""
        from pgmest.models.posterior.kernels import add_shared

        found, count = values.copy(), len(self.weights)
        add_shared(
            self.rows.indptr, self.rows.indices, self.rows.data, self.shares, self.starts, self.total, self.weights,
            self.triangle, values, np.empty(count), np.empty(count), found,
        )  # fmt: skip
        return found

    def momentum(self, values: np.ndarray) -> np.ndarray:
        """See `Root`."""
        return self._add(self.back, values)


@dataclass(frozen=True, eq=False)
class _SharedMarginals:
    """The marginals that several cliques share, each row a cell of one.

    Attributes:
        rows: what each coordinate moves a row by, in units of its scale.
        counts, shares: of the rows, and as shares of the number of records.
        starts: where each marginal's rows begin.
        information: of the answers about each row.
    """

    rows: sparse.csr_array
    counts: np.ndarray
    shares: np.ndarray
    starts: np.ndarray
    information: np.ndarray

    @classmethod
    def of(cls, curvature: Curvature, density: PosteriorDensity, moved: np.ndarray) -> _SharedMarginals:
        """Of the cliques of a density, the most informed marginals first, as far as there is room.

        Args:
            moved: by how much each coordinate moves its cell's count, in units of its scale.
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
    """For each intersection of cliques: counts, strength in units of its cells, information, row and column of each."""
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
    r"""Momenta: the inverse mass matrix $D L (I + V \mathrm{diag}(w) V^T) L^T D$, and further ones for rows.

    Attributes:
        scale: the diagonal of D, shape (size,); 0 where a coordinate does not move.
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
        """From the curvature at a point; `moves` says which coordinates do."""
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
        def product(rows: np.ndarray) -> np.ndarray:
            """L^T D H D L on rows."""
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
        """How fast a point moves; shape (size,)."""
        own, rest = self._parts(momentum)
        found = self._inverse(own)
        found *= self.scale
        if len(rest):
            found += self.columns @ rest
        return found

    def force(self, gradient: np.ndarray) -> np.ndarray:
        """How fast a gradient takes momentum away; shape (size + rows,)."""
        return np.concatenate([self.scale * gradient, self.rows @ gradient])

    def kinetic(self, momentum: np.ndarray) -> float:
        """The energy of a momentum."""
        own, rest = self._parts(momentum)
        return 0.5 * (dot(own, self._inverse(own)) + dot(rest, rest))

    def _parts(self, momentum: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return momentum[: len(self.scale)], momentum[len(self.scale) :]

    def _inverse(self, momentum: np.ndarray) -> np.ndarray:
        """L (I + V diag(w) V^T) L^T times a vector."""
        from pgmest.models.posterior.kernels import add_along

        found = self.root.inverse(momentum)
        add_along(self.outward, self.weights, momentum, found)
        return found

    def momentum(self, generator: np.random.Generator) -> np.ndarray:
        """Normal, with the mass matrix as covariance in scaled coordinates, and standard for rows; (size + rows,)."""
        from pgmest.models.posterior.kernels import add_along

        drawn = generator.standard_normal(len(self.scale)) * (self.scale > 0)
        add_along(self.directions, 1.0 / np.sqrt(1.0 + self.weights) - 1.0, drawn.copy(), drawn)
        return np.concatenate([self.root.momentum(drawn), generator.standard_normal(len(self.rows.indptr) - 1)])


def _rare_rows(density: PosteriorDensity, curvature: Curvature) -> sparse.csr_array:
    """Of each value so rare that its log count is uncertain by more than WIDEST: its cells in the smallest clique.

    Each row of the matrix is as large as that uncertainty, by the answers about the value and its effect's prior.
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
    """The matrix times vectors on the last axis of an array; it has rows of a length that BLAS does not share."""
    if values.ndim > 1 or not matrix.size:
        return values @ matrix.T
    piece = max(1, UNSHARED // max(matrix.shape[1], 1))
    whole = len(matrix) - len(matrix) % piece
    found = np.empty(len(matrix))
    np.matmul(matrix[:whole].reshape(-1, piece, matrix.shape[1]), values, out=found[:whole].reshape(-1, piece))
    np.matmul(matrix[whole:], values, out=found[whole:])
    return found


def _orthonormal(rows: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the rows' span, as rows."""
    return np.ascontiguousarray(np.linalg.qr(rows.T)[0].T)
