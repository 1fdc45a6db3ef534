"""The mode of a posterior density, by a truncated Newton method on a likelihood that is taken in by degrees."""

from __future__ import annotations

import numpy as np

from pgmest.losses.base import dot
from pgmest.models.posterior.density import PosteriorDensity

TEMPERINGS = (1e-4, 1e-3, 1e-2, 0.1, 1.0)
"""The likelihood's weights, one after the other. From the prior's center straight to sharp answers, steps would leave
the region where the quadratic model holds at once."""

STEPS = 30
ENOUGH = 0.05
"""A level ends after so many steps, or where a step gains less of the energy than this, in nats."""
ROUGH = 1e-4
"""Of a rough mode: or less than this for each coordinate. Where chains run, energies differ by half a nat for each."""

INNER_TOLERANCE = 0.03
ROUNDS, SETTLED = 6, 0.15
"""The scales of the prior and the mode given these take turns so many times, or until the logs of the scales stay.
Together they have no useful mode: without interactions, and with scales of zero, a density is infinite."""

SUFFICIENT, SHORTEST = 1e-4, 1e-4


def find_mode(density: PosteriorDensity) -> np.ndarray:
    """A point where the density is nearly largest: a place for chains to start; `settled` makes it Laplace's center."""
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


def settled(density: PosteriorDensity, mode: np.ndarray) -> np.ndarray:
    """A rough mode made an exact one."""
    return mode if _rough(density) == ENOUGH else _climb(density, mode, 1.0, ENOUGH)


def _rough(density: PosteriorDensity) -> float:
    return max(ENOUGH, ROUGH * density.size)


def _climb(density: PosteriorDensity, point: np.ndarray, tempering: float, enough: float) -> np.ndarray:
    """Steps until they gain little."""
    for _ in range(STEPS):
        point, gain = _step(density, point, tempering)
        if gain < enough:
            break
    return point


def _step(density: PosteriorDensity, point: np.ndarray, tempering: float) -> tuple[np.ndarray, float]:
    """A Newton step with a line search; and by how much the energy fell."""
    energy, gradient = density.energy(point, tempering)
    gradient[density.cells : -1] = 0.0  # the prior's own parameters stay
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
