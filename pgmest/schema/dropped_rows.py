"""The rows that the bound of a schema's unit leaves out, counted without noise for their owner."""

from __future__ import annotations

from collections.abc import Mapping
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
    def of(cls, unit: Unit, persons_by_rows: Mapping[int, int], nobody: int) -> DroppedRows:
        """Return the counts, from the number of persons for each number of rows."""
        excess = {rows: rows - unit.at_most for rows in persons_by_rows if rows > unit.at_most}
        return cls(
            unit,
            sum(rows * persons for rows, persons in persons_by_rows.items()) + nobody,
            sum(persons_by_rows.values()),
            sum(persons_by_rows[rows] for rows in excess),
            sum(persons_by_rows[rows] * more for rows, more in excess.items()),
            nobody,
            max(persons_by_rows, default=0),
        )

    @classmethod
    def of_counts(cls, unit: Unit, counts: np.ndarray, nobody: int) -> DroppedRows:
        """Return the counts, from the number of rows of each person."""
        found, persons = np.unique(counts[counts > 0], return_counts=True)
        return cls.of(unit, dict(zip(found.tolist(), persons.tolist(), strict=True)), nobody)

    @classmethod
    def in_engine(cls, unit: Unit, frame: nw.LazyFrame[Any]) -> DroppedRows:
        """Count the rows in the engine that holds them, with the person of each as `written_persons` gives it."""
        import narwhals as nw

        each = frame.select(nw.col(unit.column).alias("person")).group_by("person").agg(nw.len().alias("rows"))
        groups = each.with_columns(nw.col("person").is_null().alias("nobody")).group_by("nobody", "rows")
        found = collected(groups.agg(nw.len().alias("persons")))
        listed = list(zip(*(found[name].to_list() for name in ("nobody", "rows", "persons")), strict=True))
        nobody = sum(int(rows) for is_nobody, rows, _ in listed if is_nobody)
        return cls.of(unit, {int(rows): int(persons) for none, rows, persons in listed if not none}, nobody)

    @property
    def left_out(self) -> int:
        """The number of rows that are left out."""
        return self.beyond + self.nobody

    @property
    def remark(self) -> str:
        """The counts in words."""
        parts = []
        if self.beyond:
            more = "1 row" if self.unit.at_most == 1 else f"{self.unit.at_most} rows"
            parts.append(
                f"{self.beyond:,} as {self.crowded:,} of {plural(self.persons, 'person')} have more than {more} "
                f"(up to {self.most:,})"
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
