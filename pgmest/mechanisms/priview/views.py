"""ViewModel: consistent views, and any other marginal reconstructed from what they say of it (PriView section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest._base.errors import ModelTooLarge, at_least, count_text, plural
from pgmest.data.dataset import Dataset
from pgmest.estimation.estimate import estimate
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.synthesis import norm_sub, shared_sets, synthesize
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

RECONSTRUCTIONS = ("maxent", "least_norm", "lp")
FIT_TOLERANCE, FIT_ROUNDS = 1e-6, 200
MOST_CELLS = 1 << 22
"""Larger marginals are not reconstructed as one table."""
TURNS = 200
"""So often least squares and non-negativity take turns."""


@dataclass(frozen=True, eq=False, repr=False)
class ViewModel:
    """Views that agree with each other, and a number of records. No joint distribution.

    A marginal inside a view is read from it. Of any other the views tell marginals, and it is the table of maximum
    entropy with these ("maxent"), that of least l2 norm ("least_norm"), both without negative counts, or one whose
    marginals are at most t off, with the least t that is possible ("lp"). Records are made by GUM from all views.

    Attributes:
        domain: all the attributes; those in no view are uniform.
        views: tables of non-negative counts.
        total: the number of records.
        reconstruction: "maxent", "least_norm" or "lp".
    """

    domain: Domain
    views: tuple[Factor, ...]
    total: float
    reconstruction: str = "maxent"

    def project(self, attributes: Iterable[str] | str) -> Factor:
        """The marginal on any attributes, in counts.

        Raises:
            UnknownAttributeError: an attribute that the domain does not have.
            ModelTooLarge: a table of more than four million cells that no view holds.
        """
        clique = self.domain.clique(attributes)
        holding = [view for view in self.views if set(clique) <= set(view.domain)]
        if holding:
            return min(holding, key=lambda view: view.values.size).project(clique)
        table = self.domain.project(clique)
        if self.reconstruction == "maxent":
            return self._most_entropy(clique)
        if table.size() > MOST_CELLS:
            raise ModelTooLarge(
                f"the marginal over {clique} has {count_text(table.size())} cells, and no view holds it. "
                "Ask for fewer attributes at a time."
            )
        rebuild = _least_norm if self.reconstruction == "least_norm" else _least_violation
        return Factor(table, rebuild(table, self._told(clique), self.total))

    def sample(self, n: int | None = None, *, seed: int | np.random.Generator | None = None) -> Dataset:
        """Synthetic records, whose marginals are close to the views; by default as many as `total`.

        Raises:
            ArgumentError: `n` is not an integer of at least 0.
        """
        size = round(self.total) if n is None else at_least("n", n, 0)
        return synthesize(self.views, self.domain, size, seed=seed)

    def _told(self, clique: Clique) -> list[Factor]:
        """The largest marginals of a clique that the views tell, each once; at least the number of records."""
        inside = [tuple(name for name in clique if name in view.domain) for view in self.views]
        told = dict(zip(inside, self.views, strict=True))
        largest = [part for part in told if not any(set(part) < set(other) for other in told)]
        return [told[part].project(part) for part in largest if part] or [Factor({}, self.total)]

    def _most_entropy(self, clique: Clique) -> Factor:
        measured = [LinearMeasurement(table, table.domain.attributes) for table in self._told(clique)]
        fit = {"tolerance": FIT_TOLERANCE, "max_iterations": FIT_ROUNDS}
        return estimate(measured, self.domain.project(clique), total=self.total, method="ipf", **fit).project(clique)

    def __repr__(self) -> str:
        return (
            f"ViewModel: {self.total:,.1f} records, {plural(len(self.domain), 'attribute')}, "
            f"{plural(len(self.views), 'view')}, others by {self.reconstruction}"
        )


def _least_norm(domain: Domain, told: Sequence[Factor], total: float) -> np.ndarray:
    """The table of least l2 norm among those without negative counts that have the marginals told.

    Moving the table evenly onto one marginal after the other, smallest first, projects it onto all tables that have
    them (see `consistent_tables`). Dykstra's algorithm turns that and cutting at 0 into a projection onto both.
    """
    known = {
        part: next(t for t in told if set(part) <= set(t.domain)).project(part).values
        for part in [*shared_sets([t.domain for t in told]), *(t.domain.attributes for t in told)]
    }
    ordered = sorted(known, key=len)
    table, correction = np.zeros(domain.shape), np.zeros(domain.shape)
    for _ in range(TURNS):
        for part in ordered:
            out = tuple(axis for axis, name in enumerate(domain) if name not in part)
            inside = domain.ordered(part)
            goal = Factor(domain.project(part), known[part]).transpose(inside).values
            cells = domain.size() / domain.size(part)
            table = table + np.expand_dims((goal - table.sum(axis=out)) / cells, out)
        if -table.min() <= 1e-6 * total / table.size:
            break
        cut = np.maximum(table + correction, 0.0)
        correction = table + correction - cut
        table = cut
    return norm_sub(table, total)


def _least_violation(domain: Domain, told: Sequence[Factor], total: float) -> np.ndarray:
    """A table whose marginals differ from those told by at most t in any cell, for the least t: a linear program."""
    from scipy.optimize import linprog
    from scipy.sparse import block_array, csr_array, vstack

    cells = np.arange(domain.size())
    codes = dict(zip(domain, np.unravel_index(cells, domain.shape), strict=True))
    rows, goals = [], []
    for table in told:
        shape = table.domain.shape
        places = np.ravel_multi_index([codes[name] for name in table.domain], shape) if shape else 0 * cells
        rows.append(csr_array((np.ones(cells.size), (places, cells)), shape=(table.values.size, cells.size)))
        goals.append(table.datavector())
    marginals, wanted = vstack(rows), np.concatenate(goals)
    slack = csr_array(np.full((wanted.size, 1), -1.0))
    found = linprog(
        np.append(np.zeros(cells.size), 1.0),
        A_ub=block_array([[marginals, slack], [-marginals, slack]], format="csr"),
        b_ub=np.concatenate([wanted, -wanted]),
        A_eq=csr_array(np.append(np.ones(cells.size), 0.0)[None, :]),
        b_eq=[total],
        method="highs",
    )
    return found.x[:-1].reshape(domain.shape)


def clipped(tables: Iterable[Factor], total: float) -> tuple[Factor, ...]:
    """Tables without the negative counts that `consistent_tables` may leave."""
    return tuple(Factor(table.domain, norm_sub(table.values, total)) for table in tables)
