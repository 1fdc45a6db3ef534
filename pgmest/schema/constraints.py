"""Constraints of a schema on several columns: combinations that cannot occur, as structural zeros of the domain.

    constraints:
      - impossible: {age: {max: 14}, marital-status: [married, widowed]}      # all of these at once
      - determines: {from: education, to: years, table: {HS-grad: 9, Bachelors: [13, 14]}}   # a functional dependency
      - possible: {columns: [state, region], rows: [[OH, Midwest], [ME, Northeast]]}         # nothing else

Missing values stay possible unless `null` is listed among the impossible ones; so does every value that a table says
nothing about.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgmest.errors import count_text
from pgmest.schema.column import SchemaColumn
from pgmest.schema.notation import INTEGER, REAL, SchemaNode
from pgmest.tables.domain import Clique

MOST_COMBINATIONS = 10**8
"""The largest number of cells of the table of one constraint."""


def read_zeros(
    node: SchemaNode, columns: Mapping[str, SchemaColumn], bought: Sequence[str] = ()
) -> Iterator[tuple[Clique, np.ndarray]]:
    """The attributes of each constraint, and a boolean table over their codes: True where impossible.

    Args:
        node: the constraints.
        columns: those that have codes.
        bought: those that have none yet, of which nothing can be said.

    Raises:
        SchemaError: if a constraint is invalid, or names a value that no column has.
    """
    for item in node.called("a constraint").items():
        fields = item.fields(tuple(FORMS))
        if len(fields) != 1:
            item.fail(f"must have one key, of {', '.join(FORMS)}.")
        form, body = next(iter(fields.items()))
        unsettled = sorted(set(bought) & _named(body.plain()))
        if unsettled:
            item.fail(f"is about '{unsettled[0]}', whose codes are not known before they are bought: state its bounds.")
        yield FORMS[form](body.called(f"the constraint '{form}'"), columns)


def _named(plain: Any) -> set[str]:
    """All names and values that a constraint mentions at its first levels, among them its columns."""
    if not isinstance(plain, dict):
        return set()
    ends = {value for key in ("from", "to") if isinstance(value := plain.get(key), str)}
    columns = plain.get("columns")
    return {*(plain if not ends and columns is None else ()), *ends, *(columns if isinstance(columns, list) else ())}


def _impossible(node: SchemaNode, columns: Mapping[str, SchemaColumn]) -> tuple[Clique, np.ndarray]:
    named = node.mapping("a mapping of columns to values")
    clique = _clique(node, [item.called(name) for name, item in named.items()], list(named), columns)
    mask = _table(node, clique, columns)
    mask[np.ix_(*(_codes(item.called(f"{node.name}: {name}"), columns[name]) for name, item in named.items()))] = True
    return clique, mask


def _determines(node: SchemaNode, columns: Mapping[str, SchemaColumn]) -> tuple[Clique, np.ndarray]:
    fields = node.fields(("from", "to", "table"), ("from", "to", "table"))
    clique = _clique(node, [fields["from"], fields["to"]], [fields["from"].text(), fields["to"].text()], columns)
    source, target = (columns[name] for name in clique)
    mask = _table(node, clique, columns)
    for key, values in fields["table"].mapping("a mapping of values to values").items():
        where = f"{node.name}: table: {key}"
        rows = _codes(SchemaNode(_scalar(key), values.source, values.line, where), source)
        impossible = np.ones(target.size, dtype=bool)
        impossible[_codes(values.called(where), target)] = False
        mask[rows] = impossible & ~_missing(target)
    return clique, mask


def _possible(node: SchemaNode, columns: Mapping[str, SchemaColumn]) -> tuple[Clique, np.ndarray]:
    fields = node.fields(("columns", "rows"), ("columns", "rows"))
    names = fields["columns"].items()
    clique = _clique(node, names, [name.text() for name in names], columns)
    mask = ~_table(node, clique, columns)
    for axis, name in enumerate(clique):
        mask[(slice(None),) * axis + (_missing(columns[name]),)] = False
    for row in fields["rows"].items():
        cells = row.items()
        if len(cells) != len(clique):
            row.fail(f"has a row of {len(cells)} values for {len(clique)} columns.")
        mask[np.ix_(*(_codes(cell, columns[name]) for cell, name in zip(cells, clique, strict=True)))] = False
    return clique, mask


FORMS = {"impossible": _impossible, "determines": _determines, "possible": _possible}


def _clique(
    node: SchemaNode, places: list[SchemaNode], names: list[str], columns: Mapping[str, SchemaColumn]
) -> Clique:
    for place, name in zip(places, names, strict=True):
        if name not in columns:
            place.called(node.name).fail(f"names '{name}', which is no column of the schema ({', '.join(columns)}).")
        if names.count(name) > 1:
            place.called(node.name).fail(f"names '{name}' twice.")
    if not names:
        node.fail("names no column.")
    return tuple(names)


def _table(node: SchemaNode, clique: Clique, columns: Mapping[str, SchemaColumn]) -> np.ndarray:
    shape = tuple(columns[name].size for name in clique)
    if math.prod(shape) > MOST_COMBINATIONS:
        node.fail(f"is about {count_text(math.prod(shape))} combinations, too many; name fewer columns, or widen bins.")
    return np.zeros(shape, dtype=bool)


def _codes(node: SchemaNode, column: SchemaColumn) -> list[int]:
    """The codes of a value, of a range, of null, or of a list of these."""
    if isinstance(node.value, list):
        return sorted({code for item in node.items() for code in _codes(item, column)})
    if node.value is None:
        if not column.missing:
            node.fail(f"is null, but column '{column.name}' has no code for missing values.")
        return [column.gap_code]
    return column.codes_within(node)


def _missing(column: SchemaColumn) -> np.ndarray:
    return np.arange(column.size) == (column.gap_code if column.missing else -1)


def _scalar(key: str) -> str | int | float:
    """The key of a mapping, which is always text, as the number that it may be."""
    if re.match(INTEGER, key):
        return int(key)
    return float(key) if re.match(REAL, key) else key
