"""Totals that are attributes: the sum of other columns of the row (`sum: {total: [a, b]}`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pgmest.data.codes import code_type
from pgmest.data.values import Values
from pgmest.schema.grid import Grid
from pgmest.schema.related import RelatedColumn

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Total(RelatedColumn):
    """A column whose code is the bin of the sum of its parts, which the row has as they are coded.

    The total that the row has itself is not read. If a part is missing, so is the total.

    Attributes:
        parts: its parts, as they are described.
    """

    parts: tuple[Grid, ...]

    @classmethod
    def of(cls, own: Grid, parts: tuple[Grid, ...]) -> Total:
        """Return the column."""
        return cls(own.name, own.missing, own.markers, "clip", own.place, own, parts)

    @property
    def regular(self) -> int:
        return self.own.regular

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts)

    @property
    def needed(self) -> tuple[str, ...]:
        return ()

    def encode_rows(self, table: Mapping[str, Values], first_row: int = 0) -> np.ndarray:
        there = np.ones(len(table[self.parts[0].name]), dtype=bool)
        total: np.ndarray = np.zeros(len(there), dtype=self.parts[0].points[0].dtype)
        for part in self.parts:
            codes, _ = part.judged(table[part.name])
            numbers, present = part.coded_numbers(table[part.name], codes)
            total, there = total + part.to_units(numbers), there & present
        scale = self.own.units_of_one
        codes = self.own.bins_of(total if scale == 1 else total / scale)
        return np.where(there, codes, self.gap_code).astype(code_type(self.size))
