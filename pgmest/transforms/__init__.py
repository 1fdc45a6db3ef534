"""Recodings of the domain before a mechanism runs, which are undone afterwards (DPSyn sections 5.3, 5.4).

A `Transform` maps each record separately, so a privacy guarantee for the recoded records also holds for the original
records. A transform that is learned from the data (`compress_rare`, `learn_mapping`, ...) is measured, and the
measurement is charged to the ledger.
"""

from pgmest.transforms.learned import compress_rare, learn_mapping, merge_and_compress, rare_values, refine
from pgmest.transforms.public import bucketize, fill, merge
from pgmest.transforms.transform import Column, Derived, Transform

__all__ = [
    "Column",
    "Derived",
    "Transform",
    "bucketize",
    "compress_rare",
    "fill",
    "learn_mapping",
    "merge",
    "merge_and_compress",
    "rare_values",
    "refine",
]
