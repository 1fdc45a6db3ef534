"""The tables of a posterior's draws: marginals on measured cliques, and tables around the draws on any attributes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from pgmest._base.memory import check_room
from pgmest.models.posterior.density import PosteriorDensity
from pgmest.models.posterior.dependence import UnmeasuredDependence, multinomial_counts
from pgmest.models.posterior.lost_selections import LostSelections
from pgmest.models.posterior.strength import Strengths
from pgmest.models.refittable import AnsweringModel, MakeModel
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.evidence import checked_evidence
from pgmest.tables.factor import Factor

if TYPE_CHECKING:
    from pgmest.measurements.selection import PaidSelection

About = Literal["table", "population"]

CELLS_AT_ONCE = 2**21
"""The tables of several draws are raked together up to this number of cells."""


@dataclass(frozen=True, eq=False)
class DrawnTables:
    """The draws of a posterior, and tables of counts made of them.

    Attributes:
        points: the draws, chain after chain, shape (draws, density.size).
        density, make_model, learn, selections: as for `Posterior`.
    """

    points: np.ndarray
    density: PosteriorDensity
    make_model: MakeModel
    learn: Callable[[], Strengths] | None
    selections: tuple[PaidSelection, ...]
    _kept: dict[Clique, np.ndarray] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def domain(self) -> Domain:
        """All attributes."""
        return self.density.layout.domain

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The measured cliques."""
        return self.density.likelihood.cliques

    @cached_property
    def totals(self) -> np.ndarray:
        """The numbers of records, shape (draws,)."""
        return np.exp(self.points[:, -1])

    @cached_property
    def strengths(self) -> Strengths | None:
        """The strengths of the measured cliques' dependence; None leaves unmeasured pairs as the models have them."""
        return None if self.learn is None else self.learn()

    def models(self) -> Iterator[AnsweringModel]:
        """Yield the draws, chain after chain, as ordinary models."""
        refit = self.density.refit
        for point, total in zip(self.points, self.totals, strict=True):
            yield self.make_model(
                refit.potentials(self.density.base + point[: self.density.cells]), float(total), refit.plan
            )

    def measured(self, names: Iterable[str]) -> bool:
        """Return whether one measured clique contains all these attributes, so that only noise makes them uncertain."""
        wanted = set(names)
        return any(wanted <= set(clique) for clique in self.cliques)

    @cached_property
    def _spreads(self) -> np.ndarray:
        """The standard deviations over the draws of all cells of the layout, in counts."""
        mean, squares = np.zeros(self.density.cells), np.zeros(self.density.cells)
        for count, point in enumerate(self.points, start=1):
            away = self.density.marginals(point) - mean
            mean += away / count
            squares += away**2 * (count - 1) / count
        return np.sqrt(squares / len(self))

    def spread(self, index: int, names: Clique) -> np.ndarray:
        """Return, for each cell of a marginal of one clique, the sum of its cells' standard deviations."""
        start, stop = (int(end) for end in self.density.layout.offsets[index : index + 2])
        domain = self.density.layout.domains[index]
        return Factor(domain, self._spreads[start:stop].reshape(domain.shape)).project(names).datavector()

    def marginals(self, names: Clique) -> tuple[Domain, np.ndarray]:
        """Return, and keep, all draws' marginals on attributes inside a measured clique, shape (draws, *shape)."""
        holding = min((c for c in self.cliques if set(names) <= set(c)), key=self.domain.size)
        domain = self.domain.project(names)
        if names not in self._kept:
            position, _ = self.density.layout.find(holding)
            start, stop = (int(end) for end in self.density.layout.offsets[position : position + 2])
            table = self.density.layout.domains[position]
            check_room("the marginals of all draws", len(self) * domain.size())
            found = np.empty((len(self), *domain.shape))
            for row, point in enumerate(self.points):
                values = self.density.marginals(point)[start:stop].reshape(table.shape)
                found[row] = Factor(table, values).project(names).values
            self._kept[names] = found
        return domain, self._kept[names]

    def around(
        self,
        names: Clique,
        given: Mapping[str, int],
        about: About,
        generator: np.random.Generator,
        chosen: Container[int] | None = None,
    ) -> Iterator[Factor]:
        """Yield tables of counts on these attributes, one around each draw.

        Args:
            names: the attributes.
            given: attribute -> code, for other attributes: count only the records with these codes.
            about: "table" or "population".
            generator: the generator of interactions and records.
            chosen: the numbers of the draws to use; None for all.
        """
        evidence = checked_evidence(self.domain, given, names)
        dependence = UnmeasuredDependence(self.cliques, self.strengths, exact=self.density.facts is not None)
        known = self.measured((*names, *evidence))
        asked = (*names, *evidence)
        wanted = self.domain.project(asked if known else dependence.linked(asked, self.domain))
        check_room("the table asked about", wanted.size())
        links = tuple(range(len(asked), len(wanted)))
        lost = LostSelections.about(() if known else self.selections, wanted.attributes, self.measured, self.marginals)
        models = ((index, one) for index, one in enumerate(self.models()) if chosen is None or index in chosen)
        while chunk := list(itertools.islice(models, max(1, CELLS_AT_ONCE // wanted.size()))):
            expected = np.stack([model.project(wanted.attributes).values for _, model in chunk])
            if known:
                found = expected
            elif lost:
                draws = np.array([index for index, _ in chunk])
                found = dependence.likely(expected, wanted, generator, lost, draws, scatters=about == "table")
            else:
                found = dependence.tables(expected, wanted, generator, scatters=about == "table")
            if about == "population":
                found = np.stack([multinomial_counts(table, generator) for table in found])
            for whole in found:
                table = whole.sum(axis=links)
                yield Factor(self.domain.project(names), table[(..., *evidence.values())] if evidence else table)
