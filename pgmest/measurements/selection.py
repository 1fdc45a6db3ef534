r"""What a private selection says about the candidates that it did not choose.

The exponential mechanism chooses candidate c with probability proportional to $e^{a q_c}$, where q is the score and a
the rate. Who was chosen is public, and was paid for. Of a candidate r that lost, all other scores held fixed,

.. math:: P(r \text{ loses} \mid q_r) = \frac{Z}{Z + e^{a q_r}} , \qquad Z = \sum_{j \ne r} e^{a q_j} ,

so a score far above $\log Z / a$ is unlikely. Z is not known, but $e^{a q_c}$ is a share of it that is seldom small:
the chosen one has less than 1 / (k m) of all the weight of m candidates with a probability of at most 1 / k. Here
$Z = m e^{a q_c}$ is taken, which makes the evidence weaker than it is rather than stronger. Scores are weighted l1
distances of marginals from what a model expected (`Curator.select` with `Distances`), so that this bounds by how much
a marginal that was never measured can differ from that model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from pgmest.tables.domain import Clique

MOST_VALUES = 2**22
"""Expected answers that are kept, of the latest selections: 32 MB."""


@dataclass(frozen=True, eq=False)
class ScoredMarginal:
    r"""A candidate: its score is $w (\lVert x - y \rVert_1 - e)$, x being its marginal.

    Attributes:
        clique: the attributes.
        expected: y, in counts.
        weight, expected_error: w and e; e in counts.
        groups: where records had been recoded, the cell of y that each cell of the marginal is part of.
    """

    clique: Clique
    expected: np.ndarray
    weight: float = 1.0
    expected_error: float = 0.0
    groups: np.ndarray | None = None

    def scores(self, tables: np.ndarray) -> np.ndarray:
        """Of many tables of counts, shape (tables, cells)."""
        if self.groups is not None:
            order = np.argsort(self.groups, kind="stable")
            present, starts = np.unique(self.groups[order], return_index=True)
            merged = np.zeros((len(tables), len(self.expected)))
            merged[:, present] = np.add.reduceat(tables[:, order], starts, axis=1)
            tables = merged
        return self.weight * (np.abs(tables - self.expected).sum(axis=1) - self.expected_error)


class CellMerging(Protocol):
    """A recoding of records before a selection (`pgmest.transforms`)."""

    def sources(self, clique: Clique) -> Clique:
        """The attributes before it of which those after it are made."""
        ...

    def cells(self, clique: Clique) -> tuple[Clique, np.ndarray]:
        """These, and for each of their cells, row-major, the cell that it becomes."""
        ...


@dataclass(frozen=True, eq=False)
class PaidSelection:
    """A selection by the exponential mechanism, and what it was between.

    Attributes:
        chosen: the candidate that won.
        lost: marginals that lost; others may have, too.
        rate: a, per unit of the score: epsilon / (2 sensitivity).
        candidates: how many there were in all.
        recodings: of the records before the selection, the last one first.
    """

    chosen: ScoredMarginal
    lost: tuple[ScoredMarginal, ...]
    rate: float
    candidates: int
    recodings: tuple[CellMerging, ...] = ()

    def sources(self, clique: Clique) -> Clique:
        """The attributes, before all recodings, of which a candidate's are made."""
        for recoding in self.recodings:
            clique = recoding.sources(clique)
        return clique

    def original(self, marginal: ScoredMarginal) -> ScoredMarginal:
        """A candidate as a function of a marginal before all recodings."""
        clique, groups = marginal.clique, np.arange(len(marginal.expected))
        for recoding in self.recodings:
            clique, index = recoding.cells(clique)
            groups = groups[index]
        return replace(marginal, clique=clique, groups=groups) if self.recodings else marginal

    @cached_property
    def values(self) -> int:
        """How many numbers it keeps."""
        return sum(len(one.expected) for one in (self.chosen, *self.lost))

    def log_likelihood(self, lost: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """That of a candidate's having lost with a score, given the chosen one's; elementwise."""
        return -np.logaddexp(0.0, self.rate * (lost - chosen) - math.log(self.candidates))


def latest(selections: list[PaidSelection]) -> list[PaidSelection]:
    """The last ones, as far as there is room: they are the ones with the lowest scores."""
    room, kept = MOST_VALUES, []
    for one in reversed(selections):
        room -= one.values
        if room < 0:
            break
        kept.append(one)
    return kept[::-1]
