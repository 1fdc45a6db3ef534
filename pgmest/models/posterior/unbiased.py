r"""Unbiased answers: linear queries by least squares from the measured tables alone, without model or prior.

The space of tables on some attributes splits into orthogonal parts, one for each subset A: the part that varies along
all attributes of A and along no others. Every noisy table that contains A shows its part, with a variance in proportion
to the number of cells that are summed. Hence the best estimate of a part is a mean weighted by precisions, and a query
is answered part by part. Answers are linear in the measurements, so their variance is exact, also if the noise differs
from cell to cell.

Counts may be negative. Without clipping, sums of thousands of them are unbiased.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.tables.domain import Clique, Domain
from pgmest.workloads import closure

UNSEEN = 1e-9
"""Weights on unmeasured parts below this share of the largest weight count as rounding errors."""


@dataclass(frozen=True, eq=False)
class UnbiasedAnswers:
    """Unbiased answers to linear queries from measured tables.

    Attributes:
        measurements: the answers, of which only noisy and exact tables of counts are used.
        domain: all attributes.
        total: the number of records, if it is known.
    """

    measurements: Sequence[LinearMeasurement]
    domain: Domain
    total: float | None = None

    def of(self, names: Clique, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the answers and their noise variances, in counts; infinite variances if tables do not determine them.

        Args:
            names: the attributes of the table that the queries read.
            weights: the queries' weights on its cells, shape (queries, *domain.project(names).shape).
        """
        parts = {part: _part(weights, names, part) for part in closure([names])}
        seen = [table for table in self._tables(names) if table.exact or np.all(table.variances > 0)]
        precisions = {part: _precisions(seen, part, self.domain) for part in parts}
        answers, variances = np.zeros(len(weights)), np.zeros(len(weights))
        if self.total is not None:
            answers += parts.pop(()).reshape(-1) * self.total
        for index, table in enumerate(seen):
            combined = np.zeros((len(weights), *table.values.shape))
            for part, own in parts.items():
                if precisions[part][index]:
                    share = precisions[part][index] / sum(precisions[part])
                    shape = [self.domain[name] if name in part else 1 for name in table.names]
                    combined += share * own.reshape(len(weights), *shape)
            flat = combined.reshape(len(weights), -1)
            answers += flat @ table.values.reshape(-1)
            variances += flat**2 @ table.variances.reshape(-1)
        largest = np.abs(weights.reshape(len(weights), -1)).max(axis=1, initial=0.0)
        for part, own in parts.items():
            if not any(precisions[part]):
                used = np.abs(own.reshape(len(weights), -1)).max(axis=1, initial=0.0)
                variances[used > UNSEEN * largest] = np.inf
        return answers, variances

    def _tables(self, names: Clique) -> Iterator[_SharedTable]:
        for measurement in self.measurements:
            if measurement.query is None and (measurement.noisy or measurement.exact_rows.all()):
                yield _SharedTable.of(measurement, names, self.domain)


@dataclass(frozen=True, eq=False)
class _SharedTable:
    """A measured table's marginal on the attributes that it shares with a query, and the variances of its cells."""

    names: Clique
    values: np.ndarray
    variances: np.ndarray
    exact: bool

    @classmethod
    def of(cls, measurement: LinearMeasurement, names: Clique, domain: Domain) -> _SharedTable:
        clique = measurement.clique
        shape = domain.project(clique).shape
        kept = tuple(name for name in names if name in clique)
        axes = [clique.index(name) for name in kept]
        others = [axis for axis in range(len(clique)) if axis not in axes]
        noise = np.broadcast_to(np.square(measurement.stddev) * measurement.noisy, (measurement.rows,))
        sums = (
            cells.reshape(shape).transpose(*axes, *others).sum(axis=tuple(range(len(axes), len(clique))))
            for cells in (measurement.values, noise)
        )
        return cls(kept, *sums, exact=not measurement.noisy)

    def precision(self, domain: Domain, part: Clique) -> float:
        """Return the precision of the cells of a part, once the other attributes are summed out."""
        return domain.size(part) / float(self.variances.sum())


def _precisions(tables: Sequence[_SharedTable], part: Clique, domain: Domain) -> list[float]:
    """Return the weight of each table's estimate of a part; exact tables alone have one if there are any."""
    showing = [set(part) <= set(table.names) for table in tables]
    if any(shows and table.exact for shows, table in zip(showing, tables, strict=True)):
        return [float(shows and table.exact) for shows, table in zip(showing, tables, strict=True)]
    return [table.precision(domain, part) if shows else 0.0 for shows, table in zip(showing, tables, strict=True)]


def _part(weights: np.ndarray, names: Clique, part: Clique) -> np.ndarray:
    """Return the weights of a part: the mean over the other attributes, centered along each of the part's."""
    found = weights.mean(axis=tuple(axis + 1 for axis, name in enumerate(names) if name not in part))
    for axis in range(1, found.ndim):
        found = found - found.mean(axis=axis, keepdims=True)
    return np.asarray(found)
