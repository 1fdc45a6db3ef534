"""SchemaColumn: what is public about one column of a raw table, and how its values become codes and codes values again.

The codes of a column are those of its values, in order, then one for all `other` values if it has one, then one for
missing values if it has one.
"""

from __future__ import annotations

import abc
import reprlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pgmest.data.codes import code_type
from pgmest.data.values import Values
from pgmest.errors import DataError
from pgmest.schema.notation import SchemaNode
from pgmest.schema.readings import code_of, could_be_written, text_of
from pgmest.tables.domain import Domain
from pgmest.tables.hierarchy import Hierarchy

COMMON_KEYS = ("type", "missing", "outside", "hierarchy")

FATES = ("foreseen", "missing", "unreadable", "outside")
"""The fates of a value: the schema foresees it; it is missing, or a marker of missing values; it cannot be read as the
type of the column; or it is readable, but beyond the bounds or not listed."""

FORESEEN, MISSING, UNREADABLE, OUTSIDE = range(len(FATES))


class Found(NamedTuple):
    """The codes of values without gaps, and which values are not foreseen: arrays of shape (rows,).

    Attributes:
        codes: the code of each; where it is outside, that of `clip` or `other` if the column does that.
        outside: which are not foreseen.
        unreadable: which cannot be read at all as what the column holds.
    """

    codes: np.ndarray
    outside: np.ndarray
    unreadable: np.ndarray


