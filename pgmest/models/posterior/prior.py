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
from pgmest.tables.clique_vector import CliqueVector, Layout

NORMAL_SCALE = 3.0
EFFECT_SCALE = 2.0
"""Nats that the effect of a value on a clique is off from what the estimated marginal says."""
DEGREES = 4.0
"""Of Student's t for interactions: one in two hundred is beyond five scales, as cells that no record can be in are."""


class CellPrior(Protocol):
    """A prior of the potentials of one layout; arrays are flat, as the layout's."""

    @property
    def center(self) -> np.ndarray:
        """Where it is largest."""
        ...

    @property
    def spread(self) -> np.ndarray:
        """The scale of each cell."""
        ...

    def energy(self, theta: np.ndarray) -> float:
        """Minus the log-density up to a constant."""
        ...

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Its derivative."""
        ...

    def precision(self, theta: np.ndarray) -> np.ndarray:
        """A positive curvature for each cell, from which `product` and `noise` are made."""
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

    def energies(self, away: np.ndarray, part: slice) -> np.ndarray:
        """The energy of each of some cells, at distances from its location, shape (points, cells)."""
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

    def on(self, layout: Layout, center: np.ndarray) -> CellPrior:
        """The prior of a layout's cells; `center` is not used."""
        return NormalCells(np.zeros(layout.cells), np.full(layout.cells, self.scale))

    def __str__(self) -> str:
        return f"potentials normal with standard deviation {self.scale:g} around their base"


@dataclass(frozen=True)
class InteractionPrior(_TotalPrior):
    r"""$\theta_C(x_C) = b_C(x_C) + \sum_{a \in C} u_{C,a}(x_a) + s \, t_4$, $u \sim N(0, 2^2)$, for every cell.

    b are the potentials of independent attributes with the estimated marginals, or those of the `prior=` that the model
    was estimated with. The effects u of single values are all but free. What is left of a clique's table, its
    interactions, is Student's t with four degrees of freedom: at s = 1 a cell is within a factor of 16 of what
    independent attributes would give with probability 0.95, and a cell that no record can be in, although its row and
    column are full, costs a density of e^-8 rather than of e^-50. Small cells of large tables are then neither emptied
    nor filled by the prior, so that sums of thousands of them are right, too.

    That is what tables of people are like. A small table in which counts of 0 and of hundreds stand side by side
    without a pattern is not, and intervals of its cells then hold too seldom: give it a larger scale, or `NormalPrior`.

    The number of records, where it is not known, has a flat prior on its positive values, or a log-normal one.

    Args:
        scale: s, in nats.
        total: the median of the number of records and the standard deviation of its log; None for a flat prior.

    Raises:
        ArgumentError: numbers that are not positive.
    """

    def on(self, layout: Layout, center: np.ndarray) -> CellPrior:
        """The prior of a layout's cells around a center."""
        return StudentCells(center, np.full(layout.cells, self.scale), Effects.of(layout))

    def __str__(self) -> str:
        return f"interactions Student's t with scale {self.scale:g} nats around independent attributes"


