"""The mode of a posterior density, by a truncated Newton method on a likelihood whose weight grows in steps."""

from __future__ import annotations

import numpy as np

from pgmest.losses.base import dot
from pgmest.models.posterior.density import PosteriorDensity

TEMPERINGS = (1e-4, 1e-3, 1e-2, 0.1, 1.0)
"""The weights of the likelihood, one after the other. From the prior's center straight to sharp answers, the first step
would leave the region in which the quadratic model holds."""

STEPS = 30
"""The largest number of Newton steps at each weight."""
ENOUGH = 0.05
"""Newton steps at a weight stop when one gains less energy than this, in nats."""
ROUGH = 1e-4
"""Newton steps towards a rough mode also stop below this gain for each coordinate, in nats. Chains run at energies that
differ by half a nat for each coordinate, so a better start is of no use."""

INNER_TOLERANCE = 0.03
"""The relative residual to which conjugate gradients solve for a Newton step."""
ROUNDS, SETTLED = 6, 0.15
"""The prior's scales and the mode given these scales are updated in turn, at most this many times, or until no log
scale changes by more than SETTLED. Their joint mode is useless: at scales of zero without interactions, the density is
infinite."""

SUFFICIENT, SHORTEST = 1e-4, 1e-4
"""The Armijo condition of the line search, and the shortest step that it tries."""


def find_mode(density: PosteriorDensity) -> np.ndarray:
    """Return a rough mode, from which chains can start; `refined_mode` makes it the center for Laplace draws."""
    point, enough = density.start(), _rough(density)
    for tempering in TEMPERINGS:
        point = _climb(density, point, tempering, enough)
    for _ in range(ROUNDS if density.size > density.cells + 1 else 0):
        before = point[density.cells : -1]
        point = density.likely_scales(point)
        if np.max(np.abs(point[density.cells : -1] - before)) < SETTLED:
            break
        point = _climb(density, point, 1.0, enough)
    return point


def refined_mode(density: PosteriorDensity, mode: np.ndarray) -> np.ndarray:
    """Return the exact mode, refined from a rough one."""
    return mode if _rough(density) == ENOUGH else _climb(density, mode, 1.0, ENOUGH)


def _rough(density: PosteriorDensity) -> float:
    """Return the gain of energy at which a rough mode is good enough, in nats."""
    return max(ENOUGH, ROUGH * density.size)


def _climb(density: PosteriorDensity, point: np.ndarray, tempering: float, enough: float) -> np.ndarray:
    """Take Newton steps until one gains less than `enough`."""
    for _ in range(STEPS):
        point, gain = _step(density, point, tempering)
        if gain < enough:
            break
    return point


def _step(density: PosteriorDensity, point: np.ndarray, tempering: float) -> tuple[np.ndarray, float]:
    """Take a Newton step with a line search; return the point and the decrease of the energy."""
    energy, gradient = density.energy(point, tempering)
    gradient[density.cells : -1] = 0.0  # the prior's scales are not optimized here, see ROUNDS
    direction = density.curvature(point, tempering).solve(-gradient, INNER_TOLERANCE)
    slope, length = dot(gradient, direction), 1.0
    if density.total_known:
        direction[-1] = 0.0
    while length > SHORTEST:
        moved = point + length * direction
        after, _ = density.energy(moved, tempering)
        if after <= energy + SUFFICIENT * length * slope:
            return moved, energy - after
        length *= 0.5
    return point, 0.0
