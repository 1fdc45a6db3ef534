"""ModelTables: the marginals of a model that its errors are estimated from, each computed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import combinations
from typing import Any

import numpy as np

from pgmest.models.errors.classes import members, number_of
from pgmest.models.errors.smooth_functions import smooth_functions
from pgmest.models.protocol import EstimatedModel
from pgmest.queries import Kron, identity
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain

LEAST = 1e-300
"""Sums of counts below this are replaced by it."""
ALLOWED_SHARE, ALLOWED = 0.5, 1.0
"""A cell counts as this share of its expected count under independence more than the model says, but at most as this
many records more: a model of few records has empty cells that are not impossible."""
FIT_ROUNDS = 10
"""The number of rounds of proportional fitting for the table of a triple without three-way interaction."""


@dataclass(frozen=True, eq=False)
class ModelTables:
    """The nonnegative marginals of a model, in counts.

    Attributes:
        model: the model.
        impossible: for some sets of attributes, the cells that structural zeros exclude, besides those that the
            potentials of the model exclude.
        labels: the class of each code, for attributes whose tables are over classes of codes.
    """

    model: EstimatedModel
    impossible: Mapping[Clique, np.ndarray] = field(default_factory=dict)
    labels: Mapping[str, np.ndarray] = field(default_factory=dict)
    _tables: dict[Clique, np.ndarray] = field(default_factory=dict)
    _bases: dict[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def domain(self) -> Domain:
        """All attributes, with their numbers of codes or classes."""
        if not self.labels:
            return self.model.domain
        return Domain(dict(self.model.domain) | {name: number_of(own) for name, own in self.labels.items()})

    @property
    def total(self) -> float:
        """The number of records, positive."""
        return max(float(self.model.total), LEAST)

    def counts(self, name: str) -> np.ndarray:
        """Return the marginal of one attribute."""
        return self.table((name,))

    def table(self, clique: Clique) -> np.ndarray:
        """Return the marginal of a clique."""
        if clique not in self._tables:
            self._tables[clique] = np.maximum(self.project(clique), 0.0)
        return self._tables[clique]

    def project(self, clique: Clique) -> np.ndarray:
        """Return the marginal of a clique as the model gives it: some counts may be negative."""
        return self._projected(self.model, clique)

    def _projected(self, model: EstimatedModel, clique: Clique) -> np.ndarray:
        if not self.labels.keys() & set(clique):
            return model.project(clique).values
        labels, sizes = self.labels, model.domain
        sums = {name: members(labels[name]) if name in labels else identity(sizes[name]) for name in clique}
        return model.answer(Kron(sums)).values

    def independent(self, clique: Clique) -> np.ndarray:
        """Return the table of a clique if its attributes were independent."""
        first, *others = map(self.counts, clique)
        return reduce(np.multiply.outer, [counts / self.total for counts in others], first)

    def expected(self, clique: Clique) -> np.ndarray:
        """Return the table with the marginals of one attribute fewer and no further dependence."""
        table = self.independent(clique)
        for _ in range(FIT_ROUNDS if len(clique) > 2 else 0):
            for axis in range(len(clique)):
                sums = table.sum(axis=axis)
                wanted = self.table(clique[:axis] + clique[axis + 1 :])
                ratio = np.divide(wanted, sums, out=np.zeros_like(sums), where=sums > LEAST)
                table = table * np.expand_dims(ratio, axis)
        return table

    def allowed(self, clique: Clique) -> np.ndarray:
        """Return the model's table plus a part of a record in each possible cell that independence allows."""
        more = np.minimum(ALLOWED_SHARE * self.independent(clique), ALLOWED)
        return self.table(clique) + np.where(self.possible(clique), more, 0.0)

    @property
    def all_possible(self) -> bool:
        """True if neither structural zeros nor the potentials of the model exclude any cell."""
        return self._even is None and not self.impossible

    def possible(self, clique: Clique) -> np.ndarray:
        """Return the cells that may have records: those that neither the model's potentials nor a zero exclude.

        A structural zero that is not in the potentials counts if all of its attributes are in the clique, and if the
        model has no records in the cells that it excludes.
        """
        shape = self.domain.project(clique).shape
        possible = np.ones(shape, dtype=bool) if self._even is None else self._projected(self._even, clique) > 0
        for names, excluded in self.impossible.items():
            if set(names) <= set(clique):
                order = [names.index(name) for name in clique if name in names]
                sizes = [size if name in names else 1 for name, size in zip(clique, shape, strict=True)]
                possible = possible & ~(excluded.transpose(order).reshape(sizes) & (self.table(clique) == 0))
        return possible

    @cached_property
    def _even(self) -> EstimatedModel | None:
        """The model that is uniform over the possible cells; None if all cells are possible.

        Probabilities of 0 do not tell which cells are impossible, as answers with large noise leave some, too.
        """
        model: Any = self.model
        if not hasattr(model, "of_potentials"):
            return None
        impossible = np.isneginf(model.potentials.flat)
        if not impossible.any():
            return None
        potentials = CliqueVector.of(model.potentials.layout, np.where(impossible, -np.inf, 0.0))
        return model.of_potentials(potentials, 1.0, model.plan)

    def pairs(self, clique: Clique) -> list[Clique]:
        """Return the pairs of attributes of a clique."""
        return list(combinations(clique, 2))

    def roots(self, clique: Clique) -> np.ndarray:
        """Return the roots of the model's counts of codes, multiplied, for each cell."""
        return reduce(np.multiply.outer, [np.sqrt(self.counts(name)) for name in clique], np.ones(()))

    def basis(self, name: str) -> np.ndarray:
        """Return orthonormal smooth functions of the codes, times the roots of their shares, shape (codes, degrees)."""
        if name not in self._bases:
            self._bases[name] = smooth_functions(self.counts(name))
        return self._bases[name]
