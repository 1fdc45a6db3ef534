r"""Directions that no answer identifies: the effect of a value may be in any table that has its attribute.

Adding f(x_a) to the potentials of one clique and subtracting it from those of another changes no marginal, nor does
adding a constant. The prior of effects is normal. Hence along these directions, given everything else, the posterior is
normal, too, and independent of the likelihood. A Gibbs step draws from it: with the prior's energy
$\tfrac12 |A (\theta + E g)|^2$ of a change E g,

.. math:: g = \arg\min_g |A (\theta + E g) - \epsilon|^2 , \qquad \epsilon \sim N(0, I) .

Without this step, chains drift along these directions for hundreds of transitions, and so do the effects of rare
values, which are hardly more identified.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from pgmest.losses.base import dot
from pgmest.models.posterior.density import PosteriorDensity

SOLVED = 1e-7
"""The relative residual to which conjugate gradients solve."""
MOST_STEPS = 200
"""The largest number of conjugate gradient steps."""


@dataclass(frozen=True, eq=False)
class Unidentified:
    """The unidentified directions, and the prior along them.

    Attributes:
        moves: E, shape (cells, directions): the change of the potentials along each direction.
        rows: A, shape (rows, cells).
        prior_moves, prior_moves_transposed: A E, and its transpose.
        center: the center of the prior.
    """

    moves: sparse.csr_array
    rows: sparse.csr_array
    prior_moves: sparse.csr_array
    prior_moves_transposed: sparse.csr_array
    center: np.ndarray

    @classmethod
    def of(cls, density: PosteriorDensity) -> Unidentified:
        """Find the directions among all cliques without structural zeros."""
        none = np.zeros(0, dtype=np.int64)
        cells, directions, signs = (
            np.concatenate(part) for part in zip((none, none, np.zeros(0)), *_moves(density), strict=True)
        )
        shape = (density.cells, int(directions.max(initial=-1)) + 1)
        moves = sparse.csr_array((signs, (cells, directions)), shape=shape)
        prior = density.cell_prior
        prior_moves = sparse.csr_array(prior.effect_rows @ moves)
        return cls(moves, prior.effect_rows, prior_moves, sparse.csr_array(prior_moves.T), prior.center)

    def draw(self, point: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Return the point with new values along these directions."""
        cells, found = len(self.center), point.copy()
        target = generator.standard_normal(len(self.rows.indptr) - 1) - self.rows @ (point[:cells] - self.center)
        found[:cells] += self.moves @ self._least_squares(target)
        return found

    def _least_squares(self, target: np.ndarray) -> np.ndarray:
        """Solve by conjugate gradients on the normal equations, which several cliques' constants make singular."""
        found = np.zeros(len(self.prior_moves_transposed.indptr) - 1)
        residual = self.prior_moves_transposed @ target
        direction, size = residual, dot(residual, residual)
        enough = SOLVED**2 * size
        for _ in range(MOST_STEPS):
            if size <= enough:
                break
            moved = self.prior_moves @ direction
            step = size / dot(moved, moved)
            found += step * direction
            residual = residual - step * (self.prior_moves_transposed @ moved)
            before, size = size, dot(residual, residual)
            direction = residual + size / before * direction
        return found


def _moves(density: PosteriorDensity) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield cells, directions and signs: a constant for each clique, and effects shared with an earlier clique."""
    layout, count = density.layout, 0
    first: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for clique, domain, start in zip(layout.cliques, layout.domains, layout.offsets[:-1], strict=True):
        size = domain.size()
        cells, codes = int(start) + np.arange(size), np.indices(domain.shape).reshape(len(domain), size)
        if not density.open[cells].all():
            continue
        yield cells, np.full(size, count), np.ones(size)
        count += 1
        for name, code in zip(clique, codes, strict=True):
            others, their = first.setdefault(name, (cells, code))
            if others is not cells:
                yield cells, count + code, np.ones(size)
                yield others, count + their, -np.ones(len(others))
                count += domain[name]
