"""Multiplicative weights on tables of independent components: the estimator of MWEM as published.

A component is a set of attributes whose joint distribution is one table; the components are independent. With all
attributes in one component this is the basic algorithm, exponential in their number. The factored algorithm starts from
single attributes and joins only the components that a measurement connects (Hardt, Ligett, McSherry 2012, 3.3).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable

import numpy as np

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.exact import Model
from pgmest.queries.norms import largest_l2_squared
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

LEAST_PROBABILITY = 1e-300
"""The lower bound of a cell's probability. An underflow to 0 would be final, as updates multiply."""

SAFE_FACTOR = 0.5
"""An update whose factors are all at least this skips the check against `LEAST_PROBABILITY`, which takes a pass."""


class MultiplicativeWeights:
    """A product of independent components, each a table of probabilities that measurements update.

    >>> weights = MultiplicativeWeights(Domain({"a": 2, "b": 2, "c": 3}), [("a",), ("b",), ("c",)], total=100)
    >>> for _ in range(200):
    ...     weights.update(LinearMeasurement([[40.0, 10.0], [0.0, 50.0]], ("a", "b"), stddev=1.0))
    >>> weights.components
    (('c',), ('a', 'b'))
    >>> weights.model().project(("b",)).values.round()
    array([40., 60.])

    Args:
        domain: the attributes.
        components: disjoint sets of attributes that cover the domain; their tables start uniform.
        total: the number of records.
    """

    def __init__(self, domain: Domain, components: Iterable[Clique], total: float):
        self.domain: Domain = domain
        self.total: float = total
        self.components: tuple[Clique, ...] = tuple(components)
        sizes = [domain.size(clique) for clique in self.components]
        shapes = [domain.project(clique).shape for clique in self.components]
        self.tables: list[np.ndarray] = [np.full(shape, 1.0 / size) for shape, size in zip(shapes, sizes, strict=True)]

    def cells_with(self, clique: Clique) -> int:
        """Return the cells of all tables after the components that `clique` connects are joined."""
        joined = joined_component(self.components, self.domain, clique)
        rest = [component for component in self.components if not set(component) & set(joined)]
        return sum(map(self.domain.size, [joined, *rest]))

    def update(self, measurement: LinearMeasurement) -> None:
        r"""Update with a measurement: $p \leftarrow p \cdot \exp(Q^T (y - n Q p) / (2 n c))$, normalized.

        With c = 1 this is the published step, for queries with entries in [0, 1] of which at most one is nonzero in a
        cell. Otherwise c is the largest squared l2 norm of a column of Q, so that the step still descends.
        """
        place = self._component(measurement.clique)
        table, component = self.tables[place], self.domain.project(self.components[place])
        names = tuple(name for name in component if name in measurement.clique)
        others = tuple(axis for axis, name in enumerate(component) if name not in names)
        marginal = Factor(component.project(names), table.sum(axis=others)).transpose(measurement.clique)
        residual = measurement.values.reshape(-1) - self.total * measurement.answer(marginal)
        curvature = max(1.0, float(largest_l2_squared(measurement.query)))
        exponents = measurement.transpose(residual, marginal.domain) / (2 * self.total * curvature)
        factors = np.exp(exponents - exponents.max())
        factors = Factor(marginal.domain, factors / np.sum(factors * marginal.values)).transpose(names).values
        table *= np.expand_dims(factors, others)
        if factors.min() < SAFE_FACTOR:
            np.maximum(table, LEAST_PROBABILITY, out=table)

    def model(self) -> Model:
        """Return the product as a graphical model whose cliques are the components."""
        pairs = zip(self.components, self.tables, strict=True)
        logs = {clique: Factor(self.domain.project(clique), np.log(table)) for clique, table in pairs}
        return Model(CliqueVector(self.domain, logs), self.total)

    def _component(self, clique: Clique) -> int:
        """Return the index of the component that covers a clique, after joining the components that it connects."""
        touched = [place for place, component in enumerate(self.components) if set(component) & set(clique)]
        if len(touched) > 1:
            joined = joined_component(self.components, self.domain, clique)
            parts = [Factor(self.domain.project(self.components[place]), self.tables[place]) for place in touched]
            product = functools.reduce(operator.mul, parts).transpose(joined)
            kept = [place for place in range(len(self.components)) if place not in touched]
            self.components = (*(self.components[place] for place in kept), joined)
            self.tables = [*(self.tables[place] for place in kept), np.array(product.values)]
            return len(kept)
        return touched[0]


def joined_component(components: Iterable[Clique], domain: Domain, clique: Clique) -> Clique:
    """Return the attributes of the components that `clique` connects, in domain order."""
    names = {name for component in components if set(component) & set(clique) for name in component}
    return domain.ordered(names)
