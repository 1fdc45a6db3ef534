r"""The posterior density of the potentials and the total, computed by the marginal oracle.

Let $\mu(\theta)$ be the marginals of total 1, $C(\theta)$ their covariance, N the number of records, and L minus the
log-likelihood. Then

.. math:: U(\theta, \log N) = L(N \mu(\theta)) + |\theta - b|^2 / 2 s^2 + U_0(\log N) , \qquad
          \nabla_\theta U = N C \nabla L + (\theta - b) / s^2 ,

is minus the log-density. A gradient takes two sweeps over the junction tree: one for the marginals, one for the
covariance times a vector. Two more sweeps give the product with the Gauss-Newton Hessian $N^2 C W C + I / s^2$, where W
is the Fisher information of the answers about the marginals. Exact answers are very precise ones here (facts.py).

Points are flat arrays: $\theta - b$ on the problem's cliques, the prior's log scales, then log N. Structural zeros
never move.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pgmest.losses.base import cell_positions, dot
from pgmest.losses.likelihood import NegativeLogLikelihood
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.posterior.facts import MOST_CONDITIONED, FactsMove, conditioned, exact_total, precise_measurements
from pgmest.models.posterior.prior import CellPrior, InteractionPrior, NormalPrior
from pgmest.models.posterior.strength import independent_center
from pgmest.models.refittable import Refittable
from pgmest.solvers.refit import Refit
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Clique

if TYPE_CHECKING:
    from pgmest.inference.exact.belief_propagation import ExactOracle
    from pgmest.inference.exact.functional_dependencies import CollapsedOracle

LARGEST_LOG_TOTAL = 200.0
"""Log totals beyond this have density zero: their marginals would overflow before the likelihood rejects them."""

GRID_CELLS = 4096
"""The number of cells whose one-dimensional densities are evaluated on a grid at a time."""
GRID_NEAR, GRID_FAR = np.linspace(-4.0, 4.0, 60), np.linspace(-4.0, 4.0, 60)
"""The grid points, in standard deviations of the curvature and of the prior."""

LARGEST_LOG_SCALE = 30.0
"""Log scales of the prior beyond this have density zero, against overflow."""
SMALLEST_PULL = 1e-12
"""Smaller informations and variances count as zero in divisions."""
LARGEST_COUNT = 1e15
"""Counts on the grid are clipped here, against overflow."""


def _positions(layout: Layout, cliques: Sequence[Clique]) -> np.ndarray | slice:
    """Return the positions in the layout of a likelihood's cells, whose cliques may be in another order."""
    index = np.arange(layout.cells)
    found = np.concatenate([index[:0], *(index[cell_positions(layout, clique)] for clique in cliques)])
    return slice(0, layout.cells) if np.array_equal(found, index) else found


