"""Made-up records for rehearsals: their values are as uneven, and their pairs as dependent, as those of typical tables.

They follow from the domain and a seed alone. Each record belongs to one of a few classes. In each class another code of
an attribute is the most frequent one, and frequencies fall with the distance from it by Zipf's law. The strength of an
attribute is the share of its records that follow the law of their class; the others follow one common law.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.inference.exact.structural_zeros import excluded_cells
from pgmest.tables.domain import Clique, Domain

SKEW = 1.3
"""The exponent of Zipf's law for the codes of an attribute. With it, errors of columns in rehearsals agree best with
those of runs on real tables (`python -m experiments.flagship.planned`)."""
CLASSES, CLASS_SKEW = 6, 4.0
"""The number of classes of records, and the exponent of Zipf's law for records that follow their class."""
POWER = 2.0
"""The strengths of attributes are even numbers from 0 to 1 to this power. The total variation of pairs from
independence is then about that of typical tables: 0.004, 0.03 and 0.09 at the quartiles, and 0.25 or more in one of
twenty pairs. These are medians over nine tables of censuses, surveys, health and credit records and emergency calls."""
MOST_DRAWS = 20
"""The largest number of times that records are drawn again because structural zeros exclude some."""


def made_up(domain: Domain, records: int, seed: int = 0, zeros: Any = None) -> Dataset:
    """Return records with uneven and dependent attributes.

    Args:
        domain: the attributes.
        records: the number of records.
        seed: the seed of the records.
        zeros: structural zeros. If no drawn record keeps them all, they are not kept.
    """
    generator = np.random.default_rng(seed)
    excluded = excluded_cells(zeros, domain)
    laws = Laws.of(domain, generator)
    if not excluded:
        return laws.records(generator.integers(CLASSES, size=records), generator)
    kept: list[np.ndarray] = []
    for _ in range(MOST_DRAWS):
        drawn = laws.records(generator.integers(CLASSES, size=records), generator).codes
        kept.append(drawn[_possible(domain, drawn, excluded)])
        if sum(map(len, kept)) >= records:
            break
    found = np.concatenate(kept)
    found = found if len(found) else drawn
    chosen = np.arange(records) if len(found) >= records else generator.integers(len(found), size=records)
    return Dataset.from_codes(found[chosen], domain)


@dataclass(frozen=True, eq=False)
class Laws:
    """The frequencies of the codes of each attribute, by class.

    Attributes:
        domain: the attributes.
        shares: for each attribute of several codes, the cumulative shares of its codes: the common law, and that of
            each class, shape (1 + CLASSES, codes).
        strengths: for each of these, the share of records that follow the law of their class.
    """

    domain: Domain
    shares: list[np.ndarray]
    strengths: np.ndarray

    @classmethod
    def of(cls, domain: Domain, generator: np.random.Generator) -> Laws:
        """Draw the most frequent codes and the strengths."""
        sizes = [domain[name] for name in domain.varying]
        levels = (generator.permutation(len(sizes)) + 0.5) / max(1, len(sizes))
        return cls(domain, [_shares(size, generator) for size in sizes], levels**POWER)

    def records(self, kinds: np.ndarray, generator: np.random.Generator) -> Dataset:
        """Draw a record for each of some classes, shape (records,)."""
        columns = {name: np.zeros(len(kinds), dtype=code_type(1)) for name in self.domain}
        for name, shares, strength in zip(self.domain.varying, self.shares, self.strengths, strict=True):
            own = np.where(generator.random(len(kinds)) < strength, 1 + kinds, 0)
            chance, codes = generator.random(len(kinds)), np.empty(len(kinds), dtype=code_type(shares.shape[1]))
            for kind, law in enumerate(shares):
                here = own == kind
                codes[here] = np.minimum(np.searchsorted(law, chance[here]), len(law) - 1)
            columns[name] = codes
        return Dataset.from_codes(list(columns.values()) or np.empty((len(kinds), 0), dtype=np.int64), self.domain)


def _shares(size: int, generator: np.random.Generator) -> np.ndarray:
    """Return the cumulative shares of an attribute's codes: the common law, and that of each class."""
    first = int(generator.integers(size))
    peaks = (first + np.r_[0, np.arange(CLASSES)] * size // CLASSES) % size
    apart = np.abs(np.arange(size) - peaks[:, None])
    skews = np.r_[SKEW, np.full(CLASSES, CLASS_SKEW)]
    shares = (1.0 + 2 * np.minimum(apart, size - apart)) ** -skews[:, None]
    return np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)


def _possible(domain: Domain, codes: np.ndarray, excluded: Mapping[Clique, np.ndarray]) -> np.ndarray:
    """Return which records no structural zero excludes."""
    possible = np.ones(len(codes), dtype=bool)
    for clique, cells in excluded.items():
        possible &= ~cells[tuple(codes[:, axis] for axis in domain.axes(clique))]
    return possible
