"""Many marginals at once, measured or not, by propagation on the calibrated tree.

A marginal inside one clique is summed from that clique. Any other is collected at the lowest clique N that has each
of its attributes in itself or below. For an edge up from a clique E, and a set K of attributes that leave the tree
below that edge, P(K | separator) is a block of rows, one row per value of K:

    all blocks that an edge needs, stacked:  B_E, of shape (rows of every K, cells of E's separator)

One product per clique carries the whole stack one edge up, and one product joins the stacks of two branches, so that
marginals share both the work and the calls. What to multiply is worked out once for a tree and a list of marginals.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product

import numpy as np

from pgmest.domain import Clique
from pgmest.inference.calibration import CalibratedTree
from pgmest.inference.contraction import Table, contract
from pgmest.inference.elimination import eliminate
from pgmest.junction_tree import JunctionTree

BLOCK_CELLS = 1 << 20
"""Results are made in blocks of about this many cells, which fit into a cache, and of which they are parts."""

LARGEST_LOCAL = 1 << 22
"""A marginal that needs a larger table of one clique is left to elimination."""

WORTHWHILE = 8
"""So many times more cells than the marginal has may be carried up for it; elimination is used beyond."""
