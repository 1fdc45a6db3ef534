"""Categorical and Boolean columns: a code per listed value."""

from __future__ import annotations

import bisect
import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgmest.data.values import Values
from pgmest.errors import listed
from pgmest.schema.column import COMMON_KEYS, Found, SchemaColumn, gap_keys, outside_key
from pgmest.schema.notation import SchemaNode
from pgmest.schema.readings import code_of, real_of, text_of

Value = str | int | float | bool

PADDED = re.compile(r"0[0-9]{1,17}|[0-9]{1,17}\.0+")
"""Texts that libraries read as a whole number and write in another way."""


@dataclass(frozen=True)
class Categorical(SchemaColumn):
    """A column whose values are listed, with a code for all others if `other` gives it a label, which is foreseen, too.

    Values match by how they are written (`readings.text_of`): numbers the listed text, text the listed number; true
    and false in capitals or small letters.

    A listed number also meets text with more decimals or an exponent, 22 the texts 22.0 and 2.2e1. A listed text of
    digits meets the number that a library made of it, 02139 the number 2139, unless another listed text is that number,
    too. With `outside: clip` a number that is not listed counts as the nearest one in a list of numbers, and any other
    value as the first one.

    Attributes:
        values: the listed ones.
        other: the label of all other values, or None.
        spellings: other ways to write listed values, with the code of the value.
        ignore_case: whether capital and small letters are the same.
    """

    beyond = "other"
    values: tuple[Value, ...]
    other: Value | None
    spellings: tuple[tuple[str, int], ...] = ()
    ignore_case: bool = False

    @classmethod
    def from_node(cls, name: str, node: SchemaNode) -> Categorical:
        fields = node.fields((*COMMON_KEYS, "values", "other", "aliases", "ignore_case"), ("values",))
        missing, markers = gap_keys(fields)
        values = [_value(item) for item in fields["values"].items()]
        if not values:
            fields["values"].fail("must list at least one value.")
        keys = [written(value) for value in values]
        if len(set(keys)) != len(keys):
            position = next(place for place, key in enumerate(keys) if key in keys[:place])
            fields["values"].items()[position].fail(f"lists {keys[position]!r} twice.")
        other = _value(fields["other"]) if "other" in fields else None
        if other is not None and written(other) in keys:
            fields["other"].fail(f"must be a value that is not listed, not {other!r}.")
        if other is None and not missing and "outside" not in fields:
            node.fail(
                "must say what becomes of other values: other: <label>, or missing: true, or outside: error. With "
                "outside: clip they become the nearest listed number, or the first listed text."
            )
        allowed = ("other",) if other is not None else ("missing", "clip") if missing else ("error", "clip")
        outside = outside_key(fields, allowed, missing)
        spellings = _spellings(fields.get("aliases"), dict(zip(keys, range(len(keys)), strict=True)))
        ignore_case = "ignore_case" in fields and fields["ignore_case"].flag()
        markers -= {*keys, *dict(spellings)}
        made = cls(name, missing, markers, outside, node.place, tuple(values), other, spellings, ignore_case)
        if ignore_case:
            made._check_cases(fields["ignore_case"])
        return made

    def _check_cases(self, node: SchemaNode) -> None:
        codes: dict[str, int] = {}
        for text, code in self._known.items():
            if codes.setdefault(text.lower(), code) != code:
                node.fail(f"makes one value of two, {self.labels()[codes[text.lower()]]!r} and {text!r}.")

    @property
    def regular(self) -> int:
        return len(self.values) + (self.other is not None)

    @property
    def listed(self) -> int:
        return len(self.values)

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

    def find(self, values: Values) -> Found:
        positions, distinct = values.distinct()
        found = [code_of(text_of(value), self._known, self._folded, self._decimal) for value in distinct]
        codes = np.array(found, dtype=np.int64)[positions]
        outside = codes < 0
        if self._clips:
            near = np.array([self._nearest(real_of(value)) for value in distinct], dtype=np.int64)[positions]
            return Found(np.where(outside, near, codes), outside, np.zeros_like(outside))
        return Found(np.where(outside, self.outside_code, codes), outside, np.zeros_like(outside))

    @property
    def _clips(self) -> bool:
        """Return whether numbers that are not listed count as the nearest one."""
        return self.outside == "clip" and 0 < len(self._numbers) == len(self.values)

    @cached_property
    def _middles(self) -> tuple[list[int], list[float]]:
        """The codes of the listed numbers in ascending order, and the middles between these."""
        numbers = [float(text) for text in self._numbers]
        order = sorted(range(len(numbers)), key=numbers.__getitem__)
        return order, [numbers[a] / 2 + numbers[b] / 2 for a, b in itertools.pairwise(order)]

    def _nearest(self, number: float) -> int:
        """Return the code of the nearest listed number, and of NaN the code of what is no number."""
        order, middles = self._middles
        return self.outside_code if math.isnan(number) else order[bisect.bisect_right(middles, number)]

    @property
    def outside_code(self) -> int:
        """The code of values that are not listed, unless they count as the nearest number."""
        if self.other is None:
            return 0 if self.outside == "clip" else self.gap_code
        return len(self.values)

    @property
    def known_texts(self) -> tuple[str, ...]:
        """The texts that are read as listed values."""
        return (*self._known, *self._folded)

    @cached_property
    def _known(self) -> dict[str, int]:
        listed = {written(value): code for code, value in enumerate(self.values)} | dict(self.spellings)
        others = {} if self.other is None else {written(self.other): len(self.values)}
        return {**others, **self._shortened, **listed}

    @cached_property
    def _shortened(self) -> dict[str, int]:
        """The codes of listed texts by the whole numbers that they write, such as 2139 of 02139 and 1 of 1.0."""
        found: dict[str, list[int]] = {}
        for code, value in enumerate(self.values):
            if isinstance(value, str) and PADDED.fullmatch(value):
                found.setdefault(str(int(value.partition(".")[0])), []).append(code)
        return {text: codes[0] for text, codes in found.items() if len(codes) == 1}

    @property
    def _decimal(self) -> Mapping[str, int]:
        """The codes of numbers that text may write with more decimals."""
        return {**self._shortened, **self._numbers} if self._shortened else self._numbers

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        """The codes of the values that are numbers, by their texts."""
        kinds = ((value, code) for code, value in enumerate(self.values) if isinstance(value, int | float))
        return {written(value): code for value, code in kinds if not isinstance(value, bool)}

    @cached_property
    def _folded(self) -> Mapping[str, int]:
        """The codes by small letters: of all values with `ignore_case`, else of true and false if they are listed."""
        folded: dict[str, int] = {}
        for text, code in self._known.items():
            if self.ignore_case or text.lower() in ("true", "false"):
                folded.setdefault(text.lower(), code)
        return folded

    def draw(self, codes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        values = [*self.values, *([] if self.other is None else [self.other])]
        kinds = {"boolean": bool, "integer": np.int64, "real": np.float64, "text": object}
        typed = values if self.kind != "text" else [written(value) for value in values]
        return np.array(typed, dtype=kinds[self.kind])[codes]

    def texts(self, values: np.ndarray) -> np.ndarray:
        marked = values.dtype.kind == "b" and self.markers & {"True", "False"}
        return np.array(["false", "true"], dtype=object)[values.astype(np.int8)] if marked else values

    def labels(self) -> list[str]:
        return [written(value) for value in (*self.values, *([] if self.other is None else [self.other]))]

    def codes_within(self, node: SchemaNode) -> list[int]:
        key = written(_value(node))
        labels = self.labels()
        if key not in labels:
            node.fail(f"must be a value of column '{self.name}' ({listed(labels)}), not {node.shown}.")
        return [labels.index(key)]

    def expected(self) -> str:
        return f"those listed: {listed(map(written, self.values))}"


BOOLEAN_TEXTS: Mapping[str, int] = {
    **dict.fromkeys(("false", "f", "no", "n", "0"), 0),
    **dict.fromkeys(("true", "t", "yes", "y", "1"), 1),
}


@dataclass(frozen=True)
class Boolean(Categorical):
    """False and true; in text also no and yes, 0 and 1, and first letters, all in capitals or small letters.

    With `labels: [no, yes]`, false's and then true's, values are these texts in the synthetic table.
    """

    beyond = "unreadable"

    @classmethod
    def from_node(cls, name: str, node: SchemaNode) -> Boolean:
        fields = node.fields((*COMMON_KEYS, "labels", "aliases"))
        missing, markers = gap_keys(fields)
        outside = outside_key(fields, ("missing",) if missing else ("clip",), missing)
        values = _labels(fields["labels"]) if "labels" in fields else (False, True)
        keys = {**BOOLEAN_TEXTS, **{written(value): code for code, value in enumerate(values)}}
        spellings = _spellings(fields.get("aliases"), keys)
        markers -= {written(value) for value in values}
        return cls(name, missing, markers, outside, node.place, values, None, spellings, True)

    @cached_property
    def _folded(self) -> Mapping[str, int]:
        return {**BOOLEAN_TEXTS, **{text.lower(): code for text, code in self._known.items()}}

    @property
    def _numbers(self) -> Mapping[str, int]:
        return {}

    @property
    def _shortened(self) -> dict[str, int]:
        return {}

    def codes_within(self, node: SchemaNode) -> list[int]:
        code = code_of(written(_value(node)), self._known, self._folded)
        return [code] if code >= 0 else super().codes_within(node)

    def expected(self) -> str:
        named = f" ({self.values[0]} or {self.values[1]})" if self.kind == "text" else ""
        return f"true or false{named}"


def _labels(node: SchemaNode) -> tuple[Value, ...]:
    """Return the texts of false and of true."""
    texts = [written(_value(item)) for item in node.items()]
    if len(texts) != 2 or len({text.lower() for text in texts}) != 2:
        node.fail("must be two texts: false's, then true's, such as [no, yes].")
    for code, text in enumerate(texts):
        if BOOLEAN_TEXTS.get(text.lower(), code) != code:
            node.fail(f"must be false's, then true's, such as [no, yes]; {text!r} means {('false', 'true')[1 - code]}.")
    return tuple(texts)


def _spellings(node: SchemaNode | None, keys: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """`aliases: {yes: [ja, oui]}`: other ways to write a value, with its code."""
    spelled: dict[str, int] = {}
    named = {} if node is None else node.mapping("a mapping of values to lists of other ways to write them")
    for value, others in named.items():
        if value not in keys:
            others.fail(f"names {value!r}, which is not a value of the column ({listed(keys)}).")
        for item in others.items():
            text = written(_value(item))
            if keys.get(text, keys[value]) != keys[value] or spelled.setdefault(text, keys[value]) != keys[value]:
                item.fail(f"lists {text!r}, which already means another value.")
    return tuple(spelled.items())


def written(value: Value) -> str:
    """Return the text of a listed value."""
    return text_of(value) or ""


def _value(node: SchemaNode) -> Value:
    value = node.scalar()
    if value is None:
        node.fail("must not be null: say missing: true for missing values.")
    return value
