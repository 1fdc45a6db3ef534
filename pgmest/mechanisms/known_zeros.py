"""Checks of structural zeros: before a run, that a record is possible; after it, that the model honors them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgmest.inference.exact.structural_zeros import Rule
from pgmest.models.exact import Model
from pgmest.models.support import SupportModel
from pgmest.tables.domain import Domain

ZEROS = "structural_zeros"
"""The key of `Result.details` under which a run says whether its model honors the structural zeros."""

HONORED = "honored"
"""The entry of `Result.details` for a model that honors the structural zeros."""


def check_possible(rules: Sequence[Rule], domain: Domain) -> None:
    """Check that rules fit the domain and leave a possible record, before a budget is spent.

    Raises:
        UnknownAttributeError, CodeRangeError, ShapeError, ArgumentError: if the rules do not fit the domain.
        ImpossibleModelError: if the rules leave no possible record.
        ModelTooLarge: if the junction tree of the rules is too large.
    """
    from pgmest.estimation.estimate import estimate

    estimate([], domain, total=1.0, structural_zeros=rules, max_iterations=0)


def honored(model: Any, rules: Sequence[Rule], domain: Domain) -> str:
    """Return "honored" if records of a model never break the rules, and "not honored: " with the reason otherwise.

    The answer is read off the marginals of a `Model` or of weighted records. Other kinds of models count as not
    honoring the rules, since their marginals need not be those of their records.
    """
    if not isinstance(model, Model | SupportModel):
        return f"not honored: a {type(model).__name__} cannot exclude anything; the models of AIM and MST can"
    for rule in rules:
        if model.project(domain.clique(rule.attributes)).values[rule.mask(domain)].any():
            if isinstance(model, Model):
                return "not honored: together with what was measured the rules would make the model too large"
            return "not honored: some of the records that the model is made of are impossible"
    return HONORED
