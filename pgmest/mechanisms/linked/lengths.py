"""Measured lengths: noisy sums of unit vectors of families, and the averages that they say something about."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.lamp.answers import grouping_query
from pgmest.mechanisms.linked.families import MEMBER, OTHER, Families, Layout
from pgmest.mechanisms.linked.family_dataset import FamilyDataset
from pgmest.mechanisms.linked.pairing import MOST_ALL, NEAR
from pgmest.privacy.requests import UnitVector
from pgmest.queries import Kron
from pgmest.tables.domain import Clique

USUAL = 3.0
"""The weight of the usual ratio of averages and lengths in the ratio of a cell, in lengths."""
RATIO_NOISE, RATIO_SPREAD = 0.7, 0.2
"""The error of the ratio of counts of children to lengths in families that fit noisy answers: for one attribute
relative to the error that the noise makes, and for cells of several attributes relative to the spread of the ratios.
On three tables of households the first is 0.5 to 1, the second 0.1 to 0.25 where noise is small."""


CUT_SPREAD = 0.4
"""The error of the same ratio, relative to its spread between cells, in families between rounds: they fit fewer answers
than those of the result, where it is `RATIO_SPREAD`."""
UNKNOWN = 0.5
"""The argument `unknown` of `best_cut` if the budget is small: few tables of two children are measured then, and the
families between rounds do not know how alike children are."""


@dataclass(frozen=True, eq=False)
class MeasuredLengths:
    r"""Noisy lengths of a table with attributes of children (`Families`), or noisy averages.

    Families of the model have lengths L and averages A. With noisy lengths l, the averages of the data are about
    $A + r (l - L)$, where r is the ratio of averages to lengths in the model, cell by cell. That is exact where the
    model has the same lengths as the data and the same ratios; the noise is that of l times r.

    Attributes:
        clique: the attributes.
        groups: for each attribute, the group of each code; absent children are the last group.
        values: the noisy lengths, over groups.
        stddev: the standard deviation of their noise.
        averaged: whether averages were measured instead.
        cut: the length to which families were cut (`Families.tables`).
    """

    clique: Clique
    groups: tuple[np.ndarray, ...]
    values: np.ndarray
    stddev: float
    averaged: bool
    cut: float = 0.0

    def averages(self, families: Families, total: float) -> LinearMeasurement:
        """Return what the answers say about averages, as a measurement.

        Args:
            families: the families of a model.
            total: the estimated number of families of the data.
        """
        scale = total / max(1, len(families.sizes))
        lengths, averages = (table * scale for table in families.tables(self.clique, self.groups, self.cut))
        present = families.layout.present(self.clique, self.groups)
        if self.averaged:
            lengths = averages
        whole = float(lengths[present].sum())
        usual = float(averages[present].sum()) / whole if whole > 0 else 1.0
        ratio = np.minimum((averages + USUAL * usual) / (lengths + USUAL), max(self.cut, 1.0))
        values = np.where(present, averages + ratio * (self.values - lengths), averages)
        noise = self.stddev * math.sqrt(float(np.square(ratio[present]).mean()))
        query = grouping_query(self.clique, self.groups, [False] * len(self.clique))
        return LinearMeasurement(values.ravel(), self.clique, noise, query, "gaussian")

    def counts(self, families: Families, columns: Sequence[np.ndarray], scale: float) -> ChildCounts:
        """Return what the answers say about counts of children, or of ordered pairs of children.

        The counts are those of the families, plus the difference of the lengths times the ratio of counts to lengths.
        The ratio is that of the families, and its error is added to that of the noise (`RATIO_NOISE`).

        Args:
            families: the families of the final model.
            columns: for each attribute, the code of each child or of its parent, or of the other child of each pair.
            scale: the estimated number of families of the data, relative to these.
        """
        sides = [labels[:size] for labels, size in zip(self.groups, self._present_codes(families.layout), strict=True)]
        shape = tuple(int(labels[-1]) + 1 for labels in sides)
        cells = np.zeros(len(columns[0]), dtype=np.int64)
        for labels, column, size in zip(sides, columns, shape, strict=True):
            cells = cells * size + labels[column]
        counts = np.bincount(cells, minlength=math.prod(shape)).reshape(shape) * scale
        lengths = families.tables(self.clique, self.groups, self.cut)[1 if self.averaged else 0]
        there = tuple(slice(size) for size in shape)
        lengths, values = lengths[there] * scale, self.values[there]
        whole = float(lengths.sum())
        usual = float(counts.sum()) / whole if whole > 0 and counts.any() else 1.0
        ratio = (counts + USUAL * usual) / (lengths + USUAL)
        if families.layout.joins(self.clique) and not self.averaged:
            ratio *= self._alike(families, whole / max(scale, 1e-9))
        found = counts + ratio * (values - lengths)
        spread = math.sqrt(float((lengths * np.square(ratio / usual - 1)).sum()) / max(whole, 1e-9))
        if len(self.clique) == 1 and len(sides[0]) == shape[0]:
            each = self.stddev * ratio * math.sqrt(1 + RATIO_NOISE**2)
            query = Kron({self.clique[0]: np.diag(1 / each)})
            return ChildCounts(LinearMeasurement(found / each, self.clique, 1.0, query), spread)
        noise = self.stddev * math.sqrt(float(np.square(ratio).mean()))
        if families.layout.are_alike(self.clique, self.groups):
            noise *= math.sqrt(2)  # both orders of a pair have the same error
        query = grouping_query(self.clique, sides, [False] * len(sides))
        return ChildCounts(LinearMeasurement(found.ravel(), self.clique, noise, query), spread)

    def _alike(self, families: Families, whole: float) -> float:
        """Return by how much larger the ratio of counts to lengths is if the children of a family are more alike.

        Families of the model are made as if children were hardly alike where noise is large. The factor is the middle
        between 1 and that of families whose children are all alike.

        Args:
            families: the families of the model.
            whole: the sum of their lengths.
        """
        sizes = families.sizes[families.sizes > 0].astype(np.float64)
        alike = float((sizes / np.maximum(self.cut, sizes)).sum())
        return 1 + max(whole / alike - 1, 0.0) / 2 if alike > 0 else 1.0

    def mirrored(self, layout: Layout) -> MeasuredLengths:
        """Return the answers about attributes of two children with the two children exchanged."""
        one, other = (layout.place(name) for name in self.clique)
        clique = layout.members[other], layout.others[one]
        return replace(self, clique=clique, groups=self.groups[::-1], values=self.values.T)

    def _present_codes(self, layout: Layout) -> list[int]:
        """Return the number of codes of each attribute, without absent children."""
        return [layout.domain[name] - (layout.kind(name) in (MEMBER, OTHER)) for name in self.clique]


@dataclass(frozen=True, eq=False)
class ChildCounts:
    """The counts of children that noisy lengths imply.

    Attributes:
        measurement: the counts, as a measurement.
        spread: the standard deviation of the ratio of counts to lengths between the children's cells, relative to the
            mean ratio.
    """

    measurement: LinearMeasurement
    spread: float


def vector_of(
    layout: Layout, clique: Clique, groups: Sequence[np.ndarray], averaged: bool, cut: float = 0.0
) -> UnitVector:
    """Return the request for the lengths of a table with attributes of children, cut to a length, or for its averages.

    The cells of absent children are left out, as they follow from other tables. Of an attribute with itself only the
    cells on one side of the diagonal are asked for; the others are the same.
    """
    sizes = " x ".join(str(int(labels[-1]) + 1) for labels in groups)
    cells = asked_cells(layout, clique, groups)
    values = partial(_values, clique=clique, groups=tuple(groups), cells=cells, averaged=averaged, cut=cut)
    return UnitVector(f"{' x '.join(clique)} over {sizes}", len(cells), values)


def measured(
    layout: Layout,
    clique: Clique,
    groups: tuple[np.ndarray, ...],
    answer: tuple[np.ndarray, float],
    averaged: bool,
    cut: float = 0.0,
) -> MeasuredLengths:
    """Return the answer to the request of `vector_of` as a table."""
    values, stddev = answer
    table = np.zeros(layout.present(clique, groups).shape)
    table.ravel()[asked_cells(layout, clique, groups)] = values
    if layout.are_alike(clique, groups):
        table += np.triu(table, 1).T
        if averaged:
            table = (table + np.diag(np.diag(table))) / 2
    return MeasuredLengths(clique, groups, table, stddev, averaged, cut)


def best_cut(
    layout: Layout,
    clique: Clique,
    groups: tuple[np.ndarray, ...],
    families: Families,
    scale: float,
    stddev: float,
    unknown: float = 0.0,
) -> float:
    """Return the length to which the counts of a family are cut that makes the expected error smallest.

    The error of a cell has two parts: that of the noise, and that of the ratio of what is wanted to what is measured,
    `CUT_SPREAD` of the spread of the ratios between cells. A longer cut has more of the first and less of the second.

    Args:
        layout: the attributes.
        clique, groups: the table.
        families: the families of a model.
        scale: the estimated number of families of the data, relative to these.
        stddev: the standard deviation of the noise of unit vectors.
        unknown: the least spread of the ratios, relative to their range between families of children who are all alike
            and all different.
    """
    across, there = layout.is_across(clique), _there(layout, clique, groups)
    wanted = families.tables(clique, groups)[1][there] if across else families.counts(clique, groups)
    wanted = wanted * scale
    best, least = 0.0, math.inf
    for cut in _cuts(layout, across, layout.are_alike(clique, groups)):
        lengths = families.tables(clique, groups, cut)[0][there] * scale
        whole = float(lengths.sum())
        usual = float(wanted.sum()) / whole if whole > 0 else 1.0
        ratio = (wanted + USUAL * usual) / (lengths + USUAL)
        spread = math.sqrt(float((lengths * np.square(ratio / usual - 1)).sum()) / max(whole, 1e-9))
        spread = max(spread, unknown * ratio_range(families, clique, layout.are_alike(clique, groups), cut))
        noise = stddev * ratio
        noise = noise * wanted / np.maximum(np.hypot(noise, wanted), 1e-9)
        error = float(np.hypot(noise, CUT_SPREAD * spread * wanted).sum())
        if error < least:
            best, least = cut, error
    return best


def ratio_range(families: Families, clique: Clique, alike: bool, cut: float) -> float:
    """Return how much larger the ratio of what is wanted to lengths is if the children of each family are all alike
    than if they are all different.

    Args:
        families: the families, of which only the sizes are used.
        clique: the table.
        alike: whether it is about the same attribute of two children in any order.
        cut: the length to which families are cut.
    """
    layout, across = families.layout, families.layout.is_across(clique)
    sizes = families.sizes[families.sizes > across].astype(np.float64)
    if not across:
        weight, cells = 1.0, sizes
    elif layout.ordered:
        weight, cells = 1 / sizes, sizes - 1
    else:
        partners = np.where(sizes <= MOST_ALL, sizes - 1, 2 * NEAR) if len(clique) > 1 else 1.0
        weight, cells = 1 / (sizes * partners), sizes * partners / (2 if alike else 1)
    norms = weight * np.sqrt(cells), weight * cells
    different, same = (float((weight * cells / np.maximum(cut, norm)).sum()) for norm in norms)
    return different / same - 1 if same > 0 else 0.0


def _cuts(layout: Layout, across: bool, alike: bool) -> list[float]:
    """Return the lengths to which counts may be cut; 0 for unit vectors."""
    longest = (0.5 if alike else 1.0) if across else float(layout.at_most)
    shortest = longest / layout.at_most
    steps = 2 * math.ceil(math.log2(longest / shortest)) if layout.at_most > 1 else 0
    return [0.0, *(longest * 2 ** (-step / 2) for step in range(steps, -1, -1))]


def _there(layout: Layout, clique: Clique, groups: Sequence[np.ndarray]) -> tuple[slice, ...]:
    """Return the part of a table over groups without absent children."""
    kinds = [layout.kind(name) for name in clique]
    ends = [int(labels[-1]) + (kind not in (MEMBER, OTHER)) for labels, kind in zip(groups, kinds, strict=True)]
    return tuple(slice(end) for end in ends)


def asked_cells(layout: Layout, clique: Clique, groups: Sequence[np.ndarray]) -> np.ndarray:
    """Return the cells that are measured, row-major."""
    present = layout.present(clique, groups)
    return np.flatnonzero(np.triu(present) if layout.are_alike(clique, groups) else present)


def _values(
    data: Dataset, *, clique: Clique, groups: tuple[np.ndarray, ...], cells: np.ndarray, averaged: bool, cut: float
) -> np.ndarray:
    assert isinstance(data, FamilyDataset)
    lengths, averages = data.families.tables(clique, groups, cut)
    if averaged:
        alike = data.layout.are_alike(clique, groups)
        lengths = averages + averages.T - np.diag(np.diag(averages)) if alike else averages
    return lengths.ravel()[cells]
