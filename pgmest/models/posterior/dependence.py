"""Dependence that was not measured: tables around a draw's model, with interactions of their own.

A model takes attributes for as independent as its measured cliques allow. A draw of a posterior must not: for a
question about attributes that no clique holds together, each pair of them that was not measured is given interactions,
as strong as measured cliques have turned out to be (`pgmest.models.posterior.strength`), and an attribute that was not
measured at all any marginal. Attributes that link a pair are taken into the table, which is then raked to what the draw
says of the measured cliques' shares of it (iterative proportional fitting).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.models.posterior.prior import DEGREES, NORMAL_SCALE
from pgmest.models.posterior.strength import Strengths
from pgmest.tables.domain import Clique, Domain

MOST_LINKED_CELLS = 4096
"""Attributes that link a pair are taken in while the table has at most this number of cells."""

SWEEPS = 30
CLOSE = 1e-4
"""Of all counts: raking ends where its steps are below this, far below what interactions are."""
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

    def linked(self, names: Clique, domain: Domain) -> Clique:
        """With other attributes that were measured with both of an unmeasured pair, as far as the table stays small.

        Through them the pair depends as the measurements say; what is drawn is the dependence that is left given them.
        """
        found = list(names)
        partners = {name: {other for clique in self.cliques if name in clique for other in clique} for name in names}
        links = {
            other for one, two in self.pairs(names) for other in (partners[one] & partners[two]) if other not in names
        }
        for name in sorted(links, key=lambda one: (domain[one], one)):
            if domain.size((*found, name)) <= MOST_LINKED_CELLS:
                found.append(name)
        return tuple(found)

    def shared(self, names: Sequence[str]) -> list[Clique]:
        """What the measured cliques say about these attributes: the largest sets; () where they say nothing."""
        found = {frozenset(clique) & frozenset(names) for clique in self.cliques} | {frozenset[str]()}
        largest = [one for one in found if not any(one < other for other in found)]
        return sorted(tuple(name for name in names if name in one) for one in largest)

    def tables(self, expected: np.ndarray, domain: Domain, generator: np.random.Generator) -> np.ndarray:
        """Tables, in counts, with interactions drawn for unmeasured pairs, and the same measured marginals.

        Args:
            expected: one table for each draw, shape (draws, *domain.shape).
            domain: the axes of a table.
            generator: of the interactions.
        """
        names, draws = domain.attributes, len(expected)
        if self.strengths is None:
            return expected
        shift = np.zeros((1, *domain.shape))
        for pair in self.pairs(names):
            drawn = generator.standard_t(DEGREES, (draws, domain[pair[0]], domain[pair[1]]))
            drawn *= self.strengths.draw(generator, draws)[:, None, None]
            shape = [domain[name] if name in pair else 1 for name in names]
            shift = shift + np.clip(drawn, -LARGEST_INTERACTION, LARGEST_INTERACTION).reshape(draws, *shape)
        for axis, name in enumerate(names):
            if not any(name in clique for clique in self.cliques):
                shape = [domain[name] if other == axis else 1 for other in range(len(names))]
                shift = shift + generator.normal(0.0, NORMAL_SCALE, (draws, domain[name])).reshape(draws, *shape)
        if len(shift) == 1:
            return expected
        top = shift.max(axis=tuple(range(1, shift.ndim)), keepdims=True)
        return raked(expected * np.exp(shift - top), expected, domain, self.shared(names))


def raked(values: np.ndarray, target: np.ndarray, domain: Domain, cliques: Sequence[Clique]) -> np.ndarray:
    """Tables scaled until their marginals are the target's (iterative proportional fitting); shape (draws, *shape)."""
    names = domain.attributes
    others = [tuple(axis + 1 for axis, name in enumerate(names) if name not in clique) for clique in cliques]
    wanted = [target.sum(axis=axes, keepdims=True) for axes in others]
    whole = max(float(target.sum()), 1e-300)
    for _ in range(SWEEPS):
        moved = 0.0
        for axes, sums in zip(others, wanted, strict=True):
            present = values.sum(axis=axes, keepdims=True)
            moved = max(moved, float(np.abs(present - sums).sum()))
            values = values * np.divide(sums, present, out=np.zeros_like(sums), where=present > 0)
        if moved <= CLOSE * whole:
            break
    return values
