"""Tallies: the distinct values of a column with their numbers of rows, from which drafts guess what it holds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.data.plain_objects import Unread
from pgmest.data.values import Values
from pgmest.schema.readings import BLANKS, text_of

SURROGATES = re.compile("[\ud800-\udfff]")
"""The lone surrogates, which no file can hold: drafts show U+FFFD instead, as schemas are files."""


@dataclass(frozen=True)
class Tally:
    """The distinct values of a column, in the order in which they occur first.

    Attributes:
        values: shape (distinct,): numbers, booleans, dates, or objects that are texts without surrounding blanks.
        counts: the number of rows of each value, shape (distinct,).
        gaps: the number of rows without a value.
        unread: the name of the column's type if its values are never read, else None.
    """

    values: np.ndarray
    counts: np.ndarray
    gaps: int = 0
    unread: str | None = None

    @classmethod
    def of(cls, array: np.ndarray) -> Tally:
        """Return the tally of an array in which nulls are None, NaN or NaT."""
        column = Values.of(array)
        gaps = int(column.gaps.sum())
        positions, items = column.where(~column.gaps).distinct()
        counts = np.bincount(positions, minlength=len(items))
        if array.dtype.kind in "biufMm":
            return cls(np.array(items, dtype=array.dtype), counts, gaps)
        unread = next((_kind_of(item) for item in items if not isinstance(item, str) and text_of(item) is None), None)
        return cls(as_text(items), counts, gaps, unread).merged()

    def merged(self) -> Tally:
        """Return the tally with one value for those that are equal."""
        import pandas as pd

        places, values = pd.factorize(self.values)
        counts = np.bincount(places, weights=self.counts, minlength=len(values)).astype(np.int64)
        return Tally(np.asarray(values, dtype=self.values.dtype), counts, self.gaps, self.unread)

    def where(self, kept: np.ndarray) -> Tally:
        """Return the tally of the values for which a boolean array holds."""
        return Tally(self.values[kept], self.counts[kept], self.gaps, self.unread)

    @property
    def rows(self) -> int:
        """The number of rows with a value."""
        return int(self.counts.sum())

    @property
    def distinct(self) -> int:
        """The number of distinct values."""
        return len(self.values)

    @property
    def texts(self) -> Any:
        """The values as a pandas Series of texts."""
        import pandas as pd

        return pd.Series(self.values if self.values.dtype == object else as_text(self.values.tolist()), dtype=object)

    def share(self, which: np.ndarray) -> float:
        """Return the share of the rows whose values a boolean array names; 0 if there are no rows."""
        return float(self.counts[which].sum()) / max(self.rows, 1)


def _kind_of(item: Any) -> str:
    return item.kind if isinstance(item, Unread) else type(item).__name__


def as_text(items: Iterable[Any]) -> np.ndarray:
    """Return the texts of values as schemas read them, without blanks around them or lone surrogates."""
    read = (item if isinstance(item, str) else text_of(item) or "" for item in items)
    texts = [SURROGATES.sub("\ufffd", text).strip(BLANKS) for text in read]
    return np.array([*texts, None], dtype=object)[:-1]
