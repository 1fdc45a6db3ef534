"""Categorical and Boolean columns: a code per listed value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pgmest._base.errors import DataError, listed
from pgmest.data.schema.column import COMMON_KEYS, Column, gap_keys, outside_key
from pgmest.data.schema.notation import Node

if TYPE_CHECKING:
    import narwhals as nw

Value = str | int | float | bool


@dataclass(frozen=True)
class Categorical(Column):
    """A column whose values are listed, with a code for all others if `other` gives it a label.

    Numbers in a table match the listed text that they are written as, and text the number.

    Attributes:
        values: the listed ones.
        other: the value that stands for all others, or None.
    """

    values: tuple[Value, ...]
    other: Value | None

    aliases: ClassVar[dict[str, str]] = {}

    @classmethod
    def from_node(cls, name: str, node: Node) -> Categorical:
        fields = node.fields((*COMMON_KEYS, "values", "other"), ("values",))
        missing, markers = gap_keys(fields)
        values = [_value(item) for item in fields["values"].items()]
        if not values:
            fields["values"].fail("must list at least one value.")
        keys = [text_of(value) for value in values]
        for position, key in enumerate(keys):
            if key in keys[:position]:
                fields["values"].items()[position].fail(f"lists {key!r} twice.")
        other = _value(fields["other"]) if "other" in fields else None
        if other is not None and text_of(other) in keys:
            fields["other"].fail(f"must be a value that is not listed, not {other!r}.")
        if other is None and not missing and "outside" not in fields:
            node.fail("must say what becomes of other values: other: <label>, or missing: true, or outside: error.")
        allowed = ("missing",) if other is None and missing else ("other",) if other is not None else ()
        outside = outside_key(fields, allowed or ("error",), missing)
        return cls(name, missing, markers - set(keys), outside, node.place, tuple(values), other)

    @property
    def regular(self) -> int:
        return len(self.values) + (self.other is not None)

    @property
    def kind(self) -> str:
        """The type that all its values have, or text."""
        values = self.values if self.other is None else (*self.values, self.other)
        for kind, types in (("boolean", bool), ("integer", int), ("real", (int, float))):
            if all(isinstance(value, types) and (types is bool or not isinstance(value, bool)) for value in values):
                return kind
        return "text"

    @property
    def gap_code(self) -> int:
        return len(self.values) if self.other is not None and not self.missing else super().gap_code

    def find(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        import pandas as pd

        positions, distinct = pd.factorize(values)
        known = {text_of(value): code for code, value in enumerate(self.values)}
        found = [known.get(self.aliases.get(text.casefold(), text), -1) for text in map(text_of, distinct)]
        codes = np.array(found, dtype=np.int64)[positions] if found else np.zeros(len(values), dtype=np.int64)
        outside = codes < 0
        codes[outside] = self.gap_code if self.other is None else len(self.values)
        return codes, outside, np.zeros_like(outside)

    def draw(self, codes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        values = [*self.values, *([] if self.other is None else [self.other])]
        kinds = {"boolean": bool, "integer": np.int64, "real": np.float64, "text": object}
        typed = values if self.kind != "text" else [text_of(value) for value in values]
        return np.array(typed, dtype=kinds[self.kind])[codes]

    def labels(self) -> list[str]:
        return [text_of(value) for value in (*self.values, *([] if self.other is None else [self.other]))]

    def codes_within(self, node: Node) -> list[int]:
        key = text_of(_value(node))
        labels = self.labels()
        if key not in labels:
            node.fail(f"must be a value of column '{self.name}' ({listed(labels)}), not {node.shown}.")
        return [labels.index(key)]

    def expected(self) -> str:
        return f"those listed: {listed(map(text_of, self.values))}"

    def expression(self, kind: nw.dtypes.DType) -> tuple[nw.Expr, nw.Expr]:
        import narwhals as nw

        column = nw.col(self.name)
        known: dict[Any, int] = {text_of(value): code for code, value in enumerate(self.values)}
        known |= {alias: known[text] for alias, text in self.aliases.items()}
        if kind == nw.String:
            column = column.str.strip_chars()
            column = column.str.to_lowercase() if self.aliases else column
        elif kind == nw.Boolean:
            column = nw.when(column).then(nw.lit("true")).otherwise(nw.lit("false"))
        elif kind.is_numeric():
            column = column.cast(nw.Float64)
            known = {float(text): code for text, code in known.items() if _is_number(text)}
        else:
            raise DataError(f"column '{self.name}' is of type {kind}, not text, boolean or a number ({self.place}).")
        outside_code = self.gap_code if self.other is None else len(self.values)
        if not known:
            return nw.lit(outside_code), ~column.is_null()
        codes = column.replace_strict(list(known), list(known.values()), default=outside_code, return_dtype=nw.Int64)
        return codes, ~column.is_in(list(known))


@dataclass(frozen=True)
class Boolean(Categorical):
    """False and true; in text also no and yes, 0 and 1, and first letters."""

    aliases: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("false", "f", "no", "n", "0"), "false"),
        **dict.fromkeys(("true", "t", "yes", "y", "1"), "true"),
    }

    @classmethod
    def from_node(cls, name: str, node: Node) -> Boolean:
        fields = node.fields(COMMON_KEYS)
        missing, markers = gap_keys(fields)
        outside = outside_key(fields, ("missing",) if missing else ("clip",), missing)
        return cls(name, missing, markers, outside, node.place, (False, True), None)

    def expected(self) -> str:
        return "true or false"


def text_of(value: object) -> str:
    """How a value is written: 1 and 1.0 alike, true for True.

    >>> [text_of(value) for value in (1, 1.0, True, " a ", 2.5)]
    ['1', '1', 'true', 'a', '2.5']
    """
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        value = float(value)
        return str(int(value)) if value.is_integer() else str(value)
    return str(value).strip()


def _value(node: Node) -> Value:
    value = node.scalar()
    if value is None:
        node.fail("must not be null: say missing: true for missing values.")
    return value


def _is_number(text: str) -> bool:
    """Whether a number is written so: 7 is, 007 is not."""
    try:
        return text_of(float(text)) == text
    except ValueError:
        return False
