"""ApproximateModel: consistent tables of the measured cliques, for cliques whose junction tree would be too wide."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from pgmest._base.npz import Unreadable, counts, number
from pgmest._base.widths import joined, shortened
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, listed
from pgmest.inference.regions.region_trees import dependence, fitting_cliques, pairs_of
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.base import checked_total
from pgmest.models.distribution import Distribution
from pgmest.models.exact import Model
from pgmest.models.files import read_vector, vector_tree
from pgmest.models.table_model import bearing_cells, marginal_model, model_of_tables
from pgmest.queries import Kron
from pgmest.solvers.report import ApproximateReport, EstimationReport
from pgmest.synthesis.local_search import LocalSearch
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.evidence import checked_evidence
from pgmest.tables.factor import Factor

QUERY_CELLS, QUERY_CLIQUES = 100_000, 8
"""An answer that no single table contains comes from at most QUERY_CLIQUES tables, whose junction tree has at most
QUERY_CELLS cells after the attributes that do not affect the answer are summed out."""

SAMPLED_TREE_MEGABYTES = 16.0
"""The largest junction tree, in megabytes, of the one model from which records are drawn."""

KEPT_MODELS = 64
"""The number of local models that are kept for further questions."""

LOCAL_TOLERANCE, LOCAL_ROUNDS = 1e-4, 20
"""The stopping rule of the local models' iterative proportional fitting: the L1 distance of tables that sum to one (or
twice the tables' disagreement, if that is larger), and the number of rounds."""


