"""A LinkedDataset to tables of values: fresh keys that join, counts that agree, and rules that hold."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.linked import LinkedDataset
from pgmest.errors import ArgumentError, SchemaError, listed
from pgmest.schema.column import SchemaColumn
from pgmest.schema.decoding import decode as decode_table
from pgmest.schema.decoding import library_and_schema
from pgmest.schema.frame_types import TEXT, FrameTypes
from pgmest.schema.keyed_hash import place_within
from pgmest.schema.kinds import whole_column
from pgmest.schema.library_types import LIBRARIES
from pgmest.schema.linked.older_draws import draw_older
from pgmest.schema.linked.ordered_draws import draw_in_order
from pgmest.schema.linked.orders_above import draw_within, limits_of

if TYPE_CHECKING:
    from pgmest.schema.linked.schema import LinkedSchema


def decode(
    schema: LinkedSchema,
    linked: Any,
    generator: np.random.Generator,
    like: Any,
    written: bool | Collection[str],
    known_of_root: Mapping[str, np.ndarray] = {},
) -> dict[str, Any]:
    """Return linked codes as tables by name; see `LinkedSchema.decode`.

    Args:
        schema, linked, like, written: as for `LinkedSchema.decode`.
        generator: of the draws.
        known_of_root: numbers of columns of the root that are drawn already, in units of `Grid.points`.
    """
    check_fits(schema, linked)
    linked = linked.in_order()
    keys = fresh_keys(schema, linked)
    made, drawn = {}, {}
    for name, part in schema.parts.items():
        as_text = written if isinstance(written, bool) else name in written
        library, table = library_and_schema(part.schema, like)
        table_keys = {
            column: key_column(library, None if as_text else table.frame, column, numbers)
            for column, numbers in keys[name].items()
        }
        known = known_of_root if part.parent is None else {}
        drawn[name] = known = _drawn_before(schema, linked, name, generator, known, drawn)
        computed = _computed(schema, linked, name)
        data = linked.tables[name].dataset
        made[name] = decode_table(table, data, generator, library, as_text, known, computed, table_keys)
    return made


def _drawn_before(
    schema: LinkedSchema,
    linked: LinkedDataset,
    name: str,
    generator: np.random.Generator,
    known: Mapping[str, np.ndarray],
    drawn: Mapping[str, Mapping[str, np.ndarray]],
) -> Mapping[str, np.ndarray]:
    """Return the numbers of columns that rules bind to other rows, in units of `Grid.points`; NaN where free."""
    part, data, limits = schema.parts[name], linked.tables[name].dataset, limits_of(schema, linked, name, drawn)
    found = dict(known)
    if part.parent is not None:
        parent_rows = linked.link(name)[1]
        found |= draw_older(part, data, parent_rows, generator)
        if part.order_by is not None:
            found[part.order_by] = draw_in_order(part, data, parent_rows, generator, found, limits)
    return found | draw_within(part, data, limits, generator, found) if limits else found


def _computed(
    schema: LinkedSchema, linked: LinkedDataset, name: str
) -> dict[str, tuple[SchemaColumn, np.ndarray, np.ndarray]]:
    """Return the description and the values of the columns that count rows or number them, and that none is missing."""
    found, none = {}, np.zeros(linked.tables[name].rows, dtype=bool)
    for column, described in schema.computed(name).items():
        of = schema.parts[name].computed[column]
        values = _places(linked.link(name)[1]) + 1 if of is None else linked.sizes(of)
        found[column] = (described, values, none)
    return found


def check_fits(schema: LinkedSchema, linked: Any) -> None:
    """Raise an error unless the data are over the tables of the schema.

    Raises:
        ArgumentError: it is no LinkedDataset.
        SchemaError: it has other tables, parents or attributes, or allows more rows of a parent than the schema.
    """
    if not isinstance(linked, LinkedDataset):
        raise ArgumentError.of("data", type(linked), "a LinkedDataset, such as encode returns")
    if set(linked.tables) != set(schema.parts):
        raise SchemaError(
            f"the data have the tables {listed(linked.tables)}, but the schema has {listed(schema.parts)}."
        )
    for name, part in schema.parts.items():
        table = linked.tables[name]
        if (table.ordered, table.order_by) != (part.order is not None, part.order_by):
            raise SchemaError(
                f"the rows of table '{name}' are ordered by {table.order_by}, but by {part.order} in the schema: "
                "decode what was made with this schema."
            )
        if table.domain != part.schema.domain or table.parent != part.parent:
            raise SchemaError(
                f"table '{name}' is over {table.domain} with the parent {table.parent}, but the schema describes "
                f"{part.schema.domain} with the parent {part.parent}. Decode what was made with this schema."
            )
        if (table.at_most or 0) > part.at_most:
            raise SchemaError(
                f"a row of '{part.parent}' may have {table.at_most} rows of '{name}' in the data, but the schema says "
                f"at_most: {part.at_most}. Encode the tables with this schema, or cut them: "
                f"data.at_most('{name}', {part.at_most})."
            )


def fresh_keys(schema: LinkedSchema, linked: LinkedDataset) -> dict[str, dict[str, np.ndarray]]:
    """Return the numbers of the key columns of each table: 1, 2, ... for the rows of the root, or of a parent row."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for name, part in schema.parts.items():
        columns: dict[str, np.ndarray] = {}
        places = np.arange(linked.tables[name].rows)
        if part.parent is not None:
            parent_rows = linked.link(name)[1]
            theirs = zip(part.link, schema.parts[part.parent].key, strict=True)
            columns |= {mine: found[part.parent][column][parent_rows] for mine, column in theirs}
            places = _places(parent_rows)
        if part.numbered is not None:
            columns[part.numbered] = places + 1
        found[name] = columns
    return found


def _places(parent_rows: np.ndarray) -> np.ndarray:
    """Return the place of each row among those of its parent, from 0."""
    order = np.argsort(parent_rows, kind="stable")
    places = np.empty(len(order), dtype=np.int64)
    places[order] = place_within(parent_rows[order])
    return places


def key_column(library: str, types: FrameTypes | None, name: str, numbers: np.ndarray) -> Any:
    """Return a column of keys in a library, of the private table's type: texts, or whole numbers that hold all keys."""
    kind = None if types is None or types.library != library else types.columns.get(name)
    whole, numbers = whole_column(name, (1,), 2**62), numbers.astype(np.int64)
    make, values = LIBRARIES[library].plain(whole), numbers
    if kind is not None and kind.name == TEXT:
        values = np.array([*map(str, numbers.tolist()), None], dtype=object)[:-1]
    bits = re.fullmatch(r"[Uu]?[Ii]nt(8|16|32|64)", "" if kind is None else kind.name)
    if bits and numbers.max(initial=0) < 2 ** (int(bits[1]) - 1):
        _, make = next(LIBRARIES[library].forms(whole, kind))
    return make(values, np.zeros(len(values), dtype=bool))
