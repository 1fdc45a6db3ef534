"""Least squares in closed form: consistent answers about all subsets of the measured marginals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, NoReturn

import numpy as np

from pgmest._base.errors import QueryError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.strategies.shared import SharedStrategy
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor


class LeastSquaresAnswers:
    """The marginals of the table of counts with the least squared residuals, and of these the smallest; not a model.

    Answers are unbiased and consistent with each other, and may be negative. The table itself is never materialized:
    each part of it (`pgmest.strategies.shared`) is a weighted mean of the measurements that see it.

    Args:
        domain: the attributes.
        strategy: what was measured.
        measurements: the answers, in the order of its cliques.
    """

    def __init__(self, domain: Domain, strategy: SharedStrategy, measurements: Sequence[LinearMeasurement]):
        self.domain: Domain = domain
        self.cliques: tuple[Clique, ...] = strategy.cliques
        self._attributes = strategy.attributes
        precisions = [float(np.mean(m.stddev)) ** -2.0 for m in measurements]
        eigenvalues = dict(zip(strategy.parts, strategy.eigenvalues(precisions), strict=True))
        self._parts: dict[frozenset[str], np.ndarray] = {}
        for measurement, precision in zip(measurements, precisions, strict=True):
            clique = measurement.clique
            cells = measurement.transpose_cells(measurement.values).reshape(domain.project(clique).shape)
            share = precision / np.sqrt(strategy.mass(clique))
            for part, eigenvalue in eigenvalues.items():
                if set(part) <= set(clique):
                    table = cells
                    for axis, name in enumerate(clique):
                        operation = self._attributes[name].centered if name in part else self._attributes[name].summed
                        table = operation(table, axis)
                    table = table.reshape([domain[name] for name in clique if name in part])
                    self._add(tuple(name for name in clique if name in part), table * (share / eigenvalue))

    def _add(self, part: Clique, table: np.ndarray) -> None:
        """Parts are kept with their attributes in domain order, as measured cliques are."""
        key = frozenset(part)
        self._parts[key] = self._parts[key] + table if key in self._parts else table

    def fit(self, clique: Iterable[str]) -> tuple[int, int]:
        """How well what was measured fits a clique: how many of its attributes together, and how few others."""
        members = frozenset(clique)
        return max((len(members.intersection(measured)), -len(measured)) for measured in self.cliques)

    def project(self, attributes: Iterable[str] | str) -> Factor:
        """The marginal on any attributes, in counts.

        Raises:
            UnknownAttributeError: an attribute that the domain does not have.
        """
        names = self.domain.clique(attributes)
        ordered = tuple(name for name in self.domain if name in names)
        shape = [self.domain[name] for name in ordered]
        total = np.zeros(shape)
        for size in range(len(ordered) + 1):
            for part in combinations(ordered, size):
                if frozenset(part) in self._parts:
                    total += self._expanded(part, ordered)
        return Factor(self.domain.project(ordered), total).transpose(names)

    def _expanded(self, part: Clique, clique: Clique) -> np.ndarray:
        """What a part adds to the marginal of a clique."""
        table = self._parts[frozenset(part)].reshape([self.domain[name] if name in part else 1 for name in clique])
        for axis, name in enumerate(clique):
            strategy = self._strategy(name)
            table = table / np.sqrt(strategy.m)
            if name not in part:
                table = strategy.spread(table, axis)
        return table

    def _strategy(self, name: str) -> Any:
        from pgmest.strategies.attribute import AttributeStrategy

        return self._attributes.get(name) or AttributeStrategy(self.domain[name])

    def sample(self, n: int | None = None, *, seed: Any = None) -> NoReturn:
        """Not possible.

        Raises:
            QueryError: always.
        """
        raise QueryError(
            "least squares answers marginals, some of them negative, and is no distribution to draw records from; use "
            'estimator="pgm".'
        )

    def __repr__(self) -> str:
        return f"LeastSquaresAnswers: {len(self._parts)} parts over {len(self.domain)} attributes"
