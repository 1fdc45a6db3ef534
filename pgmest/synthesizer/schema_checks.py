"""The checks of a schema before a synthesizer spends anything."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, SchemaError, listed, plural
from pgmest.inference.exact.structural_zeros import zero_rules
from pgmest.mechanisms.invariants import WITH_UNIT
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.privacy.unprotected import named_tables

if TYPE_CHECKING:
    from pgmest.schema import Schema


def with_schema(mechanism: Mechanism, schema: Schema) -> Mechanism:
    """Return the mechanism with the schema's structural zeros and invariants besides its own.

    Raises:
        ArgumentError: if tables are read from the records of a schema with a unit, or the mechanism holds none.
    """
    rules = [*zero_rules(mechanism.structural_zeros), *zero_rules(schema.structural_zeros)]
    fixed = [*schema.invariants, *mechanism.invariants]
    if schema.unit and named_tables(fixed):
        raise ArgumentError(WITH_UNIT)
    return dataclasses.replace(mechanism, structural_zeros=rules, invariants=[*dict.fromkeys(fixed)] or None)


def check_public(schema: Schema, allow_draft: bool = False) -> None:
    """Raise SchemaError if a schema says that it was drafted from private data, unless drafts are allowed."""
    if not schema.drafted or allow_draft:
        return
    remedy = "or say allow_draft (--allow-draft) for a trial that is NOT private."
    if not schema.marked_lines:
        raise SchemaError(
            f"{schema.source} still says drafted_from_private_data: true. Replace what is marked in it by public "
            f"knowledge, and delete that line; {remedy}"
        )
    lines = listed(list(map(str, schema.marked_lines)), 8)
    raise SchemaError(
        f"{schema.source} still says READ FROM THE PRIVATE DATA (line {lines}). Replace what stands there by public "
        f"knowledge, then delete the mark, and the line drafted_from_private_data: true; {remedy}"
    )


def check_bounded(schema: Schema, data: Dataset) -> None:
    """Raise ArgumentError if a person may have more records in the data than the schema's unit allows."""
    if schema.unit and data.unit_column not in (None, schema.unit.column):
        raise ArgumentError(
            f"{schema.source} has the unit '{schema.unit.column}', but the data were bounded by '{data.unit_column}': "
            "give the raw table, or what this schema's encode made of it."
        )
    if schema.unit and (data.records_per_person or math.inf) > schema.unit.at_most:
        raise ArgumentError(
            f"{schema.source} has a unit, but the data were not bounded to {plural(schema.unit.at_most, 'record')} of "
            "a person: give the raw table, or what this schema's encode made of it."
        )


def as_schema(schema: Any) -> Schema:
    """Return a schema from a file, or from plain data.

    Raises:
        ArgumentError: it is neither, nor a schema.
        FileFormatError, SchemaError: as for `Schema.load`.
    """
    from pgmest.schema import Schema

    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, str | Path):
        return Schema.load(schema)
    if isinstance(schema, Mapping):
        return Schema.from_dict(schema)
    raise ArgumentError.of("schema", schema, "a pgmest.schema.Schema, the path of its file, or a dict")
