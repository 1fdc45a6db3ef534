"""Structural zeros through a transform: the impossible cells after it, and the shares of the possible cells.

A transform that merges only codes with the same zeros (`codes_alike`) loses nothing of a rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from pgmest.inference.exact.structural_zeros import Rule
from pgmest.tables.domain import Clique, Domain
from pgmest.zeros import impossible

if TYPE_CHECKING:
    from pgmest.transforms.transform import Transform


@dataclass(frozen=True, eq=False)
class Recoding:
    """A rule of structural zeros on attributes before a transform, and its effect on cells after the transform.

    Attributes:
        clique: the attributes after the transform that determine those of the rule.
        sources: the attributes before the transform from which `clique` is computed.
        cell: for each cell of the sources, row-major, the position of its cell after the transform.
        possible: for each cell of the sources, whether the rule allows it; a table over the sources.
        mass: for each cell after the transform, row-major, the sum of the shares of its allowed cells.
    """

    clique: Clique
    sources: Clique
    cell: np.ndarray
    possible: np.ndarray
    mass: np.ndarray

    @classmethod
    def of(cls, transform: Transform, rule: Rule) -> Recoding:
        """Return the recoding of a rule on attributes before the transform."""
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
        """Return the correction of log-shares that conditions them on the possible cells.

        It is a table over the sources: minus the log of the possible cells' total share, and -inf for other cells.
        """
        mass = self.mass[self.cell].reshape(self.possible.shape)
        return np.where(self.possible & (mass > 0), -np.log(np.where(mass > 0, mass, 1.0)), -np.inf)


def push_rule(transform: Transform, rule: Rule) -> Rule:
    """Return the rule after the transform: a cell is impossible if no possible cell is recoded to it."""
    columns = [transform.columns.get(name) for name in rule.attributes]
    if all(c and c.plain and c.sources == (name,) for c, name in zip(columns, rule.attributes, strict=True)):
        return rule
    found = Recoding.of(transform, rule)
    return impossible(found.clique, (found.mass == 0).reshape(transform.after.project(found.clique).shape))


def codes_alike(rules: Iterable[Rule], domain: Domain, clique: Clique) -> np.ndarray:
    """Return a number for each cell of a clique, equal for cells that every rule treats alike.

    >>> rule = impossible(("married", "years"), [(0, 1), (0, 2), (1, 0)])
    >>> codes_alike([rule], Domain({"married": 2, "years": 3}), ("years",))
    array([0, 1, 1])

    Raises:
        UnknownAttributeError, CodeRangeError, ShapeError, ArgumentError: a rule does not fit the attributes.
    """
    shape = domain.project(clique).shape
    rows = [np.zeros((*shape, 1), dtype=bool)]
    for rule in rules:
        names = domain.clique(rule.attributes)
        inside = [name for name in clique if name in names]
        if inside:
            mask = np.moveaxis(rule.mask(domain), [names.index(name) for name in inside], range(len(inside)))
            kept = [domain[name] if name in inside else 1 for name in clique]
            rows.append(np.broadcast_to(mask.reshape(*kept, -1), (*shape, mask.size // int(np.prod(kept)))))
    flat = np.concatenate(rows, axis=-1).reshape(int(np.prod(shape)), -1)
    return np.unique(flat, axis=0, return_inverse=True)[1].reshape(shape)
