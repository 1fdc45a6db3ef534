"""Sums of cells that are known exactly, such as invariants: drawn errors of a table must leave them as they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from pgmest.sampling.facts import Facts, positions
from pgmest.tables.domain import Clique, Domain

ROUNDS = 10
"""The number of times that errors are made to leave the sums of all facts as they are, if there are several facts."""


def known_sums(facts: Iterable[Facts], domain: Domain, clique: Clique) -> list[Any]:
    """Return the sums of cells of a table that facts determine.

    Args:
        facts: exact answers, of which those that count no cell twice are read.
        domain: the attributes of the model.
        clique: the attributes of the table.

    Returns:
        for each fact that determines a sum, a 0/1 csr_array of shape (sums, cells).
    """
    found = (_sums(one, domain, clique) for one in facts if one.groups is not None)
    return [sums for sums in found if sums is not None]


def _sums(fact: Facts, domain: Domain, clique: Clique) -> Any:
    """Return the groups of a table's cells that the groups of a fact make up; None without any."""
    groups = fact.groups
    assert groups is not None
    names = tuple(name for name in clique if name in fact.clique)
    place, rows, cells = positions(domain, fact.clique, names), len(fact.values), domain.size(names)
    counted = groups >= 0
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
    group = numbers[labels][positions(domain, clique, names)]
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
    for _ in range(ROUNDS if len(sums) > 1 else 1):
        for members in sums:
            shares = (flat @ members.T) / np.maximum(members @ weights, np.finfo(float).tiny)
            flat = flat - (shares @ members) * weights
    return flat.reshape(errors.shape)
