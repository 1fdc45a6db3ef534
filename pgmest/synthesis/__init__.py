"""Records from noisy marginal tables, without a model in between: tables made consistent, then records fitted to them.

measurements -> consistent_tables (consistency.py): tables that agree and are not negative
             or locally_nonnegative (local_nonnegativity.py): the same for very many of them, weighted by their noise
             -> synthesize (synthesize.py): independent parts apart, what a chain of tables fixes appended
             -> records changed code by code (local_search.py), by gradual updates as published (gum.py), or for small
                tables by flows (min_cost_flow.py)
"""

from pgmest.synthesis.consistency import consistent_tables, norm_sub, shared_sets
from pgmest.synthesis.gum import GradualUpdate
from pgmest.synthesis.local_nonnegativity import LocalMarginals, locally_nonnegative
from pgmest.synthesis.local_search import LocalSearch
from pgmest.synthesis.min_cost_flow import MinCostFlow
from pgmest.synthesis.synthesize import synthesize

__all__ = [
    "GradualUpdate",
    "LocalMarginals",
    "LocalSearch",
    "MinCostFlow",
    "consistent_tables",
    "locally_nonnegative",
    "norm_sub",
    "shared_sets",
    "synthesize",
]