@dataclass(frozen=True, eq=False)
class NormalCells:
    """Normal around a center; see `CellPrior`."""

    center: np.ndarray
    spread: np.ndarray

    def energy(self, theta: np.ndarray) -> float:
        """See `CellPrior`."""
        away = (theta - self.center) / self.spread
        return 0.5 * dot(away, away)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """See `CellPrior`."""
        return (theta - self.center) / self.spread**2

    def precision(self, theta: np.ndarray) -> np.ndarray:
        """See `CellPrior`."""
        return 1.0 / self.spread**2

    def product(self, precision: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """See `CellPrior`."""
        return precision * direction

    def noise(self, precision: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """See `CellPrior`."""
        return generator.standard_normal(len(precision)) * np.sqrt(precision)

    def location(self, theta: np.ndarray) -> np.ndarray:
        """See `CellPrior`."""
        return self.center

    def energies(self, away: np.ndarray, part: slice) -> np.ndarray:
        """See `CellPrior`."""
        return 0.5 * (away / self.spread[part]) ** 2


@dataclass(frozen=True, eq=False)
class StudentCells:
    """Interactions Student's t, effects of single attributes normal; see `CellPrior`.

    Effects of single attributes are the additive part of each clique's table, found by averages.
    """

    center: np.ndarray
    spread: np.ndarray
    effects: Effects

    def energy(self, theta: np.ndarray) -> float:
        """See `CellPrior`."""
        away = theta - self.center
        means = self.effects.means @ away
        inside = self._logs(away - self.effects.spread @ means, self.spread)
        return float(inside.sum()) + 0.5 * float(self.effects.precision @ means**2)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """See `CellPrior`."""
        away = theta - self.center
        means = self.effects.means @ away
        inside = away - self.effects.spread @ means
        pull = (DEGREES + 1.0) * inside / (DEGREES * self.spread**2 + inside**2)
        return self._within(pull) + self.effects.means.T @ (self.effects.precision * means)

    def precision(self, theta: np.ndarray) -> np.ndarray:
        """See `CellPrior`: that of the normal distributions that touch Student's from below."""
        inside = self._within(theta - self.center)
        return (DEGREES + 1.0) / (DEGREES * self.spread**2 + inside**2)

    def product(self, precision: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """See `CellPrior`."""
        means = self.effects.means @ direction
        inside = self._within(precision * (direction - self.effects.spread @ means))
        return inside + self.effects.means.T @ (self.effects.precision * means)

    def noise(self, precision: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """See `CellPrior`."""
        inside = self._within(np.sqrt(precision) * generator.standard_normal(len(precision)))
        outer = np.sqrt(self.effects.precision) * generator.standard_normal(len(self.effects.precision))
        return inside + self.effects.means.T @ outer

    def location(self, theta: np.ndarray) -> np.ndarray:
        """See `CellPrior`."""
        return theta - self._within(theta - self.center)

    def energies(self, away: np.ndarray, part: slice) -> np.ndarray:
        """See `CellPrior`."""
        return self._logs(away, self.spread[part])

    def _within(self, cells: np.ndarray) -> np.ndarray:
        """Without the effects of single attributes: an orthogonal projection."""
        return cells - self.effects.spread @ (self.effects.means @ cells)

    @staticmethod
    def _logs(away: np.ndarray, spread: np.ndarray) -> np.ndarray:
        return 0.5 * (DEGREES + 1.0) * np.log1p((away / spread) ** 2 / DEGREES)


@dataclass(frozen=True, eq=False)
class Effects:
    """The effects of single attributes in the tables of a layout.

    Attributes:
        means: cells to means, a row for each value of each attribute of each clique, and one for the whole clique.
        spread: means to the additive tables that have them.
        precision: of the prior of each mean.
    """

    means: sparse.csr_array
    spread: sparse.csr_array
    precision: np.ndarray

    @classmethod
    def of(cls, layout: Layout) -> Effects:
        """Those of all cliques."""
        rows, columns, shares, signs, precision = [], [], [], [], []
        for domain, start in zip(layout.domains, layout.offsets[:-1], strict=True):
            codes = np.indices(domain.shape).reshape(len(domain), -1)
            cells = start + np.arange(domain.size())
            for axis, size in enumerate(domain.shape):
                rows.append(len(precision) + codes[axis])
                signs.append(np.ones(domain.size()))
                precision += [1.0 / EFFECT_SCALE**2] * size
                shares.append(np.full(domain.size(), size / domain.size()))
                columns.append(cells)
            rows.append(np.full(domain.size(), len(precision)))
            signs.append(np.full(domain.size(), 1.0 - len(domain)))
            shares.append(np.full(domain.size(), 1.0 / domain.size()))
            columns.append(cells)
            precision.append(1.0 / EFFECT_SCALE**2)
        index = tuple(np.concatenate([np.zeros(0, dtype=np.int64), *parts]) for parts in (rows, columns))
        shape = (len(precision), layout.cells)
        means, placed = (
            sparse.csr_array((np.concatenate([np.zeros(0), *parts]), index), shape=shape) for parts in (shares, signs)
        )
        return cls(means, sparse.csr_array(placed.T), np.array(precision))
