"""Constraints of a schema on several columns: what cannot occur, orders and sums.

    constraints:
      - impossible: {age: {max: 14}, marital-status: [married, widowed]}      # all of these at once
      - determines: {from: education, to: years, table: {HS-grad: 9, Bachelors: [13, 14]}}   # a functional dependency
      - possible: {columns: [state, region], rows: [[OH, Midwest], [ME, Northeast]]}         # nothing else
      - ordered: [admission, discharge]                                                      # orders.py
      - sum: {total: [labor, material]}                                                      # sums.py

All but sums make structural zeros of the domain; orders and sums also decide how values are drawn.
Missing values stay possible unless `null` is listed among the impossible ones; so does every value that a table says
nothing about.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pgmest.errors import count_text
from pgmest.schema.column import SchemaColumn
from pgmest.schema.notation import INTEGER, REAL, SchemaNode
from pgmest.schema.orders import Order, order_zeros, read_order
from pgmest.schema.sums import Sum, read_sums
from pgmest.tables.domain import Clique

MOST_COMBINATIONS = 10**8
"""The largest number of cells of the table of one constraint."""


@dataclass(frozen=True)
class Constraints:
    """The constraints of a schema.

    Attributes:
        columns: the columns that have codes, which totals have not.
        zeros: the attributes of constraints, and a boolean table over their codes: True where impossible.
        order: the order between columns.
        sums: the sums, those of parts before those of their totals.
    """

    columns: tuple[SchemaColumn, ...]
    zeros: Mapping[Clique, np.ndarray]
    order: Order = field(default_factory=Order)
    sums: tuple[Sum, ...] = ()


def read_constraints(node: SchemaNode, columns: Mapping[str, SchemaColumn], bought: Sequence[str] = ()) -> Constraints:
    """Return the constraints.

    Args:
        node: the constraints.
        columns: those that have codes, as they are described.
        bought: those that have none yet, of which nothing can be said.

    Raises:
        SchemaError: if a constraint is invalid, or names a value that no column has.
    """
    bodies: dict[str, list[tuple[SchemaNode, SchemaNode]]] = {form: [] for form in FORMS}
    for item in node.called("a constraint").items():
        fields = item.fields(FORMS)
        if len(fields) != 1:
            item.fail(f"must have one key, of {', '.join(FORMS)}.")
        form, body = next(iter(fields.items()))
        unsettled = sorted(set(bought) & _named(body.plain()))
        if unsettled:
            item.fail(f"is about '{unsettled[0]}', whose codes are not known before they are bought: state its bounds.")
        bodies[form].append((item, body.called(f"the constraint '{form}'")))
    tabulated = [(form, *both) for form in TABLES for both in bodies[form]]
    order = read_order([body for _, body in bodies["ordered"]], columns)
    sums = read_sums([body for _, body in bodies["sum"]], columns, order.columns)
    totals = {one.name: one for one in sums}
    for _, item, body in tabulated:
        for name in sorted(totals.keys() & _named(body.plain())):
            item.fail(f"is about '{name}', a total without codes of its own ({totals[name]}): name its parts instead.")
    coded = {name: column for name, column in columns.items() if name not in totals}
    zeros = _united([TABLES[form](body, coded) for form, _, body in tabulated], order_zeros(order))
    return Constraints(tuple(coded.values()), zeros, order, tuple(sums))


def _united(*found: Iterable[tuple[Clique, np.ndarray]]) -> dict[Clique, np.ndarray]:
    zeros: dict[Clique, np.ndarray] = {}
    for clique, mask in itertools.chain(*found):
        zeros[clique] = mask | zeros.get(clique, False)
    return zeros


def _named(plain: Any) -> set[str]:
    """Return all names and values that a constraint mentions at its first levels, among them its columns."""
    if isinstance(plain, list):
        return {name for name in plain if isinstance(name, str)}
    if not isinstance(plain, dict):
        return set()
    ends = {value for key in ("from", "to") if isinstance(value := plain.get(key), str)}
    listed = {
        name for key, value in plain.items() if key != "rows" for name in _named(value) if isinstance(value, list)
    }
    return {*(plain if not ends and "columns" not in plain else ()), *ends, *listed}


def _impossible(node: SchemaNode, columns: Mapping[str, SchemaColumn]) -> tuple[Clique, np.ndarray]:
    named = node.mapping("a mapping of columns to values")
    clique = _clique(node, [item.called(name) for name, item in named.items()], list(named), columns)
    mask = _table(node, clique, columns)
    mask[np.ix_(*(codes_named(item.called(f"{node.name}: {name}"), columns[name]) for name, item in named.items()))] = (
        True
    )
    return clique, mask


def _determines(node: SchemaNode, columns: Mapping[str, SchemaColumn]) -> tuple[Clique, np.ndarray]:
    fields = node.fields(("from", "to", "table"), ("from", "to", "table"))
    clique = _clique(node, [fields["from"], fields["to"]], [fields["from"].text(), fields["to"].text()], columns)
    source, target = (columns[name] for name in clique)
    mask = _table(node, clique, columns)
    for key, values in fields["table"].mapping("a mapping of values to values").items():
        where = f"{node.name}: table: {key}"
        rows = codes_named(SchemaNode(_scalar(key), values.source, values.line, where), source)
        impossible = np.ones(target.size, dtype=bool)
        impossible[codes_named(values.called(where), target)] = False
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
        mask[np.ix_(*(codes_named(cell, columns[name]) for cell, name in zip(cells, clique, strict=True)))] = False
    return clique, mask


TABLES = {"impossible": _impossible, "determines": _determines, "possible": _possible}
FORMS = (*TABLES, "ordered", "sum")


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


def codes_named(node: SchemaNode, column: SchemaColumn) -> list[int]:
    """Return the codes of a value, of a range, of null, or of a list of these."""
    if isinstance(node.value, list):
        return sorted({code for item in node.items() for code in codes_named(item, column)})
    if node.value is None:
        if not column.missing:
            node.fail(f"is null, but column '{column.name}' has no code for missing values.")
        return [column.gap_code]
    return column.codes_within(node)


def _missing(column: SchemaColumn) -> np.ndarray:
    return np.arange(column.size) == (column.gap_code if column.missing else -1)


def _scalar(key: str) -> str | int | float:
    """Return the key of a mapping, which is always text, as the number that it may be."""
    if re.match(INTEGER, key):
        return int(key)
    return float(key) if re.match(REAL, key) else key
