"""What is asked before anything is known: each attribute by itself, and the number of records."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pgmest.mechanisms.pgm.answers import grouping_query
from pgmest.mechanisms.pgm.interest import Interest
from pgmest.mechanisms.pgm.offers import Prices, interaction
from pgmest.queries import Kron
from pgmest.tables.domain import Clique, Domain

ROUNDS = 20
"""Of weights, which follow from the errors that the shares lead to, and shares."""


@dataclass(frozen=True, eq=False)
class FirstQuestions:
    """One-way marginals and, where none but contrasts are asked of some, the number of records, which is all they lack.

    Attributes:
        domain: the attributes.
        prices: of noise.
        shares: of the budget, by marginal; () is the number of records.
        contrasted: the attributes that are asked for by their contrasts (`answers.contrast_matrix`).
    """

    domain: Domain
    prices: Prices
    shares: dict[Clique, float]
    contrasted: frozenset[str]

    @classmethod
    def of(cls, domain: Domain, interest: Interest, prices: Prices, share: float, total_known: bool) -> FirstQuestions:
        """For a share of the budget.

        Args:
            domain: the attributes.
            interest: what the workload asks. Attributes of which it asks ranges are counted: so they tell the number of
                records, too.
            prices: of noise.
            share: of the budget.
            total_known: whether the number of records is public.
        """
        names = interest.attributes
        contrasted = frozenset(name for name in names if prices.contrasted(domain[name]) and not interest.ranged(name))
        shapes = [(domain[name],) for name in names]
        errors = [
            domain[name] * math.sqrt(interaction(shape) * (prices.discount(shape) if name in contrasted else 1.0))
            for name, shape in zip(names, shapes, strict=True)
        ]
        cliques: list[Clique] = [(name,) for name in names]
        if contrasted and not total_known:
            cliques.append(())
            errors.append(1.0)
        parts = _least_error_shares(np.array(errors), len(names), prices.power)
        shares = {clique: share * float(part) for clique, part in zip(cliques, parts, strict=True)}
        return cls(domain, prices, shares, contrasted)

    def query(self, clique: Clique) -> Kron | None:
        """What is asked about a marginal; None for its counts."""
        if not self.contrasted.issuperset(clique) or not clique:
            return None
        return grouping_query(clique, [np.arange(self.domain[name]) for name in clique], [True])

    def stddev(self, name: str) -> float:
        """Of the noise in the answers about an attribute."""
        variance = 1 / float(self.prices.precision(self.shares[name,]))
        return (variance * (self.prices.discount((self.domain[name],)) if name in self.contrasted else 1.0)) ** 0.5


def _least_error_shares(errors: np.ndarray, attributes: int, power: float) -> np.ndarray:
    r"""Parts of the budget that make the sum of the attributes' errors least, in proportion to $(w e)^{2/(2 + p)}$.

    The error in the number of records, if it is asked for, is in each of these: $\sqrt{e^2 + e_0^2}$.

    Args:
        errors: with the whole budget, in its standard deviations of a count; of the attributes, and of the number of
            records, if that is asked for.
        attributes: how many.
        power: precision grows with the share to this power.
    """
    parts = np.full(len(errors), 1 / len(errors))
    for _ in range(ROUNDS if len(errors) > attributes else 1):
        now = errors / parts ** (power / 2)
        own, total = now[:attributes], now[attributes:].sum()
        whole = np.hypot(own, total)
        weights = np.append(own / whole, (total / whole).sum())[: len(errors)]
        parts = (weights * errors) ** (2 / (2 + power))
        parts /= parts.sum()
    return parts
