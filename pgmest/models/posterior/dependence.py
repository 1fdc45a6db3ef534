"""Dependence that was not measured: tables around a draw's model, with interactions of their own.

A model takes attributes for as independent as its measured cliques allow. A draw of a posterior must not: for a
question about attributes that no clique holds together, each pair of them that was not measured is given interactions,
as strong as measured cliques have turned out to be (`pgmest.models.posterior.strength`), and an attribute that was not
measured at all any marginal. The table is raked to what the draw says of the measured cliques' shares of it (iterative
proportional fitting).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.models.posterior.prior import DEGREES, NORMAL_SCALE
from pgmest.models.posterior.strength import Strengths
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor

SWEEPS = 30
CLOSE = 1e-6
LARGEST_INTERACTION = 12.0
"""Nats; Student's t may say more, which floats and raking do not bear."""


@dataclass(frozen=True, eq=False)
class UnmeasuredDependence:
    """What makes tables of attributes that were not all measured together.

    Attributes:
        cliques: the measured ones.
        strengths: how strong interactions are; without them there are none.
    """

    cliques: tuple[Clique, ...]
    strengths: Strengths | None

    def pairs(self, names: Sequence[str]) -> list[Clique]:
        """The pairs of these attributes that no measured clique holds."""
        together = [set(clique) for clique in self.cliques]
        return [
            pair for pair in itertools.combinations(names, 2) if not any(set(pair) <= clique for clique in together)
        ]

    def shared(self, names: Sequence[str]) -> list[Clique]:
        """What the measured cliques say about these attributes: the largest sets; () where they say nothing."""
        found = {frozenset(clique) & frozenset(names) for clique in self.cliques} | {frozenset[str]()}
        largest = [one for one in found if not any(one < other for other in found)]
        return sorted(tuple(name for name in names if name in one) for one in largest)

    def table(self, table: Factor, generator: np.random.Generator) -> Factor:
        """A table, in counts, with interactions drawn for its unmeasured pairs, and the same measured marginals."""
        names = table.domain.attributes
        pairs = self.pairs(names)
        if not pairs or self.strengths is None:
            return table
        sizes = table.domain
        shift = np.zeros(sizes.shape)
        for pair, strength in zip(pairs, self.strengths.draw(generator, len(pairs)), strict=True):
            drawn = strength * generator.standard_t(DEGREES, (sizes[pair[0]], sizes[pair[1]]))
            shape = [sizes[name] if name in pair else 1 for name in names]
            shift = shift + np.clip(drawn, -LARGEST_INTERACTION, LARGEST_INTERACTION).reshape(shape)
        for axis in (axis for axis, name in enumerate(names) if not any(name in clique for clique in self.cliques)):
            effect = generator.normal(0.0, NORMAL_SCALE, table.values.shape[axis])
            shift = shift + effect.reshape([-1 if other == axis else 1 for other in range(len(names))])
        values = table.values * np.exp(shift - shift.max())
        return Factor(sizes, raked(values, table, self.shared(names)))


def raked(values: np.ndarray, target: Factor, cliques: Sequence[Clique]) -> np.ndarray:
    """The array scaled, clique after clique, until its marginals are the target's (iterative proportional fitting)."""
    names = target.domain.attributes
    others = [tuple(axis for axis, name in enumerate(names) if name not in clique) for clique in cliques]
    wanted = [target.values.sum(axis=axes, keepdims=True) for axes in others]
    whole = max(float(target.values.sum()), 1e-300)
    for _ in range(SWEEPS):
        moved = 0.0
        for axes, sums in zip(others, wanted, strict=True):
            present = values.sum(axis=axes, keepdims=True)
            moved = max(moved, float(np.abs(present - sums).sum()))
            values = values * np.divide(sums, present, out=np.zeros_like(sums), where=present > 0)
        if moved <= CLOSE * whole:
            break
    return values
