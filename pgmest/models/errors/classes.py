"""Classes of codes that a query does not tell apart, and what answers say about tables over classes.

A query whose matrix has equal columns for two codes of an attribute does not tell them apart: they are one class. A
table over classes may have few cells where the table over codes has too many to be drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.linalg import null_space, solve_triangular
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pgmest.models.errors.table_answers import Side, TableAnswer, along
from pgmest.queries.matrices import Identity

MOST_ENTRIES = 4_000_000
"""The largest number of entries of a matrix whose columns are compared."""
SMALLEST = 1e-9
"""Singular values below this share of the largest are 0."""


def classes_of(matrix: Any, size: int) -> np.ndarray:
    """Return the class of each code: codes have the same class if the matrix has the same column for both.

    Args:
        matrix: the query's matrix over the codes of an attribute; None is the identity.
        size: the number of codes.
    """
    if matrix is None or isinstance(matrix, Identity) or matrix.rows * size > MOST_ENTRIES:
        return np.arange(size)
    return _by_first(np.unique(matrix.matrix(), axis=1, return_inverse=True)[1].reshape(-1))


def _by_first(labels: np.ndarray) -> np.ndarray:
    """Return labels numbered in the order in which they first appear."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.reshape(-1)]


def number_of(labels: np.ndarray) -> int:
    """Return the number of classes, given the class of each code."""
    return int(labels.max(initial=-1)) + 1


def members(labels: np.ndarray) -> np.ndarray:
    """Return 1 for the codes of each class, shape (classes, codes)."""
    return np.equal.outer(np.arange(number_of(labels)), labels).astype(np.float64)


def by_classes(answer: TableAnswer, labels: Mapping[str, np.ndarray]) -> TableAnswer | None:
    """Return what an answer says about a table over classes, with independent noise again; None if nothing.

    Classes whose codes were counted together with codes of other classes are one group.
    """
    values, sides = answer.values, []
    for axis, (name, side) in enumerate(zip(answer.clique, answer.sides, strict=True)):
        if name not in labels:
            sides.append(side)
            continue
        found = _side_by_classes(side, labels[name])
        if found is None:
            return None
        side, weights = found
        values = along([*[None] * axis, weights], values)
        sides.append(side)
    return TableAnswer(answer.clique, tuple(sides), values, answer.stddev)


def _side_by_classes(side: Side, labels: np.ndarray) -> tuple[Side, np.ndarray] | None:
    r"""Return the matrix over groups of classes, and the weights of the answers, shape (rows, answers).

    With groups' counts x, answers $M x$ and groups of classes $z = C x$, the answers tell $U z$ for the rows u of U for
    which $u C$ is a combination of rows of M. Its least-squares estimate $U C M^+ y$ is divided by a square root of its
    covariance.
    """
    classes, groups = number_of(labels), side.groups
    edges = coo_array((np.ones(len(labels)), (labels, classes + side.labels)), shape=(classes + groups,) * 2)
    together = connected_components(edges, directed=False)[1]
    of_class = _by_first(together[:classes])  # each group of codes holds a code of a class
    member = np.zeros((number_of(of_class), groups))
    member[of_class[labels], side.labels] = 1.0
    if side.matrix is None or side.inverse is None:
        roots = np.sqrt(member.sum(axis=1))
        return Side(of_class, np.diag(1 / roots)), member / roots[:, None]
    hidden = null_space(side.matrix, SMALLEST)
    left = member @ hidden
    left[np.abs(left) < SMALLEST] = 0.0  # as shares of the largest, rounding errors alone would have a rank
    known = null_space(left.T, SMALLEST).T if hidden.size else np.eye(len(member))
    if not len(known):
        return None
    weights = known @ member @ side.inverse
    root = np.linalg.cholesky(weights @ weights.T)
    matrix = solve_triangular(root, known, lower=True)
    return Side(of_class, matrix, deviations=len(known) < len(member)), solve_triangular(root, weights, lower=True)
