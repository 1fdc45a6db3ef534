"""Dataset: records of integer codes, and the marginal counts of them.

The step from data to tables: everything downstream asks a dataset for `project(attributes)` and sees counts, never
records. One column is kept per attribute, in the smallest unsigned type that holds its codes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pgmest._base.html import html_text
from pgmest.data.codes import as_codes, as_weights, code_columns, code_type, read_only
from pgmest.data.counting import TOGETHER_STEPS, count_cells, count_tables, inside_others
from pgmest.data.fingerprints import hashes_of_rows, keyed_digest
from pgmest.data.frames import frame_of, lazy_frame, read_columns, read_frame, write_frame
from pgmest.data.table_file import TableFile
from pgmest.errors import ArgumentError, CodeRangeError, DataError, DomainError
from pgmest.tables.domain import Clique, Domain, as_domain
from pgmest.tables.factor import Factor

REMEMBERED_CELLS = 1 << 24
"""Tables of this many cells in all (128 MB) are kept, where they are, so that one asked for again is not counted."""

QUICKLY_COUNTED = 1 << 16
"""A table of at most this many records is counted before a larger one is found from which it could be summed."""


DATASET_OF_LAZY_FRAME: list[Callable[[Any, Domain, Any], Dataset]] = []
"""The function that makes a dataset whose records stay in an engine; lazy_dataset.py imports this file and adds it."""


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Dataset:
    """Records over a domain, each with one code in 0..n-1 per attribute, and possibly a weight.

    Made by `from_frame`, `load` or `from_codes`, which check the codes; all arrays are read-only.

    >>> data = Dataset.from_codes(np.array([[0, 1], [2, 1], [2, 0]]), {"age": 3, "sex": 2})
    >>> data.project(("sex", "age")).values
    array([[0., 0., 1.],
           [1., 0., 1.]])

    Attributes:
        domain: the attributes.
        columns: the codes of each attribute, in domain order.
        records: the number of records.
        weights: a non-negative weight per record; None if each counts once.
        records_per_person: the largest number of records of one person, if the `unit` of a schema bounds it. The
            neighboring relation of a mechanism follows it.
        unit_column: the column that identifies these persons.
        coding: for each attribute a digest of what its codes mean, if a schema made them. Runs that publish a table
            exactly compare it with that of earlier runs.
        evidence: the codes of other attributes, which all records share as their model was conditioned on them; None
            without such attributes. `Schema.decode` gives the records these values.
    """

    domain: Domain
    columns: tuple[np.ndarray, ...]
    records: int
    weights: np.ndarray | None = None
    records_per_person: int | None = field(default=None, kw_only=True)
    unit_column: str | None = field(default=None, kw_only=True)
    coding: Mapping[str, str] | None = field(default=None, kw_only=True)
    evidence: Mapping[str, int] | None = field(default=None, kw_only=True)
    _kept: dict[frozenset[str], Factor] | None = field(default=None, kw_only=True)

    # -- making one ---------------------------------------------------------------------------------------------

    @classmethod
    def from_frame(cls, frame: Any, domain: Domain | Mapping[str, int], weights: Any = None) -> Dataset:
        """Return the dataset of a dataframe: pandas, polars, pyarrow, or others that narwhals reads.

        Rows that an engine holds (DuckDB, a polars LazyFrame, PySpark, Dask, ...) stay there: the result is a
        `LazyDataset`, whose marginals the engine counts. Columns that are no attribute are ignored. Codes may be
        integers, booleans (0 and 1), or whole numbers of a floating-point or decimal type.

        Args:
            frame: a table with a column per attribute.
            domain: the attributes and their numbers of values.
            weights: the name of a column, or an array with a weight per row. Finite and non-negative.

        Raises:
            DataError: a column is missing, or a value is no integer code; rows are counted from 0. Errors about
                values reveal records: if they are private, use `Schema.encode`, which raises no such error.
            CodeRangeError: a code is not in 0..n-1.
            ArgumentError: `frame` is not a dataframe.
        """
        domain = as_domain(domain)
        if not domain:
            raise DataError("the domain has no attributes, so no record can be read; name at least one column.")
        column_of_weights = [weights] if isinstance(weights, str) else []
        if (lazy := lazy_frame(frame, [*domain, *column_of_weights])) is not None:
            return DATASET_OF_LAZY_FRAME[0](lazy, domain, weights)
        columns = read_columns(frame, [*domain, *column_of_weights])
        if column_of_weights:
            weights = columns[weights]
        return cls.from_codes([columns[name] for name in domain], domain, weights)

    @classmethod
    def load(
        cls,
        path: str | Path | TableFile,
        domain: Domain | Mapping[str, int],
        weights: Any = None,
        *,
        delimiter: str | None = None,
        encoding: str | None = None,
        sheet: str | int | None = None,
        skip: int | None = None,
        header: int | Sequence[str] | None = None,
    ) -> Dataset:
        """Return the dataset of a file; see `TableFile` for the kinds, and `from_frame` for what it may hold.

        Args:
            path: the file.
            domain, weights: as for `from_frame`.
            delimiter, encoding, sheet, skip, header: the options of `pgmest.TableFile`.

        Raises:
            FileFormatError: the file is unreadable, truncated, or not such a table.
            OptionalDependencyError: a Parquet file, and no pyarrow; a workbook, and no openpyxl.
            ArgumentError: no such delimiter or encoding, or one for a file that has none.
            DataError, CodeRangeError: as for `from_frame`, with the name of the file.
        """
        domain = as_domain(domain)
        column_of_weights = [weights] if isinstance(weights, str) else []
        options: dict[str, Any] = {"delimiter": delimiter, "encoding": encoding, "sheet": sheet}
        options |= {"skip": skip, "header": header}
        file = path if isinstance(path, TableFile) else TableFile(path, **options)
        frame = read_frame(file, [*domain, *column_of_weights])
        try:
            return cls.from_frame(frame, domain, weights)
        except (DataError, CodeRangeError) as error:
            raise type(error)(f"{path}: {error}") from None

    @classmethod
    def from_codes(
        cls,
        codes: np.ndarray | Sequence[Any],
        domain: Domain | Mapping[str, int],
        weights: Any = None,
        *,
        trusted: bool = False,
        records_per_person: int | None = None,
        unit_column: str | None = None,
        coding: Mapping[str, str] | None = None,
    ) -> Dataset:
        """Return the dataset of arrays of codes.

        Args:
            codes: an array of shape (records, attributes), or a list with one array of shape (records,) per attribute.
            domain: the attributes, in the order of the columns.
            weights: an array of shape (records,). Finite and non-negative.
            trusted: the caller vouches that these are arrays of integer codes in range, and will not change them: they
                are not checked, and not copied where their type already fits.
            records_per_person: the largest number of records of one person, if it is bounded.
            unit_column: the column that identifies these persons.
            coding: for each attribute a digest of what its codes mean.

        Raises:
            ShapeError: the columns do not fit the domain or one another.
            DataError: a value is no integer code, or a weight is negative or not finite.
            CodeRangeError: a code is not in 0..n-1.
        """
        domain = as_domain(domain)
        columns = code_columns(codes, domain)
        records = len(codes) if isinstance(codes, np.ndarray) or not columns else len(columns[0])
        named = zip(columns, domain.items(), strict=True)
        if trusted:
            typed = [np.asarray(column, code_type(size), order="C") for column, (_, size) in named]
        else:
            typed = [as_codes(column, name, size) for column, (name, size) in named]
        checked_weights = None if weights is None else as_weights(weights, records)
        made = tuple(map(read_only, typed))
        bounded: dict[str, Any] = {"records_per_person": records_per_person, "unit_column": unit_column}
        return cls(domain, made, records, checked_weights, coding=coding, **bounded)

    @classmethod
    def concat(cls, datasets: Iterable[Dataset]) -> Dataset:
        """Return the records of several datasets, one after the other; if only some have weights, the others' are 1.

        Raises:
            DomainError: no dataset, or their domains differ.
        """
        parts = list(datasets)
        if not parts or any(part.domain != parts[0].domain for part in parts):
            raise DomainError("concat needs datasets over one and the same domain, at least one; select(...) it first.")
        columns = [np.concatenate(column) for column in zip(*(part.columns for part in parts), strict=True)]
        weights = None
        if any(part.weights is not None for part in parts):
            weights = read_only(
                np.concatenate([np.ones(part.records) if part.weights is None else part.weights for part in parts])
            )
        records, bounds = sum(part.records for part in parts), [part.records_per_person for part in parts]
        at_most = sum(bound or 1 for bound in bounds) if any(bounds) else None  # a person may be in all parts
        units = sorted({part.unit_column or "a row" for part in parts})  # several kinds have no common promise
        person = parts[0].unit_column if len(units) == 1 else " or ".join(units)
        bounded: dict[str, Any] = {"records_per_person": at_most, "unit_column": person}
        shared = parts[0].evidence if all(part.evidence == parts[0].evidence for part in parts) else None
        return cls(parts[0].domain, tuple(map(read_only, columns)), records, weights, evidence=shared, **bounded)

    # -- marginals ----------------------------------------------------------------------------------------------

    @property
    def total(self) -> float:
        """The sum of the weights; without weights, the number of records."""
        return float(self.records) if self.weights is None else float(self.weights.sum())

    def project(self, attributes: Iterable[str] | str) -> Factor:
        """Return the marginal: the number (or weight) of the records in each cell, with axes in the order asked for.

        Over no attributes it is the total.

        Raises:
            UnknownAttributeError, DuplicateAttributeError: if attributes are unknown, or named twice.
            ModelTooLarge: the table would have more than 2**31 cells, or more than fit in memory.
        """
        names = (attributes,) if isinstance(attributes, str) else tuple(attributes)
        if self.domain.names_levels(names):
            return self.project([self.domain.level(name).attribute for name in names]).project(names)
        clique = self.domain.clique(names)
        return Factor.owning(self.domain.project(clique), self._counts(clique))

    def project_many(self, cliques: Iterable[Iterable[str] | str]) -> list[Factor]:
        """Return the marginal of each clique, in the order given.

        A clique inside another one is summed from the other's table where that has fewer cells than there are records;
        with weights, the two ways agree to rounding.
        """
        wanted = [(clique,) if isinstance(clique, str) else tuple(clique) for clique in cliques]
        if any(map(self.domain.names_levels, wanted)):
            return self._many_by_level(wanted)
        names = [self.domain.clique(clique) for clique in wanted]
        tables = self._counted_together(names)
        smaller_than_data: dict[str, list[Factor]] = defaultdict(list)  # by attribute
        for clique in sorted(names, key=len, reverse=True):
            if frozenset(clique) in tables:
                continue
            table = (self._kept or {}).get(frozenset(clique))
            if table is None:
                candidates = min((smaller_than_data[name] for name in clique), key=len, default=[])
                covering = [table for table in candidates if set(clique) < set(table.domain)]
                source = min(covering, key=lambda table: table.values.size, default=self)
                table = source.project(clique)
            tables[frozenset(clique)] = table
            if table.values.size < self.records:
                for name in clique:
                    smaller_than_data[name].append(table)
        self._keep(tables)
        return [tables[frozenset(clique)].transpose(clique) for clique in names]

    def _many_by_level(self, cliques: Sequence[Clique]) -> list[Factor]:
        """Return the marginals over attributes and levels."""
        whole = self.project_many([[self.domain.level(name).attribute for name in clique] for clique in cliques])
        return [table.project(clique) for table, clique in zip(whole, cliques, strict=True)]

    def datavectors(self, cliques: Iterable[Clique]) -> list[np.ndarray]:
        """Return the marginals of `project_many` as cells, row-major, shape (cells,); do not write to them."""
        asked, kept = list(cliques), self._kept or {}
        tables = [kept.get(frozenset(clique)) for clique in asked]
        if any(table is None for table in tables):
            return [table.datavector() for table in self.project_many(asked)]
        return [
            (table if table.domain.attributes == clique else table.transpose(clique)).datavector()
            for clique, table in zip(asked, tables, strict=True)
            if table is not None
        ]

    def _counted_together(self, cliques: Iterable[Clique]) -> dict[frozenset[str], Factor]:
        """Return the tables of cliques with fewer cells than records, if cliques and records are many; else none."""
        kept = self._kept or {}
        missing = {key: clique for clique in cliques if len(clique) > 1 and (key := frozenset(clique)) not in kept}
        if self.weights is not None or len(missing) * self.records < TOGETHER_STEPS:
            return {}
        if self.records > QUICKLY_COUNTED:
            inside = inside_others(missing)
            missing = {key: clique for key, clique in missing.items() if len(clique) == 2 or key not in inside}
        axis, shape = {name: axis for axis, name in enumerate(self.domain)}, self.domain.shape
        asked = {key: [axis[name] for name in clique] for key, clique in missing.items()}
        asked = {key: axes for key, axes in asked.items() if math.prod([shape[i] for i in axes]) <= self.records}
        found = count_tables(self.columns, shape, list(asked.values()))
        return {
            key: Factor.owning(self.domain.project(missing[key]), table)
            for key, table in zip(asked, found, strict=True)
        }

    def remembering(self) -> Dataset:
        """Return a dataset of the same records that keeps the tables of `project_many` for later calls.

        It keeps the latest tables, of at most `REMEMBERED_CELLS` cells in all.
        """
        return replace(self, _kept={})

    def _keep(self, tables: Mapping[frozenset[str], Factor]) -> None:
        """Remember the tables, and forget the oldest ones beyond `REMEMBERED_CELLS`."""
        if self._kept is None:
            return
        for key, table in tables.items():
            self._kept.pop(key, None)
            self._kept[key] = table
        cells = sum(table.values.size for table in self._kept.values())
        for key in list(self._kept):
            if cells <= REMEMBERED_CELLS:
                break
            cells -= self._kept.pop(key).values.size

    def _counts(self, clique: Clique) -> np.ndarray:
        """Return the table of the marginal of `clique`: the only place where records are counted."""
        if not clique:
            return np.array(self.total)
        return count_cells([self.column(name) for name in clique], self.domain.project(clique), self.weights)

    # -- records ------------------------------------------------------------------------------------------------

    @property
    def codes(self) -> np.ndarray:
        """The codes as a new array of shape (records, attributes)."""
        if not self.columns:
            return np.empty((self.records, 0), dtype=np.uint8)
        return np.stack(self.columns, axis=1)

    def column(self, attribute: str) -> np.ndarray:
        """Return the codes of one attribute, shape (records,)."""
        return self.columns[self.domain.axes((attribute,))[0]]

    def collect(self) -> Dataset:
        """Return the records in memory: these, unless an engine holds them (`Dataset.from_frame`, `Schema.encode`)."""
        return self

    def select(self, attributes: Iterable[str] | str) -> Dataset:
        """Return the records with only these attributes, in the order given; nothing is copied."""
        names = self.domain.clique(attributes)
        return replace(self, domain=self.domain.project(names), columns=tuple(map(self.column, names)), _kept=None)

    def with_constants(self, domain: Domain) -> Dataset:
        """Return the records over a domain that has these attributes, and others of one code, which all records get."""
        if domain.attributes == self.domain.attributes:
            return self
        only = np.zeros(self.records, dtype=code_type(1))
        columns = [self.column(name) if name in self.domain else only for name in domain]
        return Dataset.from_codes(columns, domain, self.weights, trusted=True)

    def take(self, rows: Any) -> Dataset:
        """Return the records at `rows`: positions, a boolean mask, or a slice.

        Raises:
            ArgumentError: there are no such rows.
        """
        try:
            index = np.atleast_1d(np.arange(self.records)[rows])
        except IndexError as error:
            raise ArgumentError.of("rows", rows, f"rows of a dataset of {self.records:,} ({error})") from None
        weights = None if self.weights is None else read_only(self.weights[index])
        columns = tuple(read_only(column[index]) for column in self.columns)
        at_most = self.records_per_person
        if at_most is not None and len(index):  # a row that is taken twice is twice the same person's
            at_most *= int(np.unique(index, return_counts=True)[1].max())
        bounded: dict[str, Any] = {"records_per_person": at_most, "unit_column": self.unit_column}
        bounded |= {"evidence": self.evidence, "coding": self.coding}
        return Dataset(self.domain, columns, len(index), weights, **bounded)

    def to_frame(self, backend: str = "pandas", weights: str | None = None) -> Any:
        """Return the codes as a dataframe, a 64-bit integer column per attribute.

        Args:
            backend: "pandas", "polars" or "pyarrow".
            weights: the name for the column of weights; a dataset with weights needs one, so that they are not lost.

        Raises:
            ArgumentError: another backend, or `weights` is missing or already the name of an attribute.
            OptionalDependencyError: the library is not installed.
        """
        if (self.weights is None) != (weights is None) or weights in self.domain:
            what = "None, for a dataset without weights" if self.weights is None else "a new name for their column"
            raise ArgumentError.of("weights", weights, what)
        columns = {name: column.astype(np.int64) for name, column in zip(self.domain, self.columns, strict=True)}
        if weights is not None and self.weights is not None:
            columns[weights] = self.weights
        return frame_of(columns, backend)

    def fingerprint(self, key: bytes) -> str:
        """Return a digest of the records under a secret key, whatever their order; see `pgmest.data.fingerprints`."""
        return keyed_digest(hashes_of_rows(self.columns, self.records), key)

    def save(self, path: str | Path, weights: str | None = None) -> None:
        """Write the codes as `.csv`, `.tsv` (`.gz`, too) or `.parquet`, atomically; `weights` as for `to_frame`."""
        write_frame(self.to_frame(weights=weights), path)

    def __len__(self) -> int:
        return self.records

    def __eq__(self, other: object) -> bool:
        """Equal when domain, codes, their order, and weights agree."""
        if not isinstance(other, Dataset) or self.domain != other.domain or self.records != other.records:
            return False
        if (self.weights is None) != (other.weights is None):
            return False
        pairs = zip((*self.columns, self.weights), (*other.columns, other.weights), strict=True)
        return all(np.array_equal(mine, theirs) for mine, theirs in pairs)  # type: ignore[arg-type]

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def _repr_html_(self) -> str:
        return html_text(repr(self))

    def __repr__(self) -> str:
        weighted = "" if self.weights is None else f", weights summing to {self.total:,.6g}"
        return f"Dataset({self.records:,} records, {len(self.domain)} attributes{weighted})"
