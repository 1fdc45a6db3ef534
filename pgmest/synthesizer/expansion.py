"""Synthetic populations: each row is one member, drawn in proportion to the weights of the records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, QueryError, SchemaError
from pgmest.schema import Schema
from pgmest.schema.weight import Weight
from pgmest.synthesizer.completion import conditional, drawn


def weight_of(schema: Schema) -> Weight:
    """Return the weight of a schema.

    Raises:
        SchemaError: the schema has no weight.
    """
    if schema.weight is None:
        raise SchemaError(f"{schema.source} has no weight: add a line such as `weight: {{column: PWGTP, max: 500}}`.")
    return schema.weight


def population(model: Any, weight: Weight) -> Any:
    """Return the model of the population: records are drawn in proportion to their weights, which they keep.

    Its total times the largest of these weights is the sum of all weights.

    Raises:
        QueryError: the model has no conditional distributions.
        ImpossibleModelError: all weights are 0.
    """
    if not hasattr(model, "with_likelihood"):
        raise QueryError(
            f"a {type(model).__name__} has no conditional distributions: draw rows with their weights instead."
        )
    values = weight.attribute.values
    return model.with_likelihood({weight.name: values / values.max()})


def expanded_table(
    model: Any, schema: Schema, n: int | None, generator: np.random.Generator, written: bool, given: Any
) -> Any:
    """Return a table of rows without weights; the arguments are those of `Synthesizer.sample`."""
    import narwhals as nw

    weight = weight_of(schema)
    if given is not None and not isinstance(given, Mapping):
        raise ArgumentError.of("given", type(given).__name__, "a mapping of values, or None, for a population")
    conditions = {str(name): value for name, value in (given or {}).items()}
    whole = population(model, weight)
    if n is None:
        asked = conditional(whole, schema, conditions) if conditions else whole
        n = round(float(asked.total) * float(weight.attribute.values.max()))
    table = drawn(whole, schema, conditions, n, generator, schema.library, written)
    return nw.from_native(table, eager_only=True).drop(weight.name).to_native()
