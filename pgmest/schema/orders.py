"""Orders between columns: `ordered: [start, end]` in the constraints of a schema, and the codes that cannot meet them.

The value of each column is at most that of the next one; a missing value makes no claim, but those on its two sides
still do. Claims are transitive, also through chains that share columns.

`order_zeros` excludes exactly the pairs of codes without values that meet the order. If no pair of a record's codes is
excluded, values for the whole record exist (`joint_draws.py` draws them).
"""

from __future__ import annotations

import graphlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pgmest.errors import SchemaError, count_text, listed
from pgmest.schema.column import SchemaColumn
from pgmest.schema.grid import Grid
from pgmest.schema.notation import SchemaNode
from pgmest.tables.domain import Clique

MOST_PAIRS = 10**8
"""The largest number of pairs of codes of two columns in an order; a table of them is made."""


@dataclass(frozen=True)
class Order:
    """The columns of all chains.

    Attributes:
        chains: the lists of the schema.
        columns: by name; each comes after all that are before it in the order.
        before: for each column those whose values are at most its own.
    """

    chains: tuple[tuple[str, ...], ...] = ()
    columns: Mapping[str, Grid] = field(default_factory=dict)
    before: Mapping[str, frozenset[str]] = field(default_factory=dict)


def read_order(nodes: Sequence[SchemaNode], columns: Mapping[str, SchemaColumn]) -> Order:
    """Return the order that chains make.

    Args:
        nodes: the lists of columns.
        columns: all columns of the schema.

    Raises:
        SchemaError: if a chain names something that is no column of numbers or dates, columns of different types,
            columns whose bounds exclude the order, or columns that come before each other.
    """
    direct: dict[str, set[str]] = {}
    chains = [(node, _chain(node, columns)) for node in nodes]
    sequence: list[str] = []
    for node, chain in chains:
        for earlier, later in itertools.pairwise(chain):
            direct.setdefault(later, set()).add(earlier)
        try:
            sequence = list(graphlib.TopologicalSorter(direct).static_order())
        except graphlib.CycleError as error:
            circle = " before ".join(f"'{name}'" for name in error.args[1])
            node.fail(f"puts {circle}: columns cannot come before each other. Leave one of them out.")
    before: dict[str, frozenset[str]] = {}
    for name in sequence:
        earlier = direct.get(name, set())
        before[name] = frozenset(earlier).union(*(before[other] for other in earlier))
    for node, chain in chains:
        _check_bounds(node, chain, before, columns)
    grids = {name: column for name in sequence if isinstance(column := columns[name], Grid)}
    return Order(tuple(chain for _, chain in chains), grids, before)


def _chain(node: SchemaNode, columns: Mapping[str, SchemaColumn]) -> tuple[str, ...]:
    names = [item.text() for item in node.items()]
    if len(names) < 2:
        node.fail(f"needs two columns or more, such as [start, end], not {len(names)}.")
    for name in names:
        known_number(node, name, columns)
        if names.count(name) > 1:
            node.fail(f"names '{name}' twice.")
    first = columns[names[0]]
    for name in names[1:]:
        column = columns[name]
        if column.kind != first.kind:
            node.fail(
                f"compares '{names[0]}' of type {first.kind} with '{name}' of type {column.kind}: give them one type."
            )
        if first.decimals != column.decimals:
            node.fail(
                f"compares '{names[0]}' with {decimals_text(first)} and '{name}' with {decimals_text(column)}: give "
                "them the same decimals."
            )
    return tuple(names)


def known_number(node: SchemaNode, name: str, columns: Mapping[str, SchemaColumn]) -> Grid:
    """Return the column of numbers or dates of that name, or fail."""
    column = columns.get(name)
    if column is None:
        node.fail(f"names '{name}', which is no column of the schema ({', '.join(columns)}).")
    if not isinstance(column, Grid):
        node.fail(f"names '{name}' of type {type_name(column)}, but it is about numbers and dates.")
    return column


def type_name(column: SchemaColumn) -> str:
    """Return the type of a column as the schema states it."""
    return column.kind.partition(" ")[0] if isinstance(column, Grid) else type(column).__name__.lower()


def decimals_text(column: SchemaColumn) -> str:
    """Return the precision of a column in words."""
    return "decimals: all" if column.decimals is None else f"decimals: {column.decimals}"


def _check_bounds(
    node: SchemaNode,
    chain: tuple[str, ...],
    before: Mapping[str, frozenset[str]],
    columns: Mapping[str, SchemaColumn],
) -> None:
    for later in chain:
        for earlier in before[later]:
            first, last = columns[earlier], columns[later]
            assert isinstance(first, Grid)
            assert isinstance(last, Grid)
            if first.low > last.high:
                node.fail(
                    f"cannot hold: '{earlier}' is at least {first.written(first.low)}, but '{later}' at most "
                    f"{last.written(last.high)}. Correct the bounds, or leave one of them out."
                )


def order_zeros(order: Order) -> Iterator[tuple[Clique, np.ndarray]]:
    """Yield two attributes and a boolean table over their codes, True where no values meet the order."""
    for first, second in itertools.combinations(order.columns, 2):
        a, b = order.columns[first], order.columns[second]
        if first not in order.before[second]:
            continue
        if a.size * b.size > MOST_PAIRS:
            pairs = count_text(a.size * b.size)
            raise SchemaError(
                f"{a.place}: '{first}' and '{second}', which are ordered, have {pairs} pairs of codes, too many; make "
                "wider bins."
            )
        mask = np.zeros((a.size, b.size), dtype=bool)
        mask[: a.regular, : b.regular] = a.points[0][:, None] > b.points[1]
        if mask.any():
            yield (first, second), mask


def order_text(chain: Sequence[str]) -> str:
    """Return a chain as the schema writes it.

    >>> order_text(["start", "end"])
    'ordered: [start, end]'
    """
    return f"ordered: [{listed(list(chain), 20)}]"
