"""HouseholdWeights and WholeHouseholds: weights and whole numbers of households, and how they meet the totals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, listed, plural
from pgmest.surveys.exchanges import whole_ends
from pgmest.surveys.fit import Fit
from pgmest.surveys.problem import Problem
from pgmest.surveys.seed import HOUSEHOLDS, PERSONS, Seed
from pgmest.surveys.whole import dealt, grain, members, whole_numbers
from pgmest.surveys.zones import Zones

MET = 1e-6
"""A total is met if its difference is at most this share of it, or at most this."""


@dataclass(frozen=True, eq=False, repr=False)
class HouseholdWeights:
    """The weights of households, by zone if there are zones, which meet totals of households and of persons.

    Attributes:
        seed: the households and persons.
        zones: the zones.
        problem: the kinds of households in each zone, and the totals.
        fit: the weights of each kind of household in each zone.
        seconds: the running time.
    """

    seed: Seed
    zones: Zones
    problem: Problem
    fit: Fit
    seconds: float

    @property
    def pair_weights(self) -> np.ndarray:
        """The weight of each kind of household in each zone, shape (pairs,)."""
        return self.fit.weights

    @property
    def steps(self) -> int:
        """The most steps of Newton's method."""
        return self.fit.steps

    @cached_property
    def _entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The household, the pair and the weight of each entry of the table of weights."""
        households, pairs = members(self.problem, self.pair_weights > 0)
        return households, pairs, self.pair_weights[pairs] * self.fit.shares[households]

    @property
    def row_weights(self) -> np.ndarray:
        """The weight of each household in all zones together, in the order of the seed's rows, shape (households,)."""
        households, _, weights = self._entries
        return np.bincount(households, weights, minlength=len(self.seed.weights))

    @property
    def weights(self) -> Any:
        """A dataframe of the library of the households, with a row for each household and zone with weight.

        Its columns are the key, the zone if there are zones, and "weight".
        """
        households, pairs, weights = self._entries
        return _native(_with_zone(self, households, pairs, {"weight": weights}))

    @property
    def totals(self) -> Any:
        """A dataframe with a row for each total: its table, columns, area and category, its value, what the weighted
        households add up to, and the difference.
        """
        return _native(_compared(self.problem, self.seed, {"weighted": self.pair_weights}))

    @property
    def differences(self) -> np.ndarray:
        """The weighted sums less the totals, shape (totals,)."""
        return self.problem.matrix.T @ self.pair_weights - self.problem.totals.values

    @property
    def effective_size(self) -> float:
        """Kish's effective number of households: their number if all weights are equal, less if few have the most."""
        rows = self.row_weights
        return float(rows.sum() ** 2 / max(float(np.sum(rows**2)), 1e-300))

    @property
    def divergence(self) -> float:
        """The relative entropy of the shares of households and zones to the initial ones, in nats."""
        start, found = self.fit.start, self.pair_weights
        if not found.sum() > 0:
            return 0.0
        p, q = found / found.sum(), start / start.sum()
        return max(0.0, float(np.sum(p[p > 0] * np.log(p[p > 0] / q[p > 0]))))

    def whole(self, seed: int | np.random.Generator | None = 0) -> WholeHouseholds:
        """Return whole numbers of households near the weights, which meet the totals where that is possible.

        Each number of a kind of household in a zone is its weight rounded up or down; if totals need it, another
        whole number. Rounding is random: a weight of 0.3 mostly gives 0, and 1 about three times in ten.

        Args:
            seed: of the rounding.
        """
        generator = np.random.default_rng(seed)
        return WholeHouseholds(self, whole_numbers(self.problem, self.pair_weights, generator), generator)

    def __repr__(self) -> str:
        off = np.abs(self.differences)
        missed = int(np.sum(off > MET * np.maximum(np.abs(self.problem.totals.values), 1.0)))
        where = f" in {plural(self.zones.count, 'zone')}" if self.zones.zone else ""
        every = plural(len(off), "total")
        met = f"{missed:,} of {every} missed" if missed else f"all {every} met"
        return (
            f"HouseholdWeights({plural(len(self.seed.weights), 'household')}{where}, {met}, largest difference "
            f"{off.max(initial=0.0):.3g}, effective size {self.effective_size:,.1f})"
        )


