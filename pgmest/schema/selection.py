"""A part of the columns of a schema, with the constraints among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgmest.errors import ArgumentError, DuplicateAttributeError, SchemaError, UnknownAttributeError, listed
from pgmest.schema.hierarchies import as_lists
from pgmest.tables.hierarchy import SEPARATOR

if TYPE_CHECKING:
    from pgmest.schema.schema import Schema


def select(schema: Schema, columns: Iterable[str] | str) -> Schema:
    """Return a part of a schema; see `Schema.select`."""
    if not isinstance(columns, Iterable):
        raise ArgumentError.of("columns", columns, "names of columns of the schema")
    names = [columns] if isinstance(columns, str) else list(columns)
    weight = schema.weight.name if schema.weight else None
    known = [*schema.description["columns"], *([weight] if weight else [])]
    for name in names:
        if name not in known:
            raise UnknownAttributeError.of(name, known)
    if len(set(names)) != len(names):
        raise DuplicateAttributeError.of(names, "select")
    if not names:
        raise SchemaError("select needs at least one column of the schema.")
    described = {name: _alone(schema, name) for name in names if name != weight}
    kept = [one for item in schema.description.get("constraints", ()) for one in _kept(schema, item, names)]
    description = {**schema.description, "columns": described}
    description.pop("constraints", None)
    if description.pop("invariants", None):
        tables = [table for table in schema.invariants if {name.split(SEPARATOR)[0] for name in table} <= set(names)]
        description |= {"invariants": [list(table) for table in tables]}
    if weight not in names:
        description.pop("weight", None)
    part = type(schema).from_dict(description | ({"constraints": kept} if kept else {}))
    if not schema.bought:
        _check_totals(schema, names)
    return replace(part, source=schema.source, drafted=schema.drafted, marked_lines=schema.marked_lines)


def _alone(schema: Schema, name: str) -> dict[str, Any]:
    """Return the description of a column without reference to others, whose constraints may not be kept."""
    described = schema.description["columns"][name]
    hierarchy = described.get("hierarchy")
    if not isinstance(hierarchy, dict) or not isinstance(hierarchy.get("columns"), list):
        return described
    return {**described, "hierarchy": as_lists(next(one for one in schema.columns if one.name == name))}


def _kept(schema: Schema, item: dict[str, Any], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return what a constraint says about these columns alone: a list of no or one constraint."""
    ((form, body),) = item.items()
    if form == "ordered":
        chain = [name for name in body if name in names]
        return [{"ordered": chain}] if len(chain) > 1 else []
    if form == "sum":
        sums = {total: parts for total, parts in body.items() if {total, *parts} <= set(names)}
        return [{"sum": sums}] if sums else []
    named = {"determines": lambda: (body["from"], body["to"]), "possible": lambda: body["columns"]}
    return [item] if set(named.get(form, lambda: body)()) <= set(names) else []


def _check_totals(schema: Schema, names: Sequence[str]) -> None:
    """Raise SchemaError if a total is selected without its parts."""
    for one in schema.sums:
        if one.name in names and not {*one.parts} <= set(names):
            raise SchemaError(
                f"{schema.source}: '{one.name}' is computed from {listed(one.parts)} and has no codes: select these, "
                "too."
            )
