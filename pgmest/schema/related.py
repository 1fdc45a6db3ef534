"""RelatedColumn: the part that columns have in common whose code depends on other columns of the row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pgmest.data.values import Values
from pgmest.schema.column import Found, SchemaColumn
from pgmest.schema.grid import Grid
from pgmest.schema.notation import SchemaNode

if TYPE_CHECKING:
    from pgmest.schema.engine import EngineColumn, EngineFound, Reading


@dataclass(frozen=True)
class RelatedColumn(SchemaColumn):
    """A column whose code depends on other columns of the row; everything else is as in its own description.

    Attributes:
        own: the column as it is described.
    """

    own: Grid

    @property
    def kind(self) -> str:
        return self.own.kind

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
