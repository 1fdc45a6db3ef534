"""Questions: the queries on the detail attributes that TopDown asks in each area, with their shares of the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from pgmest.errors import QueryError
from pgmest.queries import Kron, MatrixQuery, identity
from pgmest.queries.matrices import Identity
from pgmest.tables.domain import Clique, Domain
from pgmest.workloads import Workload

LARGEST_DEFAULT = 2
"""The marginals of at most this many attributes are asked by default, besides the histogram of all."""


@dataclass(frozen=True, eq=False)
class Question:
    """Queries on a marginal of the detail attributes.

    Attributes:
        clique: the attributes, in the order of the detail attributes.
        axes: their positions among the detail attributes.
        matrices: the query matrix of each; None for the cells.
        share: the share of the budget of each level, relative to the other questions.
    """

    clique: Clique
    axes: tuple[int, ...]
    matrices: tuple[MatrixQuery | None, ...]
    share: float

    @property
    def is_marginal(self) -> bool:
        """True if the queries are the cells of the marginal."""
        return not any(self.matrices)

    def answer_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the number of queries along each attribute, given the sizes of all detail attributes."""
        pairs = zip(self.axes, self.matrices, strict=True)
        return tuple(shape[axis] if matrix is None else matrix.rows for axis, matrix in pairs)

    def answers(self, rows: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        """Return the answers from detail cells, shape (rows, queries); `rows` has shape (rows, cells)."""
        table = rows.reshape(len(rows), *shape)
        table = table.sum(axis=tuple(axis + 1 for axis in range(len(shape)) if axis not in self.axes))
        for place, matrix in enumerate(self.matrices):
            if matrix is not None:
                table = matrix.apply(table, place + 1)
        return table.reshape(len(rows), -1)

    def transposed(self, answers: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        """Return Q^T times numbers, one for each query, shape (rows, cells); `answers` has shape (rows, queries)."""
        table = answers.reshape(len(answers), *self.answer_shape(shape))
        for place, matrix in enumerate(self.matrices):
            if matrix is not None:
                table = matrix.transpose(table, place + 1)
        absent = tuple(axis + 1 for axis in range(len(shape)) if axis not in self.axes)
        whole = np.broadcast_to(np.expand_dims(table, absent), (len(answers), *shape))
        return whole.reshape(len(answers), -1)

    def grams(self, shape: Sequence[int]) -> list[np.ndarray]:
        """Return Q^T Q along each detail attribute, whose Kronecker product is that of the question."""
        own = dict(zip(self.axes, self.matrices, strict=True))
        found = []
        for axis, size in enumerate(shape):
            matrix = own.get(axis)
            if axis not in own:
                found.append(np.ones((size, size)))
            else:
                rows = np.eye(size) if matrix is None else matrix.matrix()
                found.append(rows.T @ rows)
        return found

    def query(self, domain: Domain, areas: tuple[str, MatrixQuery | None] | None) -> tuple[Clique, Kron | None]:
        """Return the clique and the query of the question in each area.

        Args:
            domain: all attributes.
            areas: the attribute of the areas, with the matrix that groups its values, or None for single ones; None if
                there is one area only.
        """
        factors = dict(zip(self.clique, self.matrices, strict=True))
        if areas is not None:
            factors = {areas[0]: areas[1], **factors}
        if not any(factors.values()):
            return tuple(factors), None
        return tuple(factors), Kron({name: matrix or identity(domain[name]) for name, matrix in factors.items()})


def default_questions(detail: Domain) -> list[Question]:
    """Return the total, the marginals of one and of two attributes, and the histogram of all.

    Each of these sizes has the same share, which is divided evenly within it.
    """
    sizes = sorted({0, *range(1, min(LARGEST_DEFAULT, len(detail)) + 1), len(detail)})
    cliques = {size: list(combinations(detail.attributes, size)) for size in sizes}
    return [_marginal(detail, clique, 1.0 / len(cliques[size])) for size in sizes for clique in cliques[size]]


def workload_questions(detail: Domain, workload: Workload, areas: str) -> list[Question]:
    """Return the queries of a workload on the detail attributes, with their weights as shares.

    The attribute of the areas is left out of each item, since every question is asked in every area.

    Raises:
        QueryError: an item of several attributes has another query than a Kron.
    """
    marginals: dict[Clique, float] = {}
    others: list[Question] = []
    for item in workload:
        clique, factors = detail.ordered(item.clique), _factors(item, areas)
        if any(factors.get(name) for name in clique):
            others.append(Question(clique, detail.axes(clique), tuple(map(factors.get, clique)), item.weight))
        else:
            marginals[clique] = marginals.get(clique, 0.0) + item.weight
    found = [_marginal(detail, clique, share) for clique, share in marginals.items()]
    return sorted([*found, *others], key=lambda question: len(question.clique))


def _factors(item: Any, areas: str) -> dict[str, MatrixQuery | None]:
    """Return the matrix of each attribute of an item; None for its cells."""
    if item.query is None:
        return {}
    if isinstance(item.query, Kron):
        factors = dict(item.query.factors)
    elif len(item.clique) == 1 and isinstance(item.query, MatrixQuery):
        factors = {item.clique[0]: item.query}
    else:
        raise QueryError(
            f"TopDown asks each query in every area, so the query on {item.clique} must be a pg.Kron with a matrix for "
            "each attribute."
        )
    return {name: None if isinstance(one, Identity) else one for name, one in factors.items() if name != areas}


def with_total(questions: list[Question]) -> list[Question]:
    """Return questions with the total among them, which gets their mean share if it is missing."""
    if any(not question.clique for question in questions):
        return questions
    return [Question((), (), (), sum(question.share for question in questions) / len(questions)), *questions]


def _marginal(detail: Domain, clique: Clique, share: float) -> Question:
    return Question(clique, detail.axes(clique), (None,) * len(clique), float(share))
