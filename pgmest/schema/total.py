"""Totals with an attribute of their own: the sum of other columns of the row (`sum: {total: [a, b]}`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pgmest.data.codes import code_type
from pgmest.data.values import Values
from pgmest.schema.column import Found, SchemaColumn
from pgmest.schema.grid import Grid
from pgmest.schema.notation import SchemaNode

if TYPE_CHECKING:
    from pgmest.schema.engine import EngineColumn, EngineFound, Reading


@dataclass(frozen=True)
class Total(SchemaColumn):
    """A column whose code is the bin of the sum of its parts, which the row has as they are coded.

    The total that the row has itself is not read. If a part is missing, so is the total.

    Attributes:
        own: the column as it is described.
        parts: its parts, as they are described.
    """

    own: Grid
    parts: tuple[Grid, ...]

    @classmethod
    def of(cls, own: Grid, parts: tuple[Grid, ...]) -> Total:
        """Return the column."""
        return cls(own.name, own.missing, own.markers, "clip", own.place, own, parts)

    @property
    def kind(self) -> str:
        return self.own.kind

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

    def labels(self) -> list[str]:
        return self.own.labels()

    def codes_within(self, node: SchemaNode) -> list[int]:
        return self.own.codes_within(node)

    def expected(self) -> str:
        return self.own.expected()

    def find(self, values: Values) -> Found:
        return self.own.find(values)

    def draw(self, codes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return self.own.draw(codes, generator)

    def read_in_engine(self, column: EngineColumn) -> Reading:
        return self.own.read_in_engine(column)

    def place_in_engine(self, reading: Reading) -> EngineFound:
        return self.own.place_in_engine(reading)
