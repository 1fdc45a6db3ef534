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
TYPICAL_SCALE = 0.5
"""Nats that interactions typically have, before any answer."""
SCALE_GRID = np.log(np.geomspace(0.02, 8.0, 60))
GIBBS_SWEEPS = 30
DEGREES = 4.0
"""Of Student's t for interactions: one in two hundred is beyond five scales, as cells that no record can be in are."""


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


@dataclass(frozen=True, eq=False)
class StudentCells:
    """Interactions Student's t, effects of single attributes normal; see `CellPrior`.

    Effects of single attributes are the additive part of each clique's table, found by averages.

    Attributes:
        center: of each cell.
        effects: the additive parts.
        scale, width: the median of scales, and the standard deviation of their logs; 0 where they are known.
        clique: the clique of each cell, among those with interactions; the last number for all others.
        free: of each clique with interactions, the dimension of these.
        possible: 1 for each cell, 0 for structural zeros, which have no interactions.
        starts: the first cell of each clique; drawn: the cliques with interactions.
        scatter: the variance that the log of each cell's count has by itself, in a table of counts.
        share: of each cell, its part of the dimension of its clique's interactions.
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
        """That of all cliques of a layout."""
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
        """See `CellPrior`."""
        return np.full(len(self.free), math.log(self.scale))

    def spread(self, log_scales: np.ndarray) -> np.ndarray:
        """See `CellPrior`."""
        return np.sqrt(self._variance(log_scales) + self.scatter)

    def energy(self, theta: np.ndarray, log_scales: np.ndarray) -> float:
        """See `CellPrior`."""
        away = theta - self.center
        means = self.effects.means @ away
        spread = self.spread(log_scales)
        inside = self.energies(away - self.effects.spread @ means, spread)
        outer = 0.5 * float(self.effects.precision @ means**2)
        if len(self.free):
            outer += dot(self.share, np.log(spread)) + 0.5 * float(np.sum(self._standard(log_scales) ** 2))
        return dot(inside, self.possible) + outer

    def gradient(self, theta: np.ndarray, log_scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `CellPrior`."""
        effects = self.effects
        away = theta - self.center
        means = effects.means @ away
        inside = away - effects.spread @ means
        variance = self._variance(log_scales)
        pull = 1.0 / (variance + self.scatter)
        own = variance * pull  # what of a cell's variance is its clique's
        weights = inside * inside
        weights *= pull
        weights += DEGREES
        pull *= inside
        pull /= weights
        pull *= (DEGREES + 1.0) * self.possible
        scales = np.empty(0)
        if len(self.free):
            moments = np.add.reduceat(own * (self.share - pull * inside), self.starts)[self.drawn]
            scales = moments + self._standard(log_scales) / self.width
        pull += effects.means_transposed @ (effects.precision * means - effects.spread_transposed @ pull)
        return pull, scales

    def precision(self, theta: np.ndarray, log_scales: np.ndarray) -> np.ndarray:
        """See `CellPrior`: that of the normal distributions that touch Student's from below."""
        inside = self._within(theta - self.center)
        return (DEGREES + 1.0) / (DEGREES * self.spread(log_scales) ** 2 + inside**2)

    def scale_precision(self, log_scales: np.ndarray) -> np.ndarray:
        """See `CellPrior`: Fisher's information about the log of the scale of Student's t, and the prior's."""
        if not len(self.free):
            return np.empty(0)
        variance = self._variance(log_scales)
        known = np.add.reduceat(self.share * (variance / (variance + self.scatter)) ** 2, self.starts)[self.drawn]
        return 2.0 * DEGREES / (DEGREES + 3.0) * known + 1.0 / self.width**2

    def likely_scales(self, theta: np.ndarray, variances: np.ndarray) -> np.ndarray:
        """See `CellPrior`: on a grid, the expected squares of interactions in the place of their squares."""
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
        """See `CellPrior`."""
        means = self.effects.means @ direction
        inside = self._within(precision * (direction - self.effects.spread @ means))
        return inside + self.effects.means_transposed @ (self.effects.precision * means)

    def noise(self, precision: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """See `CellPrior`."""
        inside = self._within(np.sqrt(precision) * generator.standard_normal(len(precision)))
        outer = np.sqrt(self.effects.precision) * generator.standard_normal(len(self.effects.precision))
        return inside + self.effects.means_transposed @ outer

    def location(self, theta: np.ndarray) -> np.ndarray:
        """See `CellPrior`."""
        return theta - self._within(theta - self.center)

    def held(self, step: np.ndarray) -> np.ndarray:
        """See `CellPrior`: the interactions, where there are any."""
        found = self._within(step)
        return found if found.any() else step

    def energies(self, away: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """See `CellPrior`."""
        return 0.5 * (DEGREES + 1.0) * np.log1p((away / spread) ** 2 / DEGREES)

    def draw(self, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Potentials and log scales from the prior; for simulations of small domains, whose projections are dense."""
        cells = len(self.center)
        within = np.eye(cells) - (self.effects.spread @ self.effects.means.toarray())
        basis = np.linalg.svd(within)[0][:, : round(np.trace(within))]  # of interactions
        unit = basis @ generator.standard_normal(basis.shape[1])
        for _ in range(GIBBS_SWEEPS):
            rates = 0.5 * (DEGREES + unit**2)
            precision = generator.gamma(0.5 * (DEGREES + 1.0), 1.0 / rates)
            root = np.linalg.cholesky(basis.T @ (precision[:, None] * basis))
            unit = basis @ np.linalg.solve(root.T, generator.standard_normal(basis.shape[1]))
        scales = self.log_scales + self.width * generator.standard_normal(len(self.free))
        additive = np.linalg.svd(np.eye(cells) - within)[0][:, : cells - basis.shape[1]]
        means = self.effects.means @ additive
        root = np.linalg.cholesky(means.T @ (self.effects.precision[:, None] * means))
        outer = additive @ np.linalg.solve(root.T, generator.standard_normal(additive.shape[1]))
        return self.center + self.spread(scales) * unit + outer, scales

    def _variance(self, log_scales: np.ndarray) -> np.ndarray:
        """The square of the scale of each cell's clique."""
        return np.append(np.exp(2.0 * log_scales), self.scale**2)[self.clique]

    def _standard(self, log_scales: np.ndarray) -> np.ndarray:
        return (log_scales - math.log(self.scale)) / self.width

    def _within(self, cells: np.ndarray) -> np.ndarray:
        """Without the effects of single attributes: an orthogonal projection."""
        return cells - self.effects.spread @ (self.effects.means @ cells)


@dataclass(frozen=True, eq=False)
class Effects:
    """The effects of single attributes in the tables of a layout.

    Attributes:
        means: cells to means, a row for each value of each attribute of each clique, and one for the whole clique.
        spread: means to the additive tables that have them.
        precision: of the prior of each mean.
        means_transposed, spread_transposed: these, by rows, too.
    """

    means: sparse.csr_array
    spread: sparse.csr_array
    precision: np.ndarray
    means_transposed: sparse.csr_array
    spread_transposed: sparse.csr_array

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
        turned = (sparse.csr_array(means.T), placed)
        return cls(means, sparse.csr_array(placed.T), np.array(precision), *turned)
