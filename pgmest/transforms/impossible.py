"""What cannot occur, through a transform: which cells after it no possible record has, and who shares the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from pgmest.inference.exact.structural_zeros import Rule
from pgmest.tables.domain import Clique
from pgmest.tables.zeros import impossible

if TYPE_CHECKING:
    from pgmest.transforms.transform import Transform


@dataclass(frozen=True, eq=False)
class Recoding:
    """A rule, and the cells after a transform in whose records it holds.

    Attributes:
        clique: the attributes after that determine those of the rule.
        sources: the attributes before that they are made of.
        cell: for each cell of the sources, row-major, the number of the cell after that it becomes.
        possible: whether the rule allows it; a table over the sources.
        mass: for each cell after, row-major, the sum of the shares of those allowed.
    """

    clique: Clique
    sources: Clique
    cell: np.ndarray
    possible: np.ndarray
    mass: np.ndarray

    @classmethod
    def of(cls, transform: Transform, rule: Rule) -> Recoding:
        """The rule, which is of attributes before the transform."""
        before, names = transform.before, transform.before.clique(rule.attributes)
        clique = transform.clique(names)
        sources, cell = transform.cells(clique)
        shape = before.project(sources).shape
        codes = dict(zip(sources, np.indices(shape, sparse=True), strict=True))
        for name, derived in transform.derived.items():
            if name in names:
                codes[name] = derived.codes[tuple(codes[source] for source in derived.of)]
        possible = np.broadcast_to(~rule.mask(before)[tuple(codes[name] for name in names)], shape)
        shares = reduce(np.multiply.outer, (transform.columns[name].shares for name in clique))
        mass = np.bincount(cell, (shares * possible).reshape(-1), minlength=transform.after.size(clique))
        return cls(clique, sources, cell, possible, mass)

    def log_shares(self) -> np.ndarray:
        """What makes of log-shares those among the possible cells: a table over the sources, -inf at the others."""
        mass = self.mass[self.cell].reshape(self.possible.shape)
        return np.where(self.possible & (mass > 0), -np.log(np.where(mass > 0, mass, 1.0)), -np.inf)


def pushed(transform: Transform, rule: Rule) -> Rule:
    """The rule after the transform: a cell is impossible if no possible record becomes it."""
    columns = [transform.columns.get(name) for name in rule.attributes]
    if all(c and c.plain and c.sources == (name,) for c, name in zip(columns, rule.attributes, strict=True)):
        return rule
    found = Recoding.of(transform, rule)
    return impossible(found.clique, (found.mass == 0).reshape(transform.after.project(found.clique).shape))
