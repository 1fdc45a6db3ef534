"""The sparse system of totals: what each kind of household adds to the totals of each zone that it can be in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from pgmest.errors import ControlError, listed, plural
from pgmest.surveys.controls import SHOWN
from pgmest.surveys.households.margins import Margin
from pgmest.surveys.households.seed import Seed
from pgmest.surveys.households.zones import Zones


@dataclass(frozen=True, eq=False)
class Totals:
    """The known totals of all margins, one after the other.

    Attributes:
        values: shape (totals,).
        margins: the position of the margin of each total.
        areas, categories: its area and category in this margin.
        starts: for each margin, the place of each of its cells among the totals, -1 for an unknown one; shape (areas,
            categories).
    """

    values: np.ndarray
    margins: np.ndarray
    areas: np.ndarray
    categories: np.ndarray
    starts: list[np.ndarray]

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
        return cls(np.concatenate(values), where[:, 0], where[:, 1], where[:, 2], starts)


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
    """Pairs of a kind of household and a zone. Households of one kind add the same to every total.

    Attributes:
        margins: the margins.
        totals: their totals.
        matrix: what a household of each pair adds to each total, shape (pairs, totals).
        start: the initial weight of each pair, shape (pairs,), all positive.
        kinds, zones: the kind of household and the zone of each pair.
        kind_of: the kind of each household, -1 for one that no zone can have; shape (households,).
        shares: the share of each household in the initial weight of its kind.
    """

    margins: list[Margin]
    totals: Totals
    matrix: sparse.csr_array
    start: np.ndarray
    kinds: np.ndarray
    zones: np.ndarray
    kind_of: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, margins: list[Margin], seed: Seed, zones: Zones) -> Problem:
        """Pair the households with the zones of their group.

        Raises:
            ControlError: a household has a category without a total, or a zone has no households.
        """
        counts = sparse.csr_array(sparse.hstack([margin.incidence(seed) for margin in margins], format="csr"))
        groups, zone_groups = zones.groups(seed)
        kind_of, first = _kinds(counts, np.where(seed.weights > 0, groups, -1))
        kind_weights = np.bincount(kind_of[kind_of >= 0], seed.weights[kind_of >= 0], minlength=len(first))
        with np.errstate(invalid="ignore"):
            shares = np.where(kind_of >= 0, seed.weights / kind_weights[kind_of], 0.0)
        totals = Totals.of(margins)
        areas = [margin.area_of_zones(zones) for margin in margins]
        blocks, kinds, places = [], [], []
        members = [np.flatnonzero(groups[first] == group) for group in range(zone_groups.max() + 1)]
        for zone in range(zones.count):
            own = members[zone_groups[zone]]
            columns = np.concatenate([start[area[zone]] for start, area in zip(totals.starts, areas, strict=True)])
            blocks.append(_moved(counts[first[own]], columns, len(totals.values)))
            kinds.append(own)
            places.append(np.full(len(own), zone))
        matrix = sparse.csr_array(sparse.vstack(blocks, format="csr"))
        pair_kinds, pair_zones = np.concatenate(kinds), np.concatenate(places)
        made = cls(margins, totals, matrix, kind_weights[pair_kinds], pair_kinds, pair_zones, kind_of, shares)
        return made._scaled(areas)

    def _scaled(self, areas: list[np.ndarray]) -> Problem:
        """Return the problem with initial weights that are shared among zones and scaled to the finest first margin."""
        fineness = [int(area.max()) for area in areas]
        finest = int(np.argmax(fineness))
        own = self.totals.margins == finest
        count = self.margins[finest].totals.shape[0]
        wanted = np.bincount(self.totals.areas[own], self.totals.values[own], minlength=count)
        place = areas[finest][self.zones]
        zones_of_area = np.bincount(areas[finest], minlength=count)
        start = self.start / zones_of_area[place]
        found = np.bincount(place, start * np.asarray(self.matrix[:, own].sum(axis=1)), minlength=count)
        factors = np.divide(wanted, found, out=np.ones(count), where=(found > 0) & (wanted > 0))
        return replace(self, start=start * factors[place])

    def parts(self, pairs: np.ndarray) -> Iterator[Part]:
        """Yield the parts of the system of some pairs, with the totals that they can add to."""
        matrix = self.matrix[pairs]
        rows = matrix.shape[0]
        both = sparse.block_array([[None, matrix], [matrix.T, None]], format="csr")
        _, labels = connected_components(both, directed=False)
        order = np.argsort(labels, kind="stable")
        for nodes in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1):
            own, totals = nodes[nodes < rows], nodes[nodes >= rows] - rows
            if len(own) and len(totals):
                yield Part(pairs[own], totals, sparse.csr_array(matrix[own][:, totals]))

    def text(self, total: int | np.integer) -> str:
        """Return the name of a total."""
        margin = self.margins[self.totals.margins[total]]
        return margin.text(int(self.totals.areas[total]), int(self.totals.categories[total]))

    def check_covered(self, chosen: np.ndarray) -> None:
        """Check that each of some totals that is positive has households.

        Raises:
            ControlError: a total has no households.
        """
        found = np.bincount(self.matrix.indices, minlength=len(chosen)) > 0
        empty = np.flatnonzero(chosen & ~found & (self.totals.values > 0))
        if len(empty):
            shown = listed((f"({self.text(one)}: {self.totals.values[one]:.10g})" for one in empty), SHOWN)
            raise ControlError(
                f"{plural(len(empty), 'total')}, of which no household with weight has anyone: {shown}. Combine "
                "categories, give NaN for a total to leave out, or penalty= to come as close as the households allow."
            )


def _kinds(counts: Any, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the kind of each household and the first household of each kind; -1 for households of group -1.

    Households of one kind have the same counts and the same group. Counts are compared by two random sums of 64 bits.
    """
    generator = np.random.default_rng(0)
    numbers: Any = generator.integers(-(2**63), 2**63 - 1, size=(counts.shape[1], 2))
    sums = sparse.csr_array(counts.astype(np.int64)) @ numbers
    found, first, kinds = np.unique(np.column_stack([groups, sums]), axis=0, return_index=True, return_inverse=True)
    out = int(np.sum(found[:, 0] < 0))  # the kinds of group -1 come first
    return np.where(groups < 0, -1, kinds.reshape(-1) - out), first[out:]


def _moved(counts: Any, columns: np.ndarray, width: int) -> sparse.csr_array:
    """Return the matrix with its columns at other places, -1 for columns to leave out."""
    found = columns[counts.indices]
    kept = found >= 0
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))[kept]
    return sparse.csr_array((counts.data[kept], (rows, found[kept])), shape=(counts.shape[0], width))
