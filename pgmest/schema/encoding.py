"""Raw tables to codes: dataframes, files a piece at a time, and tables that an engine holds."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pgmest.data.chunked_reader import read_pieces
from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.data.frames import ReadingWarning, lazy_frame
from pgmest.data.lazy_dataset import LazyDataset
from pgmest.data.table_file import TableFile, is_file
from pgmest.data.values import Values, read_values
from pgmest.errors import DataError
from pgmest.schema.categorical import Categorical
from pgmest.schema.column import SchemaColumn, domain_of
from pgmest.schema.dropped_rows import DroppedRows
from pgmest.schema.engine import EngineColumn, Reading
from pgmest.schema.engine_frames import within_limits
from pgmest.schema.keyed_hash import checked_key
from pgmest.schema.unit import Persons, Unit, bounded, person_in_engine

if TYPE_CHECKING:
    import narwhals as nw

    from pgmest.schema.schema import Schema

NOTICED = 0.01
"""The share of rows without a value, or left out, from which on a warning says so."""


def encode(
    columns: Sequence[SchemaColumn],
    unit: Unit | None,
    table: Any,
    key: bytes | None = None,
    known: dict[str, Values] | None = None,
    coding: Mapping[str, str] | None = None,
) -> Dataset:
    """Return a raw table as codes; see `Schema.encode`.

    Args:
        columns, unit, table, key: as there.
        known: columns of a dataframe in memory that were read before, to which those that are read now are added.
        coding: for each attribute a digest of what its codes mean (`coding_of`).
    """
    key = checked_key(key)
    known = {} if known is None else known
    names = [*(column.name for column in columns), *([unit.column] if unit else [])]
    if names and known.keys() >= set(names):
        return _dataset(columns, unit, iter([known]), key, coding)
    if is_file(table):
        try:
            return _dataset(columns, unit, read_pieces(table, names), key, coding)
        except DataError as error:
            raise DataError(f"{table}: {error}") from None
    lazy = lazy_frame(table, names)
    if lazy is not None:
        return _lazy_dataset(columns, unit, lazy, key, coding)
    known.update(read_values(table, names))
    return _dataset(columns, unit, iter([known]), key, coding)


def coding_of(schema: Schema, table: Any) -> dict[str, str]:
    """Return for each attribute a digest of what its codes mean and which rows of a table are counted.

    That is its description, its labels, the schema's unit and weight, and the rows of a file that are left out.
    """
    described = schema.description.get("columns", {})
    said = table.said if isinstance(table, TableFile) else {}
    rows = {name: schema.description.get(name) for name in ("unit", "weight")}
    rows["file"] = {name: said[name] for name in ("sheet", "skip", "header", "skip_rows") if name in said}
    digests = {}
    for column in schema.columns:
        own = described.get(column.name)
        own = {name: value for name, value in own.items() if name != "hierarchy"} if isinstance(own, dict) else own
        text = json.dumps([own, column.labels(), rows], sort_keys=True, default=str)
        digests[column.name] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return digests


def _dataset(
    columns: Sequence[SchemaColumn],
    unit: Unit | None,
    pieces: Iterator[dict[str, Values]],
    key: bytes,
    coding: Mapping[str, str] | None,
) -> Dataset:
    persons = Persons()

    def gather(piece: dict[str, Values]) -> None:
        if unit:
            persons.add(unit.column, piece[unit.column])

    whole = codes_of_pieces(columns, pieces, gather)
    if unit:
        keys = [column.row_keys(encoded) for column, encoded in zip(columns, whole, strict=True)]
        _warn(DroppedRows.of_counts(unit, *persons.counted()))
        rows = persons.kept(keys, unit.at_most, key)
        whole = [column[rows] for column in whole]
    at_most, person = (unit.at_most, unit.column) if unit else (None, None)
    bounded: dict[str, Any] = {"records_per_person": at_most, "unit_column": person}
    return Dataset.from_codes(whole, domain_of(columns), trusted=True, coding=coding, **bounded)


def _warn(found: DroppedRows) -> None:
    """Warn if the unit of the schema leaves out more than a few rows."""
    if found.left_out >= NOTICED * found.rows > 0:
        lost = [(found.beyond, f"beyond at_most: {found.unit.at_most} for a value of '{found.unit.column}'")]
        lost += [(found.nobody, f"without a value of '{found.unit.column}'")]
        warnings.warn(
            f"rows are left out: {', '.join(why for number, why in lost if number)}. `check` counts them. This warning "
            "depends on the records: it is for the owner of the table only.",
            ReadingWarning,
            stacklevel=5,
        )


def codes_of_pieces(
    columns: Sequence[SchemaColumn],
    pieces: Iterator[dict[str, Values]],
    gather: Callable[[dict[str, Values]], None],
) -> list[np.ndarray]:
    """Return the codes of each column, shape (rows,), and call `gather` with each piece of the table."""
    codes = [[np.empty(0, dtype=code_type(column.size))] for column in columns]
    records, gaps = 0, dict.fromkeys(filter(_takes_gaps_for_values, columns), 0)
    for piece in pieces:
        for column, encoded in zip(columns, codes, strict=True):
            encoded.append(column.encode(piece[column.name], records))
        for column in gaps:
            gaps[column] += int(piece[column.name].gaps.sum())
        gather(piece)
        records += len(next(iter(piece.values())))
    for column, count in gaps.items():
        if count >= NOTICED * records > 0:
            warnings.warn(
                f"column '{column.name}' has rows without a value, which count as {column.labels()[column.gap_code]}, "
                f"since the schema does not say missing: true ({column.place}). This warning depends on "
                "the records: it is for the owner of the table only.",
                ReadingWarning,
                stacklevel=6,
            )
    return [np.concatenate(encoded) for encoded in codes]


def _takes_gaps_for_values(column: SchemaColumn) -> bool:
    """Return whether the code of missing values is that of a number, a date, or a listed value."""
    other = isinstance(column, Categorical) and column.other is not None
    return not (column.missing or other or column.outside == "error")


def _lazy_dataset(
    columns: Sequence[SchemaColumn],
    unit: Unit | None,
    frame: nw.LazyFrame[Any],
    key: bytes,
    coding: Mapping[str, str] | None,
) -> Dataset:
    """Return a dataset whose codes are expressions that the engine computes."""
    frame = within_limits(frame)
    kinds = frame.collect_schema()
    read, states = [], {}
    for position, column in enumerate(columns):
        expressions, states[column.name] = read_in_engine(
            column, EngineColumn(frame, column.name, kinds[column.name]), f"{position} "
        )
        read += expressions
    if unit:
        person = person_in_engine(EngineColumn(frame, unit.column, kinds[unit.column]))
        read.append(person.alias(unit.column))
    kept = [column.name for column in columns if column.outside == "error"]  # for the error
    frame = frame.select(*kept, *read)  # as columns first: the codes refer to them many times
    coded = []
    for column in columns:
        code, refused = _placed(column, states[column.name])
        if column.outside == "error":
            for value in EngineColumn(frame, column.name, kinds[column.name]).samples(refused, 1):
                column.refuse(value, None)
        coded.append(code.alias(column.name))
    if unit is None:
        return LazyDataset.of_lazy(frame.select(*coded), domain_of(columns), coding=coding)
    names = [column.name for column in columns]
    coded_frame = frame.select(*coded, unit.column)
    held = bounded(coded_frame, unit.column, names, unit.at_most, key)
    _warn(DroppedRows.in_engine(unit, coded_frame))
    bounded_by: dict[str, Any] = {"records_per_person": unit.at_most, "unit_column": unit.column}
    return LazyDataset.of_lazy(held, domain_of(columns), coding=coding, **bounded_by)


class Read(NamedTuple):
    """The columns of a lazy frame that hold what was read of one column of the table."""

    reading: Reading
    null: nw.Expr
    marked: nw.Expr
    prefix: str

    def name(self, what: str) -> str:
        """Return the name of a column with something else about the values."""
        return f"{self.prefix}{what}"


def read_in_engine(column: SchemaColumn, held: EngineColumn, prefix: str) -> tuple[list[nw.Expr], Read]:
    """Return the readings of a column as named expressions, and how to refer to them."""
    import narwhals as nw

    found = {**column.read_in_engine(held)._asdict(), "null": held.null, "marked": held.marked(column.markers)}
    names = {name: prefix + name for name in found}
    reading = Reading(*(nw.col(names[name]) for name in Reading._fields))
    expressions = [expression.alias(names[name]) for name, expression in found.items()]
    return expressions, Read(reading, nw.col(names["null"]), nw.col(names["marked"]), prefix)


def _placed(column: SchemaColumn, read: Read) -> tuple[nw.Expr, nw.Expr]:
    """Return the code of a column, and the values that `outside: error` refuses (`SchemaColumn.encode`)."""
    import narwhals as nw

    codes, outside = column.place_in_engine(read.reading)
    gap = read.null | read.marked
    to_gap = gap | read.reading.unreadable
    if column.outside == "missing":
        to_gap = to_gap | outside
    code = nw.when(to_gap).then(nw.lit(column.gap_code)).otherwise(codes.cast(nw.Int64))
    unforeseen = (outside | read.reading.unreadable) & ~gap
    refused = unforeseen if column.missing else gap | unforeseen
    return code.fill_null(column.gap_code), refused