class WholeHouseholds:
    """Whole numbers of households by zone.

    Attributes:
        weighted: the weights that were rounded.
        counts: a dataframe with the key, the zone if there are zones, and "count", for each count above 0.
        totals: the dataframe of totals of `weighted`, with the column "whole"; the difference is that of whole numbers.
        off: by how much sums of whole numbers are outside the whole numbers around the weighted sums, shape (totals,).
    """

    def __init__(self, weighted: HouseholdWeights, pair_counts: np.ndarray, generator: np.random.Generator):
        self.weighted: HouseholdWeights = weighted
        self._pair_counts = pair_counts
        self._households, self._pairs, self._numbers = dealt(
            weighted.problem, weighted.fit.shares, pair_counts, generator
        )

    @property
    def counts(self) -> Any:
        return _native(_with_zone(self.weighted, self._households, self._pairs, {"count": self._numbers}))

    @property
    def totals(self) -> Any:
        both = {"weighted": self.weighted.pair_weights, "whole": self._pair_counts}
        return _native(_compared(self.weighted.problem, self.weighted.seed, both))

    @property
    def off(self) -> np.ndarray:
        matrix = self.weighted.problem.matrix
        aimed, made = matrix.T @ self.weighted.pair_weights, matrix.T @ self._pair_counts
        low, high = whole_ends(aimed, grain(self.weighted.problem))
        return np.maximum(0.0, np.maximum(low - made, made - high))

    def tables(self) -> dict[str, Any]:
        """Return synthetic households and persons, as dataframes of the library of the seed, with new keys.

        Households have the columns of the seed, the labels of the zone and its areas, and the key of the household of
        the seed in a column with "seed_" before its name. Keys are 0, 1, ... in both tables.
        """
        weighted = self.weighted
        seed, zones = weighted.seed, weighted.zones
        rows, pairs = np.repeat(self._households, self._numbers), np.repeat(self._pairs, self._numbers)
        order = np.argsort(weighted.problem.zones[pairs], kind="stable")
        rows, pairs = rows[order], pairs[order]
        made = seed.tables[HOUSEHOLDS][rows]
        extra = {f"seed_{seed.key}": seed.tables[HOUSEHOLDS][seed.key][rows]}
        extra |= {seed.key: _series(seed, seed.key, np.arange(len(rows)))}
        for name in zones.columns:
            labels = zones.frame[name] if zones.frame is not None else _series(seed, name, zones.columns[name])
            extra[name] = labels[weighted.problem.zones[pairs]]
        people_rows, starts = _grouped(seed)
        sizes = np.diff(starts)[rows]
        keys = np.repeat(np.arange(len(rows)), sizes)
        within = np.arange(len(keys)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        people = seed.tables[PERSONS][people_rows[np.repeat(starts[rows], sizes) + within]]
        return {
            HOUSEHOLDS: _native(_with_columns(made, extra)),
            PERSONS: _native(_with_columns(people, {seed.key: _series(seed, seed.key, keys)})),
        }

    def __repr__(self) -> str:
        off = self.off
        missed = int(np.sum(off > 0))
        every, made = plural(len(off), "total"), plural(int(self._pair_counts.sum()), "household")
        kept = f"{missed:,} of {every} off, by {off.max():.0f} at most" if missed else f"all {every} kept"
        return f"WholeHouseholds({made}, {kept})"


def _grouped(seed: Seed) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of persons by household, and where those of each household begin, with the end."""
    rows = np.argsort(seed.owners, kind="stable")
    return rows, np.searchsorted(seed.owners[rows], np.arange(len(seed.weights) + 1))


def _compared(problem: Problem, seed: Seed, amounts: dict[str, np.ndarray]) -> Any:
    """Return the table of totals with sums of some amounts of pairs, and the difference of the last of them."""
    totals = problem.totals
    margins = [problem.margins[k] for k in totals.margins]
    columns: dict[str, Any] = {
        "table": [margin.control.table for margin in margins],
        "columns": [margin.title for margin in margins],
        "area": [margin.area_text(int(area)) for margin, area in zip(margins, totals.areas, strict=True)],
        "category": [margin.category_text(int(one)) for margin, one in zip(margins, totals.categories, strict=True)],
        "total": totals.values,
    }
    for name, amount in amounts.items():
        columns[name] = problem.matrix.T @ amount
    columns["difference"] = columns[list(amounts)[-1]] - totals.values
    import narwhals as nw

    return nw.from_dict(columns, backend=seed.tables[HOUSEHOLDS].implementation)


def _with_zone(weighted: HouseholdWeights, households: np.ndarray, pairs: np.ndarray, amounts: dict[str, Any]) -> Any:
    """Return a table of amounts with the key of the household and the zone of the pair."""
    seed, zones = weighted.seed, weighted.zones
    extra: dict[str, Any] = {}
    if zones.zone is not None:
        labels = zones.frame[zones.zone] if zones.frame is not None else zones.columns[zones.zone]
        labels = labels if zones.frame is not None else _series(seed, zones.zone, labels)
        extra[zones.zone] = labels[weighted.problem.zones[pairs]]
    extra |= {name: _series(seed, name, values) for name, values in amounts.items()}
    clash = [name for name in extra if name == seed.key]
    if clash:
        raise ArgumentError(f"key={seed.key!r} is also the name of {listed(clash)} in the table; rename the column.")
    return _with_columns(seed.tables[HOUSEHOLDS].select(seed.key)[households], extra)


def _with_columns(table: Any, extra: dict[str, Any]) -> Any:
    """Return a table with some columns replaced or added, in a new index."""
    import narwhals as nw

    table = nw.maybe_reset_index(table)
    columns = [
        nw.new_series(name, values.to_list(), values.dtype, backend=table.implementation)
        if values.implementation != table.implementation
        else nw.maybe_reset_index(values.alias(name))
        for name, values in extra.items()
    ]
    return table.with_columns(*columns)


def _series(seed: Seed, name: str, values: Any) -> Any:
    import narwhals as nw

    return nw.new_series(name, values, backend=seed.tables[HOUSEHOLDS].implementation)


def _native(table: Any) -> Any:
    import narwhals as nw

    return nw.to_native(table)
