"""A public table beside the private one: marginals without noise and without a price, whose bias nobody knows.

What such a marginal is worth is decided by paid answers only: see `Evidence` for what was measured, `Rounds` for what
was not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pgmest._base.errors import DataError, DomainError
from pgmest.inference.support.support import Support
from pgmest.mechanisms.pgm.shrinkage import LEAST_SHARE, fitted_to
from pgmest.models.exact import Model
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain


@dataclass(eq=False)
class PublicTables:
    """Marginals of a public table or model, each made once.

    Attributes:
        source: has `project_many`.
        domain: the attributes.
    """

    source: Any
    domain: Domain
    _known: dict[Clique, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, prior: Any, domain: Domain) -> PublicTables | None:
        """Of what was given as `prior=`; None of None.

        Raises:
            DomainError: it is over other attributes.
            DataError: it holds no records.
        """
        if prior is None:
            return None
        if prior.domain != domain:
            raise DomainError(
                f"prior= is over {prior.domain!r}, the private records over {domain!r}; select(...) the same "
                "attributes in the same order from both."
            )
        source = Model(prior, 1.0) if isinstance(prior, CliqueVector) else prior
        if isinstance(source, Support):
            source = source.records
        if not float(source.project(()).values.sum()) > 0:
            raise DataError("prior= holds no records of positive weight, so there is nothing to learn from it.")
        return cls(source, domain)

    def prepare(self, cliques: Iterable[Clique]) -> None:
        """Make marginals together, which is faster than one by one."""
        missing = [clique for clique in dict.fromkeys(cliques) if clique not in self._known]
        for clique, table in zip(missing, self.source.project_many(missing) if missing else (), strict=True):
            self._known[clique] = np.maximum(table.values, 0.0) / table.values.sum()

    def one_way(self, name: str, total: float) -> np.ndarray:
        """The counts that an attribute would have, positive."""
        self.prepare([(name,)])
        fractions = self._known[name,]
        return total * ((1 - LEAST_SHARE) * fractions + LEAST_SHARE / len(fractions))

    def pair(self, clique: Clique, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The table that two attributes of these counts would have: the dependence is the public one.

        Their ratio of odds is kept where there are public records; cells without any keep a little of independence.
        """
        self.prepare([clique])
        public = self._known[clique]
        smooth = (1 - LEAST_SHARE) * public + LEAST_SHARE * np.outer(public.sum(axis=1), public.sum(axis=0))
        return fitted_to(smooth + LEAST_SHARE**2 / public.size, rows, columns)


def checked_prior(value: Any) -> Any:
    """A public table, a model, log-potentials, or None.

    Raises:
        TypeError: something else.
    """
    if value is None or isinstance(value, CliqueVector | Support):
        return value
    if hasattr(value, "project_many") and isinstance(getattr(value, "domain", None), Domain):
        return value
    raise TypeError
