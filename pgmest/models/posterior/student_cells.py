"""The Student prior of the cells of a layout: interactions, effects of single values, and the scale of each clique."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from pgmest.losses.base import dot
from pgmest.tables.clique_vector import Layout

EFFECT_SCALE = 2.0
"""The prior standard deviation, in nats, of the effect of a value in a clique, around the estimated marginal."""
DEGREES = 4.0
"""The degrees of freedom of Student's t. At 4, one interaction in two hundred is beyond five scales, like those of
impossible cells in real tables."""
SCALE_GRID = np.log(np.geomspace(0.02, 8.0, 60))
"""The log scales among which `likely_scales` chooses."""


@dataclass(frozen=True, eq=False)
class StudentCells:
    """Interactions with Student's t distribution, and normal effects of single values; see `CellPrior`.

    The effects of single values are the additive part of each clique's table, computed by averages.

    Attributes:
        center: the center of each cell.
        effects: the additive parts.
        scale, width: the median of the scales, and the standard deviation of their logs; 0 if the scales are known.
        clique: the number of each cell's clique among those with interactions; the last number for all other cells.
        free: the dimension of the interactions of each clique that has some.
        possible: 1 for each cell, 0 for structural zeros, which have no interactions.
        starts: the first cell of each clique.
        drawn: the cliques with interactions, whose scales are drawn.
        scatter: the sampling variance of the log of each cell's count, in a table of counts.
        share: the share of each cell in the dimension of its clique's interactions.
    """

    center: np.ndarray
    effects: Effects
    scale: float
    width: float
    clique: np.ndarray
    free: np.ndarray
    possible: np.ndarray
    starts: np.ndarray
    drawn: np.ndarray
    scatter: np.ndarray
    share: np.ndarray

    @classmethod
    def of(
        cls,
        layout: Layout,
        center: np.ndarray,
        scale: float,
        width: float,
        possible: np.ndarray,
        scatter: np.ndarray | None = None,
    ) -> StudentCells:
        """Build the prior of all cliques of a layout."""
        sizes = [domain.size() for domain in layout.domains]
        free = [
            int(np.count_nonzero(possible[start : start + size])) - 1 - sum(one - 1 for one in domain.shape)
            for domain, start, size in zip(layout.domains, layout.offsets[:-1], sizes, strict=True)
        ]
        drawn = np.flatnonzero([width > 0 and one > 0 for one in free])
        number = np.full(len(sizes), len(drawn))
        number[drawn] = np.arange(len(drawn))
        cliques, starts = np.repeat(number, sizes), np.asarray(layout.offsets[:-1])
        dimensions = np.array(free, dtype=np.float64)[drawn]
        open_cells = possible.astype(np.float64)
        share = (
            np.append(dimensions / np.add.reduceat(open_cells, starts)[drawn], 0.0) if len(sizes) else np.zeros(1)
        )[cliques] * open_cells
        scatter = np.zeros(len(center)) if scatter is None else scatter
        effects = Effects.of(layout)
        return cls(center, effects, scale, width, cliques, dimensions, open_cells, starts, drawn, scatter, share)

    @property
    def log_scales(self) -> np.ndarray:
        return np.full(len(self.free), math.log(self.scale))

    @property
    def effect_rows(self) -> sparse.csr_array:
        """The rows of the effects; interactions are not among them."""
        effects = self.effects
        return sparse.csr_array(sparse.diags_array(np.sqrt(effects.precision)) @ effects.means)

    def spread(self, log_scales: np.ndarray) -> np.ndarray:
        return np.sqrt(self._variance(log_scales) + self.scatter)

    def energy(self, theta: np.ndarray, log_scales: np.ndarray) -> float:
        away = theta - self.center
        means = self.effects.means @ away
        spread = self.spread(log_scales)
        inside = self.energies(away - self.effects.spread @ means, spread)
        outer = 0.5 * float(self.effects.precision @ means**2)
        if len(self.free):
            outer += dot(self.share, np.log(spread)) + 0.5 * float(np.sum(self._standard(log_scales) ** 2))
        return dot(inside, self.possible) + outer

    def gradient(self, theta: np.ndarray, log_scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        from pgmest.models.posterior.kernels import student_gradient

        effects, pull, scales = self.effects, np.empty(len(theta)), np.empty(len(self.free))
        variances = np.append(np.exp(2.0 * log_scales), self.scale**2)
        away, known = theta - self.center, (self.scatter, self.share, self.possible)
        student_gradient(
            self._cliques, effects.sizes, effects.places, away, variances, *known, DEGREES, EFFECT_SCALE**-2.0,
            *self._work, pull, scales,
        )  # fmt: skip
        if len(scales):
            scales += self._standard(log_scales) / self.width
        return pull, scales

    @cached_property
    def _cliques(self) -> np.ndarray:
        """The table of cliques that the kernels read."""
        numbers = self.clique[self.starts] if len(self.starts) else np.empty(0, np.int64)
        return np.ascontiguousarray(np.column_stack([self.effects.cliques, numbers]), dtype=np.int64)

    @cached_property
    def _work(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The work arrays of the kernels: two numbers for each effect, and a code for each axis of a clique."""
        count = len(self.effects.precision)
        return np.empty(count), np.empty(count), np.empty(max(len(self.effects.sizes), 1), dtype=np.int64)

    def precision(self, theta: np.ndarray, log_scales: np.ndarray) -> np.ndarray:
        """Return the precision of the normal distributions that touch Student's t from below."""
        inside = self._within(theta - self.center)
        return (DEGREES + 1.0) / (DEGREES * self.spread(log_scales) ** 2 + inside**2)

    def scale_precision(self, log_scales: np.ndarray) -> np.ndarray:
        """Return Fisher's information about the log of the scale of Student's t, plus that of the prior."""
        if not len(self.free):
            return np.empty(0)
        variance = self._variance(log_scales)
        known = np.add.reduceat(self.share * (variance / (variance + self.scatter)) ** 2, self.starts)[self.drawn]
        return 2.0 * DEGREES / (DEGREES + 3.0) * known + 1.0 / self.width**2

    def likely_scales(self, theta: np.ndarray, variances: np.ndarray) -> np.ndarray:
        """Return the likeliest log scales on a grid, with expected squares in place of the squares of interactions."""
        if not len(self.free):
            return np.empty(0)
        squares = self._within(theta - self.center) ** 2 + variances
        found = []
        for log_scale in SCALE_GRID:
            spread = math.exp(2.0 * log_scale) + self.scatter
            logs = 0.5 * (DEGREES + 1.0) * np.log1p(squares / (spread * DEGREES)) * self.possible
            inside = np.add.reduceat(logs + 0.5 * self.share * np.log(spread), self.starts)[self.drawn]
            found.append(inside + 0.5 * ((log_scale - math.log(self.scale)) / self.width) ** 2)
        return SCALE_GRID[np.argmin(found, axis=0)]

    def product(self, precision: np.ndarray, direction: np.ndarray) -> np.ndarray:
        means = self.effects.means @ direction
        inside = self._within(precision * (direction - self.effects.spread @ means))
        return inside + self.effects.means_transposed @ (self.effects.precision * means)

    def noise(self, precision: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        inside = self._within(np.sqrt(precision) * generator.standard_normal(len(precision)))
        outer = np.sqrt(self.effects.precision) * generator.standard_normal(len(self.effects.precision))
        return inside + self.effects.means_transposed @ outer

    def location(self, theta: np.ndarray) -> np.ndarray:
        return theta - self._within(theta - self.center)

    def identified(self, step: np.ndarray) -> np.ndarray:
        """Return the interactions in a step; without interactions, the whole step."""
        found = self._within(step)
        return found if found.any() else step

    def energies(self, away: np.ndarray, spread: np.ndarray) -> np.ndarray:
        return 0.5 * (DEGREES + 1.0) * np.log1p((away / spread) ** 2 / DEGREES)

    def _variance(self, log_scales: np.ndarray) -> np.ndarray:
        """Return the square of the scale of each cell's clique."""
        return np.append(np.exp(2.0 * log_scales), self.scale**2)[self.clique]

    def _standard(self, log_scales: np.ndarray) -> np.ndarray:
        """Return the log scales in standard deviations of their prior."""
        return (log_scales - math.log(self.scale)) / self.width

    def _within(self, cells: np.ndarray) -> np.ndarray:
        """Project orthogonally onto tables without effects of single values."""
        return cells - self.effects.spread @ (self.effects.means @ cells)


@dataclass(frozen=True, eq=False)
class Effects:
    """The effects of single values in the tables of a layout.

    Attributes:
        means: maps cells to means, with a row for each value of each attribute of each clique, and one for the whole
            clique.
        spread: maps means to the additive tables that have them.
        precision: the prior precision of each mean.
        means_transposed: the transpose of `means`, by rows.
        cliques: for each clique, its first cell and number of cells, first axis and number of axes, and its whole mean.
        sizes, places: for each axis of each clique, its length and the first of its means.
    """

    means: sparse.csr_array
    spread: sparse.csr_array
    precision: np.ndarray
    means_transposed: sparse.csr_array
    cliques: np.ndarray
    sizes: np.ndarray
    places: np.ndarray

    @classmethod
    def of(cls, layout: Layout) -> Effects:
        """Build the effects of all cliques."""
        rows, columns, shares, signs, precision = [], [], [], [], []
        cliques, sizes, places = [], [], []
        for domain, start in zip(layout.domains, layout.offsets[:-1], strict=True):
            codes = np.indices(domain.shape).reshape(len(domain), domain.size())
            cells = start + np.arange(domain.size())
            first_axis = len(sizes)
            for axis, size in enumerate(domain.shape):
                sizes.append(size)
                places.append(len(precision))
                rows.append(len(precision) + codes[axis])
                signs.append(np.ones(domain.size()))
                precision += [1.0 / EFFECT_SCALE**2] * size
                shares.append(np.full(domain.size(), size / domain.size()))
                columns.append(cells)
            cliques.append((int(start), domain.size(), first_axis, len(domain), len(precision)))
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
        tables = (
            np.array(cliques, dtype=np.int64).reshape(-1, 5),
            *(np.array(x, dtype=np.int64) for x in (sizes, places)),
        )
        spread = sparse.csr_array(placed.T)
        return cls(means, spread, np.array(precision), sparse.csr_array(means.T), *tables)
