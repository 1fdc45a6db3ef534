"""Marginal engineering: recode the domain before a mechanism runs, and undo it afterwards (DPSyn sections 5.3, 5.4).

A `Transform` maps each record on its own, so what holds for the mechanism's privacy on recoded records holds for the
records themselves. What is learned from the data (`compress_rare`, `learn_mapping`, ...) is measured and paid for.
"""

from pgmest._base.deprecation import Lookup, renamed_names
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

__getattr__: Lookup = renamed_names(__name__, {"bucketise": "pgmest.transforms.bucketize"})
