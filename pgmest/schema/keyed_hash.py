"""Keyed hashes of rows: which of the rows of one person or household stay, by nothing but these rows and a secret key.

The hash of a row depends on the text of its person, on its codes, and on how many rows just like it stand before it:
what one person's rows are changes nothing for another person's, in whatever order they stand.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Sequence

import numpy as np

from pgmest.data.fingerprints import mixed
from pgmest.errors import ArgumentError
from pgmest.schema.readings import encoded_text

KEY_BYTES = 16


def checked_key(key: bytes | None) -> bytes:
    """Return the key of the choice among a person's rows; a new one from the operating system if none is given.

    Raises:
        ArgumentError: it is not 16 bytes.
    """
    if key is None:
        return secrets.token_bytes(KEY_BYTES)
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise ArgumentError.of("key", type(key), f"{KEY_BYTES} secret bytes, such as secrets.token_bytes(16), or None")
    return key


def text_hashes(texts: Iterable[str], key: bytes) -> np.ndarray:
    """Return a keyed hash of each text: 64-bit integers without sign, shape (texts,)."""
    digests = (hashlib.blake2b(encoded_text(text), key=key, digest_size=8).digest() for text in texts)
    return np.array([int.from_bytes(digest, "little") for digest in digests], dtype=np.uint64)


def row_hashes(start: np.ndarray, group: np.ndarray, codes: Sequence[np.ndarray]) -> np.ndarray:
    """Return a hash of each row, different for all rows of a group: 64-bit integers without sign, shape (rows,).

    Args:
        start: the hash of each row's person, or of the row that it hangs on, shape (rows,).
        group: the number of that person or row, shape (rows,).
        codes: columns of the rows, each of shape (rows,).
    """
    hashed = start
    for column in codes:
        hashed = mixed(hashed + column.astype(np.uint64))
    order = np.lexsort((hashed, group))
    copy = np.empty(len(group), dtype=np.uint64)
    copy[order] = place_within(hashed[order], group[order])
    return mixed(hashed + copy)


def place_within(*groups: np.ndarray) -> np.ndarray:
    """Return for sorted rows the place of each within its group, from 0; a group has the same value in all arrays."""
    rows = np.arange(len(groups[0]))
    starts = np.ones(len(rows), dtype=bool)
    starts[1:] = np.any([group[1:] != group[:-1] for group in groups], axis=0)
    return rows - np.maximum.accumulate(np.where(starts, rows, 0))
