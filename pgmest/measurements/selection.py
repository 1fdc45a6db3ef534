r"""The evidence of a private selection about the candidates that it did not choose.

The exponential mechanism chooses candidate c with probability proportional to $e^{a q_c}$, where q is the score and a
the rate. The choice is public, and its privacy cost has been charged. For a candidate r that lost, with all other
scores fixed,

.. math:: P(r \text{ loses} \mid q_r) = \frac{Z}{Z + e^{a q_r}} , \qquad Z = \sum_{j \ne r} e^{a q_j} ,

so a score far above $\log Z / a$ is unlikely. Z is unknown, but the share of $e^{a q_c}$ in Z is rarely small: the
probability that the chosen one of m candidates has less than 1 / (k m) of the total weight is at most 1 / k. This
module uses $Z = m e^{a q_c}$, which rather understates the evidence. Scores are weighted l1 distances of marginals from
those of a model (`Curator.select` with `Distances`), so the evidence bounds the distance from that model of marginals
that were never measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from pgmest.tables.domain import Clique

MAX_VALUES = 2**22
"""The largest number of expected answers that a run keeps of its latest selections, 32 MB."""


@dataclass(frozen=True, eq=False)
class ScoredMarginal:
    r"""A candidate with the score $w (\lVert x - y \rVert_1 - e)$, where x is its marginal in counts.

    Attributes:
        clique: the attributes of the marginal.
        expected: y, in counts.
        weight: w.
        expected_error: e, in counts.
        groups: for each cell of the marginal, the cell of y to which it was recoded; None without recoding.
    """

    clique: Clique
    expected: np.ndarray
    weight: float = 1.0
    expected_error: float = 0.0
    groups: np.ndarray | None = None

    def scores(self, tables: np.ndarray) -> np.ndarray:
        """Return the scores of many tables of counts, shape (tables, cells)."""
        return self.weight * (np.abs(self.merged(tables) - self.expected).sum(axis=1) - self.expected_error)

    def merged(self, tables: np.ndarray) -> np.ndarray:
        """Return many tables of counts, shape (tables, cells), over the cells of y."""
        if self.groups is None:
            return tables
        order = np.argsort(self.groups, kind="stable")
        present, starts = np.unique(self.groups[order], return_index=True)
        found = np.zeros((len(tables), len(self.expected)))
        found[:, present] = np.add.reduceat(tables[:, order], starts, axis=1)
        return found


class CellMerging(Protocol):
    """A recoding of records before a selection (`pgmest.transforms`)."""

    def sources(self, clique: Clique) -> Clique:
        """Return the attributes before the recoding from which the attributes of `clique` are made."""
        ...

    def cells(self, clique: Clique) -> tuple[Clique, np.ndarray]:
        """Return the source attributes, and for each of their cells, row-major, the recoded cell of `clique`."""
        ...


@dataclass(frozen=True, eq=False)
class PaidSelection:
    """A selection by the exponential mechanism, with its candidates.

    Attributes:
        chosen: the chosen candidate.
        lost: candidates that were not chosen, not necessarily all of them.
        rate: a, per unit of the score: epsilon / (2 sensitivity).
        candidates: the number of all candidates.
        recodings: the recodings of the records before the selection, the last one first.
    """

    chosen: ScoredMarginal
    lost: tuple[ScoredMarginal, ...]
    rate: float
    candidates: int
    recodings: tuple[CellMerging, ...] = ()

    def sources(self, clique: Clique) -> Clique:
        """Return the attributes before all recodings from which a candidate's attributes are made."""
        for recoding in self.recodings:
            clique = recoding.sources(clique)
        return clique

    def original(self, marginal: ScoredMarginal) -> ScoredMarginal:
        """Return a candidate as a function of the marginal before all recodings."""
        clique, groups = marginal.clique, np.arange(len(marginal.expected))
        for recoding in self.recodings:
            clique, index = recoding.cells(clique)
            groups = groups[index]
        return replace(marginal, clique=clique, groups=groups) if self.recodings else marginal

    @cached_property
    def values(self) -> int:
        """The number of expected answers of its candidates."""
        return sum([len(one.expected) for one in (self.chosen, *self.lost)])


def latest(selections: list[PaidSelection]) -> list[PaidSelection]:
    """Return the latest selections up to MAX_VALUES numbers; later selections have lower scores, so tighter bounds."""
    room, kept = MAX_VALUES, []
    for one in reversed(selections):
        room -= one.values
        if room < 0:
            break
        kept.append(one)
    return kept[::-1]
