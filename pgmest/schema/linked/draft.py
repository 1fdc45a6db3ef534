"""A first schema of linked tables, guessed from the tables, with marks at what their owner has to decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pgmest._base.printable import on_one_line
from pgmest.data.linked import tree_order
from pgmest.errors import ArgumentError, listed, percent_text
from pgmest.schema.draft import DRAFT_OF_TABLES, HEADER, PRIVATE_MARK, DraftParts, drafted, located
from pgmest.schema.keyed_hash import place_within
from pgmest.schema.linked.draft_rules import Side, counts_in, following_in, impossible_in, older_in, orders_with_parent
from pgmest.schema.linked.joins import Join, joins_of, numbered, repeated
from pgmest.schema.notation import quoted
from pgmest.schema.numerals import complete_numbers

WHOLE = 0.99
"""The least share of the parents of which the proposed `at_most` keeps all rows."""
COUNTED = 0.99
"""The least share of the rows in which a column must be the number of children, or of the row, to be computed."""


def draft_linked(tables: Mapping[str, Any], bought: bool) -> str:
    """Return a schema in YAML for linked tables, to edit: **it states values of the records**, and marks it.

    Columns that identify the rows of one table and are in another are keys. `at_most` keeps nearly all rows, and
    columns that count the rows of another table are found. Rules such as one reference person in every household are
    proposed as comments.

    Args:
        tables: name -> a table, as for `draft`.
        bought: whether bounds and values are to be bought, which linked tables cannot do.

    Raises:
        ArgumentError: `bought` is true, or there are fewer than two tables.
        DataError: a table has no rows, or the tables do not form one tree.
        FileFormatError: as for `Schema.encode`.
    """
    if bought:
        raise ArgumentError("linked tables cannot buy bounds and values: leave bought= (--bought) out.")
    if len(tables) < 2:
        raise ArgumentError.of("table", tuple(tables), "at least two tables by name; or a single table, without a name")
    found = {name: located(table) for name, table in tables.items()}
    numbers = numbered({name: columns for name, (_, _, columns, _) in found.items()})
    joins = joins_of(numbers)
    order = tree_order({name: joins[name].parent if name in joins else None for name in tables})
    text, sides = HEADER + "tables:\n", dict[str, Side]()
    for name in order:
        table, notes, columns, mark = found[name]
        copies = repeated(joins[name], numbers) if name in joins else {}
        lines = (line.replace(PRIVATE_MARK, mark) for line in _table(name, joins, table, notes, columns, copies, sides))
        text += f"  {quoted(name)}:\n" + "".join(f"    {line}\n" if line else "\n" for line in lines)
    return text


DRAFT_OF_TABLES.append(draft_linked)


def _table(
    name: str,
    joins: Mapping[str, Join],
    table: Any,
    notes: Any,
    columns: Mapping[str, np.ndarray],
    copies: Mapping[str, str],
    sides: dict[str, Side],
) -> Iterator[str]:
    """Yield the lines that describe one table, but not the columns that repeat one of the parent.

    What rules are about is added to `sides`.
    """
    children = {child: join for child, join in joins.items() if join.parent == name}
    own, join = next((one.key for one in children.values()), ()), joins.get(name)
    keys = {*own, *(join.link if join else ())}
    computed = {column: f"{{type: count, of: {quoted(of)}}}" for column, of in _counts(columns, children)}
    computed |= {column: "{type: sequence}" for column in _sequences(columns, join) if column not in computed}
    computed = {column: form for column, form in computed.items() if column not in keys}
    left = {*keys, *computed, *copies}
    rest = {column: array for column, array in columns.items() if column not in left}
    parts = drafted(table, notes, rest, len(next(iter(columns.values()))))
    yield from "".join(parts.decisions).splitlines()
    if join is not None:
        yield f"parent: {quoted(join.parent)}"
        yield f"key: {_key(join)}"
        yield from _at_most(join)
        yield from _order(join, computed, parts)
    else:
        yield f"key: {_names(own)}"
    yield from parts.file.splitlines()
    described = [f"  {quoted(column)}: {form}  {PRIVATE_MARK}" for column, form in computed.items()]
    if described or any(not line.lstrip().startswith("#") for line in parts.columns):
        yield "columns:"
    yield from [*described, *parts.columns]
    for column in parts.weights:
        yield f"  {PRIVATE_MARK}: {on_one_line(column)} MAY BE A SURVEY WEIGHT; LINKED TABLES HAVE NO weight:."
        yield "  #   As a column like others it is synthesized, and counts of people are those of the sample."
    for column, other in copies.items():
        assert join is not None
        same = on_one_line(f"'{other}' of {join.parent}")
        yield f"  {PRIVATE_MARK}: {on_one_line(column)} IS LEFT OUT: IT REPEATS {same}, FROM WHICH IT CAN BE JOINED."
        if children:
            below = on_one_line(listed(children))
            yield f"  #   If rows of {below} depend on it, describe it here: they are measured with this table alone."
    counted = {column: of for column, of in _counts(columns, children) if column in computed}
    sides[name] = Side(parts.described, rest, counted)
    above = [] if join is None else list(orders_with_parent(join, sides[name], sides[join.parent]))
    relations = [*parts.relations, *(f"#   - {one}  {PRIVATE_MARK}\n" for one in above)]
    yield from "".join(["# constraints:\n", *relations] if relations else []).splitlines()
    if join is not None:
        for column, what in following_in(join, sides[name], sides[join.parent]):
            told = on_one_line(f"{column} of {join.parent} IS {what}")
            yield f"{PRIVATE_MARK}: {told}: SYNTHETIC TABLES WILL NOT AGREE."
            yield f"#   Delete the column there, and compute it from the synthetic rows of {on_one_line(name)}."
        yield from _rules(join, sides)


def _key(join: Join) -> str:
    if join.key == join.link:
        return _names(join.link)
    return f"{{{quoted(join.parent)}: {_names(join.key)}, {quoted(join.child)}: {_names(join.link)}}}"


def _names(names: tuple[str, ...]) -> str:
    return quoted(names[0]) if len(names) == 1 else f"[{', '.join(map(quoted, names))}]"


def _at_most(join: Join) -> Iterator[str]:
    """Yield the line of a limit that keeps nearly all rows, and what it is about."""
    most, parent = int(join.sizes.max()), on_one_line(join.parent)
    limit = next(k for k in range(1, most + 1) if np.mean(join.sizes <= k) >= WHOLE)
    kept = percent_text(np.minimum(join.sizes, limit).sum(), join.sizes.sum())
    yield f"{PRIVATE_MARK}: A ROW OF {parent} HAS UP TO {most:,} ROWS; THIS LIMIT KEEPS {kept} OF ALL."
    yield "#   Say how many rows are plausible: rows beyond that many do not count."
    yield f"at_most: {limit}"


def _order(join: Join, computed: Mapping[str, str], parts: DraftParts) -> Iterator[str]:
    """Yield a proposal to order the rows of one parent row, by their number or by a date, as comments."""
    numbers = [column for column, form in computed.items() if "sequence" in form]
    dates = [column.name for column in parts.described if column.kind.startswith("date")]
    if join.sizes.max(initial=0) > 1 and (by := [*numbers, *dates]):
        yield f"# If the order of the rows of one row of {on_one_line(join.parent)} matters, uncomment this:"
        yield f"# order: {quoted(by[0])}"


def _counts(columns: Mapping[str, np.ndarray], children: Mapping[str, Join]) -> Iterator[tuple[str, str]]:
    """Yield the columns that count the rows of other tables, with these tables."""
    for column, array in columns.items():
        numbers = complete_numbers(array)
        for child, join in children.items() if numbers is not None else ():
            if column not in join.key and np.ptp(join.sizes) and np.mean(numbers == join.sizes) >= COUNTED:
                yield column, child
                break


def _sequences(columns: Mapping[str, np.ndarray], join: Join | None) -> Iterator[str]:
    """Yield the columns that number the rows of each parent row."""
    if join is None or join.sizes.max(initial=0) < 2:
        return
    held = np.flatnonzero(join.parent_rows >= 0)
    for column, array in columns.items():
        if (numbers := complete_numbers(array)) is None:
            continue
        numbers, parent = numbers[held], join.parent_rows[held]
        order = np.lexsort((numbers, parent))
        if np.mean(numbers[order] == place_within(parent[order]) + 1) >= COUNTED:
            yield column


def _rules(join: Join, sides: Mapping[str, Side]) -> Iterator[str]:
    """Yield rules that hold in all or nearly all parents, as comments."""
    side, above = sides[join.child], sides[join.parent]
    lines = [*counts_in(join, side), *older_in(join, side), *impossible_in(join, side, above)]
    if lines:
        yield f"# These hold in nearly all rows of {on_one_line(join.parent)}. Uncomment what must hold by its meaning,"
        yield "# and delete the others."
        yield "# within:"
        yield from (f"#   - {line}  {PRIVATE_MARK}" for line in lines)
