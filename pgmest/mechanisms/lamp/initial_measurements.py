"""The initial measurements: all one-way marginals, and the number of records."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pgmest.mechanisms.lamp.answers import grouping_query
from pgmest.mechanisms.lamp.candidates import NoiseModel, interaction_fraction
from pgmest.mechanisms.lamp.groups import branches
from pgmest.mechanisms.lamp.tree_counts import level_parts, measured_levels, share_with_levels
from pgmest.mechanisms.lamp.workload_demand import WorkloadDemand
from pgmest.queries import Kron
from pgmest.tables.domain import Clique, Domain

ROUNDS = 20
"""The number of alternations between the weights, which depend on the errors, and the shares."""


@dataclass(frozen=True, eq=False)
class InitialMeasurements:
    """One-way marginals and, if some are measured by contrasts, the number of records, which contrasts do not
    determine.

    Attributes:
        domain: The attributes.
        noise_model: The noise of a share.
        shares: The share of the budget for each marginal; () is the number of records.
        contrasted: The attributes that are measured by their contrasts (`answers.contrast_matrix`).
    """

    domain: Domain
    noise_model: NoiseModel
    shares: dict[Clique, float]
    contrasted: frozenset[str]

    @classmethod
    def of(
        cls, domain: Domain, demand: WorkloadDemand, noise_model: NoiseModel, share: float, total_known: bool
    ) -> InitialMeasurements:
        """Divide a share of the budget among the initial measurements.

        Args:
            domain: The attributes.
            demand: The workload. Attributes with range queries are measured by counts, not by contrasts, since counts
                also determine the number of records.
            noise_model: The noise of a share.
            share: The share of the budget.
            total_known: Whether the number of records is public.
        """
        names = demand.attributes
        contrasted = frozenset(
            name
            for name in names
            if noise_model.contrasted(domain[name]) and not demand.asks_ranges(name) and not branches(domain, name)
        )
        shapes = [(domain[name],) for name in names]
        errors = [
            domain[name]
            * math.sqrt(
                interaction_fraction(shape) * (noise_model.variance_ratio(shape) if name in contrasted else 1.0)
            )
            for name, shape in zip(names, shapes, strict=True)
        ]
        cliques: list[Clique] = [(name,) for name in names]
        if contrasted and not total_known:
            cliques.append(())
            errors.append(1.0)
        parts = _least_error_shares(np.array(errors), len(names), noise_model.power)
        if domain.hierarchies:
            parts *= [share_with_levels(_levels_of(domain, clique), noise_model.power) for clique in cliques]
            parts /= parts.sum()
        shares = {clique: share * float(part) for clique, part in zip(cliques, parts, strict=True)}
        return cls(domain, noise_model, shares, contrasted)

    def measurements(self) -> list[tuple[Clique, Kron | None, float]]:
        """Return the cliques, queries and shares of all measurements: for a tree, one for each of its levels."""
        found: list[tuple[Clique, Kron | None, float]] = []
        for clique, share in self.shares.items():
            levels = self._levels(clique)
            if not levels:
                found.append((clique, self.query(clique), share))
            for labels, part in levels:
                found.append((clique, grouping_query(clique, [labels], [False]), share * part))
        return found

    def _levels(self, clique: Clique) -> list[tuple[np.ndarray, float]]:
        """Return the groups of each level of an attribute's tree, and their parts of its share; none without a tree."""
        levels = _levels_of(self.domain, clique)
        parts = level_parts(levels, self.noise_model.power).tolist() if levels else []
        return list(zip(levels, parts, strict=True))[::-1]

    def query(self, clique: Clique) -> Kron | None:
        """Return the query for a marginal; None asks for its counts."""
        if not self.contrasted.issuperset(clique) or not clique:
            return None
        return grouping_query(clique, [np.arange(self.domain[name]) for name in clique], [True])


def _levels_of(domain: Domain, clique: Clique) -> list[np.ndarray]:
    """Return the levels of an attribute's tree that are measured, and its codes; nothing without a tree."""
    return measured_levels(branches(domain, clique[0]), domain[clique[0]]) if clique else []


def _least_error_shares(errors: np.ndarray, attributes: int, power: float) -> np.ndarray:
    r"""Return the shares that minimize the sum of the attributes' errors; they are proportional to $(w e)^{2/(2 + p)}$.

    The error $e_0$ of the number of records, if it is measured, adds to that of each attribute: $\sqrt{e^2 + e_0^2}$.

    Args:
        errors: The errors e at the whole budget, in standard deviations of a count: one for each attribute, and one for
            the number of records if it is measured.
        attributes: The number of attributes.
        power: The power p of the share to which precision is proportional.
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
