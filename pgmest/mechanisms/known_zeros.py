"""What is known to be impossible before a mechanism runs: that it leaves something, and that the model honors it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgmest.inference.exact.structural_zeros import Rule
from pgmest.models.exact import Model
from pgmest.models.support import SupportModel
from pgmest.tables.domain import Domain

ZEROS = "structural_zeros"
"""Under this name `Result.details` says whether the model gives no weight to what cannot occur."""

HONORED = "honored"


def check_possible(rules: Sequence[Rule], domain: Domain) -> None:
    """See that rules fit the domain and leave something possible, before a budget is spent on it.

    Raises:
        UnknownAttributeError, CodeRangeError, ShapeError, ArgumentError: rules that do not fit.
        ImpossibleModelError: they leave no possible record.
        ModelTooLarge: their junction tree alone is too large.
    """
    from pgmest.estimation.estimate import estimate

    estimate([], domain, total=1.0, structural_zeros=rules, max_iterations=0)


def honored(model: Any, rules: Sequence[Rule], domain: Domain) -> str:
    """Whether records of a model never break the rules: "honored", or "not honored: " and why.

    Marginals decide, so that it can be said of any `Model`; of other kinds it is said of weighted records alone, as
    what others have for marginals need not be those of their records.
    """
    if not isinstance(model, Model | SupportModel):
        return f"not honored: a {type(model).__name__} cannot exclude anything; the models of AIM and MST can"
    for rule in rules:
        if model.project(domain.clique(rule.attributes)).values[rule.mask(domain)].any():
            if isinstance(model, Model):
                return "not honored: together with what was measured the rules would make the model too large"
            return "not honored: some of the records that the model is made of are impossible"
    return HONORED
