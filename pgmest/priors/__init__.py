"""Public data as a prior: a table that needs no protection supplies what the measurements leave open.

    Support, SupportModel    public records, reweighted so that their marginals match   support.py
    public_model             a graphical model of a public table                        public_model.py
    update_prior             IDE: nearest to the answers, then nearest to the prior     ide/update.py
    synthesize_hierarchy     IDE for records in nested groups, such as county and year  ide/hierarchy.py

The argument `prior=` of `pg.estimate` accepts a `Support`, any model (a `SupportModel`, the result of `public_model`),
log-potentials, a table of counts (the seed of iterative proportional fitting), or the public Dataset itself.
"""

from pgmest.inference.support.support import Support
from pgmest.models.support import SupportModel
from pgmest.priors.ide.hierarchy import Level, measure_hierarchy, synthesize_hierarchy
from pgmest.priors.ide.update import PriorUpdate, update_prior
from pgmest.priors.public_model import public_model

__all__ = [
    "Level",
    "PriorUpdate",
    "Support",
    "SupportModel",
    "measure_hierarchy",
    "public_model",
    "synthesize_hierarchy",
    "update_prior",
]
