"""Typical tables: the assumptions of a forecast on values and dependences, and the candidates that follow from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from pgmest.measurements.measured_tables import MEAN_ABSOLUTE
from pgmest.mechanisms.emphasis import STRONG
from pgmest.mechanisms.lamp.candidates import (
    DEVIATION,
    FEW_CELLS,
    CandidateMarginal,
    NoiseModel,
    kinds_of_cells,
    magnitude_histogram,
    table_candidate,
    unscored_candidate,
)
from pgmest.mechanisms.lamp.dependence import Dependence, sampling_spread
from pgmest.mechanisms.lamp.emphasis import VISIBLE, sampling_error
from pgmest.mechanisms.lamp.groups import nested_groups
from pgmest.mechanisms.lamp.scorer import COARSE_LEVEL
from pgmest.tables.domain import Clique
from pgmest.tables.groups import is_identity, summed

SKEW = 1.3
"""The exponent of Zipf's law for the values of an attribute. With it, the expected errors of one-way marginals agree
best with those of runs on real tables (tests/mechanisms/lamp/test_forecast.py)."""

TYPICAL = {0.0: 0.0, 0.25: 0.004, 0.5: 0.03, 0.75: 0.09, 0.9: 0.18, 0.95: 0.25, 1.0: 0.6}
"""Quantiles of the dependence of pairs in typical tables: the total variation from independence beyond sampling error.
The values are rounded medians over nine tables: census, survey, health, credit and emergency records."""

CLASSES = np.r_[0.0, STRONG * 1.4 ** np.arange(-12.0, 5.0)]
"""The dependences for which candidates are computed."""


def typical_counts(size: int, records: float) -> np.ndarray:
    """Return the counts of an attribute's values by Zipf's law, the most frequent first.

    >>> typical_counts(2, 100).round().tolist()
    [71.0, 29.0]
    """
    weights = np.arange(1, size + 1) ** -SKEW
    return weights * (records / weights.sum())


def typical_dependences(count: int) -> np.ndarray:
    """Return the dependences of the pairs of a typical table, in ascending order."""
    levels = (np.arange(count) + 0.5) / max(1, count)
    return np.interp(levels, list(TYPICAL), list(TYPICAL.values()))


@dataclass(frozen=True, eq=False)
class TableKind:
    """All tables with certain numbers of values, under the assumptions of the forecast.

    Attributes:
        sizes: The number of values of each attribute.
        records: The number of records.
        noise_model: The noise of a share of the budget.
        sides: For each level of groups, the `magnitude_histogram` of each attribute.
        finest: For each level, whether every value is its own group.
        chances: For each level, the sampling error of independent attributes (l1, in counts).
        alone: For each level, the share of each value in its group, for each attribute.
    """

    sizes: tuple[int, ...]
    records: float
    noise_model: NoiseModel
    sides: list[tuple[tuple[np.ndarray, np.ndarray], ...]]
    finest: list[bool]
    chances: list[float]
    alone: list[tuple[np.ndarray, ...]]
    _candidates: dict[tuple[tuple[int, ...], float], CandidateMarginal] = field(default_factory=dict)

    @classmethod
    def of(cls, sizes: tuple[int, ...], records: float, noise_model: NoiseModel) -> TableKind:
        """Create the kind of tables with these numbers of values."""
        counts = [typical_counts(size, records) for size in sizes]
        levels = [nested_groups(own) for own in counts]
        groups = [[own[min(level, len(own) - 1)] for own in levels] for level in range(max(map(len, levels)))]
        sides = [
            tuple(magnitude_histogram(summed(own, (labels,))) for own, labels in zip(counts, at, strict=True))
            for at in groups
        ]
        chances = [sampling_error(each, records) for each in sides]
        finest = [all(map(is_identity, at)) for at in groups]
        alone = [
            tuple(own / summed(own, (labels,))[labels] for own, labels in zip(counts, at, strict=True)) for at in groups
        ]
        return cls(sizes, records, noise_model, sides, finest, chances, alone)

    @property
    def most(self) -> float:
        """The largest possible dependence."""
        return 1 - 1 / min(self.sizes)

    def distance(self, dependence: np.ndarray | float, visible: float | None = None) -> np.ndarray:
        """Return the l1 distance from independence with its sampling error, over codes or, with `visible`, groups."""
        systematic = 2 * self.records * np.minimum(dependence, self.most)
        if visible is None:
            return np.hypot(systematic, self.chances[-1])
        return np.hypot(visible * systematic, self.chances[min(COARSE_LEVEL, len(self.chances) - 1)])

    def inside(self, level: int, dependence: float) -> float:
        r"""Return the standard error of a cell, in counts, that measuring over groups leaves: what happens inside them.

        It is the root mean square over the records. A group's count is divided among its cells by their shares s. So a
        cell of m expected records keeps the fraction 1 - s of the variance of its sampling error and of the dependence
        that the groups hide, which deviates by $m^{0.75}$. Values that are groups by themselves have s = 1.

        Args:
            level: The level of the groups.
            dependence: The dependence of the table (total variation from independence).
        """
        shares = [typical_counts(size, 1.0) for size in self.sizes]

        def total(power: float) -> float:
            """Return the sum of the expected shares of the cells to a power, each times 1 - s."""
            within = zip(shares, self.alone[level], strict=True)
            inside = np.prod([float((own**power * alone).sum()) for own, alone in within])
            return max(0.0, float(np.prod([float((own**power).sum()) for own in shares]) - inside))

        chance, spread = self.records * total(2.0), total(DEVIATION[False])
        if self.finest[level] or spread <= 0:
            return 0.0
        systematic = 2 * self.records * min(dependence, self.most)
        seen = Dependence(VISIBLE * systematic, systematic)
        scale = seen.left_within(level, COARSE_LEVEL) / (MEAN_ABSOLUTE * spread)
        return math.sqrt(chance + scale**2 * total(1 + 2 * DEVIATION[False]))

    def shrunk(self, level: int, dependence: float, precision: float) -> float:
        """Return the standard error of a cell, in counts, from dependence that shrinkage takes off rare cells.

        It is the root mean square over the records. Deviations of a row add to zero, so that frequent cells lack what
        rare ones lost: the lost deviations are taken to have the shape of the dependence.

        Args:
            level: The level of the groups.
            dependence: The dependence of the table (total variation from independence).
            precision: The inverse of the variance of the noise in a cell.
        """
        cells, means = kinds_of_cells(self.sides[level], self.records)
        power = DEVIATION[math.prod(self.shape(level)) <= FEW_CELLS]
        systematic = 2 * self.records * min(dependence, self.most)
        hidden = Dependence(VISIBLE * systematic, systematic).left_within(level, COARSE_LEVEL)
        shown = systematic if self.finest[level] else math.sqrt(max(0.0, systematic**2 - hidden**2))
        deviations = shown * means**power / (MEAN_ABSOLUTE * float(cells @ means**power))
        squares = (np.square(deviations) + np.square(sampling_spread(means))) * precision
        lost = float(cells @ (deviations / (1 + squares))) / max(float(cells @ deviations), 1e-300)
        return lost * math.sqrt(float((cells * means) @ np.square(deviations)) / self.records)

    def candidate(self, places: tuple[int, ...], visible: float = VISIBLE) -> CandidateMarginal:
        """Return the candidate for a table whose dependence is one of some equally likely `CLASSES`.

        Args:
            places: The positions in `CLASSES`.
            visible: The part of the dependence that coarse groups show.
        """
        if (places, visible) not in self._candidates:
            possible = CLASSES[list(places)]
            coarse, whole = self.distance(possible, visible), self.distance(possible)
            dependence = Dependence(float(coarse.mean()), float(whole.mean()), tuple(map(float, whole)))
            clique = tuple("abc"[: len(self.sizes)])
            self._candidates[places, visible] = table_candidate(
                clique, self.sides, self.finest, dependence, COARSE_LEVEL, self.records, self.noise_model
            )
        return self._candidates[places, visible]

    def unscored(self, clique: Clique) -> CandidateMarginal:
        """Return the candidate for a table of this kind that is measured over all codes without a score."""
        return unscored_candidate(clique, self.sides[-1], len(self.sides) - 1, self.records, self.noise_model)

    def shape(self, level: int) -> tuple[int, ...]:
        """Return the number of groups of each attribute at a level."""
        return tuple(round(float(cells.sum())) for cells, _ in self.sides[level])


def class_of(dependence: float) -> int:
    return int(np.abs(CLASSES - dependence).argmin())
