"""Public data as a prior: what the measurements do not say is taken from a table that need not be protected.

    Support, SupportModel    public records, reweighted so that their marginals match   support.py
    public_model             a graphical model of a public table                        public_model.py
    update_prior             IDE: the nearest answers, and of these the nearest prior   ide/update.py
    synthesize_hierarchy     IDE for records in nested groups, such as county and year  ide/hierarchy.py

`Support`, `SupportModel` and what `public_model` gives can be a `prior=` of `pg.estimate`; so can any model,
log-potentials, or the public Dataset itself.
"""

from pgmest._base.deprecation import Lookup, renamed_names
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

__getattr__: Lookup = renamed_names(__name__, {"synthesise_hierarchy": "pgmest.priors.synthesize_hierarchy"})
