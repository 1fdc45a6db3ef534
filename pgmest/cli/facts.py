"""The facts about a model or a schema, as values of JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pgmest.errors import plural

if TYPE_CHECKING:
    from pgmest.models.exact import Model
    from pgmest.schema import LinkedSchema, Schema
    from pgmest.schema.unit import Unit
    from pgmest.tables.domain import Domain


def model_facts(model: Model) -> dict[str, Any]:
    """Return the number of records, the domain, the junction tree and the report of a model."""
    tree = model.junction_tree
    return {
        "total": model.total,
        "total_stddev": model.total_stddev,
        "domain": dict(model.domain),
        **level_facts(model.domain),
        "measured_cliques": [list(clique) for clique in model.cliques],
        "junction_tree": {"cliques": [list(clique) for clique in tree.cliques], "total_cells": tree.total_cells},
        "report": finite(model.report.to_json()) if model.report else {},
    }


def schema_facts(schema: Schema) -> dict[str, Any]:
    """Return the attributes of a schema, the labels of their codes, and the numbers of impossible combinations."""
    bought = {column.name: column.wanted for column in schema.bought.values()}
    schema = schema.stand_in()
    return {
        "drafted_from_private_data": schema.drafted,
        **({"to_be_bought": bought} if bought else {}),
        "unit": dataclasses.asdict(schema.unit) if schema.unit else None,
        "domain": dict(schema.domain),
        "labels": {name: schema.labels(name) for name in schema.domain},
        **level_facts(schema.domain),
        "orders": [list(chain) for chain in schema.order.chains],
        "sums": {one.name: list(one.parts) for one in schema.sums},
        "impossible": [
            {"attributes": list(clique), "combinations": int(mask.sum())}
            for clique, mask in schema.structural_zeros.items()
        ],
    }


def level_facts(domain: Domain) -> dict[str, Any]:
    """Return the levels of attributes with the labels of their groups, if it has levels."""
    trees = {n: {level: list(tree.texts(level)) for level in tree.names} for n, tree in domain.hierarchies.items()}
    return {"hierarchies": trees} if trees else {}


def linked_facts(schema: LinkedSchema) -> dict[str, Any]:
    """Return the tables of a schema of linked ones, how they hang together, and the facts about each."""
    tables = {
        name: {
            "parent": part.parent,
            "keys": list(part.keys),
            "at_most": part.at_most or None,
            "computed": {column: of or "sequence" for column, of in part.computed.items()},
            "within": [str(rule) for rule in part.rules],
            **schema_facts(part.schema),
        }
        for name, part in schema.parts.items()
    }
    for facts in tables.values():
        del facts["drafted_from_private_data"], facts["unit"]
    return {"drafted_from_private_data": schema.drafted, "unit": schema.protected, "tables": tables}


def unit_in_words(unit: Unit) -> str:
    """Return a sentence about the unit whose privacy is protected."""
    rows = plural(unit.at_most, "row")
    return (
        f"A person is all rows with one value of '{unit.column}'; at most {rows} of each are counted. Rows "
        "beyond them, and rows without a person, are left out; `pgmest check` tells the owner how many."
    )


def finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values, with null for numbers that JSON does not have, such as an infinite gap."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()
    }
