"""Column: what is public about one column of a raw table, and how its values become codes and codes values again.

The codes of a column are those of its values, in order, then one for all `other` values if it has one, then one for
missing values if it has one.
"""

from __future__ import annotations

import abc
import reprlib
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.errors import DataError
from pgmest.data.codes import code_type
from pgmest.data.schema.notation import Node

if TYPE_CHECKING:
    import narwhals as nw

NESTED = (list, dict, set, tuple, np.ndarray)

COMMON_KEYS = ("type", "missing", "outside")


@dataclass(frozen=True)
class Column(abc.ABC):
    """One column; its kinds are Categorical, Boolean, Integer, Real and Date.

    What becomes of a value that the schema does not foresee is public, and the same whatever the table holds: an error
    that a private record causes would tell of that record. So values are clipped, or become `other` or missing; only
    with `outside: error` are they reported.

    Attributes:
        name: of the column, and of the attribute.
        missing: whether missing values have a code of their own, the last one.
        markers: texts that mean a missing value, besides an empty field.
        outside: what becomes of a value that is not foreseen: "clip", "other", "missing" or "error".
        place: where the schema describes the column, for errors.
    """

    name: str
    missing: bool
    markers: frozenset[str]
    outside: str
    place: str

    @property
    @abc.abstractmethod
    def kind(self) -> str:
        """The type of its values in a table: "integer", "real", "boolean", "date" or "text"."""

    @property
    @abc.abstractmethod
    def regular(self) -> int:
        """The number of codes before that of missing values."""

    @abc.abstractmethod
    def find(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For values none of which is null: their codes, which of them are outside, and which cannot be read at all.

        The code of a value that is outside is that of `clip` or `other`, if the column does that.
        """

    @abc.abstractmethod
    def draw(self, codes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """A value for each code, none of them missing: uniform within its bin."""

    @abc.abstractmethod
    def labels(self) -> list[str]:
        """What each code but that of missing values stands for."""

    @abc.abstractmethod
    def codes_within(self, node: Node) -> list[int]:
        """The codes of the values that a constraint names: a value, or what else the kind of column offers."""

    @abc.abstractmethod
    def expected(self) -> str:
        """The foreseen values, for an error: "within 0..99"."""

    @abc.abstractmethod
    def expression(self, kind: nw.dtypes.DType) -> tuple[nw.Expr, nw.Expr]:
        """As `find`, for an engine whose column is of that type: the codes, and whether a value is outside.

        Raises:
            DataError: the type does not fit the column.
        """

    @property
    def size(self) -> int:
        """The number of codes."""
        return self.regular + self.missing

    def encode(self, values: np.ndarray, first_row: int = 0) -> np.ndarray:
        """The code of each value, shape (records,), in the smallest type that holds them.

        Args:
            values: numbers, booleans, dates, or objects such as text; null as None, NaN or NaT.
            first_row: the number of the first of them, for errors.

        Raises:
            DataError: with `outside: error`, for the first value that is not foreseen.
        """
        values = _plain(values)
        gaps = self._gaps(values)
        codes, outside, unreadable = self.find(values[~gaps])
        code = np.full(len(values), self.gap_code, dtype=np.int64)
        code[~gaps] = np.where(unreadable, self.gap_code, codes)
        if self.outside == "missing":
            code[np.flatnonzero(~gaps)[outside]] = self.gap_code
        elif self.outside == "error":
            wrong = np.zeros(len(values), dtype=bool) if self.missing else gaps.copy()
            wrong[np.flatnonzero(~gaps)[outside | unreadable]] = True
            if wrong.any():
                row = int(wrong.argmax())
                self.refuse(None if gaps[row] else values[row], first_row + row)
        return code.astype(code_type(self.size))

    def refuse(self, value: Any, row: int | None) -> None:
        """Raise the DataError of `outside: error`."""
        at = "" if row is None else f", row {row}"
        shown = "no value" if value is None else f"the value {reprlib.repr(getattr(value, 'item', lambda: value)())}"
        raise DataError(
            f"column '{self.name}'{at} has {shown}, but values are {self.expected()} ({self.place}). "
            "Correct the table, or let the schema say what becomes of such values."
        )

    @property
    def gap_code(self) -> int:
        """The code of missing and unreadable values; without one for them, that of others, or the first one."""
        return self.regular if self.missing else 0

    def _gaps(self, values: np.ndarray) -> np.ndarray:
        import pandas as pd

        gaps = np.asarray(pd.isna(values), dtype=bool)
        if values.dtype.kind in "OUT":
            gaps |= np.asarray(pd.Series(values, dtype=object).isin(self.markers), dtype=bool)
        return gaps


def gap_keys(fields: dict[str, Node]) -> tuple[bool, frozenset[str]]:
    """`missing:` as whether there is a code for missing values, and the texts that mean one."""
    node = fields.get("missing")
    if node is None or isinstance(node.value, bool):
        return bool(node is not None and node.value), frozenset({""})
    return True, frozenset({"", *(str(item.scalar()) for item in node.items())})


def outside_key(fields: dict[str, Node], allowed: tuple[str, ...], missing: bool) -> str:
    """`outside:`, by default the first of `allowed`."""
    node = fields.get("outside")
    if node is None:
        return allowed[0]
    choice = node.choice((*allowed, "missing", "error") if missing else (*allowed, "error"))
    return choice


def _plain(values: np.ndarray) -> np.ndarray:
    """Objects that cannot be compared, such as lists, as text, and decimal numbers as floats."""
    if values.dtype.kind != "O" or not any(isinstance(value, (*NESTED, Decimal)) for value in values):
        return values
    plain = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        if isinstance(value, Decimal):
            value = None if value.is_nan() else float(value)
        plain[row] = str(value) if isinstance(value, NESTED) else value
    return plain


def as_text(values: np.ndarray) -> Any:
    """Values of any type as a pandas Series of text without surrounding blanks."""
    import pandas as pd

    return pd.Series([value if isinstance(value, str) else str(value) for value in values], dtype=object).str.strip()