@dataclass(frozen=True, eq=False, repr=False)
class ApproximateModel(Distribution):
    """Consistent tables of the measured cliques, and a number of records; there is no joint distribution.

    - A marginal inside a measured clique is read from its table.
    - Any other answer comes from an ordinary `Model`: the one of maximum entropy that fits the tables nearest to the
      query, as many as a small junction tree holds. Two such answers need not agree with each other.
    - Records come from one such model of all attributes, `tree_model`, which fits the tables with the most dependence.
      They are then changed code by code until they match all tables (`pgmest.synthesis.LocalSearch`). Independent
      draws (method="multinomial") are those of the tree.

    `estimate(oracle="convex")` makes it.

    Args:
        marginals: the tables, in counts.
        total: the number of records.
        report: how the tables were found, and by how much they disagree.
        total_stddev: the standard error of `total`; None if the total is known, or its error unknown.
        measurements: the measurements from which the tables were estimated.
        noise: the standard deviation of a typical measurement; by default that of the measurements.
    """

    refittable_by: ClassVar[str] = 'pgmest.estimate(measurements, domain, oracle="exact")'
    saved_report: ClassVar[type[EstimationReport]] = ApproximateReport

    marginals: CliqueVector
    total: float
    report: ApproximateReport
    total_stddev: float | None = None
    measurements: tuple[LinearMeasurement, ...] | None = None
    noise: float = 0.0
    _models: dict[Hashable, Model] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", checked_total(self.total))
        if not self.noise:
            typical = np.median([np.median(m.stddev) for m in self.measurements or ()] or [1.0])
            object.__setattr__(self, "noise", float(typical))

    @property
    def domain(self) -> Domain:
        """All attributes."""
        return self.marginals.domain

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The measured cliques."""
        return self.marginals.cliques

    @property
    def inconsistency(self) -> float:
        """The largest L1 distance between two tables' marginals on shared attributes, of tables that sum to 1."""
        return self.report.inconsistency

    # -- queries ----------------------------------------------------------------------------------------------------

    def _project(self, attributes: Iterable[str] | str, given: Mapping[str, int] | None = None) -> Factor:
        names = self.domain.clique(attributes)
        if not self.total:
            checked_evidence(self.domain, given, names)
            return Factor.zeros(self.domain.project(names))
        holding = self._holding((*names, *(given or ())))
        if holding is not None and not given:
            return self.marginals[holding].project(names)
        return self._bearing_model((*names, *(given or ()))).project(names, given)

    def answer_krons(self, queries: Sequence[Kron], evidence: Mapping[str, int]) -> list[np.ndarray]:
        if not self.total:
            return [np.zeros(query.answer_shape) for query in queries]
        local = (self._bearing_model((*query.attributes, *evidence)) for query in queries)
        return [model.answer_krons([query], evidence)[0] for model, query in zip(local, queries, strict=True)]

    def local_model(self, attributes: Iterable[str] | str) -> Model:
        """Return an ordinary model of the tables around these attributes, which answers queries on them.

        If one table contains all the attributes, the model is that table. Otherwise tables are added while the junction
        tree stays small: first those with the most of the attributes, then those with the most of their neighbors, the
        attributes that share a table with them.

        Raises:
            UnknownAttributeError: an attribute is not in the domain.
        """
        names = self.domain.clique(dict.fromkeys((attributes,) if isinstance(attributes, str) else attributes))
        holding = self._holding(names)
        if holding is not None:
            return self._table_model(holding)
        cliques = self._tables_near(names)
        return self._model_of(cliques, dict.fromkeys((*names, *(name for clique in cliques for name in clique))))

    def tree_model(self, max_megabytes: float = SAMPLED_TREE_MEGABYTES) -> Model:
        """Return an ordinary model of all attributes, of maximum entropy given as many tables as its tree holds.

        Tables are added in the order of the dependence in them, then pairs of attributes from tables that did not fit.
        The remaining tables are ignored. The model can be saved, conditioned, and asked any query.

        Args:
            max_megabytes: the largest size of its junction tree.
        """
        limit = int(max_megabytes * 1e6 / 8)
        ranked = sorted(self._dependence, key=lambda clique: -self._dependence[clique])
        taken = fitting_cliques(self.domain, (c for c in ranked if self.domain.size(c) <= limit), limit)
        rest = {pair: dependence(self.project(pair)) for pair in pairs_of([c for c in ranked if c not in taken])}
        pairs = [pair for pair in sorted(rest, key=lambda pair: -rest[pair]) if self.domain.size(pair) <= limit]
        return self._model_of(fitting_cliques(self.domain, (*taken, *pairs), limit), self.domain)

    # -- records ----------------------------------------------------------------------------------------------------

    def _drawn(self, n: int, method: str, seed: int | np.random.Generator | None) -> Dataset:
        if not self.total:
            if n:
                raise ArgumentError.of("n", n, "0, as the tables have no records; give estimate(total=...)")
            return Dataset.from_codes([np.zeros(0, dtype=np.int64)] * len(self.domain), self.domain)
        if not n:
            return self._tree_model.sample(n, method, seed)
        return next(self._drawn_in_batches(n, n, method, seed))

    def _drawn_in_batches(
        self, n: int, batch: int, method: str, seed: int | np.random.Generator | None
    ) -> Iterator[Dataset]:
        if not n:
            return
        generator = np.random.default_rng(seed)
        drawn = self._tree_model.sample_batches(n, batch, method, generator)
        if method != "round":
            yield from drawn
            return
        wanted = [table * (n / self.total) for table in self.marginals.values()]
        for records in drawn:  # each batch takes its share of what the earlier ones have left
            made = LocalSearch().improved(records, wanted, generator)
            yield made
            found = made.project_many([table.domain.attributes for table in wanted])
            left = (table - counts for table, counts in zip(wanted, found, strict=True))
            wanted = [  # impossible cells stay impossible, whatever the tree has drawn
                Factor(rest.domain, np.where(table.values == 0.0, 0.0, rest.values))
                for table, rest in zip(self.marginals.values(), left, strict=True)
            ]

    @cached_property
    def _tree_model(self) -> Model:
        return self.tree_model()

    def _saved(self) -> dict[str, Any]:
        return {**vector_tree(self.marginals), "noise": self.noise}

    @classmethod
    def _of_saved(cls, domain: Domain, tree: Mapping[str, Any]) -> Self:
        if tree["report"] is None:
            raise Unreadable("it has no report")
        marginals, noise = read_vector(domain, tree), number(tree, "noise", np.nextafter(0, 1))
        counts(marginals.flat)
        return cls(marginals, tree["total"], tree["report"], tree["total_stddev"], noise=noise)

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.marginals, self.total, self.report, self.total_stddev, self.measurements, self.noise)
        return ApproximateModel, fields, self._noted()

    # -- trees ------------------------------------------------------------------------------------------------------

    def _holding(self, names: Iterable[str]) -> Clique | None:
        """Return the smallest measured clique that contains all these attributes, or None."""
        wanted = set(names)
        holding = [clique for clique in self.cliques if wanted.issubset(clique)]
        return min(holding, key=self.domain.size, default=None)

    @cached_property
    def _dependence(self) -> dict[Clique, float]:
        return {clique: dependence(table) for clique, table in self.marginals.items() if len(clique) > 1}

    def _tables_near(self, names: Clique) -> list[Clique]:
        """Return the tables from which a query on attributes without a common table is answered, the best first."""
        near = set(names).union(*(clique for clique in self.cliques if set(names).intersection(clique)))

        def rank(clique: Clique) -> tuple[int, int, float]:
            return -len(set(names).intersection(clique)), -len(near.intersection(clique)), -self._dependence[clique]

        touching = sorted((clique for clique in self._dependence if near.intersection(clique)), key=rank)
        taken = touching[:QUERY_CLIQUES]
        if bearing_cells(taken, names, self.domain) <= QUERY_CELLS:
            return taken
        taken = []
        for clique in touching[: 2 * QUERY_CLIQUES]:
            if len(taken) < QUERY_CLIQUES and bearing_cells([*taken, clique], names, self.domain) <= QUERY_CELLS:
                taken.append(clique)
        return taken

    def _bearing_model(self, attributes: Iterable[str]) -> Model:
        """Return `local_model` without the attributes that do not affect the answer."""
        names = self.domain.clique(dict.fromkeys(attributes))
        holding = self._holding(names)
        if holding is not None:
            return self._table_model(holding)
        tables = self._with_single(self._tables_near(names), names)
        return self._kept((frozenset(names), *tables), lambda: marginal_model(tables, names, *self._how(self.domain)))

    def _model_of(self, cliques: Sequence[Clique], attributes: Iterable[str]) -> Model:
        """Return the model of maximum entropy with these tables, and with one-way marginals of other attributes."""
        names = self.domain.ordered(attributes)
        tables = self._with_single(cliques, names)
        return self._kept((names, *tables), lambda: model_of_tables(tables, *self._how(self.domain.project(names))))

    def _how(self, domain: Domain) -> tuple[Domain, float, float, int]:
        return domain, self.total, max(LOCAL_TOLERANCE, 2.0 * self.inconsistency), LOCAL_ROUNDS

    def _table_model(self, clique: Clique) -> Model:
        logs = self.marginals[clique].log()
        return Model(CliqueVector(logs.domain, {clique: logs}), self.total)

    def _with_single(self, cliques: Sequence[Clique], names: Iterable[str]) -> dict[Clique, Factor]:
        """Return the cliques' tables, and the one-way marginals of attributes outside of these cliques."""
        covered = {name for clique in cliques for name in clique}
        single = [(name,) for name in names if name not in covered and self._holding((name,)) is not None]
        return {clique: self.project(clique) for clique in (*cliques, *single)}

    def _kept(self, key: Hashable, make: Callable[[], Model]) -> Model:
        """Return one of the last KEPT_MODELS models, or a new one."""
        with self._lock:
            found = self._models.pop(key, None) or make()
            self._models[key] = found
            while len(self._models) > KEPT_MODELS:
                self._models.pop(next(iter(self._models)))
        return found

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "attributes", listed((f"{shortened(name)} ({size})" for name, size in self.domain.items()), 8)
        yield "tables", listed((joined(clique, self.domain, " x ") for clique in self.cliques), 4)
        yield "disagreement", f"{self.inconsistency:.2g} at most, L1, of tables that sum to 1"
