"""SelectedBounds: how far marginals may be from the model's, by the private selections that they lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest.measurements.selection import PaidSelection, ScoredMarginal
from pgmest.models.errors.model_tables import ModelTables
from pgmest.tables.domain import Clique

LEAST = 1e-9
"""The least share of a distance that a selection shows; with less, the bound is that of any two tables of as many
records."""


@dataclass(frozen=True, eq=False)
class LostSelections:
    """The selections that one marginal lost, after the same recodings of the records.

    Attributes:
        marginals: the marginal, recoded, as each of the selections scored it.
        mosts: the largest score that is likely to lose each selection.
        original: the first of the marginals, as a function of the marginal before all recodings.
    """

    marginals: tuple[ScoredMarginal, ...]
    mosts: tuple[float, ...]
    original: ScoredMarginal

    def bound(self, table: np.ndarray) -> float:
        """Return a bound on the l1 distance of the marginal from the model's table, over the recoded cells.

        Args:
            table: the model's counts before all recodings, shape (1, cells).
        """
        moved = np.abs(np.stack([one.expected for one in self.marginals]) - self.original.merged(table)).sum(axis=1)
        apart = [one.expected_error + most / one.weight for one, most in zip(self.marginals, self.mosts, strict=True)]
        return float((np.maximum(apart, 0.0) + moved).min())


@dataclass(frozen=True, eq=False)
class SelectedBounds:
    """Bounds on l1 distances of marginals from the model's, in counts.

    A selection among the pairs of a hundred attributes has thousands of losers, and each round has one. So a bound is
    computed when it is asked for.

    Attributes:
        tables: the model's marginals.
        selections: the marginals that were compared with models and not chosen.
        known: bounds that earlier selections gave.
        errors: returns drawn errors of a measured table, shape (count, *shape), or None for other tables.
        shown: returns the share of a table's distance that groups of codes show, given the group of each code of each
            attribute. A selection that compared merged codes bounds a table over codes by that much less.
    """

    tables: ModelTables
    selections: Sequence[PaidSelection]
    known: Mapping[Clique, float]
    errors: Callable[[Clique], np.ndarray | None]
    shown: Callable[[Clique, Sequence[np.ndarray]], float] = lambda *_: 1.0

    def of(self, clique: Iterable[str]) -> float:
        """Return the bound on a table: the least one of the marginals that contain it; infinity if there is none."""
        names = set(clique)
        return min((self._bound(one) for one in self._marginals if names <= set(one)), default=math.inf)

    def every(self) -> dict[Clique, float]:
        """Return the bound of each marginal that lost a selection."""
        return {clique: self._bound(clique) for clique in self._marginals}

    @cached_property
    def _found(self) -> dict[Clique, float]:
        """The bounds that were computed."""
        return {}

    @cached_property
    def _marginals(self) -> tuple[Clique, ...]:
        return tuple(dict.fromkeys((*self.known, *self._lost)))

    def _bound(self, clique: Clique) -> float:
        if clique not in self._found:
            found = self.known.get(clique, math.inf)
            for lost in self._lost.get(clique, ()):
                table = self.tables.model.project(lost.original.clique).values.reshape(1, -1)
                apart = lost.bound(table) / max(self._shown_by(lost.original), LEAST)
                found = min(found, apart if lost.original.groups is None else min(apart, 2 * self.tables.total))
            self._found[clique] = found
        return self._found[clique]

    def _shown_by(self, marginal: ScoredMarginal) -> float:
        """Return the share of a table's distance that a selection compared."""
        if marginal.groups is None:
            return 1.0
        cells, labels = marginal.groups.reshape(self.tables.domain.project(marginal.clique).shape), list[np.ndarray]()
        for axis, size in enumerate(cells.shape):
            rows = np.moveaxis(cells, axis, 0).reshape(size, -1)
            labels.append(np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1))
        return self.shown(marginal.clique, labels)

    @cached_property
    def _lost(self) -> dict[Clique, list[LostSelections]]:
        """The selections that each marginal lost, by its attributes before all recodings.

        A candidate rarely has a score above that of the chosen one plus log(candidates) / rate.
        """
        parts: dict[tuple[tuple[int, ...], Clique], list[tuple[PaidSelection, ScoredMarginal, float]]] = {}
        for selection in self.selections:
            winner = selection.original(selection.chosen)
            most = self._score(winner) + math.log(selection.candidates) / selection.rate
            recodings = tuple(map(id, selection.recodings))
            for lost in selection.lost:
                parts.setdefault((recodings, lost.clique), []).append((selection, lost, most))
        found: dict[Clique, list[LostSelections]] = {}
        for group in parts.values():
            selection, first, _ = group[0]
            original = selection.original(first)
            marginals, mosts = tuple(one for _, one, _ in group), tuple(most for *_, most in group)
            names = self.tables.domain.ordered(original.clique)
            found.setdefault(names, []).append(LostSelections(marginals, mosts, original))
        return found

    def _score(self, winner: ScoredMarginal) -> float:
        """Return the expected score of a chosen marginal over its plausible true tables.

        The model's table alone would not do: shrinkage left it nearer to that at the time of the selection.
        """
        ordered = self.tables.domain.ordered(winner.clique)
        tables, errors = self.tables.model.project(winner.clique).values[None], self.errors(ordered)
        if errors is not None:
            tables = tables + errors.transpose(0, *(1 + ordered.index(name) for name in winner.clique))
        return float(winner.scores(tables.reshape(len(tables), -1)).mean())
