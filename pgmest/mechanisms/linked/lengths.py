"""Measured lengths: noisy sums of unit vectors of families, and the averages that they say something about."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.lamp.answers import grouping_query
from pgmest.mechanisms.linked.families import Families, Layout
from pgmest.mechanisms.linked.family_dataset import FamilyDataset
from pgmest.privacy.requests import UnitVector
from pgmest.tables.domain import Clique

USUAL = 3.0
"""The weight of the usual ratio of averages and lengths in the ratio of a cell, in lengths."""


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
    """

    clique: Clique
    groups: tuple[np.ndarray, ...]
    values: np.ndarray
    stddev: float
    averaged: bool

    def averages(self, families: Families, total: float) -> LinearMeasurement:
        """Return what the answers say about averages, as a measurement.

        Args:
            families: the families of a model.
            total: the estimated number of families of the data.
        """
        scale = total / max(1, len(families.sizes))
        lengths, averages = (table * scale for table in families.tables(self.clique, self.groups))
        present = families.layout.present(self.clique, self.groups)
        if self.averaged:
            lengths = averages
        whole = float(lengths[present].sum())
        usual = float(averages[present].sum()) / whole if whole > 0 else 1.0
        ratio = np.minimum((averages + USUAL * usual) / (lengths + USUAL), 1.0)
        values = np.where(present, averages + ratio * (self.values - lengths), averages)
        noise = self.stddev * math.sqrt(float(np.square(ratio[present]).mean()))
        query = grouping_query(self.clique, self.groups, [False] * len(self.clique))
        return LinearMeasurement(values.ravel(), self.clique, noise, query, "gaussian")


def vector_of(layout: Layout, clique: Clique, groups: Sequence[np.ndarray], averaged: bool) -> UnitVector:
    """Return the request for the lengths of a table with attributes of children, or for its averages.

    The cells of absent children are left out, as they follow from other tables. Of an attribute with itself only the
    cells on one side of the diagonal are asked for; the others are the same.
    """
    sizes = " x ".join(str(int(labels[-1]) + 1) for labels in groups)
    cells = _asked(layout, clique, groups)
    values = partial(_values, clique=clique, groups=tuple(groups), cells=cells, averaged=averaged)
    return UnitVector(f"{' x '.join(clique)} over {sizes}", len(cells), values)


def measured(
    layout: Layout, clique: Clique, groups: tuple[np.ndarray, ...], answer: tuple[np.ndarray, float], averaged: bool
) -> MeasuredLengths:
    """Return the answer to the request of `vector_of` as a table."""
    values, stddev = answer
    table = np.zeros(layout.present(clique, groups).shape)
    table.ravel()[_asked(layout, clique, groups)] = values
    if layout.are_alike(clique, groups):
        table += np.triu(table, 1).T
        if averaged:
            table = (table + np.diag(np.diag(table))) / 2
    return MeasuredLengths(clique, groups, table, stddev, averaged)


def _asked(layout: Layout, clique: Clique, groups: Sequence[np.ndarray]) -> np.ndarray:
    """Return the cells that are measured, row-major."""
    present = layout.present(clique, groups)
    return np.flatnonzero(np.triu(present) if layout.are_alike(clique, groups) else present)


def _values(
    data: Dataset, *, clique: Clique, groups: tuple[np.ndarray, ...], cells: np.ndarray, averaged: bool
) -> np.ndarray:
    assert isinstance(data, FamilyDataset)
    lengths, averages = data.families.tables(clique, groups)
    if averaged:
        alike = data.layout.are_alike(clique, groups)
        lengths = averages + averages.T - np.diag(np.diag(averages)) if alike else averages
    return lengths.ravel()[cells]
