"""Priors of the potentials and of the total.

`InteractionPrior`, the default, is centered on independent attributes with about their own marginals. `NormalPrior` is
centered on uniform attributes: simpler, and biased if most cells of a large table are empty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import sparse

from pgmest.errors import ArgumentError
from pgmest.losses.base import dot
from pgmest.models.posterior.student_cells import StudentCells
from pgmest.tables.clique_vector import Layout

NORMAL_SCALE = 3.0
"""The default standard deviation of `NormalPrior`, in nats."""
TYPICAL_SCALE = 0.5
"""The default median scale of interactions, in nats."""


class CellPrior(Protocol):
    """A prior of the potentials of one layout; arrays are flat, in the order of the layout.

    It may have parameters, log scales, which are drawn together with the potentials.
    """

    @property
    def center(self) -> np.ndarray:
        """The mode."""
        ...

    @property
    def log_scales(self) -> np.ndarray:
        """The modes of the log scales before any answer; empty without log scales."""
        ...

    @property
    def effect_rows(self) -> sparse.csr_array:
        """The matrix A of the energy |A (theta - center)|^2 / 2 along effects of single values, shape (rows, cells)."""
        ...

    def spread(self, log_scales: np.ndarray) -> np.ndarray:
        """Return the scale of each cell."""
        ...

    def energy(self, theta: np.ndarray, log_scales: np.ndarray) -> float:
        """Return minus the log-density of potentials and log scales, up to a constant."""
        ...

    def gradient(self, theta: np.ndarray, log_scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivatives of the energy in the potentials and in the log scales."""
        ...

    def precision(self, theta: np.ndarray, log_scales: np.ndarray) -> np.ndarray:
        """Return a positive curvature for each cell, from which `product` and `noise` are made."""
        ...

    def scale_precision(self, log_scales: np.ndarray) -> np.ndarray:
        """Return the expected curvature along each log scale."""
        ...

    def likely_scales(self, theta: np.ndarray, variances: np.ndarray) -> np.ndarray:
        """Return the likeliest log scales for potentials that are known up to these variances."""
        ...

    def product(self, precision: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Return the curvature times a vector."""
        ...

    def noise(self, precision: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Draw a normal vector whose covariance is the curvature."""
        ...

    def location(self, theta: np.ndarray) -> np.ndarray:
        """Return, for each cell, the mode of its density given all others."""
        ...

    def identified(self, step: np.ndarray) -> np.ndarray:
        """Return a step without the part that overlapping tables can compensate, which no answer identifies."""
        ...

    def energies(self, away: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """Return the energy of each cell at distances from its location, given its scale; shape (points, cells)."""
        ...


@dataclass(frozen=True)
class _TotalPrior:
    """The prior of the number of records, which all priors share."""

    scale: float = 1.0
    total: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.scale, bool) or not 0 < self.scale < math.inf:
            raise ArgumentError.of("scale", self.scale, "a positive number of nats, such as 1")
        if self.total is not None and (len(self.total) != 2 or not all(0 < one < math.inf for one in self.total)):
            raise ArgumentError.of("total", self.total, "a median and a standard deviation of the log, both positive")

    def total_energy(self, log_total: float) -> tuple[float, float]:
        """Return minus the log-density of the log of the total, up to a constant, and its derivative."""
        if self.total is None:
            return -log_total, -1.0  # flat on the total itself
        median, spread = self.total
        away = (log_total - math.log(median)) / spread
        return 0.5 * away * away, away / spread

    def total_precision(self) -> float:
        """Return the second derivative of `total_energy`."""
        return 0.0 if self.total is None else 1.0 / self.total[1] ** 2


@dataclass(frozen=True)
class NormalPrior(_TotalPrior):
    r"""$\theta_C(x_C) \sim N(b_C(x_C), s^2)$, independently for every cell of every measured clique.

    b is 0, or the potentials of the `prior=` and the structural zeros of the estimate. Before any answer, attributes
    are therefore close to independent and uniform, or close to that prior. The cells' common parts add up: the effect
    of one attribute has the variance $s^2$ times the sum over its cliques of one over the number of cells that share
    its value. At s = 3 a count may differ from that of independent attributes by a factor of 400 either way at a prior
    density of e^-2. That suffices for real tables, and empty cells stay near zero instead of taking half a standard
    deviation of the noise each.

    The number of records, if it is not known, has a flat prior on its positive values, or a log-normal prior.

    Args:
        scale: s, in nats.
        total: the median of the number of records and the standard deviation of its log; None for a flat prior.

    Raises:
        ArgumentError: a number is not positive.
    """

    scale: float = NORMAL_SCALE

    def on(
        self, layout: Layout, center: np.ndarray, possible: np.ndarray | None = None, expected: np.ndarray | None = None
    ) -> CellPrior:
        """Return the prior of a layout's cells, which are all alike: the other arguments are not used."""
        return NormalCells(np.zeros(layout.cells), self.scale)

    def __str__(self) -> str:
        return f"potentials normal with standard deviation {self.scale:g} around their base"


@dataclass(frozen=True)
class InteractionPrior(_TotalPrior):
    r"""$\theta_C(x_C) = b_C(x_C) + \sum_{a \in C} u_{C,a}(x_a) + s_C \, t_4$, $u \sim N(0, 2^2)$, for every cell.

    b are the potentials of independent attributes with the estimated marginals, or those of the estimate's `prior=`.
    The effects u of single values are almost unrestricted. The rest of a clique's table, its interactions, has
    Student's t distribution with four degrees of freedom. An impossible cell whose row and column are full costs a
    density of e^-8, not of e^-50 as in a normal prior. Hence the prior neither empties nor fills the small cells of
    large tables, and sums of thousands of them are right, too.

    The strength of interactions is a parameter of each clique: $\log s_C \sim N(\log s, r^2)$, drawn with all others.
    So a table whose cells are within a factor of two of those of independent attributes gets a small strength, and a
    table in which counts of 0 and of hundreds alternate without a pattern gets a large one.

    The posterior is about a table, not about the population behind it. The log of a count of mean m has a sampling
    variance of about 1 / (m + 1), which is added to $s_C^2$, cell by cell. Otherwise small cells, which differ from
    their mean by a record or two, would have to be as close to it as the large cells that determine the scale.

    The number of records, if it is not known, has a flat prior on its positive values, or a log-normal prior.

    Args:
        scale: s, in nats.
        total: the median of the number of records and the standard deviation of its log; None for a flat prior.
        spread: r, in nats; 0 if the scale is known.

    Raises:
        ArgumentError: a number is not positive, or the spread is negative.
    """

    scale: float = TYPICAL_SCALE
    spread: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.spread, bool) or not 0 <= self.spread < math.inf:
            raise ArgumentError.of("spread", self.spread, "a number of nats of at least 0, such as 1")

    def on(
        self, layout: Layout, center: np.ndarray, possible: np.ndarray | None = None, expected: np.ndarray | None = None
    ) -> StudentCells:
        """Return the prior of a layout's cells around a center.

        Args:
            layout: the cliques.
            center: the center of each cell.
            possible: which cells are no structural zeros.
            expected: the counts at the center; None for a table so large that counts have no sampling error.
        """
        possible = np.ones(layout.cells, dtype=bool) if possible is None else possible
        scatter = None if expected is None else 1.0 / (np.maximum(expected, 0.0) + 1.0)
        return StudentCells.of(layout, center, self.scale, self.spread, possible, scatter)

    def __str__(self) -> str:
        known = "" if self.spread else " known"
        return f"interactions Student's t with{known} scales around {self.scale:g} nats, around independent attributes"


