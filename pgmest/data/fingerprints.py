"""Fingerprints of private records, by which a checkpoint recognizes its table: keyed digests, whatever the row order.

Without the key a fingerprint says nothing about the records. With it, anybody can check a guess of all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pgmest.data.linked import LinkedDataset

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mixed(values: np.ndarray) -> np.ndarray:
    """Apply the finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits that mixes them."""
    values = values + GOLDEN
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def hashes_of_rows(columns: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """Return a hash of the codes of each row: 64-bit integers without sign, shape (rows,)."""
    hashed = np.zeros(rows, dtype=np.uint64)
    for column in columns:
        hashed = mixed(hashed + column.astype(np.uint64))
    return hashed


def keyed_digest(hashes: np.ndarray, key: bytes) -> str:
    """Return a digest of hashes under a secret key, whatever their order.

    >>> keyed_digest(np.array([1, 2]), b"k") == keyed_digest(np.array([2, 1]), b"k")
    True
    """
    return hashlib.blake2b(np.sort(hashes).tobytes(), key=key, digest_size=16).hexdigest()


def linked_fingerprint(linked: LinkedDataset, key: bytes) -> str:
    """Return the fingerprint of linked tables: the order of rows counts only where it means something."""
    tables = linked.tables.items()
    hashes = {name: hashes_of_rows(table.dataset.columns, table.rows) for name, table in tables}
    for number, name in reversed(list(enumerate(linked.order))[1:]):
        (parent, rows), own = linked.link(name), mixed(hashes[name] + np.uint64(number))
        if linked.tables[name].ordered:
            order, sizes = np.argsort(rows, kind="stable"), linked.sizes(name)
            within = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            own[order] = mixed(own[order] + within.astype(np.uint64))
        np.add.at(hashes[parent], rows, own)
    return keyed_digest(mixed(hashes[linked.root]), key)
