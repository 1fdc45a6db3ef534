"""The rows that the bound of a schema's unit leaves out, counted without noise for their owner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.frames import collected
from pgmest.errors import percent_text, plural
from pgmest.schema.unit import Unit

if TYPE_CHECKING:
    import narwhals as nw


@dataclass(frozen=True)
class DroppedRows:
    """The rows of the persons of a table. **Not private**: they are counted from the records without noise.

    Attributes:
        unit: the unit of the schema.
        rows: the number of rows of the table.
        persons: the number of persons.
        crowded: the number of persons with more rows than are counted.
        beyond: the number of rows of these persons that are left out.
        nobody: the number of rows without a person, which are left out, too.
        most: the largest number of rows of one person.
    """

    unit: Unit
    rows: int
    persons: int
    crowded: int
    beyond: int
    nobody: int
    most: int

    @classmethod
    def of(cls, unit: Unit, rows: np.ndarray, nobody: int, persons: Any = 1) -> DroppedRows:
        """Return the counts.

        Args:
            unit: the unit of the schema.
            rows: numbers of rows of persons.
            nobody: the number of rows without a person.
            persons: the number of persons with each of these numbers of rows.
        """
        persons, excess = np.broadcast_to(persons, rows.shape), np.maximum(rows - unit.at_most, 0)
        crowded, beyond = int(persons[excess > 0].sum()), int(excess @ persons)
        most = int(rows.max(initial=0))
        return cls(unit, int(rows @ persons) + nobody, int(persons.sum()), crowded, beyond, nobody, most)

    @classmethod
    def in_engine(cls, unit: Unit, frame: nw.LazyFrame[Any]) -> DroppedRows:
        """Count the rows in the engine that holds them, with the person of each as `written_persons` gives it."""
        import narwhals as nw

        each = frame.select(nw.col(unit.column).alias("person")).group_by("person").agg(nw.len().alias("rows"))
        groups = each.with_columns(nw.col("person").is_null().alias("nobody")).group_by("nobody", "rows")
        found = collected(groups.agg(nw.len().alias("persons")))
        nobody = np.array(found["nobody"].to_list(), dtype=bool)
        rows, persons = (np.array(found[name].to_list(), dtype=np.int64) for name in ("rows", "persons"))
        return cls.of(unit, rows[~nobody], int(rows[nobody].sum()), persons[~nobody])

    @property
    def left_out(self) -> int:
        """The number of rows that are left out."""
        return self.beyond + self.nobody

    @property
    def remark(self) -> str:
        """The counts in words."""
        parts = []
        if self.beyond:
            parts.append(
                f"{self.beyond:,} as {self.crowded:,} of {plural(self.persons, 'person')} have more than "
                f"{self.unit.at_most} row{'s' * (self.unit.at_most > 1)} (up to {self.most:,})"
            )
        if self.nobody:
            parts.append(f"{self.nobody:,} as they have no '{self.unit.column}'")
        share = percent_text(self.left_out, self.rows)
        return f"{self.left_out:,} of {self.rows:,} rows ({share}) are left out: {', '.join(parts)}"

    def to_json(self) -> dict[str, Any]:
        """Return the counts as values of JSON."""
        return {
            "column": self.unit.column,
            "at_most": self.unit.at_most,
            "persons": self.persons,
            "persons_with_more": self.crowded,
            "most_rows_of_a_person": self.most,
            "rows_left_out": self.left_out,
            "rows_of_nobody": self.nobody,
        }
