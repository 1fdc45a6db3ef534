"""ApproximateModel: what estimation returns where no junction tree would fit: tables that agree, and trees of some."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

import numpy as np

from pgmest.clique_vector import CliqueVector
from pgmest.dataset import Dataset
from pgmest.domain import Clique, Domain
from pgmest.errors import ArgumentError, listed, plural
from pgmest.estimation.approximate import ApproximateReport
from pgmest.factor import Factor
from pgmest.inference.region_trees import dependence, fitting_cliques, pairs_of
from pgmest.measurement import LinearMeasurement
from pgmest.model import Model
from pgmest.queries import Kron

QUERY_CELLS, QUERY_CLIQUES = 200_000, 8
"""The junction tree behind an answer that no single table gives has at most so many cells, and so many tables fit."""

TREE_MEGABYTES = 16.0
"""The same for the one tree that records are drawn from."""

KEPT_MODELS = 64

FIT_TOLERANCE, FIT_ROUNDS = 1e-5, 20
"""These models are fitted by iterative proportional fitting: the tables agree, but for a little."""


@dataclass(frozen=True, eq=False, repr=False)
class ApproximateModel:
    """Tables of the measured cliques that agree where they overlap, and a number of records. No joint distribution.

    - A marginal inside a measured clique is read from its table.
    - Any other answer is that of an ordinary `Model`: the one of maximum entropy that fits the tables nearest to the
      question, as many as a small junction tree holds. So two such answers need not agree with each other.
    - Records come from one such model of all attributes, `tree_model`, which fits those tables that matter most.

    `estimate(oracle="convex")` makes it.

    Args:
        marginals: the tables, in counts.
        total: the number of records.
        report: how they were found, and how far they disagree.
        total_stddev: the standard error of `total`; None where it is known, or nothing is known of it.
        measurements: what the tables were estimated from.
    """

    marginals: CliqueVector
    total: float
    report: ApproximateReport
    total_stddev: float | None = None
    measurements: tuple[LinearMeasurement, ...] | None = None
    _models: dict[tuple[Clique, ...], Model] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        if isinstance(self.total, bool) or not 0 < self.total < np.inf:
            raise ArgumentError.of("total", self.total, "a positive number of records")

    @property
    def domain(self) -> Domain:
        """All the attributes."""
        return self.marginals.domain

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The measured cliques."""
        return self.marginals.cliques

    @property
    def inconsistency(self) -> float:
        """The largest L1 distance between what two tables, summing to 1, say of attributes that they share."""
        return self.report.inconsistency

    # -- queries ----------------------------------------------------------------------------------------------------

    def project(self, attributes: Iterable[str] | str, given: Mapping[str, int] | None = None) -> Factor:
        """The marginal on any attributes, in counts; arguments and errors as for `pg.Model.project`."""
        names = self.domain.clique(attributes)
        holding = self._holding((*names, *(given or ())))
        if holding is not None and not given:
            return self.marginals[holding].project(names)
        return self.local_model((*names, *(given or ()))).project(names, given)

    def project_many(self, cliques: Iterable[Iterable[str] | str]) -> list[Factor]:
        """The marginals on many sets of attributes, in counts, one after the other."""
        return [self.project(clique) for clique in cliques]

    @overload
    def answer(
        self, query: Sequence[Kron], clique: None = None, given: Mapping[str, int] | None = None
    ) -> list[Factor]: ...

    @overload
    def answer(
        self, query: Any, clique: Iterable[str] | str | None = None, given: Mapping[str, int] | None = None
    ) -> Factor: ...

    def answer(
        self, query: Any, clique: Iterable[str] | str | None = None, given: Mapping[str, int] | None = None
    ) -> Factor | list[Factor]:
        """The answers to linear queries, in counts; arguments and errors as for `pg.Model.answer`."""
        if clique is None and isinstance(query, list | tuple) and all(isinstance(one, Kron) for one in query):
            return [self.answer(one, None, given) for one in query]
        if clique is not None:
            names = self.domain.clique(clique)
        elif isinstance(query, Kron):
            query.check(self.domain)
            names = query.attributes
        else:
            names = getattr(query, "clique", ())
        return self.local_model((*names, *(given or ()))).answer(query, clique, given)

    def local_model(self, attributes: Iterable[str] | str) -> Model:
        """An ordinary model of these attributes and those of the tables around them, from which they are answered.

        It is the table that holds them all, where there is one. Else tables are taken by how many of the attributes
        they hold, then by how many that share a table with these, as long as their junction tree stays small.

        Raises:
            UnknownAttributeError: an attribute is not in the domain.
        """
        names = self.domain.clique(dict.fromkeys((attributes,) if isinstance(attributes, str) else attributes))
        holding = self._holding(names)
        if holding is not None:
            logs = self.marginals[holding].log()
            return Model(CliqueVector(logs.domain, {holding: logs}), self.total)
        near = set(names).union(*(clique for clique in self.cliques if set(names).intersection(clique)))

        def rank(clique: Clique) -> tuple[int, int, float]:
            return -len(set(names).intersection(clique)), -len(near.intersection(clique)), -self._dependence[clique]

        touching = [clique for clique in self.cliques if near.intersection(clique) and len(clique) > 1]
        cliques = fitting_cliques(self.domain, sorted(touching, key=rank), QUERY_CELLS, QUERY_CLIQUES)
        return self._fitted(cliques, dict.fromkeys((*names, *(name for clique in cliques for name in clique))))

    def tree_model(self, max_megabytes: float = TREE_MEGABYTES) -> Model:
        """An ordinary model of all attributes: of maximum entropy given as many of the tables as fit into its tree.

        Tables are taken in the order of the dependence in them, then pairs of attributes from tables that did not fit.
        What the others say is lost. It can be saved, conditioned, and asked anything.

        Args:
            max_megabytes: the most that its junction tree may take.
        """
        limit = int(max_megabytes * 1e6 / 8)
        ranked = sorted(self._dependence, key=lambda clique: -self._dependence[clique])
        taken = fitting_cliques(self.domain, (c for c in ranked if self.domain.size(c) <= limit), limit)
        rest = {pair: dependence(self.project(pair)) for pair in pairs_of([c for c in ranked if c not in taken])}
        pairs = [pair for pair in sorted(rest, key=lambda pair: -rest[pair]) if self.domain.size(pair) <= limit]
        return self._fitted(fitting_cliques(self.domain, (*taken, *pairs), limit), self.domain)

    # -- records ----------------------------------------------------------------------------------------------------

    def sample(
        self, n: int | None = None, method: str = "round", seed: int | np.random.Generator | None = None
    ) -> Dataset:
        """Synthetic records of `tree_model()`; arguments and errors as for `pg.Model.sample`."""
        return self._tree_model.sample(n, method, seed)

    def sample_batches(
        self,
        n: int | None = None,
        batch: int | None = None,
        method: str = "round",
        seed: int | np.random.Generator | None = None,
    ) -> Iterator[Dataset]:
        """The same a batch at a time, at constant memory."""
        return self._tree_model.sample_batches(n, batch, method, seed)

    @cached_property
    def _tree_model(self) -> Model:
        return self.tree_model()

    # -- trees ------------------------------------------------------------------------------------------------------

    def _holding(self, names: Iterable[str]) -> Clique | None:
        """The smallest measured clique that holds all these attributes."""
        wanted = set(names)
        holding = [clique for clique in self.cliques if wanted.issubset(clique)]
        return min(holding, key=self.domain.size, default=None)

    @cached_property
    def _dependence(self) -> dict[Clique, float]:
        return {clique: dependence(table) for clique, table in self.marginals.items() if len(clique) > 1}

    @cached_property
    def _noise(self) -> float:
        """The standard deviation of a typical measurement, which says how closely tables are worth fitting."""
        return float(np.median([np.median(m.stddev) for m in self.measurements or ()] or [1.0]))

    def _fitted(self, cliques: Sequence[Clique], attributes: Iterable[str]) -> Model:
        """The model of maximum entropy with these tables, and single attributes of other tables; kept."""
        from pgmest.estimation.estimate import estimate

        names = tuple(name for name in self.domain if name in set(attributes))
        covered = {name for clique in cliques for name in clique}
        single = [(name,) for name in names if name not in covered and self._holding((name,)) is not None]
        key = (*cliques, *single)
        with self._lock:
            found = self._models.pop(key, None)
            if found is None:
                tables = [LinearMeasurement(self.project(clique).values, clique, self._noise) for clique in key]
                found = estimate(
                    tables,
                    self.domain.project(names),
                    total=self.total,
                    method="ipf",
                    tolerance=FIT_TOLERANCE,
                    max_iterations=FIT_ROUNDS,
                )
            self._models[key] = found
            while len(self._models) > KEPT_MODELS:
                self._models.pop(next(iter(self._models)))
        return found

    def __repr__(self) -> str:
        lines = [
            f"ApproximateModel: {self.total:,.1f} records, {plural(len(self.domain), 'attribute')}, "
            f"{plural(len(self.cliques), 'measured clique')}",
            f"  attributes   {listed((f'{name} ({size})' for name, size in self.domain.items()), 8)}",
            f"  tables       {listed((' x '.join(clique) or '()' for clique in self.cliques), 4)}",
            f"  disagreement {self.inconsistency:.2g} at most, L1, of tables that sum to 1",
        ]
        report = str(self.report).splitlines()
        return "\n".join([*lines, *(f"  {'' if i else 'estimate':<12} {line}" for i, line in enumerate(report))])
