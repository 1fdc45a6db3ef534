"""Raw tables to codes: dataframes, and files and tables that an engine holds some rows at a time."""

from __future__ import annotations

import contextlib
import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.batches import (
    ROWS_AT_ONCE,
    batches,
    by_partition,
    engine_error,
    give_back,
    in_partitions,
    kept_in_engine,
)
from pgmest.data.chunked_reader import read_pieces
from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.data.frames import ReadingWarning, lazy_frame
from pgmest.data.kept_codes import KeptCodes
from pgmest.data.lazy_dataset import LazyDataset
from pgmest.data.table_file import TableFile, is_file
from pgmest.data.values import Values, read_values
from pgmest.errors import DataError
from pgmest.schema.categorical import Categorical
from pgmest.schema.column import SchemaColumn, domain_of
from pgmest.schema.dropped_rows import DroppedRows
from pgmest.schema.keyed_hash import checked_key
from pgmest.schema.unit import Persons, Unit, kept_persons, written_persons

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
    if lazy is not None and in_partitions(lazy):
        return _dataset_in_engine(columns, unit, lazy, key, coding)
    if lazy is not None:
        return _dataset(columns, unit, batches(lazy), key, coding, numbered=False)
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
    numbered: bool = True,
) -> Dataset:
    persons = Persons(unit.column if unit else "")

    def gather(piece: dict[str, Values]) -> None:
        if unit:
            persons.add(piece[unit.column])

    whole = codes_of_pieces(columns, pieces, gather, numbered)
    if unit:
        keys = [column.row_keys(encoded) for column, encoded in zip(columns, whole, strict=True)]
        _warn(DroppedRows.of(unit, *persons.counted()))
        rows, all_rows = persons.kept(keys, unit.at_most, key), whole
        chosen = KeptCodes(column.dtype for column in whole)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            chosen.add([column[rows[start : start + ROWS_AT_ONCE]] for column in all_rows])
        whole = chosen.columns()
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
    numbered: bool = True,
) -> list[np.ndarray]:
    """Return the codes of each column, shape (rows,), and call `gather` with each piece of the table.

    Errors name rows only if these are `numbered`: those of an engine are not.
    """
    codes = KeptCodes(code_type(column.size) for column in columns)
    records, gaps = 0, dict.fromkeys(filter(_takes_gaps_for_values, columns), 0)
    for piece in pieces:
        codes.add([column.encode(piece[column.name], records if numbered else None) for column in columns])
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
    return codes.columns()


def _takes_gaps_for_values(column: SchemaColumn) -> bool:
    """Return whether the code of missing values is that of a number, a date, or a listed value."""
    other = isinstance(column, Categorical) and column.other is not None
    return not (column.missing or other or column.outside == "error")


def _dataset_in_engine(
    columns: Sequence[SchemaColumn],
    unit: Unit | None,
    frame: nw.LazyFrame[Any],
    key: bytes,
    coding: Mapping[str, str] | None,
) -> Dataset:
    """Return a dataset whose codes the engine makes in its own processes, keeps, and counts."""
    kinds = {column.name: code_type(column.size) for column in columns}

    def coded(pieces: Iterator[Mapping[str, Values]]) -> Iterator[dict[str, Any]]:
        for piece in pieces:
            codes = {column.name: column.encode(piece[column.name], None) for column in columns}
            yield codes | ({unit.column: written_persons(unit.column, piece[unit.column])} if unit else {})

    def chosen(pieces: Iterator[Mapping[str, Values]]) -> Iterator[dict[str, Any]]:
        read = list(pieces)
        if unit and read:
            codes = [np.concatenate([piece[name].array for piece in read]).astype(kind) for name, kind in kinds.items()]
            persons = np.concatenate([piece[unit.column].with_nulls() for piece in read])
            keys = [column.row_keys(encoded) for column, encoded in zip(columns, codes, strict=True)]
            rows = kept_persons(persons, keys, unit.at_most, key)
            yield dict(zip(kinds, (column[rows] for column in codes), strict=True))

    stack, refused = contextlib.ExitStack(), contextlib.ExitStack()
    try:
        if unit is None:
            held = kept_in_engine(by_partition(frame, coded, kinds))
        else:
            all_rows = kept_in_engine(by_partition(frame, coded, {**kinds, unit.column: np.dtype("U")}))
            stack.callback(give_back, all_rows)
            _warn(DroppedRows.in_engine(unit, all_rows))
            held = kept_in_engine(by_partition(all_rows, chosen, kinds, together=unit.column))
        refused.callback(give_back, held)
        bounded: dict[str, Any] = {"records_per_person": unit.at_most, "unit_column": unit.column} if unit else {}
        data = LazyDataset.of_lazy(held, domain_of(columns), coding=coding, **bounded)
        data.at_end(give_back, held)
        refused.pop_all()
        return data
    except Exception as error:
        raise engine_error(error) from error
    finally:
        refused.close()
        stack.close()
