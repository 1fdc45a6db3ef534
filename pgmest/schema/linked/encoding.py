"""Linked tables of values to a LinkedDataset: codes of each table by its schema, rows joined by keys."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.batches import pieces_of
from pgmest.data.chunked_reader import column_names
from pgmest.data.dataset import Dataset
from pgmest.data.frames import ReadingWarning
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.data.linked_rules import CountRule
from pgmest.data.table_file import is_file
from pgmest.data.values import Values
from pgmest.errors import DataError
from pgmest.schema.encoding import NOTICED, codes_of_pieces
from pgmest.schema.grid import Grid
from pgmest.schema.keyed_hash import checked_key, text_hashes
from pgmest.schema.linked.keys import KeyColumn, KeySpace
from pgmest.schema.linked.linking import FATES, LinkedRows, TableRows, link_rows
from pgmest.schema.numerals import numbers_or_nan

if TYPE_CHECKING:
    from pgmest.schema.linked.schema import LinkedSchema, TableSchema


@dataclass(frozen=True, eq=False)
class ReadTables:
    """Linked tables in memory, before it is decided which rows count.

    Attributes:
        codes: table -> its columns of codes, in the order of its schema.
        computed: table -> the columns that count rows or number them, as they are stated; empty if the table lacks one.
        rows: table -> its rows as linking sees them.
        order: table -> the number of each row in the column that orders it; NaN for a missing one.
        texts: the text of each number of the root's keys.
        skipped: table -> the numbers of rows that `skip_rows` of its file leaves out, by the text for which.
    """

    codes: Mapping[str, list[np.ndarray]]
    computed: Mapping[str, Mapping[str, list[Values]]]
    rows: Mapping[str, TableRows]
    order: Mapping[str, np.ndarray]
    texts: list[str]
    skipped: Mapping[str, Counter[str]]

    def linked(self, key: bytes) -> dict[str, LinkedRows]:
        """Return which rows of each table count, and their parents."""
        return link_rows(self.rows, self.hashes(key))

    def hashes(self, key: bytes) -> Callable[[np.ndarray], np.ndarray]:
        """Return the function that hashes some numbers of the root's keys."""
        return lambda numbers: text_hashes((self.texts[number] for number in numbers.tolist()), key)


def encode(schema: LinkedSchema, tables: Mapping[str, Any], key: bytes | None) -> LinkedDataset:
    """Return tables as a LinkedDataset; see `LinkedSchema.encode`."""
    key = checked_key(key)
    read = read_tables(schema, tables)
    found = read.linked(key)
    made: dict[str, LinkedTable] = {}
    places: dict[str, np.ndarray] = {}  # of ordered tables: where each row has gone
    for name, part in schema.parts.items():
        rows, parent_rows = found[name].rows, found[name].parent_rows if part.parent else None
        if parent_rows is not None and part.parent in places:
            parent_rows = places[part.parent][parent_rows]
        if part.order is not None and parent_rows is not None:
            order = _ordered(part, read, rows, parent_rows)
            rows, parent_rows = rows[order], parent_rows[order]
            places[name] = np.argsort(order)
        codes = [column[rows] for column in read.codes[name]]
        shaped = codes or np.empty((len(rows), 0), dtype=np.int64)
        data = Dataset.from_codes(shaped, part.schema.domain, trusted=True)
        at_most = part.at_most if part.parent else None
        zeros, ordered = part.schema.structural_zeros, part.order is not None
        made[name] = LinkedTable(data, part.parent, parent_rows, at_most, zeros, ordered, part.order_by)
    _warn(found)
    return LinkedDataset(made, schema.rules, schema.protected)


def _ordered(part: TableSchema, read: ReadTables, rows: np.ndarray, parent_rows: np.ndarray) -> np.ndarray:
    """Return the order of rows by their parents, and of one parent by the column that orders them; ties as they are."""
    keys = [read.order[part.name][rows], parent_rows]
    if part.order_by is not None:
        codes = dict(zip(part.schema.domain, read.codes[part.name], strict=True))
        keys.insert(1, codes[part.order_by][rows])
    return np.lexsort(keys)


