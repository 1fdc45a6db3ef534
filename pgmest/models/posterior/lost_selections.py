"""The evidence of paid selections about tables that were not measured: how likely each table would have lost.

The probability of a selection is in `pgmest.measurements.selection`. A drawn table of an unmeasured pair that differs
more from the mechanism's model than the marginals that the mechanism chose would rarely have lost to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.measurements.selection import PaidSelection, ScoredMarginal
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

TablesOf = Callable[[Clique], tuple[Domain, np.ndarray]]
"""From a measured clique to its domain and the tables of all draws."""


@dataclass(frozen=True, eq=False)
class LostSelections:
    """The evidence about tables of some attributes.

    Attributes:
        lost: the marginals inside the table that lost and were not measured, each with its selection.
        chosen: for each of these, the score of the chosen marginal in each draw.
    """

    lost: tuple[tuple[ScoredMarginal, PaidSelection], ...]
    chosen: tuple[np.ndarray, ...]

    @classmethod
    def about(
        cls, selections: Sequence[PaidSelection], names: Clique, measured: Callable[[Clique], bool], tables_of: TablesOf
    ) -> LostSelections:
        """Collect the evidence about these attributes from selections whose winner was measured.

        Args:
            selections: the selections.
            names: the attributes of the tables.
            measured: returns whether one measured clique contains attributes.
            tables_of: returns the tables of all draws on a measured clique.
        """
        lost, chosen = [], []
        for selection in selections:
            sources, winner = selection.sources, selection.chosen
            inside = [
                one
                for one in selection.lost
                if set(sources(one.clique)) <= set(names) and not measured(sources(one.clique))
            ]
            if inside and measured(sources(winner.clique)):
                winner = selection.original(winner)
                _, tables = tables_of(winner.clique)
                scores = winner.scores(tables.reshape(len(tables), -1))
                lost += [(selection.original(one), selection) for one in inside]
                chosen += [scores] * len(inside)
        return cls(tuple(lost), tuple(chosen))

    def __bool__(self) -> bool:
        return bool(self.lost)

    def log_likelihood(self, tables: np.ndarray, domain: Domain, draws: np.ndarray) -> np.ndarray:
        """Return the log-likelihood of tables, shape (tables, *domain.shape), each in the draw with its number."""
        found = np.zeros(len(tables))
        for (marginal, selection), scores in zip(self.lost, self.chosen, strict=True):
            own = np.stack([Factor(domain, table).project(marginal.clique).datavector() for table in tables])
            found += selection.log_likelihood(marginal.scores(own), scores[draws])
        return found