class PosteriorDensity:
    """The energy U (minus the log-density), its gradient and its curvature, for one thread.

    Args:
        refit: the recipe of the model's estimate.
        measurements: the answers.
        prior: the prior of potentials and total.
        log_total: the log of the estimated total; the total stays there if it is known. Facts may determine another.
        center: the center of the potentials' prior, without the base; by default 0.
        scatters: whether the prior is for a table of that many records, whose small counts have their own sampling
            error.

    Attributes:
        size: the length of a point.
        evaluations: the number of gradients computed so far.
    """

    def __init__(
        self,
        refit: Refit,
        measurements: Sequence[LinearMeasurement],
        prior: NormalPrior | InteractionPrior,
        log_total: float,
        center: np.ndarray | None = None,
        scatters: bool = True,
    ):
        self.scatters: bool = scatters
        self.refit: Refit = refit
        self.prior: NormalPrior | InteractionPrior = prior
        self.measurements: tuple[LinearMeasurement, ...] = tuple(measurements)
        self.oracle: ExactOracle | CollapsedOracle = refit.oracle()
        self.layout: Layout = self.oracle.layout
        domain = self.layout.domain
        self.likelihood: NegativeLogLikelihood = NegativeLogLikelihood(precise_measurements(self.measurements), domain)
        self.facts: FactsMove | None = FactsMove.of(measurements, self.layout)
        self.base: np.ndarray = refit.base
        if self.facts is not None:
            self.base = refit.base.copy()
            self.base[self.facts.excluded] = -np.inf
        known = exact_total(self.measurements, domain)
        self.total_known: bool = known is not None or isinstance(refit.objective.total, int | float | np.number)
        self.log_total: float = log_total if known is None else math.log(known)
        self.open: np.ndarray = np.isfinite(self.base)
        self.cells: int = len(self.base)
        center, expected = (np.zeros(self.cells) if center is None else center), None
        if scatters:
            expected = self.oracle.run(self.base + center, math.exp(self.log_total))[0].copy()
        self.cell_prior: CellPrior = prior.on(self.layout, center, self.open, expected)
        self.size: int = self.cells + len(self.cell_prior.log_scales) + 1
        self.evaluations: int = 0
        self._read = _positions(self.layout, self.likelihood.cliques)
        self._slopes = np.zeros(self.cells)

    @classmethod
    def around(
        cls,
        model: Refittable,
        refit: Refit,
        measurements: Sequence[LinearMeasurement],
        prior: NormalPrior | InteractionPrior,
    ) -> PosteriorDensity:
        """Return the density around an estimated model, with interactions centered on independent attributes.

        The independent attributes have the model's one-way marginals. If the estimate had base potentials (`prior=`),
        these are the center instead.
        """
        base = refit.start
        center = None
        if not np.any(base.flat[np.isfinite(base.flat)]):
            singles = {name: model.project(name) for name in base.layout.domain}
            center = independent_center(base.layout.domain, base.layout.cliques, singles).flat
        return cls(refit, measurements, prior, float(np.log(model.total)), center)

    def twin(self) -> PosteriorDensity:
        """Return the same density with a separate oracle, for another thread."""
        return PosteriorDensity(
            self.refit, self.measurements, self.prior, self.log_total, self.cell_prior.center, self.scatters
        )

    def likely_scales(self, point: np.ndarray) -> np.ndarray:
        """Return the point with the prior's likeliest scales, given potentials as uncertain as the curvature says."""
        variances = 1.0 / self.curvature(point).diagonal[: self.cells]
        found = point.copy()
        found[self.cells : -1] = self.cell_prior.likely_scales(point[: self.cells], variances)
        return found

    def start(self) -> np.ndarray:
        """Return the prior's center, with the estimated total."""
        return np.concatenate([self.cell_prior.center, self.cell_prior.log_scales, [self.log_total]])

    def marginals(self, point: np.ndarray) -> np.ndarray:
        """Return the marginals at a point, in counts, on the problem's cliques."""
        return self.oracle.run(self.base + point[: self.cells], math.exp(point[-1]))[0]

    def given_facts(self, points: np.ndarray, mode: np.ndarray) -> tuple[np.ndarray, float]:
        """Return draws, shape (draws, size), that have the facts, and the largest distance of any from a fact."""
        if self.facts is None or not self.facts.kept.any():
            return points, 0.0
        if np.count_nonzero(self.facts.kept) <= MOST_CONDITIONED:
            missed = np.stack([self.facts.missed(self.marginals(point)) for point in points])[:, self.facts.kept]
            points = conditioned(points, missed, *self._fact_slopes(mode))
        moved = [self._onto_facts(point) for point in points]
        return np.stack([point for point, _ in moved]), max(missed for _, missed in moved)

    def _fact_slopes(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivative of each fact's answer at a point, and the same divided by the curvature."""
        assert self.facts is not None
        curvature, slopes, solved = self.curvature(point), [], []
        for unit in self.facts.units():
            slope = np.zeros(self.size)
            slope[: self.cells] = np.where(self.open, self.oracle.covariance(unit), 0.0)
            slope[-1] = 0.0 if self.total_known else dot(unit, curvature.counts)
            slopes.append(slope)
            solved.append(curvature.solve(slope))
        return np.stack(slopes), np.stack(solved)

    def _onto_facts(self, point: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the point with potentials whose marginals have the facts, and the distance from the worst fact."""
        assert self.facts is not None
        moved, opened, total = point.copy(), np.flatnonzero(self.open), math.exp(point[-1])
        theta = self.facts.onto(self.base + point[: self.cells], total, self.oracle)
        moved[opened] = theta[opened] - self.base[opened]
        return moved, float(np.abs(self.facts.missed(self.marginals(moved))).max(initial=0.0))

    def energy(self, point: np.ndarray, tempering: float = 1.0) -> tuple[float, np.ndarray]:
        """Return U and its gradient; the likelihood has the weight `tempering`."""
        value, gradient = self.gradient(point, tempering)
        if not math.isfinite(value):
            return math.inf, gradient
        total, _ = self.prior.total_energy(point[-1])
        prior = self.cell_prior.energy(point[: self.cells], point[self.cells : -1])
        return tempering * value + prior + total, gradient

    def gradient(self, point: np.ndarray, tempering: float = 1.0) -> tuple[float, np.ndarray]:
        """Return minus the log-likelihood, which is infinite where there is no gradient, and the gradient of U."""
        self.evaluations += 1
        gradient, cells = np.empty(self.size), self.cells
        if not (abs(point[-1]) < LARGEST_LOG_TOTAL and np.all(np.abs(point[cells:-1]) < LARGEST_LOG_SCALE)):
            return math.inf, gradient
        counts = self.marginals(point)[self._read]
        value, slopes = self.likelihood.flat_value_and_gradient(counts)
        self._slopes[self._read] = slopes
        if not math.isfinite(value):
            return math.inf, gradient
        self.oracle.covariance(self._slopes, out=gradient[:cells])
        inside, gradient[cells:-1] = self.cell_prior.gradient(point[:cells], point[cells:-1])
        gradient[:cells] *= tempering
        gradient[:cells] += inside
        _, slope = self.prior.total_energy(point[-1])
        gradient[-1] = 0.0 if self.total_known else slope + tempering * dot(slopes, counts)
        return value, gradient

    def identified(self, step: np.ndarray) -> np.ndarray:
        """Return a step without its components along directions that no answer identifies (`CellPrior.identified`)."""
        return np.append(self.cell_prior.identified(step[: self.cells]), step[self.cells :])

    def curvature(self, point: np.ndarray, tempering: float = 1.0) -> Curvature:
        """Return the Gauss-Newton Hessian at a point; do not evaluate the density while using it."""
        return Curvature(self, point, tempering)


class Curvature:
    """The Gauss-Newton Hessian of U at one point, as products with vectors.

    Attributes:
        diagonal: an approximation of the diagonal, for preconditioning.
        counts: the marginals at the point, in counts.
        log_total: the log total at the point.
        cell_information: the information of the answers about the count of each cell.
    """

    def __init__(self, density: PosteriorDensity, point: np.ndarray, tempering: float):
        self._density, self._tempering, cells = density, tempering, density.cells
        self.counts: np.ndarray = density.marginals(point).copy()
        self._read = density._read
        likelihood, read = density.likelihood, self.counts[density._read]
        self._weights = likelihood.information(read)
        information = likelihood.information_diagonal(self._weights)
        share = 1.0 - self.counts / math.exp(point[-1])
        self._precision = density.cell_prior.precision(point[:cells], point[cells:-1])
        self._scales = density.cell_prior.scale_precision(point[cells:-1])
        diagonal = np.concatenate([self._precision, self._scales, [0.0]])
        diagonal[self._read] += tempering * information * np.square(self.counts * share)[self._read]
        diagonal[-1] = tempering * dot(likelihood.information_product(self._weights, read), read)
        diagonal[-1] += density.prior.total_precision()
        if density.total_known or not diagonal[-1] > 0:
            diagonal[-1] = 1.0
        self.diagonal: np.ndarray = diagonal
        self.log_total: float = float(point[-1])
        self.cell_information: np.ndarray = np.zeros(cells)
        self.cell_information[self._read] = tempering * information

    def product(self, direction: np.ndarray) -> np.ndarray:
        """Return the Hessian times a vector."""
        density, product, cells = self._density, np.empty(self._density.size), self._density.cells
        moved = density.oracle.covariance(np.ascontiguousarray(direction[:cells]))
        if not density.total_known:
            moved += self.counts * direction[-1]
        weights = np.zeros(density.cells)
        weights[self._read] = density.likelihood.information_product(
            self._weights, np.ascontiguousarray(moved[self._read])
        )
        density.oracle.covariance(weights, out=product[:cells])
        product[:cells] *= self._tempering
        product[:cells] += density.cell_prior.product(self._precision, direction[:cells])
        product[cells:-1] = self._scales * direction[cells:-1]
        product[-1] = self._tempering * dot(weights, self.counts) + density.prior.total_precision() * direction[-1]
        if density.total_known:
            product[-1] = direction[-1]
        return product

    def block(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the Hessian of some coordinates, by a product for each, shape (k, k)."""
        found = np.empty((len(coordinates), len(coordinates)))
        unit = np.zeros(self._density.size)
        for row, coordinate in enumerate(coordinates):
            unit[coordinate] = 1.0
            found[row] = self.product(unit)[coordinates]
            unit[coordinate] = 0.0
        return 0.5 * (found + found.T)

    def noise(self, generator: np.random.Generator) -> np.ndarray:
        """Draw a normal vector whose covariance is the Hessian."""
        density = self._density
        answers = density.likelihood.standard_noise(self._weights, generator)
        weights = np.zeros(density.cells)
        weights[self._read] = answers
        scales = np.sqrt(self._scales) * generator.standard_normal(len(self._scales))
        found = np.concatenate([density.oracle.covariance(weights), scales, [dot(weights, self.counts)]])
        found[: density.cells] += density.cell_prior.noise(self._precision, generator)
        found[-1] += generator.standard_normal() * math.sqrt(density.prior.total_precision())
        if density.total_known:
            found[-1] = generator.standard_normal()
        return found

    def scales(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return each coordinate's standard deviation given all others, and its cell's mean count.

        The log of a count that is few standard deviations of the noise above zero has a long left tail, which the
        curvature at one point does not show. So the density of each potential alone is integrated on a grid, as if the
        answers were about its cell alone.
        """
        density, cells = self._density, self._density.cells
        found, moved = 1.0 / np.sqrt(self.diagonal), np.zeros(density.size)
        prior, potentials, log_scales = density.cell_prior, point[:cells], point[cells:-1]
        pull, _ = prior.gradient(potentials, log_scales)
        location, spreads = prior.location(potentials), prior.spread(log_scales)
        for start in range(0, cells, GRID_CELLS):
            part = slice(start, min(start + GRID_CELLS, cells))
            theta, counts, weights = potentials[part], self.counts[part], self.cell_information[part]
            force = pull[part] / np.maximum(weights * counts, SMALLEST_PULL)
            # The target is the count at which the gradient is zero.
            target = counts + np.where(counts * weights > SMALLEST_PULL, force, 0.0)
            near = theta + GRID_NEAR[:, None] * found[part]
            far = location[part] + spreads[part] * GRID_FAR[:, None]
            grid = np.sort(np.concatenate([near, far]), axis=0)
            grown = counts * np.exp(np.minimum(grid - theta, LARGEST_LOG_TOTAL))
            logs = -0.5 * weights * (grown - target) ** 2 - prior.energies(grid - location[part], spreads[part])
            mass = np.exp(logs - logs.max(axis=0)) * np.gradient(grid, axis=0)
            mass /= mass.sum(axis=0)
            mean = np.sum(mass * grid, axis=0)
            found[part] = np.sqrt(np.maximum(np.sum(mass * (grid - mean) ** 2, axis=0), SMALLEST_PULL))
            moved[part] = np.sum(mass * np.minimum(grown, LARGEST_COUNT), axis=0)
        moved[:cells][~density.open] = 0.0
        return found, moved

    def solve(self, target: np.ndarray, tolerance: float = 1e-4, most: int = 400) -> np.ndarray:
        """Solve by conjugate gradients, preconditioned by the diagonal, until the residual falls by `tolerance`."""
        found, residual = np.zeros_like(target), target.copy()
        scaled = residual / self.diagonal
        direction, size = scaled.copy(), dot(residual, scaled)
        enough = tolerance**2 * size
        for _ in range(most):
            if size <= enough:
                break
            product = self.product(direction)
            step = size / dot(direction, product)
            found += step * direction
            residual -= step * product
            scaled = residual / self.diagonal
            before, size = size, dot(residual, scaled)
            direction *= size / before
            direction += scaled
        return found
