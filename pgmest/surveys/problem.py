"""The sparse system of totals: what each kind of unit adds to the totals of each zone that it can be in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from pgmest.errors import ControlError, listed, plural
from pgmest.surveys.margins import SHOWN, Margin
from pgmest.surveys.seed import RESPONDENTS, Seed
from pgmest.surveys.zones import Zones


@dataclass(frozen=True, eq=False)
class Totals:
    """The known totals of all margins, one after the other.

    Attributes:
        values: shape (totals,).
        margins: the position of the margin of each total.
        areas, categories: its area and category in this margin.
        starts: for each margin, the place of each of its cells among the totals, -1 for an unknown one; shape (areas,
            categories).
        numeric: whether each is the total of a numeric column.
    """

    values: np.ndarray
    margins: np.ndarray
    areas: np.ndarray
    categories: np.ndarray
    starts: list[np.ndarray]
    numeric: np.ndarray

    @classmethod
    def of(cls, margins: Sequence[Margin]) -> Totals:
        """Number the totals of some margins."""
        places, starts, used = [], [], 0
        for position, margin in enumerate(margins):
            known = np.argwhere(~np.isnan(margin.totals))
            start = np.full(margin.totals.shape, -1, dtype=np.int64)
            start[tuple(known.T)] = used + np.arange(len(known))
            used += len(known)
            starts.append(start)
            places.append(np.column_stack([np.full(len(known), position), known]))
        where = np.concatenate(places)
        values = [margin.totals[~np.isnan(margin.totals)] for margin in margins]
        numeric = np.array([margin.control.numeric for margin in margins])
        return cls(np.concatenate(values), where[:, 0], where[:, 1], where[:, 2], starts, numeric[where[:, 0]])


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a problem that shares no total with the rest.

    Attributes:
        pairs: the pairs of the part.
        totals: the totals of the part.
        matrix: what each of these pairs adds to each of these totals.
    """

    pairs: np.ndarray
    totals: np.ndarray
    matrix: sparse.csr_array


