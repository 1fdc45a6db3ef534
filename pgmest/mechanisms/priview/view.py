"""ViewModel: consistent views, from which every other marginal is reconstructed (PriView section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np

from pgmest._base.npz import counts
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, ModelTooLarge, count_text, plural
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.base import checked_total
from pgmest.models.distribution import Distribution
from pgmest.models.files import read_tables, tables_tree
from pgmest.models.fitted_model import fitted_model
from pgmest.synthesis import LocalSearch, norm_sub, shared_sets, synthesize
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.evidence import checked_evidence
from pgmest.tables.factor import Factor

RECONSTRUCTIONS = ("maxent", "least_norm", "lp")
ENTROPY_TOLERANCE, ENTROPY_ROUNDS = 1e-6, 200
"""The stopping rule of the iterative proportional fitting that finds a table of maximum entropy."""

RECONSTRUCTED_CELLS = 1 << 22
"""The largest marginal, in cells, that is reconstructed as one table."""

ENUMERATED = 8
"""The views' parts of a marginal are looked up by subset up to this many attributes; above, all views are scanned."""

DYKSTRA_ROUNDS = 200
"""The largest number of alternating projections onto the known marginals and onto non-negative tables."""


@dataclass(frozen=True, eq=False, repr=False)
class ViewModel(Distribution):
    """Views that agree with each other, and a number of records. There is no joint distribution.

    A marginal inside a view is read from the view. For any other marginal, the views determine some of its marginals.
    The answer is the table of maximum entropy with these ("maxent"), the one of least l2 norm ("least_norm"), both
    without negative counts, or one whose marginals are off by at most t for the least possible t ("lp"). Records are
    changed code by code until they match all views (`pgmest.synthesis.LocalSearch`).

    Attributes:
        domain: all attributes; those in no view are uniform.
        views: tables of non-negative counts.
        total: the number of records.
        reconstruction: "maxent", "least_norm" or "lp".

    Raises:
        ArgumentError: `total` is negative or no number, or there is no such reconstruction.
    """

    refittable_by: ClassVar[str] = 'PriView(estimator="pgm").fit'

    domain: Domain
    views: tuple[Factor, ...]
    total: float
    reconstruction: str = "maxent"

    def __post_init__(self) -> None:
        if self.reconstruction not in RECONSTRUCTIONS:
            raise ArgumentError.of("reconstruction", self.reconstruction, RECONSTRUCTIONS)
        object.__setattr__(self, "views", tuple(self.views))
        object.__setattr__(self, "total", checked_total(self.total))

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The attributes of each view."""
        return tuple(view.domain.attributes for view in self.views)

    def _project(self, attributes: Iterable[str] | str, given: Mapping[str, int] | None = None) -> Factor:
        """Return the marginal on any attributes, in counts; `given` selects records by codes of other attributes.

        Raises:
            UnknownAttributeError: an attribute is not in the domain.
            CodeRangeError, QueryError: a given code is out of range, or of an attribute in `attributes`.
            ModelTooLarge: a table of more than four million cells that no view contains.
        """
        clique = self.domain.clique(attributes)
        if given:
            evidence = checked_evidence(self.domain, given, clique)
            return self.project((*clique, *evidence)).condition(evidence)
        holding = self._holding(clique)
        if holding is not None:
            return holding.project(clique)
        table = self.domain.project(clique)
        if self.reconstruction == "maxent":
            return self._most_entropy(clique)
        if table.size() > RECONSTRUCTED_CELLS:
            raise ModelTooLarge(
                f"the marginal over {clique} has {count_text(table.size())} cells, and no view holds it. "
                "Ask for fewer attributes at a time."
            )
        rebuild = _least_norm if self.reconstruction == "least_norm" else _least_violation
        return Factor.owning(table, rebuild(table, self._known_marginals(clique), self.total))

    def distance(self, records: Dataset) -> float:
        """Return the mean total variation distance between the views and the marginals of records, between 0 and 1.

        It may be positive for all records: a distribution that has all the views need not exist.
        """
        if not self.views or not records.total or not self.total:
            return 0.0
        tables = records.project_many(self.cliques)
        apart = [
            np.abs(table.values / records.total - view.values / self.total).sum() / 2
            for table, view in zip(tables, self.views, strict=True)
        ]
        return float(np.mean(apart))

    def _drawn(self, n: int, method: str, seed: int | np.random.Generator | None) -> Dataset:
        """Draw n records together, with marginals close to the views; no distribution gives them one by one."""
        if method != "round":
            raise ArgumentError.of("method", method, ("round",))
        return synthesize(self.views, self.domain, n, method=LocalSearch(), seed=seed)

    def _known_marginals(self, clique: Clique) -> list[Factor]:
        """Return the largest marginals of a clique that the views contain, each once; without any, the total."""
        if len(clique) <= ENUMERATED:
            parts = [part for size in range(len(clique), 0, -1) for part in combinations(clique, size)]
            known = {part: view for part in parts if (view := self._holding(part)) is not None}
        else:
            inside = [tuple(name for name in clique if name in view.domain) for view in self.views]
            known = dict(zip(inside, self.views, strict=True))
        largest = [part for part in known if not any(set(part) < set(other) for other in known)]
        return [known[part].project(part) for part in largest if part] or [Factor({}, self.total)]

    @cached_property
    def _by_attribute(self) -> dict[str, set[int]]:
        """The positions of the views that contain each attribute."""
        found: dict[str, set[int]] = {}
        for position, view in enumerate(self.views):
            for name in view.domain:
                found.setdefault(name, set()).add(position)
        return found

    def _holding(self, clique: Clique) -> Factor | None:
        """Return the smallest view that contains these attributes, or None."""
        holders = sorted((self._by_attribute.get(name, set()) for name in clique), key=len)
        found = set.intersection(*holders) if holders else range(len(self.views))
        position = min(found, key=lambda position: (self.views[position].values.size, position), default=None)
        return None if position is None else self.views[position]

    def _most_entropy(self, clique: Clique) -> Factor:
        measured = [LinearMeasurement(table, table.domain.attributes) for table in self._known_marginals(clique)]
        table = self.domain.project(clique)
        return fitted_model(measured, table, self.total, ENTROPY_TOLERANCE, ENTROPY_ROUNDS).project(clique)

    def _saved(self) -> dict[str, Any]:
        return {**tables_tree(self.views), "reconstruction": self.reconstruction}

    @classmethod
    def _of_saved(cls, domain: Domain, tree: Mapping[str, Any]) -> Self:
        counts(tree["cells"])
        return cls(domain, tuple(read_tables(domain, tree)), tree["total"], tree["reconstruction"])

    def __repr__(self) -> str:
        return (
            f"ViewModel: {self.total:,.1f} records, {plural(len(self.domain), 'attribute')}, "
            f"{plural(len(self.views), 'view')}, others by {self.reconstruction}"
        )


def _least_norm(domain: Domain, known: Sequence[Factor], total: float) -> np.ndarray:
    """Return the table of least l2 norm among those without negative counts that have the known marginals.

    Shifting the table evenly onto one marginal after the other, smallest first, projects it onto all tables that have
    them (see `consistent_tables`). Dykstra's algorithm combines this projection and clipping at 0 into a projection
    onto the intersection.
    """
    targets = {
        part: next(t for t in known if set(part) <= set(t.domain)).project(part).values
        for part in [*shared_sets([t.domain for t in known]), *(t.domain.attributes for t in known)]
    }
    ordered = sorted(targets, key=len)
    table, correction = np.zeros(domain.shape), np.zeros(domain.shape)
    for _ in range(DYKSTRA_ROUNDS):
        for part in ordered:
            out = tuple(axis for axis, name in enumerate(domain) if name not in part)
            inside = domain.ordered(part)
            target = Factor.owning(domain.project(part), targets[part]).transpose(inside).values
            cells = domain.size() / domain.size(part)
            table = table + np.expand_dims((target - table.sum(axis=out)) / cells, out)
        if -table.min() <= 1e-6 * total / table.size:
            break
        cut = np.maximum(table + correction, 0.0)
        correction = table + correction - cut
        table = cut
    return norm_sub(table, total)


def _least_violation(domain: Domain, known: Sequence[Factor], total: float) -> np.ndarray:
    """Return a table whose marginals differ from the known ones by at most t, for the least t (linear program)."""
    from scipy.optimize import linprog
    from scipy.sparse import block_array, csr_array, vstack

    cells = np.arange(domain.size())
    codes = dict(zip(domain, np.unravel_index(cells, domain.shape), strict=True))
    rows, goals = [], []
    for table in known:
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
    """Return the tables without the negative counts that `consistent_tables` may leave."""
    return tuple(Factor.owning(table.domain, norm_sub(table.values, total)) for table in tables)
