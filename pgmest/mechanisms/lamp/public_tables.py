"""Marginals of a public table, which have no noise and no privacy cost but an unknown bias.

Private answers decide whether such a marginal is used: `Evidence` decides for measured pairs, `Rounds` for the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pgmest.errors import DataError, DomainError
from pgmest.inference.support.support import Support
from pgmest.mechanisms.lamp.shrinkage import LEAST_SHARE, ipf_two_way
from pgmest.models.exact import Model
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain


@dataclass(eq=False)
class PublicTables:
    """The marginals of a public table or model, each computed once.

    Attributes:
        source: The public table or model, an object with `project_many`.
        domain: The attributes.
    """

    source: Any
    domain: Domain
    _known: dict[Clique, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, prior: Any, domain: Domain) -> PublicTables | None:
        """Create the tables from the argument `prior=`; None remains None.

        Raises:
            DomainError: The prior is over other attributes.
            DataError: The prior has no records of positive weight.
        """
        if prior is None:
            return None
        if prior.domain.project(prior.domain.varying) != domain.project(domain.varying):
            raise DomainError(
                f"prior= is over {prior.domain!r}, the private records over {domain!r}; select(...) the same "
                "attributes in the same order from both."
            )
        source = Model(prior, 1.0) if isinstance(prior, CliqueVector) else prior
        if isinstance(source, Support):
            source = source.records
        if not float(source.project(()).values.sum()) > 0:
            raise DataError(
                "prior= has no records of positive weight; pass a public table with records, or prior=None."
            )
        return cls(source, domain)

    def prepare(self, cliques: Iterable[Clique]) -> None:
        """Compute several marginals at once, which is faster than one by one."""
        missing = [clique for clique in dict.fromkeys(cliques) if clique not in self._known]
        for clique, table in zip(missing, self.source.project_many(missing) if missing else (), strict=True):
            self._known[clique] = np.maximum(table.values, 0.0) / table.values.sum()

    def one_way(self, name: str, total: float) -> np.ndarray:
        """Return the counts of an attribute in the public table, scaled to the total and positive."""
        self.prepare([(name,)])
        fractions = self._known[name,]
        return total * ((1 - LEAST_SHARE) * fractions + LEAST_SHARE / len(fractions))

    def pair(self, clique: Clique, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the table with the dependence of the public table and the given one-way marginals.

        The odds ratios are those of the public table, smoothed slightly towards independence, so that no cell is zero.
        """
        self.prepare([clique])
        public = self._known[clique]
        smooth = (1 - LEAST_SHARE) * public + LEAST_SHARE * np.outer(public.sum(axis=1), public.sum(axis=0))
        return ipf_two_way(smooth + LEAST_SHARE**2 / public.size, rows, columns)


def checked_prior(value: Any) -> Any:
    """Return a public table, a model, log-potentials, or None.

    Raises:
        TypeError: The value is something else.
    """
    if value is None or isinstance(value, CliqueVector | Support):
        return value
    if hasattr(value, "project_many") and isinstance(getattr(value, "domain", None), Domain):
        return value
    raise TypeError
