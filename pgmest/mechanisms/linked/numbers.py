"""Numbers of children with a code: noisy answers in how many families 1, 2, or 3 and more children have each code."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.mechanisms.linked.families import Families, Layout
from pgmest.mechanisms.linked.family_dataset import FamilyDataset
from pgmest.mechanisms.linked.lengths import CUT_SPREAD, USUAL
from pgmest.mechanisms.linked.pairing import MOST_COUNTED
from pgmest.mechanisms.linked.search import Target
from pgmest.privacy.requests import UnitVector


@dataclass(frozen=True, eq=False)
class MeasuredNumbers:
    """The noisy numbers of one attribute of a child, as `Families.numbers` counts them.

    Attributes:
        name: the attribute.
        values: the noisy lengths, shape (codes, 3).
        stddev: the standard deviation of their noise.
        cut: the length to which families were cut.
    """

    name: str
    values: np.ndarray
    stddev: float
    cut: float

    def target(self, before: Families, total: float, families: int) -> Target:
        """Return what the answers say about counts of families, given the families of a model.

        The answers count as much as the model's error is larger than their noise: it is taken to be proportional to the
        square root of a count, and estimated from all differences between the answers and the model.

        Args:
            before: the families of the model.
            total: the estimated number of families of the data.
            families: the number of families that the target is about.
        """
        scale = total / max(1, len(before.sizes))
        lengths, counts = (table * scale for table in before.numbers(self.name, self.cut))
        usual = float(counts.sum()) / max(float(lengths.sum()), 1e-9) if counts.any() else 1.0
        ratio = (counts + USUAL * usual) / (lengths + USUAL)
        apart, noise = ratio * (self.values - lengths), np.square(ratio * self.stddev)
        spread = max(float((np.square(apart) - noise).sum()), 0.0) / max(float(counts.sum()), 1.0)
        signal = spread * (counts + 1)
        table = counts + apart * signal / (signal + noise)
        size = families / total
        return Target(table * size, float(noise.mean()) * size**2)


def numbers_of(layout: Layout, name: str, cut: float) -> UnitVector:
    """Return the request for the numbers of one attribute of a child."""
    count = (layout.domain[name] - 1) * MOST_COUNTED
    return UnitVector(f"numbers of {name}", count, partial(_numbers, name=name, cut=cut))


def measured_numbers(layout: Layout, name: str, answer: tuple[np.ndarray, float], cut: float) -> MeasuredNumbers:
    """Return the answer to the request of `numbers_of` as a table."""
    values, stddev = answer
    return MeasuredNumbers(name, values.reshape(layout.domain[name] - 1, MOST_COUNTED), stddev, cut)


def best_cut_of_numbers(layout: Layout, name: str, families: Families, scale: float, stddev: float) -> float:
    """Return the length to which families are cut that makes the expected error smallest, as `best_cut`."""
    most = min(layout.at_most, layout.domain[name] - 1)
    best, least = 0.0, math.inf
    for cut in np.sqrt(np.arange(1, most + 1)):
        lengths, counts = (table * scale for table in families.numbers(name, cut))
        usual = float(counts.sum()) / max(float(lengths.sum()), 1e-9) if counts.any() else 1.0
        ratio = (counts + USUAL * usual) / (lengths + USUAL)
        spread = math.sqrt(float((lengths * np.square(ratio / usual - 1)).sum()) / max(float(lengths.sum()), 1e-9))
        error = float(np.hypot(stddev * ratio, CUT_SPREAD * spread * counts).sum())
        if error < least:
            best, least = float(cut), error
    return best


def _numbers(data: Dataset, *, name: str, cut: float) -> np.ndarray:
    assert isinstance(data, FamilyDataset)
    return data.families.numbers(name, cut)[0].ravel()
