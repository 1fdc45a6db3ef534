"""Priors of the potentials and of the total: what is thought of them before the answers are seen.

`InteractionPrior`, the default, centers on independent attributes with about their own marginals. `NormalPrior` centers
on uniform ones: simpler, and biased where most cells of a large table are empty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import sparse

from pgmest._base.errors import ArgumentError
from pgmest.losses.base import dot
from pgmest.models.posterior.student_cells import StudentCells
from pgmest.tables.clique_vector import CliqueVector, Layout

NORMAL_SCALE = 3.0
TYPICAL_SCALE = 0.5
"""Nats that interactions typically have, before any answer."""


class CellPrior(Protocol):
    """A prior of the potentials of one layout; arrays are flat, as the layout's.

    It may have parameters of its own, log scales, which are drawn together with the potentials.
    """

    @property
    def center(self) -> np.ndarray:
        """Where it is largest."""
        ...

    @property
    def log_scales(self) -> np.ndarray:
        """Where its own parameters are before any answer; empty where it has none."""
        ...

    @property
    def effect_rows(self) -> sparse.csr_array:
        """A, of the energy |A (theta - center)|^2 / 2 along effects of single values, shape (rows, cells)."""
        ...

    def spread(self, log_scales: np.ndarray) -> np.ndarray:
        """The scale of each cell."""
        ...

    def energy(self, theta: np.ndarray, log_scales: np.ndarray) -> float:
        """Minus the log-density of both up to a constant."""
        ...

    def gradient(self, theta: np.ndarray, log_scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Its derivative in either."""
        ...

    def precision(self, theta: np.ndarray, log_scales: np.ndarray) -> np.ndarray:
        """A positive curvature for each cell, from which `product` and `noise` are made."""
        ...

    def scale_precision(self, log_scales: np.ndarray) -> np.ndarray:
        """The expected curvature along each of its own parameters."""
        ...

    def likely_scales(self, theta: np.ndarray, variances: np.ndarray) -> np.ndarray:
        """Its own parameters where they are likeliest, for potentials known up to these variances."""
        ...

    def product(self, precision: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """The curvature times a vector."""
        ...

    def noise(self, precision: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """A normal vector whose covariance is the curvature."""
        ...

    def location(self, theta: np.ndarray) -> np.ndarray:
        """Where each cell's density is largest given all others."""
        ...

    def held(self, step: np.ndarray) -> np.ndarray:
        """A change of the potentials without what tables that overlap can make up for, which nothing holds back."""
        ...

    def energies(self, away: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """The energy of each of some cells of these scales, at distances from its location, shape (points, cells)."""
        ...


@dataclass(frozen=True)
class _TotalPrior:
    """The part about the number of records, which all priors share."""

    scale: float = 1.0
    total: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.scale, bool) or not 0 < self.scale < math.inf:
            raise ArgumentError.of("scale", self.scale, "a positive number of nats, such as 1")
        if self.total is not None and (len(self.total) != 2 or not all(0 < one < math.inf for one in self.total)):
            raise ArgumentError.of("total", self.total, "a median and a standard deviation of the log, both positive")

    def total_energy(self, log_total: float) -> tuple[float, float]:
        """Minus the log-density of the log of the total, up to a constant, and its derivative."""
        if self.total is None:
            return -log_total, -1.0  # flat on the total itself
        median, spread = self.total
        away = (log_total - math.log(median)) / spread
        return 0.5 * away * away, away / spread

    def total_precision(self) -> float:
        """The curvature of that."""
        return 0.0 if self.total is None else 1.0 / self.total[1] ** 2


@dataclass(frozen=True)
class NormalPrior(_TotalPrior):
    r"""$\theta_C(x_C) \sim N(b_C(x_C), s^2)$, independently for every cell of every measured clique.

    b is 0, or the potentials of the `prior=` and the structural zeros that the model was estimated with: so before any
    answer attributes are close to independent and uniform, or close to that prior. What cells have in common adds up:
    the effect of one attribute has the variance $s^2$ times the sum over its cliques of one over the number of cells
    that share its value. At s = 3 a count may be off from what independent attributes would give by a factor of 400
    either way, which costs a prior density of e^-2; real tables fit into that, and empty cells stay near zero instead
    of taking half a standard deviation of the noise each.

    The number of records, where it is not known, has a flat prior on its positive values, or a log-normal one.

    Args:
        scale: s, in nats.
        total: the median of the number of records and the standard deviation of its log; None for a flat prior.

    Raises:
        ArgumentError: numbers that are not positive.
    """

    scale: float = NORMAL_SCALE

    def draw(self, layout: Layout, seed: int | np.random.Generator | None = None) -> CliqueVector:
        """Potentials from the prior, without the base; for simulations."""
        generator = np.random.default_rng(seed)
        return CliqueVector.of(layout, generator.normal(0.0, self.scale, layout.cells))

    def on(
        self,
        layout: Layout,
        center: np.ndarray,
        possible: np.ndarray | None = None,
        expected: np.ndarray | None = None,
    ) -> CellPrior:
        """The prior of a layout's cells, which are all alike: what else is known of them is not used."""
        return NormalCells(np.zeros(layout.cells), self.scale)

    def __str__(self) -> str:
        return f"potentials normal with standard deviation {self.scale:g} around their base"


@dataclass(frozen=True)
class InteractionPrior(_TotalPrior):
    r"""$\theta_C(x_C) = b_C(x_C) + \sum_{a \in C} u_{C,a}(x_a) + s_C \, t_4$, $u \sim N(0, 2^2)$, for every cell.

    b are the potentials of independent attributes with the estimated marginals, or those of the `prior=` that the model
    was estimated with. The effects u of single values are all but free. What is left of a clique's table, its
    interactions, is Student's t with four degrees of freedom: a cell that no record can be in, although its row and
    column are full, costs a density of e^-8 rather than of e^-50. Small cells of large tables are then neither emptied
    nor filled by the prior, so that sums of thousands of them are right, too.

    How strong interactions are is a parameter of each clique, drawn with all others: $\log s_C \sim N(\log s, r^2)$. A
    table of people, in which a cell is within a factor of two of what independent attributes would give, and one in
    which counts of 0 and of hundreds stand side by side without a pattern, each find their own.

    What is known is a table, not what it was drawn from: the log of a count where m are expected scatters by itself,
    with a variance of about 1 / (m + 1). That is added to $s_C^2$, cell by cell. Else small cells, which differ from
    what is expected by a record or two, would be taken to be as close to it as the large ones that tell the scale.

    The number of records, where it is not known, has a flat prior on its positive values, or a log-normal one.

    Args:
        scale: s, in nats.
        total: the median of the number of records and the standard deviation of its log; None for a flat prior.
        spread: r, in nats; 0 where the scale is known.

    Raises:
        ArgumentError: numbers that are not positive, or a negative spread.
    """

    scale: float = TYPICAL_SCALE
    spread: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.spread, bool) or not 0 <= self.spread < math.inf:
            raise ArgumentError.of("spread", self.spread, "a number of nats of at least 0, such as 1")

    def draw(
        self, layout: Layout, center: np.ndarray | None = None, seed: int | np.random.Generator | None = None
    ) -> CliqueVector:
        """Potentials from the prior around a center, without the base; for simulations.

        Interactions of a table are t-distributed given that they have no additive part; that conditional distribution
        is drawn from by Gibbs sampling over the t distribution's own variances.
        """
        generator = np.random.default_rng(seed)
        cells = self.on(layout, np.zeros(layout.cells) if center is None else center)
        return CliqueVector.of(layout, cells.draw(generator)[0])

    def on(
        self,
        layout: Layout,
        center: np.ndarray,
        possible: np.ndarray | None = None,
        expected: np.ndarray | None = None,
    ) -> StudentCells:
        """The prior of a layout's cells around a center.

        Args:
            possible: which cells are no structural zeros.
            expected: the counts at the center; None for those of so large a table that they do not scatter.
        """
        possible = np.ones(layout.cells, dtype=bool) if possible is None else possible
        scatter = None if expected is None else 1.0 / (np.maximum(expected, 0.0) + 1.0)
        return StudentCells.of(layout, center, self.scale, self.spread, possible, scatter)

    def __str__(self) -> str:
        known = "" if self.spread else " known"
        return f"interactions Student's t with{known} scales around {self.scale:g} nats, around independent attributes"


@dataclass(frozen=True, eq=False)
class NormalCells:
    """Normal around a center, without parameters of its own; see `CellPrior`."""

    center: np.ndarray
    scale: float

    @property
    def log_scales(self) -> np.ndarray:
        """See `CellPrior`."""
        return np.empty(0)

    @property
    def effect_rows(self) -> sparse.csr_array:
        """See `CellPrior`."""
        return sparse.csr_array(sparse.eye_array(len(self.center)) / self.scale)

    def spread(self, log_scales: np.ndarray) -> np.ndarray:
        """See `CellPrior`."""
        return np.full(len(self.center), self.scale)

    def energy(self, theta: np.ndarray, log_scales: np.ndarray) -> float:
        """See `CellPrior`."""
        away = (theta - self.center) / self.scale
        return 0.5 * dot(away, away)

    def gradient(self, theta: np.ndarray, log_scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `CellPrior`."""
        return (theta - self.center) / self.scale**2, np.empty(0)

    def precision(self, theta: np.ndarray, log_scales: np.ndarray) -> np.ndarray:
        """See `CellPrior`."""
        return np.full(len(self.center), 1.0 / self.scale**2)

    def scale_precision(self, log_scales: np.ndarray) -> np.ndarray:
        """See `CellPrior`."""
        return np.empty(0)

    def likely_scales(self, theta: np.ndarray, variances: np.ndarray) -> np.ndarray:
        """See `CellPrior`."""
        return np.empty(0)

    def product(self, precision: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """See `CellPrior`."""
        return precision * direction

    def noise(self, precision: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """See `CellPrior`."""
        return generator.standard_normal(len(precision)) * np.sqrt(precision)

    def location(self, theta: np.ndarray) -> np.ndarray:
        """See `CellPrior`."""
        return self.center

    def held(self, step: np.ndarray) -> np.ndarray:
        """See `CellPrior`: all of it."""
        return step

    def energies(self, away: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """See `CellPrior`."""
        return 0.5 * (away / spread) ** 2
