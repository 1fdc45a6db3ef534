"""The reading of a schema's file into the attributes of a `Schema`."""

from __future__ import annotations

from typing import Any

from pgmest.data.table_file import OPTIONS, TableFile
from pgmest.errors import ArgumentError
from pgmest.schema.bought import BoughtColumn, bought_column
from pgmest.schema.column import SchemaColumn, domain_of
from pgmest.schema.constraints import Constraints, read_constraints
from pgmest.schema.frame_types import FrameTypes
from pgmest.schema.hierarchies import with_hierarchies
from pgmest.schema.invariants import read_invariants
from pgmest.schema.kinds import column_of
from pgmest.schema.notation import SchemaNode
from pgmest.schema.unit import Unit
from pgmest.schema.weight import Weight
from pgmest.tables.hierarchy import SEPARATOR


def schema_parts(node: SchemaNode) -> dict[str, Any]:
    """Return the attributes of the schema in a node, by name.

    Raises:
        SchemaError: it is no schema of a single table.
    """
    fields = node.fields(
        ("columns", "weight", "constraints", "invariants", "unit", "file", "frame", "drafted_from_private_data"),
        ("columns",),
    )
    columns: dict[str, SchemaColumn] = {}
    bought: dict[str, BoughtColumn] = {}
    for name, described in fields["columns"].mapping("a mapping of columns to what they hold").items():
        found = bought_column(name, described.called(f"column '{name}'"), column_of)
        if found is None:
            columns[name] = column_of(name, described.called(f"column '{name}'"))
        else:
            bought[name] = found
    if not columns and not bought:
        fields["columns"].fail("must describe at least one column.")
    weight = Weight.from_node(fields["weight"], [*columns, *bought]) if "weight" in fields else None
    if weight is not None:
        columns[weight.name] = weight.column
    found = Constraints(tuple(columns.values()), {})
    if "constraints" in fields:
        found = read_constraints(fields["constraints"], columns, tuple(bought))
    drafted = "drafted_from_private_data" in fields and fields["drafted_from_private_data"].flag()
    unit = Unit.from_node(fields["unit"], [*columns, *bought]) if "unit" in fields else None
    file = file_options(fields["file"]) if "file" in fields else {}
    coded = with_hierarchies(found.columns, fields["columns"].mapping(), found.zeros, bought)
    for column in coded:
        for level in () if column.hierarchy is None else column.hierarchy.levels:
            if (name := f"{column.name}{SEPARATOR}{level}") in {*columns, *bought}:
                what = f"must have another name, which is not that of level '{level}' of '{column.name}'."
                fields["columns"].called(f"column '{name}'").fail(what)
    return {
        "columns": coded,
        "structural_zeros": found.zeros,
        "source": node.source,
        "drafted": drafted,
        "unit": unit,
        "file": file,
        "bought": bought,
        "description": node.plain(),
        "described": tuple(columns.values()),
        "order": found.order,
        "sums": found.sums,
        "frame": FrameTypes.from_node(fields["frame"]) if "frame" in fields else None,
        "weight": weight,
        "invariants": read_invariants(fields["invariants"], domain_of(coded)) if "invariants" in fields else (),
    }


def file_options(node: SchemaNode) -> dict[str, Any]:
    """Return `file:` as options of a `TableFile`."""
    fields = node.fields(OPTIONS)
    options: dict[str, Any] = {name: inner.plain() for name, inner in fields.items()}
    for name, value in options.items():
        try:
            TableFile("table.xlsx" if name == "sheet" else "table.csv", **{name: value})
        except ArgumentError as error:
            fields[name].fail(f"cannot be used: {error}")
    return options
