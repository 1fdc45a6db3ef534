"""Reweighting: weights of records under which their tables are given ones (raking; Deming and Stephan 1940).

Synthetic records are then drawn by these weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pgmest.data.counting import cell_numbers
from pgmest.data.dataset import Dataset
from pgmest.sampling.controlled import controlled_counts
from pgmest.sampling.facts import Facts, facts_scale, warn_of_unmet
from pgmest.sampling.systematic import systematic
from pgmest.tables.domain import Clique

SWEEPS, DAMPING = 12, 0.1
"""The largest number of sweeps over all tables. Sweep k applies ratios to the power 1 / (1 + DAMPING k), so that
weights settle between tables that contradict each other; in `Reweighting`, the last sweep applies them whole."""
CLOSE = 2e-3
"""Sweeps end when the mean l1 distance to the tables is at most this share of the records, far less than noise."""
MOST_RATIO = 1e3
"""The largest factor of a weight in one step; its inverse is the smallest."""
LEAST_LOG = -600.0
"""The smallest logarithm of a factor relative to the largest one."""
MOST_KEPT = 1 << 27
"""The cells of all records in all tables are kept up to this number of them, else computed again in each sweep."""


RELAXATION, MOST_TILT, RIDGE = 1.5, 3.0, 0.01
"""For `moved`: the factor of a step, since weights that then meet tables again take part of it back; the largest
logarithm of a record's factor; and a share of the variances that is added to them, so that the step is finite."""


@dataclass(frozen=True, eq=False)
class Reweighting:
    """Records whose weights are to be changed.

    >>> records = Dataset.from_codes([np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])], {"a": 2, "b": 2}, np.ones(4))
    >>> Reweighting(records).weights({("a",): np.array([6.0, 2.0]), ("b",): np.array([4.0, 4.0])}).round(6)
    array([3., 3., 1., 1.])

    Attributes:
        records: the records with their weights, which are positive.
    """

    records: Dataset
    _kept: dict[Clique, np.ndarray] = field(default_factory=dict)

    def cells(self, clique: Clique) -> np.ndarray:
        """Return the row-major cell of each record in a table; all are cell 0 of the table of no attributes."""
        if not clique:
            return np.zeros(self.records.records, dtype=np.intp)
        if clique in self._kept:
            return self._kept[clique]
        domain = self.records.domain
        found = cell_numbers([self.records.column(name) for name in clique], [domain[name] for name in clique])
        if (len(self._kept) + 1) * self.records.records <= MOST_KEPT:
            self._kept[clique] = found.astype(np.int32) if domain.size(clique) < 1 << 31 else found
        return found

    def tilted(self, tilts: Mapping[Clique, np.ndarray], most: float = np.inf) -> tuple[np.ndarray, float]:
        """Return weights multiplied by factors, and the power of the factors that was used.

        Args:
            tilts: tables of positive factors, by which the weights of the records in each cell are multiplied.
            most: the largest standard deviation of the logarithm of a record's factors. Beyond it, all of them get a
                power below 1, as a handful of records would have all the weight.
        """
        logs, start = np.zeros(self.records.records), np.array(self.records.weights, dtype=np.float64)
        for clique, factors in tilts.items():
            logs += np.log(factors).ravel()[self.cells(clique)]
        shares = start / start.sum()
        spread = float(np.sqrt(shares @ np.square(logs - shares @ logs)))
        power = min(1.0, most / spread) if spread > 0 else 1.0
        return start * np.exp(np.maximum(power * (logs - logs.max(initial=-np.inf)), LEAST_LOG)), power

    def weights(self, targets: Mapping[Clique, np.ndarray], start: np.ndarray | None = None) -> np.ndarray:
        """Return the weights closest in relative entropy to others under which the tables are the targets.

        Cells without records stay empty. If targets contradict each other, the last ones are met most closely.

        Args:
            targets: tables of counts of the same sum, at least 0.
            start: the weights to start from, positive; by default the records' own.
        """
        found = np.array(self.records.weights if start is None else start, dtype=np.float64)
        wanted = {clique: table.reshape(1, -1) for clique, table in targets.items()}
        total = max((float(table.sum()) for table in wanted.values()), default=float(found.sum()))
        if total == 0:
            return np.zeros(len(found))
        found *= total / found.sum()
        nothing = np.zeros(len(found), dtype=np.uint8)
        for sweep in range(SWEEPS):
            power = damped(sweep) if sweep < SWEEPS - 1 else 1.0
            off = sum(rake(found, (nothing, self.cells(clique)), table, power) for clique, table in wanted.items())
            if off <= CLOSE * total * len(wanted):
                break
        return found * (total / found.sum())

    def sample(
        self,
        weights: np.ndarray,
        n: int,
        method: str,
        generator: np.random.Generator,
        facts: Sequence[Facts] = (),
    ) -> Dataset:
        """Draw n records without weights, in random order.

        Args:
            weights: the weight of each record, which is at least 0.
            n: the number of records to draw.
            method: "multinomial" (independent records), or "round" (as close to the weights as whole numbers can be).
            generator: the random generator.
            facts: the exact answers that records hold by "round", if whole numbers can.
        """
        shares = weights / weights.sum()
        if method == "multinomial":
            counts = generator.multinomial(n, shares)
        elif facts:
            cells = [(one, self.cells(one.clique)) for one in facts]
            counts, unmet = controlled_counts(shares, cells, n, facts_scale(n, float(weights.sum())), generator)
            warn_of_unmet(unmet, n)
        else:
            counts = systematic(shares, n, generator)
        rows = generator.permutation(np.repeat(np.arange(len(counts)), counts))
        return replace(self.records.take(rows), weights=None)


def damped(sweep: int) -> float:
    """Return the power of the ratios in a sweep."""
    return 1.0 / (1.0 + DAMPING * sweep)


def rake(weights: np.ndarray, cells: tuple[np.ndarray, np.ndarray], table: np.ndarray, power: float = 1.0) -> float:
    """Multiply weights by powers of the ratios of a target to their table; return the l1 distance before.

    Args:
        weights: the weight of each record, changed in place.
        cells: the row and the column of each record in the table.
        table: the target table, of two dimensions.
        power: the power.
    """
    from pgmest.sampling import kernels

    flat = np.ascontiguousarray(table, dtype=np.float64).ravel()
    return kernels.rake(*cells, table.shape[1], weights, flat, np.empty(table.size), power, MOST_RATIO)


def moved(weights: np.ndarray, values: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return weights under which the means of values are nearer to given ones: a step of Newton's method.

    Args:
        weights: the weight of each record, which is at least 0.
        values: the values of each record, shape (records, values).
        means: the wanted mean of each value.
    """
    shares = weights / weights.sum()
    present = shares @ values
    spread = (values.T * shares) @ values - np.outer(present, present)
    spread += np.diag(RIDGE * np.diag(spread) + 1e-12)
    logs = values @ np.linalg.solve(spread, RELAXATION * (means - present))
    return weights * np.exp(np.clip(logs, -MOST_TILT, MOST_TILT))
