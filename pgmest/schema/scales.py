"""Scales: the numbers that the bins of a column cut up, whole ones or those of some decimal places."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.schema.bins import real_edges, whole_bins, with_points
from pgmest.schema.notation import SchemaNode

if TYPE_CHECKING:
    from pgmest.schema.grid import Notation

Starts = Sequence[Any]
"""The least number of each bin, ascending."""


@dataclass(frozen=True)
class Whole:
    """Whole numbers: of things, or of steps of time."""

    decimals: int | None = 0

    @classmethod
    def of_fields(cls, fields: dict[str, SchemaNode]) -> Whole:
        """Return the scale that a description says."""
        return cls()

    @property
    def units_of_one(self) -> float:
        """The number of units in 1: drawn values are whole units, where decimals are limited."""
        return 1.0

    def bins(self, node: SchemaNode, fields: dict[str, SchemaNode], notation: Notation) -> tuple[tuple[Any, ...], Any]:
        """Return the starts of the bins that a description says, and the greatest number of the last."""
        fields = fields if "edges" in fields else {**notation.bounds(node), **fields}
        most = fields.get("max")

        def read(bound: SchemaNode) -> Any:
            return notation.number_of(bound, last=bound is most)

        high, periods = whole_bins(node, fields, lambda bound: notation.period_of(read(bound)))
        starts, last = [notation.start_of(period) for period in periods], notation.start_of(high + 1) - 1
        if most is not None:
            starts[0], last = read(fields["min"]), read(most)
            if last < starts[0]:
                most.fail(f"must be at least min ({fields['min'].shown}), not {most.shown}.")
        return with_points(fields, starts, last, notation.number_of, lambda number: number + 1), last

    def points(self, starts: Starts, high: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and the last drawn value of each bin, in units."""
        return np.array(starts, dtype=np.int64), np.array([*starts[1:], high + 1], dtype=np.int64) - 1

    def lasts(self, starts: Starts, high: float) -> np.ndarray:
        """Return the greatest number of each bin; of bins of real numbers the upper end."""
        return self.points(starts, high)[1]

    def labels(self, starts: Starts, high: float, notation: Notation) -> list[str]:
        """Return the label of each bin."""
        return list(map(notation.label, starts, self.lasts(starts, high).tolist()))

    def from_units(self, units: np.ndarray) -> np.ndarray:
        return units

    def to_units(self, numbers: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Return numbers in units, each among the points of its bin, from `first` to `last`."""
        return numbers


@dataclass(frozen=True)
class Decimal(Whole):
    """Numbers of at most some decimal places, or of any number of them if `decimals` is None."""

    @classmethod
    def of_fields(cls, fields: dict[str, SchemaNode]) -> Decimal:
        return cls(min(fields["decimals"].integer(0), 300) if "decimals" in fields else None)

    @property
    def units_of_one(self) -> float:
        return 10.0 ** (self.decimals or 0)

    def bins(self, node: SchemaNode, fields: dict[str, SchemaNode], notation: Notation) -> tuple[tuple[Any, ...], Any]:
        edges, decimals = real_edges(node, fields), self.decimals
        if decimals is not None and not max(abs(edges[0]), abs(edges[-1])) * 10.0**decimals < 2**53:
            fields["decimals"].fail(f"of {decimals} are more than numbers of that size have.")
        starts = with_points(fields, edges[:-1], edges[-1], self._point, lambda point: float(self._following(point)))
        if decimals is None:
            return starts, edges[-1]
        if "points" in fields:  # rounding can leave nothing between an edge and a point
            first, last = self.points(starts, edges[-1])
            starts = (starts[0], *itertools.compress(starts[1:], (first <= last)[1:]))
        first, last = self.points(starts, edges[-1])
        if (first > last).any():
            fields["decimals"].fail(
                f"of {decimals} leaves some bins without a value; take more decimals or wider bins."
            )
        return starts, edges[-1]

    def _point(self, node: SchemaNode) -> float:
        """Return the number that a node says, which must have no more decimal places than the column."""
        number = float(node.number())
        if self.decimals is not None and round(number * self.units_of_one) / self.units_of_one != number:
            node.fail(f"must have at most {self.decimals} decimal places, as the column, not {node.shown}.")
        return number

    def _following(self, numbers: Any) -> Any:
        """Return the least number above each; above 0 the least that no machine takes for 0."""
        if self.decimals is None:
            return np.maximum(np.nextafter(numbers, math.inf), numbers + sys.float_info.min)
        return (np.round(numbers * self.units_of_one) + 1) / self.units_of_one

    def points(self, starts: Starts, high: float) -> tuple[np.ndarray, np.ndarray]:
        edges, scale = np.array([*starts, high]), self.units_of_one
        if self.decimals is None:
            last = np.array([*np.nextafter(edges[1:-1], -np.inf), high])
            return edges[:-1], np.where(self._alone(starts, high), edges[:-1], last)
        bins, first, last = np.arange(len(starts)), np.ceil(edges[:-1] * scale) - 1, np.floor(edges[1:] * scale) + 1
        for _ in range(2):  # rounding can put a multiple on the wrong side of an edge
            first += (first / scale < starts[0]) | (bins_of(starts, first / scale) < bins)
            last -= (last / scale > high) | (bins_of(starts, last / scale) > bins)
        return first.astype(np.int64), last.astype(np.int64)

    def lasts(self, starts: Starts, high: float) -> np.ndarray:
        return np.where(self._alone(starts, high), starts, [*starts[1:], high])

    def labels(self, starts: Starts, high: float, notation: Notation) -> list[str]:
        edges, texts, alone = [f"{edge:.6g}" for edge in (*starts, high)], [], self._alone(starts, high)
        for code, (first, last) in enumerate(itertools.pairwise(edges)):
            after = self.decimals is None and code > 0 and alone[code - 1]
            opening = f"({edges[code - 1]}" if after else f"[{first}"
            closing = "]" if code == len(starts) - 1 else ")"
            texts.append(first if alone[code] else f"{opening}, {last}{closing}")
        return texts

    def _alone(self, starts: Starts, high: float) -> np.ndarray:
        """Return which bins hold one number, shape (codes,)."""
        after = self._following(np.array(starts))
        return np.append(after[:-1] == starts[1:], high < after[-1])

    def from_units(self, units: np.ndarray) -> np.ndarray:
        return units if self.decimals is None else units / self.units_of_one

    def to_units(self, numbers: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        return numbers if self.decimals is None else np.clip(np.floor(numbers * self.units_of_one + 0.5), first, last)


def bins_of(starts: Starts, numbers: np.ndarray) -> np.ndarray:
    """Return the bin of each number, of the nearest bound where it is outside."""
    return np.clip(np.searchsorted(starts, numbers, side="right") - 1, 0, len(starts) - 1)


Scale = Whole
"""A scale: of whole numbers, or one of those that override what differs."""
