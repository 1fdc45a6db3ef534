"""HowMany: the number of rows with some values that hang on each row of the root, such as children of a household."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pgmest.errors import ArgumentError, at_least


@dataclass(frozen=True, eq=False)
class HowMany:
    """The number of rows of a table that hang on each row of the root: an attribute for `Synthesizer.interval`.

    >>> str(HowMany("persons", {"role": "child"}, most=3)), str(HowMany("persons", name="size"))
    ("number of persons with role='child'", 'size')

    Args:
        table: the table whose rows are counted.
        given: count only rows with these values, as for `Synthesizer.sample`: `{"age": (75, None), "work": True}`.
        most: larger numbers count as this one: with 3 the values are 0, 1, 2 and 3+. None to tell all numbers apart.
        name: the name of its column in results.

    Raises:
        ArgumentError: an argument is not of these kinds.
    """

    table: str
    given: Mapping[str, Any] = field(default_factory=dict)
    most: int | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.table, str):
            raise ArgumentError.of("table", self.table, "the name of a table")
        if not isinstance(self.given, Mapping) or not all(isinstance(column, str) for column in self.given):
            raise ArgumentError.of("given", self.given, 'a mapping of columns to values, such as {"role": "child"}')
        if self.most is not None:
            at_least("most", self.most, 1)

    def __str__(self) -> str:
        if self.name is not None:
            return self.name
        conditions = ", ".join(f"{column}={value!r}" for column, value in self.given.items())
        return f"number of {self.table}" + (f" with {conditions}" if conditions else "")