def read_tables(schema: LinkedSchema, tables: Mapping[str, Any], computed: bool = False) -> ReadTables:
    """Return the codes and the keys of all rows; with `computed` also the computed columns, for a check.

    Raises:
        DataError: a column is missing; or, with `outside: error`, a value is not foreseen.
    """
    spaces = {name: KeySpace(len(part.key)) for name, part in schema.parts.items()}
    own: dict[str, list[KeyColumn]] = {}
    above: dict[str, list[KeyColumn]] = {}
    codes, stated, order = {}, {}, {}
    skipped: dict[str, Counter[str]] = {}
    for name, part in schema.parts.items():
        own[name] = spaces[name].columns(part.key)
        above[name] = spaces[part.parent].columns(part.link) if part.parent else []
        there = column_names(tables[name]) if computed and name in tables else ()
        stated[name] = {column: [] for column in part.computed if column in there}
        if name in tables:
            ordering: list[Values] = []
            also = {part.order: ordering} if part.order is not None else {}
            columns = {**stated[name], **also}
            skipped[name] = Counter()
            codes[name] = _read(part, tables[name], [*own[name], *above[name]], columns, skipped[name])
            if part.order in stated[name]:
                stated[name][part.order] = ordering
            order[name] = _numbers_of(part, ordering)
    numbers, texts = _numbers(schema, spaces, own, above)
    if schema.root not in tables:  # it has no columns: its rows are those that others name
        codes[schema.root] = []
        numbers[schema.root][schema.root] = np.arange(len(texts))
    rows = {}
    for name, part in schema.parts.items():
        own_numbers = numbers[name][name] if part.key else None
        link = numbers[part.parent][name] if part.parent else None
        keyed = [column.row_keys(held) for column, held in zip(part.schema.columns, codes[name], strict=True)]
        rows[name] = TableRows(part.parent, own_numbers, link, part.at_most, keyed, _wanted(part, codes[name]))
    return ReadTables(codes, stated, rows, order, texts, skipped)


def _numbers_of(part: TableSchema, pieces: list[Values]) -> np.ndarray:
    """Return the number of each value of the column that orders a table; NaN without one."""
    column = next((one for one in part.schema.described if one.name == part.order), None)
    found = [np.empty(0)]
    for values in pieces:
        if isinstance(column, Grid):
            numbers, read = column.raw_numbers(values)
            found.append(np.where(read, numbers, np.nan))
        else:
            found.append(numbers_or_nan(values))
    return np.concatenate(found)


def _read(
    part: TableSchema,
    table: Any,
    keys: list[KeyColumn],
    stated: Mapping[str, list[Values]],
    skipped: Counter[str],
) -> list[np.ndarray]:
    """Return the codes of a table, whose keys, computed columns and skipped rows are gathered on the way."""
    columns = part.schema.columns
    names = list(dict.fromkeys([*(column.name for column in columns), *part.keys, *stated]))

    def gather(piece: dict[str, Values]) -> None:
        for reader in keys:
            reader.add(piece[reader.column])
        for column, pieces in stated.items():
            pieces.append(piece[column])

    try:
        return codes_of_pieces(columns, pieces_of(table, names, skipped), gather)
    except DataError as error:
        raise DataError(f"{table if is_file(table) else f'table {part.name!r}'}: {error}") from None


def _numbers(
    schema: LinkedSchema,
    spaces: Mapping[str, KeySpace],
    own: Mapping[str, list[KeyColumn]],
    above: Mapping[str, list[KeyColumn]],
) -> tuple[dict[str, dict[str, np.ndarray]], list[str]]:
    """Return for each table the numbers of its key in itself and in its children; and the texts of the root's."""
    numbers, texts = {}, {}
    for name, part in schema.parts.items():
        if part.key:
            read = {name: own[name], **{child: above[child] for child in schema.children(name)}}
            numbers[name], texts[name] = spaces[name].numbered(read)
    return numbers, texts[schema.root]


def _wanted(part: TableSchema, codes: list[np.ndarray]) -> list[tuple[np.ndarray, int]]:
    """Return the rows that rules ask for, as masks, and how many of one parent they ask for."""
    held = dict(zip(part.schema.domain, codes, strict=True))
    asked = [rule for rule in part.rules if isinstance(rule, CountRule) and rule.least]
    return [(np.isin(held[rule.attribute], rule.codes), rule.least) for rule in asked]


def _warn(found: Mapping[str, LinkedRows]) -> None:
    """Warn if more than a few rows of a table are left out."""
    for name, one in found.items():
        lost = np.bincount(one.fates, minlength=len(FATES))
        reasons = [fate for fate in range(1, len(FATES)) if lost[fate]]
        if sum(lost[fate] for fate in reasons) >= NOTICED * len(one.fates) > 0:
            said = ", ".join(FATES[fate] for fate in reasons)
            warnings.warn(
                f"rows of table '{name}' are left out: {said}. `check` counts them. This warning depends on "
                "the records: it is for the owner of the tables only.",
                ReadingWarning,
                stacklevel=4,
            )
