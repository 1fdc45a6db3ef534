"""Texts: a column of texts of which no list is public, coded to count how often each text occurs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from pgmest.data.values import Values
from pgmest.errors import SchemaError
from pgmest.schema.column import Found, SchemaColumn
from pgmest.schema.notation import SchemaNode
from pgmest.schema.readings import encoded_text, text_of

MOST_TEXTS = 2**62
"""The number of codes: no table has as many texts, and it fits into signed integers of 64 bits."""


@dataclass(frozen=True)
class Texts(SchemaColumn):
    """A column whose values are coded by the order in which their texts occur first; values without a text are missing.

    Different texts have different codes, and each code has one spelling: the text itself or, with `ignore_case`, its
    small letters. The codes depend on the order of the rows, so they must never be released.

    Attributes:
        ignore_case: whether capital and small letters are the same.
        codes: the code of each text that has occurred. **The texts are private.**
    """

    beyond = "other"
    ignore_case: bool = False
    codes: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    @property
    def kind(self) -> str:
        return "text"

    @property
    def regular(self) -> int:
        return MOST_TEXTS

    @property
    def spellings(self) -> list[str]:
        """The text of each code."""
        return list(self.codes)

    def find(self, values: Values) -> Found:
        positions, distinct = values.distinct()
        texts = [text_of(value) for value in distinct]
        folded = [text.lower() if text and self.ignore_case else text for text in texts]
        found = [self.codes.setdefault(text, len(self.codes)) if text else 0 for text in folded]
        unreadable = np.array([not text for text in folded], dtype=bool)
        return Found(
            np.array(found, dtype=np.int64)[positions], np.zeros(len(values), dtype=bool), unreadable[positions]
        )

    def row_keys(self, codes: np.ndarray) -> np.ndarray:
        """Return a hash of the text of each code."""
        texts = self.spellings
        found, positions = np.unique(codes, return_inverse=True)
        hashed = [hashlib.blake2b(encoded_text(texts[code]) if code < len(texts) else b"") for code in found.tolist()]
        numbers = [int.from_bytes(digest.digest()[:8], "big") for digest in hashed]
        return np.array(numbers, dtype=np.uint64)[positions.reshape(-1)]

    def draw(self, codes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return np.array(self.spellings, dtype=object)[codes]

    def labels(self) -> list[str]:
        raise SchemaError(f"column '{self.name}': its texts are not listed.")

    def codes_within(self, node: SchemaNode) -> list[int]:
        node.fail("cannot be about a column whose values are not listed.")

    def expected(self) -> str:
        return "texts"
