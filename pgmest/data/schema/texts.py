"""Texts: a column of texts none of which is listed anywhere, coded so that frequent ones can be found."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field

import numpy as np

from pgmest._base.errors import SchemaError
from pgmest.data.schema.column import Found, SchemaColumn
from pgmest.data.schema.engine import EngineColumn, EngineFound, Reading
from pgmest.data.schema.notation import SchemaNode
from pgmest.data.schema.readings import text_of
from pgmest.data.values import Values

BITS = 62
"""Of the code of a text, a hash of it, so that it depends on that text alone."""


@dataclass(frozen=True)
class Texts(SchemaColumn):
    """The code of a value is a hash of how it is written; what cannot be written is missing.

    Attributes:
        ignore_case: whether capital and small letters are the same.
        seen: code -> text, of the texts that were coded. **They are private.**
        key: of the hash, secret, so that nobody can hand in a text whose code is that of another one.
    """

    ignore_case: bool = False
    seen: dict[int, str] = field(default_factory=dict, repr=False, compare=False)
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False, compare=False)

    @property
    def kind(self) -> str:
        return "text"

    @property
    def regular(self) -> int:
        return 2**BITS

    def find(self, values: Values) -> Found:
        positions, distinct = values.distinct()
        texts = [text_of(value) for value in distinct]
        folded = [text.lower() if text and self.ignore_case else text for text in texts]
        codes = np.array([0 if text is None else self._code(text) for text in folded], dtype=np.int64)
        unreadable = np.array([not text for text in folded], dtype=bool)
        return Found(codes[positions], np.zeros(len(values), dtype=bool), unreadable[positions])

    def _code(self, text: str) -> int:
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8, key=self.key).digest()
        code = int.from_bytes(digest, "big") >> (64 - BITS)
        self.seen.setdefault(code, text)
        return code

    def draw(self, codes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return np.array([self.seen[int(code)] for code in codes], dtype=object)

    def labels(self) -> list[str]:
        raise SchemaError(f"column '{self.name}': its texts are not listed.")

    def codes_within(self, node: SchemaNode) -> list[int]:
        node.fail("cannot be about a column whose values are not listed.")

    def expected(self) -> str:
        return "texts"

    def read_in_engine(self, column: EngineColumn) -> Reading:
        raise SchemaError(f"column '{self.name}': its texts cannot be hashed by an engine.")

    def place_in_engine(self, reading: Reading) -> EngineFound:
        raise SchemaError(f"column '{self.name}': its texts are not listed.")
