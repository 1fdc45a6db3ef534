"""`ordered:` between columns of a table and of its parent: visits after birth, orders after sign-up.

    constraints:
      - ordered: [patients.born, day, patients.died]

Bins that no values meet are impossible combinations of a row and its parent row, which mechanisms keep as rules within
parents. Values are drawn from the top: those of a parent leave some to each of its rows, and rows take what is left.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset
from pgmest.data.linked_rules import Impossible, Older, Rule
from pgmest.errors import SchemaError
from pgmest.schema.grid import Grid
from pgmest.schema.joint_draws import Limits, bin_ends, draw_ordered
from pgmest.schema.notation import SchemaNode
from pgmest.schema.orders import Order, order_text, order_zeros, read_order
from pgmest.schema.schema import Schema

if TYPE_CHECKING:
    from pgmest.schema.linked.schema import LinkedSchema, TableSchema

MOST_RULES = 1_500
"""The most bins of a column that an order with the parent tells apart: each is a rule, and 3,000 take seconds."""


@dataclass(frozen=True)
class OrderAbove:
    """A column of a table that is ordered with one of its parent.

    Attributes:
        above: the column of the parent.
        column: the column of the table.
        after: whether the values of `column` are at least those of `above`; at most otherwise.
    """

    above: str
    column: str
    after: bool


def split_orders(
    constraints: SchemaNode, own: Mapping[str, SchemaNode], parent: TableSchema
) -> tuple[SchemaNode, list[SchemaNode]]:
    """Return the constraints of a table alone, and the chains that name columns of its parent by `PARENT.COLUMN`.

    The constraints have what such a chain says about the columns of the table.
    """
    kept, chains = [], []
    for item in constraints.items():
        body = item.value.get("ordered") if isinstance(item.value, dict) else None
        names = body.items() if body is not None and isinstance(body.value, list) else []
        inside = [one for one in names if one.value in own or not _is_above(one, parent)]
        if body is None or len(inside) == len(names):
            kept.append(item)
            continue
        full = [one if one in inside else replace(one, value=_full(one, parent)) for one in names]
        chains.append(replace(body, value=full, name="the constraint 'ordered'"))
        if len(inside) > 1:
            kept.append(replace(item, value={"ordered": replace(body, value=inside)}))
    return replace(constraints, value=kept), chains


def _is_above(name: SchemaNode, parent: TableSchema) -> bool:
    return isinstance(name.value, str) and _full(name, parent).partition(".")[2] in parent.schema.domain


def _full(name: SchemaNode, parent: TableSchema) -> str:
    return f"{parent.name}.{str(name.value).removeprefix(f'{parent.name}.')}"


def read_orders_above(
    chains: list[SchemaNode], table: str, schema: Schema, rules: tuple[Rule, ...], parent: TableSchema
) -> tuple[tuple[OrderAbove, ...], tuple[Impossible, ...]]:
    """Return the orders between the columns of a table and of its parent, and the rules about their bins.

    Raises:
        SchemaError: as for `read_order`; or two columns of the parent are not ordered in its own constraints, or a
            column is part of a sum or of a rule `older`.
    """
    above = {f"{parent.name}.{column.name}": column for column in parent.schema.columns}
    columns = {column.name: column for column in schema.columns} | above
    order = read_order(chains, columns)
    for chain in chains:
        names = [item.text() for item in chain.items()]
        for first, later in itertools.pairwise([name for name in names if name in above]):
            if above[first].name not in parent.schema.order.before.get(above[later].name, ()):
                chain.fail(
                    f"needs ordered: [{above[first].name}, {above[later].name}] in the constraints of its parent."
                )
        for name in names:
            own, others = (parent.schema, parent.rules) if name in above else (schema, rules)
            if columns[name].name in own.summed or any(
                isinstance(rule, Older) and rule.column == columns[name].name for rule in others
            ):
                chain.fail(
                    f"names '{name}', which is part of a sum or of a rule older: its values are drawn with those."
                )
    bounds, found = [], []
    for first, later in itertools.permutations(order.columns, 2):
        if first in order.before[later] and (first in above) != (later in above):
            theirs, mine = (first, later) if first in above else (later, first)
            bounds.append(OrderAbove(above[theirs].name, mine, mine == later))
    text = " and ".join(map(order_text, order.chains))
    for (first, later), mask in order_zeros(order):
        if (first in above) != (later in above):
            theirs, mine, table_of = (first, later, mask.T) if first in above else (later, first, mask)
            own = list(_rules(table, mine, above[theirs].name, table_of, text))
            if len(own) > MOST_RULES:
                raise SchemaError(
                    f"{chains[0].place}: '{theirs}' and '{mine}', which are ordered, have {len(own):,} bins that "
                    f"differ, and orders with a parent allow for {MOST_RULES:,}: make wider bins, such as unit: month."
                )
            found += own
    return tuple(bounds), tuple(found)


def _rules(table: str, column: str, above: str, impossible: np.ndarray, text: str) -> Iterator[Impossible]:
    """Yield rules for a table of the codes of a column by those of its parent, True where impossible."""
    kinds, places = np.unique(impossible, axis=0, return_inverse=True)
    for place, kind in enumerate(kinds):
        if kind.any():
            codes = tuple(np.flatnonzero(places.reshape(-1) == place).tolist())
            yield Impossible(table, column, codes, above=((above, tuple(np.flatnonzero(kind).tolist())),), text=text)


# -- values -----------------------------------------------------------------------------------------------------------


def limits_of(
    schema: LinkedSchema, linked: LinkedDataset, name: str, drawn: Mapping[str, Mapping[str, np.ndarray]]
) -> Limits:
    """Return the least and the greatest value of columns of a table that orders with other tables leave.

    Args:
        schema: the schema.
        linked: the codes.
        name: the table.
        drawn: the values of ordered columns of the parent, in units; NaN where missing.
    """
    rows, found = linked.tables[name].rows, {}
    part = schema.parts[name]
    for one in part.orders_above:
        values = drawn[part.parent or ""][one.above][linked.link(name)[1]]
        _tighten(found, one.column, one.after, np.where(np.isnan(values), -np.inf if one.after else np.inf, values))
    for child in schema.children(name):
        for one in schema.parts[child].orders_above:
            column = schema.parts[child].schema.column(one.column)
            assert isinstance(column, Grid)
            codes = linked.tables[child].dataset.column(one.column).astype(np.int64)
            first, last, there = bin_ends(column, codes, None)
            ends = np.full(rows, np.inf if one.after else -np.inf)
            bound = np.minimum if one.after else np.maximum
            bound.at(ends, linked.link(child)[1][there], (last if one.after else first)[there].astype(np.float64))
            _tighten(found, one.above, not one.after, ends)
    return found


def _tighten(limits: dict[str, tuple[np.ndarray, np.ndarray]], column: str, low: bool, ends: np.ndarray) -> None:
    free = np.full(len(ends), np.inf)
    least, most = limits.get(column, (-free, free))
    limits[column] = (np.maximum(least, ends), most) if low else (least, np.minimum(most, ends))


def draw_within(
    part: TableSchema, data: Dataset, limits: Limits, generator: np.random.Generator, known: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return values of the columns that have limits and of those in an order with them, in units; NaN where missing."""
    order = part.schema.order
    alone = {name: part.schema.column(name) for name in limits if name not in order.columns}
    grids = {**order.columns, **{name: column for name, column in alone.items() if isinstance(column, Grid)}}
    whole = Order(columns=grids, before={**order.before, **dict.fromkeys(alone, frozenset[str]())})
    codes = {name: data.column(name).astype(np.int64) for name in data.domain}
    values = draw_ordered(whole, codes, generator, known, limits)
    return {name: np.where(codes[name] < grids[name].regular, found, np.nan) for name, found in values.items()}
