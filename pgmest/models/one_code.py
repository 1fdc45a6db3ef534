"""Models with further attributes of one code, which all records share: no answer of the model changes."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.inference.support.support import Support
from pgmest.models.base import ModelBase
from pgmest.models.exact import Model
from pgmest.models.region import ApproximateModel
from pgmest.models.support import SupportModel
from pgmest.solvers.refit import Refit
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Domain


def with_constants(model: Any, domain: Domain) -> Any:
    """Return a model over a domain that has the model's attributes in their order, and others of one code.

    Models of other kinds than pgmest's are returned as they are.
    """
    if not isinstance(model, ModelBase) or model.domain.attributes == domain.attributes:
        return model
    found = _extended(model, domain)
    for name, fact in model._noted().items():
        object.__setattr__(found, name, fact)
    return found


def _extended(model: ModelBase, domain: Domain) -> ModelBase:
    if isinstance(model, Model):
        refit = None if model.refit is None else _refit(model.refit, domain)
        plan = None if refit is None else refit.plan
        potentials = _tables(model.potentials, domain)
        plan = plan if plan is not None and plan.layout == potentials.layout else None
        return replace(model, potentials=potentials, refit=refit, plan=plan)
    if isinstance(model, SupportModel):
        return replace(model, support=_support(model.support, domain), potentials=_tables(model.potentials, domain))
    if isinstance(model, ApproximateModel):
        return replace(model, marginals=_tables(model.marginals, domain))
    return model.with_constants(domain)


def _tables(tables: CliqueVector, domain: Domain) -> CliqueVector:
    return CliqueVector.of(Layout(domain, tables.cliques), tables.flat)


def _refit(refit: Refit, domain: Domain) -> Refit:
    plan = PropagationPlan.of(Layout(domain, refit.plan.layout.cliques))
    collapse = refit.collapse
    if collapse is not None:
        collapse = replace(collapse, outer=Layout(domain, collapse.outer.cliques))
    return replace(refit, plan=plan, collapse=collapse)


def _support(support: Support, domain: Domain) -> Support:
    """Return the same records in the same order, with the rows from which they were made."""
    found, records = copy.copy(support), support.records.with_constants(domain)
    found.__dict__.pop("_columns", None)
    found.domain, found.codes = domain, Support(records).codes
    return found
