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

from pgmest.models.posterior.lost_selections import LostSelections
from pgmest.models.posterior.prior import NORMAL_SCALE
from pgmest.models.posterior.strength import Strengths
from pgmest.tables.domain import Clique, Domain

MOST_LINKED_CELLS = 2048
"""Attributes that link a pair are taken in while the table has at most this number of cells."""

PROPOSALS = 4
"""Tables from which one is chosen for each draw where selections were lost."""

SWEEPS = 40
CLOSE = 1e-4
"""Of a table's counts: raking it ends where its steps are below this, far below what interactions are."""
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

    def tables(
        self,
        expected: np.ndarray,
        domain: Domain,
        generator: np.random.Generator,
        *,
        scatters: bool = False,
        part: tuple[float, float] = (0.0, 1.0),
    ) -> np.ndarray:
        """Tables, in counts, with interactions drawn for unmeasured pairs, and the same measured marginals.

        Args:
            expected: one table for each draw, shape (draws, *domain.shape).
            domain: the axes of a table.
            generator: of the interactions.
            scatters: whether tables are of as many independent records, raked to the measured marginals.
            part: strengths are drawn from between these quantiles of their distribution.
        """
        found = self._with_interactions(expected, domain, generator, part)
        if not scatters:
            return found
        found = np.stack([scattered(table, generator) for table in found])
        return raked(found, expected, domain, self.shared(domain.attributes))

    def likely(
        self,
        expected: np.ndarray,
        domain: Domain,
        generator: np.random.Generator,
        lost: LostSelections,
        draws: np.ndarray,
        *,
        scatters: bool = False,
    ) -> np.ndarray:
        """`tables` that would have lost the selections that they lost: one of several proposals for each draw.

        Each is of another part of the strengths' distribution, so that a weak one is among them where only weak ones
        could have lost.

        Args:
            lost: the selections.
            draws: the number of each table's draw.
        """
        kept, best = expected, np.full(len(expected), -np.inf)
        for index in range(PROPOSALS):
            part = (index / PROPOSALS, (index + 1) / PROPOSALS)
            proposed = self.tables(expected, domain, generator, scatters=scatters, part=part)
            weights = lost.log_likelihood(proposed, domain, draws) + generator.gumbel(size=len(expected))
            better = (weights > best).reshape(-1, *(1,) * (proposed.ndim - 1))
            kept, best = np.where(better, proposed, kept), np.maximum(best, weights)
        return kept

    def _with_interactions(
        self, expected: np.ndarray, domain: Domain, generator: np.random.Generator, part: tuple[float, float]
    ) -> np.ndarray:
        names, draws = domain.attributes, len(expected)
        if self.strengths is None:
            return expected
        shift = np.zeros((1, *domain.shape))
        for pair in self.pairs(names):
            drawn = self.strengths.interactions(generator, expected, domain, pair, part)
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


def scattered(table: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Counts of independent records around expected ones."""
    expected = np.maximum(table.reshape(-1), 0.0)
    whole = expected.sum()
    drawn = generator.multinomial(max(1, round(whole)), expected / whole)
    return drawn.reshape(table.shape).astype(np.float64)


def raked(values: np.ndarray, target: np.ndarray, domain: Domain, cliques: Sequence[Clique]) -> np.ndarray:
    """Tables scaled until their marginals are the target's (iterative proportional fitting); shape (draws, *shape)."""
    names = domain.attributes
    others = [tuple(axis + 1 for axis, name in enumerate(names) if name not in clique) for clique in cliques]
    wanted = [target.sum(axis=axes, keepdims=True) for axes in others]
    enough = CLOSE * target.reshape(len(target), -1).sum(axis=1)
    found, left, moving = values.copy(), np.arange(len(values)), values
    for _ in range(SWEEPS):
        moved = np.zeros(len(left))
        for axes, sums in zip(others, wanted, strict=True):
            sums, present = sums[left], moving.sum(axis=axes, keepdims=True)
            moved = np.maximum(moved, np.abs(present - sums).reshape(len(left), -1).sum(axis=1))
            moving = moving * np.divide(sums, present, out=np.zeros_like(sums), where=present > 0)
        found[left] = moving
        apart = moved > enough[left]
        left, moving = left[apart], moving[apart]
        if not len(left):
            break
    return found
