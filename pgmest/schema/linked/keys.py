"""Columns whose values join tables: equal values have equal numbers, in whatever table, library or type they stand.

Two values are one key if they are written alike: 17, 17.0, "17" and "17.0" are one key, "017" is another. Texts
with other decimals are as written: "12.1" and "12.10" can be the first and the tenth person of household 12.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pgmest.data.values import Values
from pgmest.errors import DataError
from pgmest.schema.readings import text_of, trimmed

WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)\.0*|-?[1-9](?:\.[0-9]*)?[eE]\+[0-9]{1,2}")
"""Whole numbers as libraries write them that hold them as floats (17.0), or R (1e+05)."""

SEPARATOR = "\x1f"
"""The text between the parts of a key of several columns, where they are hashed."""


class KeyColumn:
    """A column of keys, read a piece of the table at a time.

    Args:
        column: the name, for errors.
        numbers: the number of each text so far; columns that join share it, and it grows.
    """

    role = "a key"
    """What the column is, for errors."""

    def __init__(self, column: str, numbers: dict[str, int]):
        self.column = column
        self._numbers = numbers
        self._rows: list[np.ndarray] = [np.empty(0, dtype=np.int64)]

    def add(self, values: Values) -> None:
        """Read further rows.

        Raises:
            DataError: the type of the column identifies nothing.
        """
        if values.unread is not None:  # also for no rows: the error must not depend on whether there are any
            raise DataError(
                f"column '{self.column}', {self.role}, is of type {values.unread}; it must be of text or numbers: cast "
                "it."
            )
        number = np.full(len(values), -1, dtype=np.int64)
        positions, distinct = values.where(~values.gaps).distinct()
        whole = values.array.dtype.kind == "i"
        texts = map(str, distinct) if whole else map(_key_text, distinct)
        number[~values.gaps] = self._numbered(texts)[positions]
        self._rows.append(number)

    def _numbered(self, texts: Iterable[str | None]) -> np.ndarray:
        numbers = (self._numbers.setdefault(text, len(self._numbers)) if text else -1 for text in texts)
        return np.fromiter(numbers, dtype=np.int64)

    @property
    def rows(self) -> np.ndarray:
        """The number of each row's text, -1 for no value; shape (rows,)."""
        return np.concatenate(self._rows)


def _key_text(value: Any) -> str | None:
    """Return the text by which a value is a key; None or an empty one for no key."""
    if type(value) is str and value.isascii() and value.isdigit():  # as most are
        return value
    text = text_of(value)
    return trimmed(text) if text and WHOLE.fullmatch(text) else text


class KeySpace:
    """The keys of one table, in its own columns and in those of the tables that hang on it.

    Args:
        parts: the number of columns of the key.
    """

    def __init__(self, parts: int):
        self._texts: list[dict[str, int]] = [{} for _ in range(parts)]

    def columns(self, names: Sequence[str]) -> list[KeyColumn]:
        """Return readers of the key's columns in one table."""
        return [KeyColumn(name, texts) for name, texts in zip(names, self._texts, strict=True)]

    def numbered(self, read: Mapping[str, Sequence[KeyColumn]]) -> tuple[dict[str, np.ndarray], list[str]]:
        """Return the number of each row's key in each table, -1 if a part has no value; and the text of each number.

        Args:
            read: table -> the readers of its columns, which have read all rows.
        """
        if len(self._texts) == 1:
            return {name: columns[0].rows for name, columns in read.items()}, list(self._texts[0])
        stacked = {name: np.stack([column.rows for column in columns], axis=1) for name, columns in read.items()}
        together = np.concatenate(list(stacked.values()))
        there = (together >= 0).all(axis=1)
        found, positions = np.unique(together[there], axis=0, return_inverse=True)
        number = np.full(len(together), -1, dtype=np.int64)
        number[there] = positions.reshape(-1)
        ends = np.cumsum([len(rows) for rows in stacked.values()])[:-1]
        lists = [list(texts) for texts in self._texts]
        texts = [SEPARATOR.join(part[i] for part, i in zip(lists, row, strict=True)) for row in found.tolist()]
        return dict(zip(stacked, np.split(number, ends), strict=True)), texts