@dataclass(frozen=True, eq=False)
class Problem:
    """Pairs of a kind of unit and a zone. Units of one kind add the same to every total.

    Attributes:
        table: the table of the units, "respondents" or "households".
        margins: the margins.
        totals: their totals.
        matrix: what a unit of each pair adds to each total, shape (pairs, totals).
        sizes: the largest absolute value of a unit in each numeric column that has a total, 0 for other totals.
        kinds, zones: the kind of unit and the zone of each pair.
        areas: for each margin, the area of each zone.
        kind_of: the kind of each unit, -1 for one that no zone can have; shape (units,).
    """

    table: str
    margins: list[Margin]
    totals: Totals
    matrix: sparse.csr_array
    sizes: np.ndarray
    kinds: np.ndarray
    zones: np.ndarray
    areas: list[np.ndarray]
    kind_of: np.ndarray

    @classmethod
    def of(cls, margins: list[Margin], seed: Seed, zones: Zones, same_weights: bool = False) -> Problem:
        """Pair the units with the zones of their group; if `same_weights`, units of one kind have one initial weight.

        Raises:
            ControlError: a unit has a category without a total, or a zone has no units.
            DataError: a numeric column is not numeric.
        """
        counts = sparse.csr_array(sparse.hstack([margin.incidence(seed) for margin in margins], format="csr"))
        groups, zone_groups = zones.groups(seed)
        marks = [np.where(seed.weights > 0, groups, -1), *([seed.weights.view(np.int64)] if same_weights else [])]
        kind_of, first = _kinds(counts, marks)
        totals = Totals.of(margins)
        areas = [margin.area_of_zones(zones) for margin in margins]
        blocks, kinds = [], []
        for zone in range(zones.count):
            own = np.flatnonzero(groups[first] == zone_groups[zone])
            columns = np.concatenate([start[area[zone]] for start, area in zip(totals.starts, areas, strict=True)])
            blocks.append(_moved(counts[first[own]], columns, len(totals.values)))
            kinds.append(own)
        matrix: Any = sparse.csr_array(sparse.vstack(blocks, format="csr"))
        largest = np.asarray(abs(matrix).max(axis=0).todense()).reshape(-1) if matrix.shape[0] else 0.0
        sizes = np.where(totals.numeric, largest, 0.0)
        of_zone = np.repeat(np.arange(zones.count), [len(own) for own in kinds])
        return cls(seed.unit_table, margins, totals, matrix, sizes, np.concatenate(kinds), of_zone, areas, kind_of)

    @property
    def units(self) -> np.ndarray:
        """The number of units of each pair."""
        return np.bincount(self.kind_of[self.kind_of >= 0], minlength=self.kind_of.max(initial=-1) + 1)[self.kinds]

    def initial(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the initial weight of each pair, not scaled, and the share of each unit in that of its kind."""
        known = self.kind_of >= 0
        sums = np.bincount(self.kind_of[known], weights[known], minlength=self.kind_of.max(initial=-1) + 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = np.where(known & (weights > 0), weights / sums[self.kind_of], 0.0) if len(sums) else 0.0 * weights
        return sums[self.kinds], shares

    def scaled(self, start: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return initial weights that are shared among zones and scaled to the first margin with the smallest areas.

        Those of the chosen pairs add up to the totals of this margin.
        """
        counted = [place for place, margin in enumerate(self.margins) if not margin.control.numeric]
        if not counted:
            return start
        finest = max(counted, key=lambda place: (int(self.areas[place].max()), -place))
        own, areas = self.totals.margins == finest, self.areas[finest]
        count = len(self.margins[finest].areas)
        wanted = np.bincount(self.totals.areas[own], self.totals.values[own], minlength=count)
        start = start / np.bincount(areas, minlength=count)[areas[self.zones]]
        added = np.where(chosen, start, 0.0) * (self.matrix @ own)
        found = np.bincount(areas[self.zones], added, minlength=count)
        factors = np.divide(wanted, found, out=np.ones(count), where=(found > 0) & (wanted > 0))
        return start * factors[areas[self.zones]]

    def parts(self, pairs: np.ndarray, least: int = 1) -> Iterator[Part]:
        """Yield parts of the system of some pairs, with the totals that they can add to, at least `least` in each."""
        matrix: Any = self.matrix[pairs]
        rows = len(pairs)
        both = sparse.block_array([[None, matrix], [matrix.T, None]], format="csr")
        _, labels = connected_components(both, directed=False)
        if not labels.any():
            yield Part(pairs, np.arange(matrix.shape[1]), matrix)
            return
        order = np.argsort(labels, kind="stable")
        nodes = np.zeros(0, dtype=np.int64)
        groups = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
        for number, more in enumerate(groups, 1):
            if np.any(more < rows) and np.any(more >= rows):
                nodes = np.concatenate([nodes, more])
            if len(nodes) and (np.sum(nodes >= rows) >= least or number == len(groups)):
                own, totals = np.sort(nodes[nodes < rows]), np.sort(nodes[nodes >= rows]) - rows
                yield Part(pairs[own], totals, sparse.csr_array(matrix[own][:, totals]))
                nodes = nodes[:0]

    def reached(self, pairs: np.ndarray) -> np.ndarray:
        """Return whether any of the chosen pairs, as booleans, adds to each total."""
        matrix: Any = self.matrix
        entries = np.repeat(pairs, np.diff(matrix.indptr))
        return np.bincount(matrix.indices, entries, minlength=matrix.shape[1]) > 0

    def text(self, total: int | np.integer) -> str:
        """Return the name of a total."""
        margin = self.margins[self.totals.margins[total]]
        return margin.text(int(self.totals.areas[total]), int(self.totals.categories[total]))

    def check_covered(self, chosen: np.ndarray, present: np.ndarray) -> None:
        """Check that each of some totals that is positive has units among the pairs that are present.

        Raises:
            ControlError: a total has no units.
        """
        values = self.totals.values
        empty = np.flatnonzero(chosen & ~self.reached(present) & (values != 0))
        if len(empty):
            shown = listed((f"({self.text(one)}: {values[one]:.10g})" for one in empty), SHOWN)
            remedy = (
                "or leave out totals"
                if self.table == RESPONDENTS
                else "give NaN for a total to leave out, or penalty= to come as close as the households allow"
            )
            raise ControlError(
                f"no {self.table} with weight for {plural(len(empty), 'total')}: {shown}. Combine categories, {remedy}."
            )


def _kinds(counts: Any, marks: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the kind of each unit and the first unit of each kind; -1 for units whose first mark is negative.

    Units of one kind have the same counts and the same marks. Counts are compared by two random sums of 64 bits.
    """
    generator = np.random.default_rng(0)
    numbers: Any = generator.integers(-(2**63), 2**63 - 1, size=(counts.shape[1], 2))
    bits = counts.data.view(np.int64)
    amounts = bits ^ (bits >> 32) ^ (bits >> 52)  # another number for each amount, whose last bits differ, too
    sums = sparse.csr_array((amounts, counts.indices, counts.indptr), shape=counts.shape) @ numbers
    rows = np.flatnonzero(marks[0] >= 0)
    columns = [mark[rows] for mark in (*marks, *sums.T)]
    order = np.lexsort(columns[::-1])
    new = np.zeros(len(rows), dtype=bool)
    new[:1] = True
    for column in columns:
        new[1:] |= column[order][1:] != column[order][:-1]
    kinds = np.full(counts.shape[0], -1)
    kinds[rows[order]] = np.cumsum(new) - 1
    return kinds, rows[order[new]]


def _moved(counts: Any, columns: np.ndarray, width: int) -> sparse.csr_array:
    """Return the matrix with its columns at other places, -1 for columns to leave out."""
    found = columns[counts.indices]
    kept = found >= 0
    if kept.all():
        return sparse.csr_array((counts.data, found, counts.indptr), shape=(counts.shape[0], width))
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))[kept]
    return sparse.csr_array((counts.data[kept], (rows, found[kept])), shape=(counts.shape[0], width))
