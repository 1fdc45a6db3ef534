"""Drafting: what a schema says is to be bought, bought with a share of a run's budget before its mechanism begins."""

from __future__ import annotations

import dataclasses
from typing import Any

from pgmest._base.errors import ArgumentError, SchemaError, listed
from pgmest.data.schema import Schema
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.privacy.budgets import GDP, Epsilon, Rho
from pgmest.privacy.curator import Curator
from pgmest.privacy.purchase import Purchase, purchase, unlisted
from pgmest.privacy.raw_table import Coding
from pgmest.queries.workloads import as_workload
from pgmest.tables.domain import Domain

SHARE = 0.1
"""Of the budget, where nothing is said."""
DELTA_SHARE = 0.5
"""Of delta, where values are bought that nobody listed."""


class SchemaDrafting:
    """Buys what a schema lacks; as `Mechanism.fit` takes it.

    Args:
        schema: with columns to be bought.
        share: of the budget.
        delta: for thresholds.

    Attributes:
        bought: what was, once it was.
    """

    bought: Purchase

    def __init__(self, schema: Schema, share: float, delta: float = 0.0):
        self._schema, self._share = schema, share
        self.delta: float = delta
        self.domain: Domain = schema.stand_in().domain

    def __call__(self, curator: Curator) -> Curator:
        self.bought = purchase(curator, self._schema, curator.budget * self._share, self.delta)
        return curator.through(Coding(self.bought.schema.columns, final=True))


def drafting_of(mechanism: Mechanism, schema: Schema, share: float | None) -> tuple[Mechanism, SchemaDrafting]:
    """The mechanism with what is left of delta, in the type of budget that choices can be paid with; and the drafting.

    Raises:
        ArgumentError: a share that is none.
        SchemaError: values that nobody listed are to be bought, and there is no delta.
    """
    part = SHARE if share is None else share
    if isinstance(part, bool) or not isinstance(part, int | float) or not 0 < part < 1:
        raise ArgumentError.of("buy_share", share, "a share of the budget, above 0 and below 1, such as 0.1")
    if mechanism.accounting == "pld" and not mechanism.gaussian_only:
        raise ArgumentError(
            'accounting="pld" is for a plan that is fixed beforehand; what is bought first is in none: leave it out.'
        )
    budget, delta, labels = mechanism.budget(), 0.0, unlisted(schema)
    if labels and (mechanism.delta is None or isinstance(budget, Epsilon)):
        raise SchemaError(
            f"{schema.source}: values of {listed(labels)} are to be bought that nobody listed, which takes a delta: "
            "state the budget as epsilon and delta, or list them with among: [...]."
        )
    if labels and mechanism.delta is not None:
        delta = DELTA_SHARE * mechanism.delta
    if isinstance(budget, GDP) or delta:
        assert mechanism.epsilon is not None
        assert mechanism.delta is not None
        rho = Rho.of(mechanism.epsilon, mechanism.delta - delta).rho
        mechanism = dataclasses.replace(mechanism, epsilon=None, delta=None, rho=rho, accounting="auto")
    return mechanism, SchemaDrafting(schema, float(part), delta)


def after_buying(mechanism: Mechanism, schema: Schema, share: float | None) -> Mechanism:
    """The mechanism with the budget that is left of its own when the schema's bounds were bought; raises likewise."""
    left, _ = drafting_of(mechanism, schema, share)
    rest = 1 - (SHARE if share is None else share)
    if left.rho is not None:
        return dataclasses.replace(left, rho=left.rho * rest)
    budget = left.budget()
    if isinstance(budget, Rho):
        return dataclasses.replace(left, epsilon=None, delta=None, rho=budget.rho * rest, accounting="auto")
    return dataclasses.replace(left, epsilon=(left.epsilon or 0.0) * rest)


def check_workload(schema: Schema, workload: Any) -> None:
    """See that a workload has no queries that are made for a number of values that is not known yet.

    Raises:
        ArgumentError: it has.
        UnknownAttributeError, QueryError: as for `Mechanism.fit`.
    """
    if workload is None:
        return
    try:
        items = as_workload(schema.stand_in().domain, workload)
    except TypeError:
        return  # `Mechanism.fit` says what it may be
    for item in items:
        about = set(item.clique) & set(schema.bought)
        if item.query is not None and about:
            raise ArgumentError(
                f"workload has queries about {listed(sorted(about))}, whose values are not known before they are "
                "bought: name the attributes alone."
            )
