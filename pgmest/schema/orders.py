"""Orders between columns: `ordered: [start, end]` in the constraints of a schema, and the codes that cannot meet them.

The value of each column is at most that of the next one; a missing value makes no claim, but those on its two sides
still do. Chains that share columns are one order, in which claims are transitive.

One column of an order may be the reference of all that come after it, which are then coded as differences from it
(`later.py`), unless the schema says `ordered: {columns: [start, end], differences: false}`.

`order_zeros` excludes exactly the pairs of codes without values that meet the order and the bounds of the columns. If
no pair of a record's codes is excluded, values for the whole record exist. With differences this needs the conditions
of `_reference`: then a cycle of contradicting inequalities contains at most two codes.
"""

from __future__ import annotations

import graphlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.errors import SchemaError, count_text, listed
from pgmest.schema.column import SchemaColumn
from pgmest.schema.grid import Grid, Real
from pgmest.schema.later import Later, can_be_difference
from pgmest.schema.notation import SchemaNode
from pgmest.tables.domain import Clique

MOST_PAIRS = 10**8
"""The largest number of pairs of codes of two columns in an order; a table of them is made."""


@dataclass(frozen=True)
class Order:
    """Columns that chains connect.

    Attributes:
        chains: the lists of the schema.
        columns: as they are described, by name; each comes after all that are before it in the order.
        before: for each column those whose values are at most its own.
        reference: the column from which the differences of all later ones are coded, or None.
    """

    chains: tuple[tuple[str, ...], ...]
    columns: Mapping[str, Grid]
    before: Mapping[str, frozenset[str]]
    reference: str | None

    def later(self, name: str) -> list[str]:
        """Return the columns whose values are at least those of a column."""
        return [other for other in self.columns if name in self.before[other]]

    def coded(self, name: str) -> Grid | Later:
        """Return a column as it is coded."""
        own = self.columns[name]
        if not self.before[name]:
            return own
        earlier = tuple(self.columns[other] for other in self.columns if other in self.before[name])
        reference = self.reference if self.reference in self.before[name] else None
        return Later.of(own, earlier, None if reference is None else self.coded(reference))


def order_of(orders: Iterable[Order], name: str) -> Order | None:
    """Return the order that a column is in, or None."""
    return next((order for order in orders if name in order.columns), None)


def read_orders(
    nodes: Sequence[SchemaNode], columns: Mapping[str, SchemaColumn], restricted: Collection[str] = ()
) -> list[Order]:
    """Return the orders that chains make.

    Args:
        nodes: the lists of columns, or mappings such as `{columns: [start, end], differences: false}`.
        columns: all columns of the schema, as they are described.
        restricted: columns whose values keep a code each, as other constraints name them.

    Raises:
        SchemaError: if a chain names something that is no column of numbers or dates, columns of different types,
            columns whose bounds exclude the order, or columns that come before each other.
    """
    found: dict[str, set[str]] = {}
    chains, restricted = [], set(restricted)
    for node in nodes:
        names, differences = _said(node)
        chains.append((node, _chain(names, columns)))
        restricted |= set() if differences else set(chains[-1][1])
    for node, chain in chains:
        for name in chain:
            found.setdefault(name, set())
        for earlier, later in itertools.pairwise(chain):
            found[later].add(earlier)
        try:
            sequence = list(graphlib.TopologicalSorter(found).static_order())
        except graphlib.CycleError as error:
            circle = " before ".join(f"'{name}'" for name in error.args[1])
            node.fail(f"puts {circle}: columns cannot come before each other. Leave one of them out.")
    if not chains:
        return []
    before: dict[str, frozenset[str]] = {}
    for name in sequence:
        before[name] = frozenset(found[name]).union(*(before[other] for other in found[name]))
    for node, chain in chains:
        _check_bounds(node, chain, before, columns)
    return [_order(names, chains, before, columns, restricted) for names in _components(sequence, before)]


def _said(node: SchemaNode) -> tuple[SchemaNode, bool]:
    """Return the list of columns, and whether differences may be coded."""
    if not isinstance(node.value, dict):
        return node, True
    fields = node.fields(("columns", "differences"), ("columns",))
    return fields["columns"].called(node.name), "differences" not in fields or fields["differences"].flag()


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
        if isinstance(first, Real) and isinstance(column, Real) and first.decimals != column.decimals:
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
        node.fail(f"names '{name}' of type {_type(column)}, but it is about numbers and dates.")
    return column


def _type(column: SchemaColumn) -> str:
    return type(column).__name__.lower()


def decimals_text(column: Real) -> str:
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


def _components(sequence: list[str], before: Mapping[str, frozenset[str]]) -> list[list[str]]:
    """Return the columns of each connected part, each in the sequence."""
    part = {name: {name} for name in sequence}
    for name in sequence:
        for other in before[name]:
            joined = part[name] | part[other]
            part.update(dict.fromkeys(joined, joined))
    return [[name for name in sequence if name in members] for members in {id(p): p for p in part.values()}.values()]


