"""Sums of cells that are known exactly, such as invariants: drawn errors of a table must leave them as they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from pgmest.models.errors.classes import number_of
from pgmest.sampling.facts import Facts
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.margins import margin_cells

ROUNDS = 10
"""The number of times that errors are made to leave the sums of all facts as they are, if there are several facts."""
MOST_ROWS, MOST_ENTRIES = 500, 5_000_000
"""The largest numbers of rows and of entries of a fact that counts cells with weights, or more than once."""
DETERMINED = 1e-9
"""Eigenvalues below this share of the largest are 0, as are weights below this share of the largest."""


def known_sums(
    facts: Iterable[Facts], domain: Domain, clique: Clique, labels: Mapping[str, np.ndarray] | None = None
) -> list[Any]:
    """Return the sums of cells of a table that facts determine.

    Args:
        facts: exact answers, of which those that `is_read` accepts are read.
        domain: the attributes of the model.
        clique: the attributes of the table.
        labels: the class of each code, for attributes of which the table has classes.

    Returns:
        for each fact that determines a sum, a csr_array of shape (sums, cells) with the weight of each cell, which is 0
        or 1 if the fact counts no cell twice.
    """
    found, table = [], _Table(domain, clique, labels or {})
    for one in facts:
        if is_read(one):
            found.append(_sums(one, table) if one.groups is not None else _weighted_sums(one, table))
    return [sums for sums in found if sums is not None]


@dataclass(frozen=True)
class _Table:
    """A table over codes of some attributes and over classes of codes of others; arguments as for `known_sums`."""

    domain: Domain
    clique: Clique
    labels: Mapping[str, np.ndarray]

    def shared(self, fact: Facts) -> tuple[np.ndarray, np.ndarray, int]:
        """Return the cell of each cell of a fact, and of the table, in the margin that both have, and its size."""
        names = tuple(name for name in self.clique if name in fact.clique)
        own = {name: self.labels.get(name, np.arange(self.domain[name])) for name in self.clique}
        sizes = {name: number_of(labels) for name, labels in own.items()}
        margin = tuple(sizes[name] for name in names)
        cells = np.ravel_multi_index(np.ix_(*(own[name] for name in names)), margin).reshape(-1) if names else [0]
        place = np.asarray(cells)[margin_cells(self.domain, fact.clique, names)]
        return place, margin_cells(Domain(sizes), self.clique, names), math.prod(margin)


def is_read(fact: Facts) -> bool:
    """Return whether a fact is read: it is exact, and counts no cell twice unless it is small."""
    rows, cells = fact.matrix.shape
    return not fact.least and (fact.groups is not None or (rows <= MOST_ROWS and rows * cells <= MOST_ENTRIES))


def _weighted_sums(fact: Facts, table: _Table) -> Any:
    """Return the combinations of a fact's rows that give all cells of a table's cell the same weight; None without."""
    place, own, cells = table.shared(fact)
    rows = fact.matrix.toarray()
    onto = csr_array((np.ones(len(place)), (np.arange(len(place)), place)), shape=(len(place), cells))
    means = (rows @ onto) / np.bincount(place, minlength=cells)
    uneven = rows - means[:, place]
    values, vectors = np.linalg.eigh(uneven @ uneven.T)
    most = float(np.abs(rows).max(initial=0.0))
    sums = vectors[:, values <= DETERMINED * most**2 * max(1, len(place))].T @ means
    sums = sums[np.abs(sums).max(axis=1, initial=0.0) > DETERMINED * most]
    return csr_array(sums[:, own]) if len(sums) else None


def _sums(fact: Facts, table: _Table) -> Any:
    """Return the groups of a table's cells that the groups of a fact make up; None without any."""
    groups = fact.groups
    assert groups is not None
    (place, own, cells), rows, counted = table.shared(fact), len(fact.values), groups >= 0
    edges = coo_array(
        (np.ones(int(counted.sum())), (groups[counted], rows + place[counted])), shape=(rows + cells, rows + cells)
    )
    labels = connected_components(edges, directed=False)[1][rows:]
    known = ~np.isin(labels, labels[place[~counted]])
    if not known.any():
        return None
    numbers = np.full(labels.max() + 1, -1)
    used = np.unique(labels[known])
    numbers[used] = np.arange(len(used))
    group = numbers[labels][own]
    inside = np.flatnonzero(group >= 0)
    return csr_array((np.ones(len(inside)), (group[inside], inside)), shape=(len(used), len(group)))


def without_errors_of(sums: Sequence[Any], errors: np.ndarray) -> np.ndarray:
    """Return errors of a table that leave known sums as they are.

    A group's error is taken from its cells in proportion to their mean squared errors, as least squares does.

    Args:
        sums: the groups, as `known_sums` returns them.
        errors: drawn errors, shape (draws, *shape).
    """
    if not sums:
        return errors
    flat = errors.reshape(len(errors), -1)
    weights = np.square(flat).mean(axis=0)
    divided = [_divided(members, weights) for members in sums]
    for _ in range(ROUNDS if len(sums) > 1 else 1):
        for members, divide in zip(sums, divided, strict=True):
            flat = flat - (divide(flat @ members.T) @ members) * weights
    return flat.reshape(errors.shape)


def _divided(members: Any, weights: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that divides errors of sums by how much weight the cells of each have."""
    products = csr_array(members.multiply(weights) @ members.T)
    products.eliminate_zeros()
    diagonal = products.diagonal()
    if products.nnz == np.count_nonzero(diagonal):
        return lambda errors: errors / np.maximum(diagonal, np.finfo(float).tiny)
    inverse = np.linalg.pinv(products.toarray(), rcond=DETERMINED, hermitian=True)
    return lambda errors: errors @ inverse