@dataclass(frozen=True)
class SchemaColumn(abc.ABC):
    """One column: a Categorical, a Boolean, or a Grid of one of the `kinds.KINDS`.

    The code of a value depends on that value and the schema alone: never on the values beside it, nor on the type that
    a library or a file gave to the column. 5, 5.0 and "5" are one value, and so are True and "true".

    The rule for values that the schema does not foresee is public, and does not depend on the table: an error that a
    private record causes would reveal that record. So values are clipped, or become `other` or missing; they are
    reported only with `outside: error`.

    Attributes:
        name: of the column, and of the attribute.
        missing: whether missing values have a code, which is then the last one.
        markers: texts that mean a missing value, besides an empty field.
        outside: what becomes of a value that is not foreseen: "clip", "other", "missing" or "error".
        place: where the schema describes the column, for errors.
        hierarchy: the levels of its codes, as it is coded; None without any.
    """

    name: str
    missing: bool
    markers: frozenset[str]
    outside: str
    place: str
    hierarchy: Hierarchy | None = field(default=None, kw_only=True)

    @property
    @abc.abstractmethod
    def kind(self) -> str:
        """The type of its values: "integer", "real", "boolean", "date", "text", or one of times with its step."""

    @property
    @abc.abstractmethod
    def regular(self) -> int:
        """The number of codes before that of missing values."""

    @abc.abstractmethod
    def find(self, values: Values) -> Found:
        """Return the codes of values without gaps."""

    @abc.abstractmethod
    def draw(self, codes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Draw a value for each code, uniform within its bin; no code is that of missing values."""

    def extremes(self) -> np.ndarray:
        """Return values that show whether a type holds all values of the column.

        These are all labels, both ends of all bins of numbers with decimals, and of others the ends of the range.
        """
        return self.draw(np.arange(self.regular), np.random.default_rng(0))

    def texts(self, values: np.ndarray) -> np.ndarray:
        """Return values as text files have them; values whose usual text is that stay as they are."""
        return values

    @abc.abstractmethod
    def labels(self) -> list[str]:
        """Return the label of each code except that of missing values."""

    def label_of(self, code: int) -> str:
        """Return the label of a code."""
        return "missing" if self.missing and code == self.gap_code else self.labels()[code]

    @abc.abstractmethod
    def codes_within(self, node: SchemaNode) -> list[int]:
        """Return the codes of the values that a constraint names."""

    @abc.abstractmethod
    def expected(self) -> str:
        """Return the foreseen values in words, for an error: "within 0..99"."""

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers of a range, which have sums."""
        return False

    @property
    def decimals(self) -> int | None:
        """The decimal places of the numbers, 0 of whole ones; None if there is no limit, or no number."""
        return None

    beyond: ClassVar[str]
    """The word for values that are outside, in a check: "clipped", "other" or "unreadable"."""

    @property
    def listed(self) -> int:
        """The number of values or bins, without the codes of others and of missing values."""
        return self.regular

    @property
    def size(self) -> int:
        """The number of codes."""
        return self.regular + self.missing

    def row_keys(self, codes: np.ndarray) -> np.ndarray:
        """Return a number for each code that depends on its value alone, for the choice among the rows of a person."""
        return codes

    def encode(self, values: Values | np.ndarray, first_row: int | None = 0) -> np.ndarray:
        """Return the code of each value, shape (records,), in the smallest type that holds the codes.

        Args:
            values: a column; an array may hold numbers, booleans, dates, or objects, with null as None, NaN or NaT.
            first_row: the number of the first of them, for errors; None if rows have no numbers.

        Raises:
            DataError: with `outside: error`, for the first value that is not foreseen.
        """
        values = Values.of(values) if isinstance(values, np.ndarray) else values
        code, refused = self.judged(values)
        if self.outside == "error" and refused.any():
            row = int(refused.argmax())
            self.refuse(None if values.gaps[row] else values.array[row], None if first_row is None else first_row + row)
        return code

    def judged(self, values: Values) -> tuple[np.ndarray, np.ndarray]:
        """Return the code of each value, gaps included, and which values `outside: error` refuses; shapes (rows,)."""
        code, fate = self.fates(values)
        return code, fate > (MISSING if self.missing else FORESEEN)

    def fates(self, values: Values) -> tuple[np.ndarray, np.ndarray]:
        """Return the code of each value, gaps included, and its fate, an index of `FATES`; each has shape (rows,).

        Nothing is raised, also with `outside: error`.
        """
        positions, condensed = values.where(~values.gaps).condensed()
        (codes, outside, unreadable), marked = self.find(condensed), self.marked(condensed)
        fate = np.select([marked, unreadable, outside], [MISSING, UNREADABLE, OUTSIDE], FORESEEN)
        to_gap = marked | unreadable | (outside & (self.outside == "missing"))
        code = np.full(len(values), self.gap_code, dtype=code_type(self.size))
        fates = np.full(len(values), MISSING, dtype=np.int8)
        code[~values.gaps] = np.where(to_gap, self.gap_code, codes)[positions]
        fates[~values.gaps] = fate[positions]
        return code, fates

    def refuse(self, value: Any, row: int | None) -> None:
        """Raise the DataError of `outside: error`."""
        at = "" if row is None else f", row {row}"
        shown = "no value" if value is None else f"the value {shown_value(value)}"
        raise DataError(
            f"column '{self.name}'{at} has {shown}, but values are {self.expected()} ({self.place}). "
            "Correct the table, or let the schema say what becomes of such values."
        )

    @property
    def gap_code(self) -> int:
        """The code of missing and unreadable values; without one for them, that of others, or the first one."""
        return self.regular if self.missing else 0

    def marked(self, values: Values) -> np.ndarray:
        """Return which values, without gaps, are written as one of the markers."""
        if values.array.dtype.kind != "O" and not any(map(could_be_written, self.markers)):
            return np.zeros(len(values), dtype=bool)
        positions, distinct = values.distinct()
        known, numbers = dict.fromkeys(self.markers, 0), dict.fromkeys(filter(could_be_written, self.markers), 0)
        found = [code_of(text_of(value), known, {}, numbers) == 0 for value in distinct]
        return np.array(found, dtype=bool)[positions]


def domain_of(columns: Iterable[SchemaColumn]) -> Domain:
    """Return the attributes that columns make, with their hierarchies."""
    columns = tuple(columns)
    domain = Domain({column.name: column.size for column in columns})
    hierarchies = [column.hierarchy for column in columns if column.hierarchy is not None]
    return domain.with_hierarchies(*hierarchies) if hierarchies else domain


def gap_keys(fields: dict[str, SchemaNode]) -> tuple[bool, frozenset[str]]:
    """Read `missing:`: return whether missing values have a code, and the texts that mean a missing value."""
    node = fields.get("missing")
    if node is None or isinstance(node.value, bool):
        return bool(node is not None and node.value), frozenset({""})
    return True, frozenset({"", *(_marker(item) for item in node.items())})


def _marker(node: SchemaNode) -> str:
    value = node.scalar()
    return "" if value is None else text_of(value) or ""


def outside_key(fields: dict[str, SchemaNode], allowed: tuple[str, ...], missing: bool) -> str:
    """Return `outside:`, by default the first of `allowed`."""
    node = fields.get("outside")
    if node is None:
        return allowed[0]
    choice = node.choice((*allowed, "missing", "error") if missing else (*allowed, "error"))
    return choice


def shown_value(value: object) -> str:
    """Return a value as an error shows it; this fails for no object."""
    try:
        return reprlib.repr(value.item() if isinstance(value, np.generic) else value)
    except Exception:  # what a foreign object's repr raises, or an integer of too many digits
        return f"of type {type(value).__name__}"
