"""NormalPrior: what is thought of the potentials, and of the total, before the answers are seen."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.tables.clique_vector import CliqueVector, Layout


@dataclass(frozen=True)
class NormalPrior:
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

    scale: float = 3.0
    total: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.scale, bool) or not 0 < self.scale < math.inf:
            raise ArgumentError.of("scale", self.scale, "a positive number of nats, such as 3")
        if self.total is not None and (len(self.total) != 2 or not all(0 < one < math.inf for one in self.total)):
            raise ArgumentError.of("total", self.total, "a median and a standard deviation of the log, both positive")

    def draw(self, layout: Layout, seed: int | np.random.Generator | None = None) -> CliqueVector:
        """Potentials from the prior, without the base; for simulations."""
        generator = np.random.default_rng(seed)
        return CliqueVector.of(layout, generator.normal(0.0, self.scale, layout.cells))

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
