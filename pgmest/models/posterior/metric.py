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

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from pgmest.losses.base import dot
from pgmest.models.posterior.density import Curvature, PosteriorDensity
from pgmest.models.posterior.metric_roots import DenseRoot, Root, SharedRoot
from pgmest.models.posterior.student_cells import EFFECT_SCALE

MOST_DENSE = 1000
"""The largest number of coordinates for which the whole Hessian is factorized: 8 MB, and half a millisecond a
product."""

WIDEST = 0.6
"""The largest scale of a cell, in nats. Cells that may be nearly empty have longer scales, because of a left tail in
which their counts hardly change. Where they are not empty a shorter scale is right, and it limits all steps."""

DIRECTIONS = 20
"""The number of directions of the subspace iteration."""
PASSES = 3
"""The passes of the subspace iteration, each of which takes a product with the Hessian for each direction."""

WORTH_SCALING = 3.0
"""Directions whose curvature is below this multiple of the rest of the metric are not scaled."""


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


def _orthonormal(rows: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the rows' span, as rows."""
    return np.ascontiguousarray(np.linalg.qr(rows.T)[0].T)
