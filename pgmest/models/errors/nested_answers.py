"""NestedAnswer: a noisy table over groups of codes, joined with noisy tables over unions of these groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, reduce

import numpy as np

from pgmest.models.errors.table_answers import TableAnswer, centered, sums_by


@dataclass(frozen=True, eq=False)
class NestedAnswer(TableAnswer):
    """A noisy table with others about the same attributes, which least squares joins.

    Only the interaction is joined, as the marginals of fewer attributes have errors of their own.

    Attributes:
        coarser: the tables over unions of its groups, each over unions of those before.
    """

    coarser: tuple[TableAnswer, ...] = ()

    def beyond(self, expected: np.ndarray) -> np.ndarray:
        """Return the least-squares table of all answers minus those of an expected table, without its margins."""
        own = super().beyond(expected)
        return self._joined(own[None], [one.beyond(self._sums(expected, one))[None] for one in self.coarser])[0]

    def noise(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """Draw the noise of the least-squares table, shape (count, *groups)."""
        own = super().noise(count, generator)
        return self._joined(own, [one.noise(count, generator) for one in self.coarser])

    @property
    def centered_stddev(self) -> float:
        """The standard deviation of the noise in a count of `beyond` without the means along each attribute."""
        return math.sqrt(self._steps[1])

    @cached_property
    def _steps(self) -> tuple[tuple[np.ndarray, ...], float]:
        """For each coarser answer, the share of its differences that a cell takes; and the variance in the end.

        The share is the part of the variance of a union's sum that the cell adds, over the variance of the difference.
        """
        adds, shares = _variances(self), []
        variance = float(adds.mean()) * _free(self)
        for one in self.coarser:
            other = self._expanded(one, _variances(one))
            both = self._expanded(one, self._sums(adds, one)) + other
            shares.append(adds / both)
            variance -= float((np.square(adds) / both).mean()) * _free(one)
            adds = adds * (other / both)
        return tuple(shares), max(variance, 0.0)

    def _joined(self, own: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
        """Return tables along the first axis, joined with those over unions."""
        own = centered(own)
        for one, share, tables in zip(self.coarser, self._steps[0], others, strict=True):
            own = own + share * self._expanded(one, centered(tables) - self._sums(own, one))
        return own

    def _unions(self, other: TableAnswer) -> list[np.ndarray]:
        """Return, for each attribute, the group of a coarser answer that each group is in."""
        pairs = zip(self.sides, other.sides, strict=True)
        return [coarse.labels[np.unique(own.labels, return_index=True)[1]] for own, coarse in pairs]

    def _sums(self, table: np.ndarray, other: TableAnswer) -> np.ndarray:
        """Return the sums of tables over the groups of a coarser answer; the last axes are those of groups."""
        more = table.ndim - len(self.sides)
        for axis, (labels, side) in enumerate(zip(self._unions(other), other.sides, strict=True)):
            table = sums_by(table, labels, side.groups, more + axis)
        return table

    def _expanded(self, other: TableAnswer, table: np.ndarray) -> np.ndarray:
        """Return, for each cell, the value of its cell of a coarser answer; the last axes are those of groups."""
        return table[(..., *np.ix_(*self._unions(other)))]


def _free(answer: TableAnswer) -> float:
    """Return the share of the noise that is in the interaction."""
    return math.prod(1 - 1 / groups for groups in answer.shape if groups > 1)


def _variances(answer: TableAnswer) -> np.ndarray:
    """Return the variance of the noise in each cell of the least-squares table, given margins that are unknown."""
    return answer.stddev**2 * reduce(np.multiply.outer, [side.variances for side in answer.sides], np.ones(()))


def joined(answers: Sequence[TableAnswer]) -> TableAnswer | None:
    """Return the first answer, joined with the others that are over unions of its groups; None without any.

    Args:
        answers: answers about the same attributes, those over the most cells first.
    """
    if len(answers) < 2:
        return answers[0] if answers else None
    first, coarser = answers[0], list[TableAnswer]()
    for one in answers[1:]:
        if all(_is_union(one, other) for other in (first, *coarser)):
            coarser.append(one)
    known = {field.name: getattr(first, field.name) for field in fields(TableAnswer)}
    return NestedAnswer(**known, coarser=tuple(coarser)) if coarser else first


def _is_union(coarse: TableAnswer, fine: TableAnswer) -> bool:
    """Return whether each group of one answer lies in a single group of the other, for each attribute."""
    pairs = [(fine.labels, coarse.labels) for fine, coarse in zip(fine.sides, coarse.sides, strict=True)]
    return all(len(np.unique(own)) == len(np.unique(np.stack([own, other]), axis=1).T) for own, other in pairs)
