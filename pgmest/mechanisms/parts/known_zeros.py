"""What is known to be impossible before a mechanism runs: that it leaves something, and that the model honours it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgmest.domain import Domain
from pgmest.estimation.structural_zeros import Rule
from pgmest.model import Model
from pgmest.prior.support_model import SupportModel

ZEROS = "structural_zeros"
"""Under this name `Result.details` says whether the model gives no weight to what cannot occur."""

HONOURED = "honoured"


def check_possible(rules: Sequence[Rule], domain: Domain) -> None:
    """See that rules fit the domain and leave something possible, before a budget is spent on it.

    Raises:
        UnknownAttributeError, CodeRangeError, ShapeError, ArgumentError: rules that do not fit.
        ImpossibleModelError: they leave no possible record.
        ModelTooLarge: their junction tree alone is too large.
    """
    from pgmest.estimation.estimate import estimate

    estimate([], domain, total=1.0, structural_zeros=rules, max_iterations=0)


def honoured(model: Any, rules: Sequence[Rule], domain: Domain) -> str:
    """Whether records of a model never break the rules: "honoured", or "not honoured: " and why.

    Marginals decide, so that it can be said of any `Model`; of other kinds it is said of weighted records alone, as
    what others have for marginals need not be those of their records.
    """
    if not isinstance(model, Model | SupportModel):
        return f"not honoured: a {type(model).__name__} cannot exclude anything; the models of AIM and MST can"
    for rule in rules:
        if model.project(domain.clique(rule.attributes)).values[rule.mask(domain)].any():
            if isinstance(model, Model):
                return "not honoured: together with what was measured the rules would make the model too large"
            return "not honoured: some of the records that the model is made of are impossible"
    return HONOURED
