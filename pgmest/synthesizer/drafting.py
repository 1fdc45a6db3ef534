"""Drafting: a share of a run's budget buys what the schema leaves open, before the mechanism begins."""

from __future__ import annotations

from typing import Any

from pgmest.errors import ArgumentError, SchemaError, listed
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.privacy.budgets import GDP, ApproxDP, Rho
from pgmest.privacy.curator import Curator
from pgmest.schema import Schema
from pgmest.synthesizer.purchase import Purchase, purchase, unlisted
from pgmest.synthesizer.raw_table import Coding
from pgmest.tables.domain import Domain
from pgmest.workloads import as_workload

SHARE = 0.1
"""The default share of the budget that buys what the schema leaves open."""
DELTA_SHARE = 0.5
"""The share of delta that thresholds spend, if values are bought that nobody listed."""


class SchemaDrafting:
    """The purchase of what a schema leaves open, in the form that `Mechanism.fit` takes.

    Args:
        schema: a schema with columns to be bought.
        share: the share of the budget.
        delta: the delta for thresholds.
        promise: the (epsilon, delta) of the whole run; None if the budget was stated as rho.

    Attributes:
        bought: the purchase, after the drafting was called.
    """

    bought: Purchase

    def __init__(self, schema: Schema, share: float, delta: float = 0.0, promise: ApproxDP | None = None):
        self._schema, self._share = schema, share
        self.delta: float = delta
        self.promise: ApproxDP | None = promise
        self.domain: Domain = schema.stand_in().domain

    def __call__(self, curator: Curator) -> Curator:
        self.bought = purchase(curator, self._schema, curator.budget * self._share, self.delta)
        return curator.through(Coding(self.bought.schema.columns, final=True))


def drafting_of(mechanism: Mechanism, schema: Schema, share: float | None) -> tuple[Mechanism, SchemaDrafting]:
    """Return the mechanism without the delta of thresholds, in a budget that can pay choices, and the drafting.

    Raises:
        ArgumentError: if the share is not a number between 0 and 1.
        SchemaError: if values that nobody listed are to be bought, and delta is 0 or the budget is in rho.
    """
    part = SHARE if share is None else share
    if isinstance(part, bool) or not isinstance(part, int | float) or not 0 < part < 1:
        raise ArgumentError.of("buy_share", share, "a share of the budget, above 0 and below 1, such as 0.1")
    budget, delta, labels = mechanism.budget(), 0.0, unlisted(schema)
    epsilon, requested_delta = mechanism.requested
    if labels and not requested_delta:
        raise SchemaError(
            f"{schema.source}: values of {listed(labels)} are to be bought that nobody listed, which takes a delta: "
            "state the budget as epsilon with a positive delta, or list them with among: [...]."
        )
    if labels and requested_delta:
        delta = DELTA_SHARE * requested_delta
    promise = mechanism.promise
    if isinstance(budget, GDP) or delta:
        assert epsilon is not None
        assert requested_delta is not None
        mechanism = mechanism.with_rho(Rho.of(epsilon, requested_delta - delta).rho)
    return mechanism, SchemaDrafting(schema, float(part), delta, promise)


def after_buying(mechanism: Mechanism, schema: Schema, share: float | None) -> Mechanism:
    """Return the mechanism with the budget that remains after the purchase; raise as `drafting_of` does."""
    left, _ = drafting_of(mechanism, schema, share)
    return left.with_share(1 - (SHARE if share is None else share))


def check_workload(schema: Schema, workload: Any) -> None:
    """Check that a workload has no query matrix about attributes whose number of values is not known yet.

    Raises:
        ArgumentError: if the workload has such a query.
        UnknownAttributeError, QueryError: as for `Mechanism.fit`.
    """
    if workload is None:
        return
    try:
        items = as_workload(schema.stand_in().domain, workload)
    except TypeError:
        return  # `Mechanism.fit` raises the error
    for item in items:
        about = set(item.clique) & set(schema.bought)
        if item.query is not None and about:
            raise ArgumentError(
                f"workload has queries about {listed(sorted(about))}, whose values are not known before they are "
                "bought: give their cliques, without queries and levels."
            )
