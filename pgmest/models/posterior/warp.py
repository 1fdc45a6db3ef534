r"""Coordinates in which a posterior is nearly normal: logs of counts below the noise, counts above it.

A potential moves its cell's count c by its exponential. Where c is below the standard deviation sigma of what is known
of it, the prior decides, whose unit is nats; where it is above, the answers do, whose unit are counts. And what sums of
many cells are known to be bends their logs, but not the counts. So with $u = c / \sigma$ as it would be were nothing
else to move, chains run in $\varphi$,

.. math:: u = \log(1 + e^\varphi) , \qquad \theta = \log u + const , \qquad
          \frac{d \theta}{d \varphi} = \frac{1 - e^{-u}}{u} .
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pgmest.models.posterior.density import LINEAR, Curvature, PosteriorDensity, unwarped

LOWEST = -600.0
SMALLEST_INFORMATION = 1e-12


@dataclass(frozen=True, eq=False)
class Warp:
    """The coordinates of one density.

    Attributes:
        shift: the potential, less its base, at which each cell's u is 1; infinite where theta itself is the coordinate.
        warped: the cells that have a finite one.
    """

    shift: np.ndarray
    warped: np.ndarray

    @classmethod
    def of(cls, density: PosteriorDensity, curvature: Curvature, point: np.ndarray) -> Warp:
        """From the counts at a point and what the answers say about each."""
        information = np.where(density.open, curvature.cell_information, 0.0)
        warped = np.flatnonzero((information > SMALLEST_INFORMATION) & (curvature.counts > 0))
        units = np.log(curvature.counts[warped] * np.sqrt(information[warped]))
        return cls(point[warped] - units, warped)

    def to_point(self, coordinates: np.ndarray) -> np.ndarray:
        """The point of a density at these coordinates."""
        point = coordinates.copy()
        point[self.warped] = np.log(_softplus(coordinates[self.warped])) + self.shift
        return point

    def from_point(self, point: np.ndarray) -> np.ndarray:
        """The coordinates of a point."""
        coordinates = point.copy()
        coordinates[self.warped] = unwarped(point[self.warped] - self.shift)
        return coordinates

    def slopes(self, coordinates: np.ndarray) -> np.ndarray:
        """The derivative of each potential."""
        found = np.ones(len(coordinates))
        units = _softplus(coordinates[self.warped])
        found[self.warped] = -np.expm1(-units) / units
        return found


@dataclass(frozen=True, eq=False)
class WarpedDensity:
    """A density in warped coordinates, with the Jacobian's part of the energy."""

    density: PosteriorDensity
    warp: Warp

    def energy(self, coordinates: np.ndarray) -> tuple[float, np.ndarray]:
        """As `PosteriorDensity.energy`."""
        return self._pulled(coordinates, exact=True)

    def gradient(self, coordinates: np.ndarray) -> tuple[float, np.ndarray]:
        """As `PosteriorDensity.gradient`."""
        return self._pulled(coordinates, exact=False)

    def _pulled(self, coordinates: np.ndarray, exact: bool) -> tuple[float, np.ndarray]:
        density, warped = self.density, self.warp.warped
        phi = coordinates[warped]
        if not (phi.max(initial=0.0) < 1e12 and phi.min(initial=0.0) > LOWEST):
            return math.inf, coordinates
        growing = np.exp(np.minimum(phi, LINEAR))
        units = np.where(phi < LINEAR, np.log1p(growing), phi)
        falling = 1.0 / (1.0 + growing)  # e^-u
        point = coordinates.copy()
        point[warped] = np.log(units) + self.warp.shift
        value, gradient = density.energy(point) if exact else density.gradient(point)
        if not math.isfinite(value):
            return math.inf, gradient
        slopes = growing * falling / units
        if exact:
            value -= float(np.log(slopes).sum())
        gradient[warped] = gradient[warped] * slopes - falling + slopes
        return value, gradient


def _softplus(phi: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, phi)
