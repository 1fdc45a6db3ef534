"""Unmeasured dependence: tables around a draw's model, with random interactions of pairs that were not measured.

A model makes attributes as independent as its measured cliques allow; a draw of a posterior must not. For a query about
attributes that no clique contains together, each unmeasured pair of them gets interactions as strong as those of the
measured cliques (`pgmest.models.posterior.strength`), and an attribute that was not measured at all gets a random
marginal. Attributes that link a pair are added to the table. The table is then raked (iterative proportional fitting)
to the draw's marginals on the parts of the measured cliques in it.
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
"""Attributes that link a pair are added while the table has at most this number of cells."""

PROPOSALS = 4
"""The number of tables from which one is chosen for each draw if there are lost selections."""

SWEEPS, CLOSE = 40, 1e-4
"""The largest number of raking sweeps. Raking stops once a sweep changes less than the share CLOSE of a table's counts,
far less than interactions do."""
EXACT_SWEEPS, EXACTLY_CLOSE = 1000, 1e-11
"""The same if some marginals must be met exactly."""
FILLED = 0.01
"""The share of expected counts that is added to drawn ones if marginals must be met exactly."""
LARGEST_INTERACTION = 12.0
"""Interactions are clipped here, in nats: Student's t draws larger ones, which overflow floats and stall raking."""


@dataclass(frozen=True, eq=False)
class UnmeasuredDependence:
    """Tables of attributes that were not all measured together.

    Attributes:
        cliques: the measured cliques.
        strengths: the distribution of the strength of interactions; None for no interactions.
        exact: whether measured marginals must be met exactly, because some of their answers are.
    """

    cliques: tuple[Clique, ...]
    strengths: Strengths | None
    exact: bool = False

    def pairs(self, names: Sequence[str]) -> list[Clique]:
        """Return the pairs of these attributes that no measured clique contains."""
        together = [set(clique) for clique in self.cliques]
        return [
            pair for pair in itertools.combinations(names, 2) if not any(set(pair) <= clique for clique in together)
        ]

    def linked(self, names: Clique, domain: Domain) -> Clique:
        """Add attributes that were measured with both of an unmeasured pair, while the table stays small.

        Through them the pair depends as the measurements say; the drawn interactions are the dependence given them.
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
        """Return the largest sets of these attributes inside measured cliques; [()] if no clique contains any."""
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
        """Return tables, in counts, with random interactions of unmeasured pairs and unchanged measured marginals.

        Args:
            expected: one table for each draw, shape (draws, *domain.shape).
            domain: the axes of a table.
            generator: the generator of the interactions.
            scatters: whether tables consist of that many independent records, raked to the measured marginals.
            part: strengths are drawn from between these quantiles of their distribution.
        """
        found = self._with_interactions(expected, domain, generator, part)
        if not scatters:
            return found
        found = np.stack([multinomial_counts(table, generator) for table in found])
        if self.exact:  # a row without records cannot be scaled to its total
            found += FILLED * expected
        return self._raked(found, expected, domain)

    def _raked(self, values: np.ndarray, target: np.ndarray, domain: Domain) -> np.ndarray:
        shared = self.shared(domain.attributes)
        if not self.exact:
            return raked(values, target, domain, shared)
        return raked(values, target, domain, shared, EXACT_SWEEPS, EXACTLY_CLOSE)

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
        """Return `tables` weighted by the evidence of lost selections: one of several proposals for each draw.

        Each proposal is from another part of the strengths' distribution, so that one with weak interactions is among
        them if only such a table could have lost.

        Args:
            expected, domain, generator, scatters: as for `tables`.
            lost: the selections.
            draws: the number of each table's draw.
        """
        kept, best = expected, np.full(len(expected), -np.inf)
        for index in range(PROPOSALS):
            part = (index / PROPOSALS, (index + 1) / PROPOSALS)
            proposed = self.tables(expected, domain, generator, scatters=scatters, part=part)
            # Gumbel noise makes the largest log weight a draw with probability in proportion to the weight.
            weights = lost.log_likelihood(proposed, domain, draws) + generator.gumbel(size=len(expected))
            better = (weights > best).reshape(-1, *(1,) * (proposed.ndim - 1))
            kept, best = np.where(better, proposed, kept), np.maximum(best, weights)
        return kept

    def _with_interactions(
        self, expected: np.ndarray, domain: Domain, generator: np.random.Generator, part: tuple[float, float]
    ) -> np.ndarray:
        """Multiply the tables by random interactions and rake them to their measured marginals."""
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
        return self._raked(expected * np.exp(shift - top), expected, domain)


def multinomial_counts(table: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draw the counts of independent records with the expected counts of a table."""
    expected = np.maximum(table.reshape(-1), 0.0)
    whole = expected.sum()
    drawn = generator.multinomial(max(1, round(whole)), expected / whole)
    return drawn.reshape(table.shape).astype(np.float64)


def raked(
    values: np.ndarray,
    target: np.ndarray,
    domain: Domain,
    cliques: Sequence[Clique],
    sweeps: int = SWEEPS,
    close: float = CLOSE,
) -> np.ndarray:
    """Scale tables until their marginals are the target's (iterative proportional fitting); shape (draws, *shape).

    Raking stops after this number of sweeps, or once a sweep changes less than the share `close` of a table's counts.
    """
    names = domain.attributes
    others = [tuple(axis + 1 for axis, name in enumerate(names) if name not in clique) for clique in cliques]
    wanted = [target.sum(axis=axes, keepdims=True) for axes in others]
    enough = close * target.reshape(len(target), -1).sum(axis=1)
    found, left, moving = values.copy(), np.arange(len(values)), values
    for _ in range(sweeps):
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