@dataclass(frozen=True, eq=False)
class NormalCells:
    """Independent normal cells around a center, without log scales; see `CellPrior`."""

    center: np.ndarray
    scale: float

    @property
    def log_scales(self) -> np.ndarray:
        return np.empty(0)

    @property
    def effect_rows(self) -> sparse.csr_array:
        return sparse.csr_array(sparse.eye_array(len(self.center)) / self.scale)

    def spread(self, log_scales: np.ndarray) -> np.ndarray:
        return np.full(len(self.center), self.scale)

    def energy(self, theta: np.ndarray, log_scales: np.ndarray) -> float:
        away = (theta - self.center) / self.scale
        return 0.5 * dot(away, away)

    def gradient(self, theta: np.ndarray, log_scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (theta - self.center) / self.scale**2, np.empty(0)

    def precision(self, theta: np.ndarray, log_scales: np.ndarray) -> np.ndarray:
        return np.full(len(self.center), 1.0 / self.scale**2)

    def scale_precision(self, log_scales: np.ndarray) -> np.ndarray:
        return np.empty(0)

    def likely_scales(self, theta: np.ndarray, variances: np.ndarray) -> np.ndarray:
        return np.empty(0)

    def product(self, precision: np.ndarray, direction: np.ndarray) -> np.ndarray:
        return precision * direction

    def noise(self, precision: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return generator.standard_normal(len(precision)) * np.sqrt(precision)

    def location(self, theta: np.ndarray) -> np.ndarray:
        return self.center

    def identified(self, step: np.ndarray) -> np.ndarray:
        """Return the whole step: this prior restricts every direction."""
        return step

    def energies(self, away: np.ndarray, spread: np.ndarray) -> np.ndarray:
        return 0.5 * (away / spread) ** 2
