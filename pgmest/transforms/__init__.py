"""Marginal engineering: recode the domain before a mechanism runs, and undo it afterwards (DPSyn sections 5.3, 5.4).

A `Transform` maps each record on its own, so what holds for the mechanism's privacy on recoded records holds for the
records themselves. What is learned from the data (`compress_rare`, `learn_mapping`, ...) is measured and paid for.
"""

from pgmest.transforms.learned import compress_rare as compress_rare
from pgmest.transforms.learned import learn_mapping as learn_mapping
from pgmest.transforms.learned import merge_and_compress as merge_and_compress
from pgmest.transforms.learned import rare_values as rare_values
from pgmest.transforms.learned import refine as refine
from pgmest.transforms.public import bucketise as bucketise
from pgmest.transforms.public import fill as fill
from pgmest.transforms.public import merge as merge
from pgmest.transforms.transform import Column as Column
from pgmest.transforms.transform import Derived as Derived
from pgmest.transforms.transform import Transform as Transform
