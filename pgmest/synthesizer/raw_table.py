"""RawTable: records that are not coded yet, for a curator under whom it is first found out how to code them.

Each coding of the table is a function of its rows one by one (with a `unit`, of a person's rows), so that neighboring
tables have neighboring codings, whichever was chosen because of what was released before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pgmest.data.dataset import Dataset
from pgmest.data.fingerprints import hashes_of_rows, keyed_digest
from pgmest.data.lazy_dataset import LazyDataset
from pgmest.data.values import Values
from pgmest.errors import ArgumentError, SchemaError, listed
from pgmest.inference.exact.structural_zeros import Rule
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.schema.column import SchemaColumn
from pgmest.schema.encoding import encode
from pgmest.schema.keyed_hash import checked_key
from pgmest.schema.schema import Schema
from pgmest.schema.texts import Texts
from pgmest.schema.unit import Unit
from pgmest.synthesizer.bought_grids import median_edges, on_grid
from pgmest.tables.domain import Domain


@dataclass(frozen=True, eq=False, repr=False)
class RawTable(Dataset):
    """Records over no attributes yet, and the table that they are in.

    Attributes:
        table: a dataframe or a file.
        schema: its schema, with columns to be bought.
        lazy: whether an engine holds the table.
        unit: whose rows are bounded, as for the schema.
        key: of the choice among a person's rows.
        known: the columns of a dataframe that earlier codings have read.
    """

    table: Any = field(kw_only=True)
    schema: Schema = field(kw_only=True)
    lazy: bool = field(kw_only=True)
    unit: Unit | None = field(kw_only=True)
    key: bytes = field(kw_only=True)
    known: dict[str, Values] = field(kw_only=True, default_factory=dict)

    @classmethod
    def of(cls, table: Any, schema: Schema, key: bytes | None = None) -> RawTable:
        """Return the records of a table that is not coded yet.

        Args:
            table: a dataframe or a file.
            schema: its columns and its unit.
            key: as for `Schema.encode`.

        Raises:
            DataError, FileFormatError, ArgumentError: as for `Schema.encode`.
            SchemaError: values that nobody listed are to be bought of a table that an engine holds.
        """
        unit, secret = schema.unit, checked_key(key)
        coded = schema.stand_in().encode(table, key=secret)  # sees that all columns are there, and counts the rows
        hidden = [column.name for column in schema.bought.values() if column.labels and not column.among]
        if hidden and isinstance(coded, LazyDataset):
            raise SchemaError(
                f"{schema.source}: values of {listed(hidden)} that nobody listed cannot be bought of a table that an "
                "engine holds. Give a file or a dataframe, or list what they are among (among: [...])."
            )
        at_most = unit.at_most if unit else None
        options: dict[str, Any] = {"table": table, "unit": unit, "key": secret, "schema": schema}
        options |= {"lazy": isinstance(coded, LazyDataset)}
        options |= {"records_per_person": at_most, "unit_column": unit.column if unit else None}
        return cls(Domain({}), (), coded.records, **options)

    def coded(self, columns: Sequence[SchemaColumn]) -> Dataset:
        """Return the records as codes of these columns."""
        return encode(columns, self.unit, self.table, self.key, self.known)

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed digest of the texts of columns to be bought, and of the codes of the others.

        If an engine holds the table, the columns to be bought count by the cells of the widest grid.
        """
        columns = []
        for column in self.schema.stand_in().columns:
            bought = self.schema.bought.get(column.name)
            if bought is not None and not self.lazy:
                column = Texts(column.name, True, column.markers, "missing", column.place)
            elif bought is not None and not bought.labels:
                column = on_grid(bought, median_edges(bought.kind))
            columns.append(column)
        coded = self.coded(columns)
        if self.lazy:
            return coded.fingerprint(key)
        keys = [column.row_keys(codes) for column, codes in zip(columns, coded.columns, strict=True)]
        return keyed_digest(hashes_of_rows(keys, coded.records), key)

    def __repr__(self) -> str:
        return "RawTable(not coded yet)"


@dataclass(frozen=True)
class Coding:
    """A way to code a `RawTable`, as a transform for `Curator.through`.

    Attributes:
        columns: those of the coding.
        final: whether it is the one that a mechanism sees, whose measurements are the run's.
    """

    columns: tuple[SchemaColumn, ...]
    final: bool = False

    def encode(self, data: Dataset) -> Dataset:
        """Return the records as codes.

        Raises:
            ArgumentError: they are coded already.
        """
        if not isinstance(data, RawTable):
            raise ArgumentError.of("data", type(data).__name__, "a table that is not coded yet")
        return data.coded(self.columns)

    def zeros(self, rules: Iterable[Rule]) -> tuple[Rule, ...]:
        """Return the rules about columns that this coding has."""
        names = {column.name for column in self.columns}
        return tuple(rule for rule in rules if set(rule.attributes) <= names)

    def exactly(self, answers: LinearMeasurement) -> LinearMeasurement | None:
        """Return answers about the number of records, and None for others: columns have no codes before the coding."""
        return None if answers.clique else answers

    def merging(self) -> None:
        """Return None, as cells of a table that is not coded yet are not merged (see `Transform`)."""

    def pull_back(self, measurement: LinearMeasurement) -> LinearMeasurement | None:
        """Return the measurement unchanged if this coding is the final one, else None."""
        return measurement if self.final else None
