"""Synthesis of records from noisy marginals without a model: consistent tables first, then records that match them.

measurements -> consistent_tables (consistency.py): consistent, non-negative tables
             or locally_nonnegative (local_nonnegativity.py): the same for a large number of tables, weighted by noise
             -> synthesize (synthesize.py): independent parts are synthesized separately; attributes that only one table
                contains are appended
             -> records: by coordinate descent on their codes (local_search.py), by the published gradual updates
                (gum.py), or, for small tables, by minimum-cost flows (min_cost_flow.py)
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
