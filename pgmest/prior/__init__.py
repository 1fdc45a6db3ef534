"""Public data as a prior: what the measurements do not say is taken from a table that need not be protected.

    Support, SupportModel    public records, reweighted so that their marginals match   support.py, support_model.py
    public_model             a graphical model of a public table                        public_model.py
    update_prior             IDE: the nearest answers, and of these the nearest prior   ide.py
    synthesise_hierarchy     IDE for records in nested groups, such as county and year  ide_hierarchy.py

`Support`, `SupportModel` and what `public_model` gives can be a `prior=` of `pg.estimate`; so can any model,
log-potentials, or the public Dataset itself.
"""

from pgmest.prior.ide import PriorUpdate as PriorUpdate
from pgmest.prior.ide import update_prior as update_prior
from pgmest.prior.ide_hierarchy import Level as Level
from pgmest.prior.ide_hierarchy import measure_hierarchy as measure_hierarchy
from pgmest.prior.ide_hierarchy import synthesise_hierarchy as synthesise_hierarchy
from pgmest.prior.public_model import public_model as public_model
from pgmest.prior.support import Support as Support
from pgmest.prior.support_model import SupportModel as SupportModel