def _order(
    names: list[str],
    chains: list[tuple[SchemaNode, tuple[str, ...]]],
    before: Mapping[str, frozenset[str]],
    columns: Mapping[str, SchemaColumn],
    restricted: Collection[str],
) -> Order:
    grids = {name: column for name in names if isinstance(column := columns[name], Grid)}
    mine = tuple(chain for _, chain in chains if chain[0] in grids)
    plain = Order(mine, grids, {name: before[name] for name in names}, None)
    return Order(mine, grids, plain.before, _reference(plain, restricted))


def _reference(order: Order, restricted: Collection[str]) -> str | None:
    """Return the column from which most others can be coded as differences, or None.

    All later columns must be comparable to the reference and have no other bound from below than through it, and their
    own bounds must ascend in the order.
    """
    best, most = None, 0
    for name, column in order.columns.items():
        later = order.later(name)
        through = {name, *order.before[name], *later}
        fitting = all(
            can_be_difference(order.columns[other], column)
            and other not in restricted
            and order.before[other] <= through
            and all(_ascending(order.columns[one], order.columns[other]) for one in order.before[other] & set(later))
            for other in later
        )
        if fitting and len(later) > most:
            best, most = name, len(later)
    return best


def _ascending(earlier: Grid, later: Grid) -> bool:
    return earlier.low <= later.low and earlier.high <= later.high


# -- codes that cannot meet an order ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ends:
    """The first and the last value of each code on a scale, +inf and -inf for codes that are not on it.

    Attributes:
        first, last: shape (codes,).
        there: which codes are on the scale.
    """

    first: np.ndarray
    last: np.ndarray
    there: np.ndarray

    @classmethod
    def of(cls, points: tuple[np.ndarray, np.ndarray], start: int, size: int) -> Ends:
        first, last, there = np.zeros(size, points[0].dtype), np.zeros(size, points[0].dtype), np.zeros(size, bool)
        rows = slice(start, start + len(points[0]))
        first[rows], last[rows], there[rows] = *points, True
        return cls(first, last, there)


def values_of_codes(column: SchemaColumn) -> Ends:
    """Return the values of codes that are bins of the column's own values."""
    grid = column.own if isinstance(column, Later) else column
    assert isinstance(grid, Grid)
    start = column.differences if isinstance(column, Later) and column.reference else 0
    points = grid.points if start == 0 or column.regular > start else (grid.points[0][:0], grid.points[1][:0])
    return Ends.of(points, start, column.size)


def differences_of_codes(column: Later) -> Ends:
    """Return the differences of codes that are bins of differences."""
    return Ends.of(column.difference_points, 0, column.size)


def order_zeros(order: Order) -> Iterator[tuple[Clique, np.ndarray]]:
    """Yield two attributes and a boolean table over their codes, True where no values meet the order and the bounds."""
    coded = {name: order.coded(name) for name in order.columns}
    for first, second in itertools.combinations(order.columns, 2):
        a, b = coded[first], coded[second]
        if a.size * b.size > MOST_PAIRS:
            pairs = count_text(a.size * b.size)
            raise SchemaError(
                f"{a.place}: '{first}' and '{second}', which are ordered, have {pairs} pairs of codes, too many; make "
                "wider bins."
            )
        mask = np.zeros((a.size, b.size), dtype=bool)
        if first in order.before[second]:
            x, y = values_of_codes(a), values_of_codes(b)
            mask |= _both(x, y) & (x.first[:, None] > y.last)
        if isinstance(b, Later) and b.reference is not None:
            if first == order.reference:
                mask |= _from_reference(a, b)
            elif isinstance(a, Later) and a.reference is not None:
                mask |= _two_differences(a, b, ordered=first in order.before[second])
            elif first in order.before[second]:
                x, d = values_of_codes(a), differences_of_codes(b)
                mask |= _both(x, d) & (x.first[:, None] + d.first > b.own.high)
        if mask.any():
            yield (first, second), mask


def _both(a: Ends, b: Ends) -> np.ndarray:
    return a.there[:, None] & b.there


def _from_reference(reference: SchemaColumn, later: Later) -> np.ndarray:
    """Return the pairs of a reference and a difference without a value in the bounds; or a difference from nothing."""
    x, y, d = values_of_codes(reference), values_of_codes(later), differences_of_codes(later)
    beyond = x.first[:, None] + d.first > later.own.high
    below = x.last[:, None] + d.last < later.own.low
    return (_both(x, d) & (beyond | below)) | (~x.there[:, None] & d.there) | _both(x, y)


def _two_differences(a: Later, b: Later, ordered: bool) -> np.ndarray:
    """Return the pairs of differences from one reference that do not meet the order or the bounds."""
    x, y = differences_of_codes(a), differences_of_codes(b)
    apart = x.first[:, None] - y.last > a.own.high - b.own.low
    apart |= y.first - x.last[:, None] > b.own.high - a.own.low
    if ordered:
        apart |= x.first[:, None] > y.last
    mixed = _both(x, values_of_codes(b)) | _both(values_of_codes(a), y)
    return (_both(x, y) & apart) | mixed


def order_text(chain: Sequence[str]) -> str:
    """Return a chain as the schema writes it.

    >>> order_text(["start", "end"])
    'ordered: [start, end]'
    """
    return f"ordered: [{listed(list(chain), 20)}]"
