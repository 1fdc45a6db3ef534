"""LazyDataset: records that stay where they are; the engine that holds them counts, and only counts come back.

The engines are those that narwhals calls lazy: DuckDB relations, polars LazyFrames, PySpark, Dask, Ibis, SQLFrame.
Marginals are group-bys pushed down to them; the marginals asked for together are read off a few larger group-bys, so
that the records are scanned fewer times. DuckDB, which runs in this process, hands over the codes instead, some records
at a time, and the compiled kernel counts all marginals of a scan: a quarter of the work.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.counting import zero_table
from pgmest.data.dataset import DATASET_OF_LAZY_FRAME, Dataset
from pgmest.data.fingerprints import hashes_of_rows, keyed_digest
from pgmest.data.frames import collected
from pgmest.data.lazy_checks import Scanned, changed, scan
from pgmest.errors import ArgumentError, DataError
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

if TYPE_CHECKING:
    import narwhals as nw

CELLS_AT_ONCE = 1 << 18
"""Marginals are counted together up to this many cells: more means fewer scans, but more groups to fetch."""


RECORDS_AT_ONCE = 1 << 20
"""Records that DuckDB hands over at a time; tables of more cells are left to it."""


class LazyDataset(Dataset):
    """Records in an engine, over a domain; `Dataset.from_frame` makes it of a lazy frame.

    `domain`, `records`, `total`, `project`, `project_many` and `select` are those of a Dataset. Tables are kept, so
    that a marginal asked for again costs no scan. Each scan is compared with the earlier ones: a table that was written
    to in the meantime raises DataError. What needs the records themselves (`columns`, `take`, `to_frame`, ...) raises
    DataError, too: `collect()` fetches them.

    >>> import polars as pl
    >>> frame = pl.LazyFrame({"age": [0, 2, 2], "sex": [1, 1, 0]})
    >>> data = Dataset.from_frame(frame, {"age": 3, "sex": 2})
    >>> data
    LazyDataset(3 records in polars, 2 attributes)
    >>> data.project(("sex", "age")).values
    array([[0., 0., 1.],
           [1., 0., 1.]])
    """

    __slots__ = ("_frame", "_scanned", "_seen", "_weight")

    _frame: nw.LazyFrame[Any]
    _weight: str | None
    _scanned: Scanned
    _seen: dict[str, np.ndarray]
    _kept: dict[frozenset[str], Factor]

    def __init__(
        self,
        frame: nw.LazyFrame[Any],
        domain: Domain,
        weight: str | None,
        scanned: Scanned,
        records_per_person: int | None = None,
        seen: dict[str, np.ndarray] | None = None,
        unit_column: str | None = None,
        coding: Mapping[str, str] | None = None,
    ):
        values = {
            "domain": domain,
            "records": scanned.records,
            "records_per_person": records_per_person,
            "unit_column": unit_column,
            "coding": coding,
            "_frame": frame,
            "_weight": weight,
            "_scanned": scanned,
            "_seen": {} if seen is None else seen,
            "_kept": {},
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of_lazy(
        cls,
        frame: nw.LazyFrame[Any],
        domain: Domain,
        weights: Any = None,
        *,
        records_per_person: int | None = None,
        unit_column: str | None = None,
        coding: Mapping[str, str] | None = None,
    ) -> LazyDataset:
        """Return the dataset of a lazy frame that has the columns it needs; one scan checks every code.

        Raises:
            DataError: a value is no integer code, or a weight is no finite number of at least 0.
            CodeRangeError: a code is not in 0..n-1.
            ArgumentError: `weights` is not the name of a column.
        """
        if weights is not None and not isinstance(weights, str):
            raise ArgumentError.of("weights", type(weights), "the name of a column, where an engine holds the records")
        frame = frame.select([*domain, *([weights] if weights else [])])
        scanned, kept = scan(frame, domain, weights), {"unit_column": unit_column, "coding": coding}
        return cls(frame, domain, weights, scanned, records_per_person, **kept)

    def at_end(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Call a function when these records and all selections of them are no longer used."""
        weakref.finalize(self._scanned, call, *arguments).atexit = False

    # -- marginals --------------------------------------------------------------------------------------------------

    @property
    def total(self) -> float:
        """The sum of the weights; without weights, the number of records."""
        return self._scanned.total

    def project(self, attributes: Iterable[str] | str) -> Factor:
        return self.project_many([attributes])[0]

    def project_many(self, cliques: Iterable[Iterable[str] | str]) -> list[Factor]:
        """Return the marginal of each clique, in the order given.

        Cliques that fit into one table of `CELLS_AT_ONCE` cells are counted in one scan; in DuckDB, without weights,
        all those of at most `RECORDS_AT_ONCE` cells.

        Raises:
            UnknownAttributeError, DuplicateAttributeError: if attributes are unknown, or named twice.
            ModelTooLarge: a table has too many cells. Nothing has been counted then.
            DataError: the table has changed since it was first counted.
        """
        wanted_names = [(clique,) if isinstance(clique, str) else tuple(clique) for clique in cliques]
        if any(map(self.domain.names_levels, wanted_names)):
            return self._many_by_level(wanted_names)
        names = [self.domain.clique(clique) for clique in wanted_names]
        for clique in names:
            zero_table(self.domain.project(clique))  # too large a table is found before the engine starts
        wanted = {frozenset(clique): clique for clique in names if clique}
        tables = {key: self._kept[key] for key in wanted if key in self._kept}
        tables |= self._streamed([clique for key, clique in wanted.items() if key not in tables])
        for block, inside in blocks([clique for key, clique in wanted.items() if key not in tables], self.domain):
            counted = self._groups(block).project_many(inside)
            tables.update((frozenset(table.domain), table) for table in counted)
        self._keep(tables)
        tables[frozenset()] = Factor(Domain({}), np.array(self._scanned.total))
        return [tables[frozenset(clique)].transpose(clique) for clique in names]

    def remembering(self) -> LazyDataset:
        """Itself: it remembers anyway."""
        return self

    def _streamed(self, cliques: Iterable[Clique]) -> dict[frozenset[str], Factor]:
        """Return the tables of the cliques that can be counted from records handed over in one scan."""
        cliques = [clique for clique in cliques if self.domain.size(clique) <= RECORDS_AT_ONCE]
        part = self.domain.project(name for name in self.domain if any(name in clique for clique in cliques))
        batches = _batches(self._frame, part) if cliques and self._weight is None else None
        if batches is None:
            return {}
        singly: list[Clique] = [(name,) for name in part]
        counts = {clique: np.zeros(part.project(clique).shape) for clique in (*cliques, *singly)}
        for batch in batches:
            for clique, table in zip(counts, batch.project_many(counts), strict=True):
                counts[clique] += table.values
        found = {frozenset(clique): Factor(part.project(clique), table) for clique, table in counts.items()}
        singles = {name: found[frozenset((name,))].values.astype(np.int64) for name in part}
        self._compare(singles, float(next(iter(singles.values())).sum()))
        return found

    def _groups(self, attributes: Clique) -> Dataset:
        """Return the distinct records over `attributes`, each weighted by its count or by the sum of its weights."""
        import narwhals as nw

        rows, weight = (_unused(name, self.domain) for name in ("records", "weight"))
        asked = [nw.len().alias(rows)]
        if self._weight is not None:  # engines add up small types in themselves, which overflows
            asked.append(nw.col(self._weight).cast(nw.Float64).sum().alias(weight))
        groups = collected(self._frame.group_by(*attributes).agg(*asked))
        codes = [groups[attribute].to_numpy() for attribute in attributes]
        counts = groups[rows].to_numpy().astype(np.int64)
        weights = counts if self._weight is None else groups[weight].to_numpy()
        found = Dataset.from_codes(codes, self.domain.project(attributes), weights)
        tables = {name: np.zeros(size, dtype=np.int64) for name, size in found.domain.items()}
        for name, table in tables.items():
            np.add.at(table, found.column(name), counts)
        self._compare(tables, found.total)
        return found

    def _compare(self, tables: Mapping[str, np.ndarray], total: float) -> None:
        """Raise DataError if the records differ from earlier scans in number, sums of codes or one-way counts.

        Args:
            tables: the one-way counts of the records just scanned, of at least one attribute.
            total: the sum of their weights.
        """
        same = bool(np.isclose(total, self.total, rtol=1e-9, atol=0.0))
        for name, table in tables.items():
            same = same and int(table.sum()) == self.records
            same = same and np.array_equal(self._seen.setdefault(name, table), table)
            expected = self._scanned.sums.get(name)
            same = same and (expected is None or int(table @ np.arange(len(table))) == expected)
        if not same:
            raise changed(self._frame)

    # -- records ----------------------------------------------------------------------------------------------------

    def collect(self) -> Dataset:
        """Fetch the records from the engine; all of them must fit in memory."""
        fetched = Dataset.from_frame(collected(self._frame), self.domain, self._weight)
        bounded: dict[str, Any] = {"records_per_person": self.records_per_person, "unit_column": self.unit_column}
        return replace(fetched, coding=self.coding, **bounded)

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed digest of the counts of each attribute, and of each with the next one: only counts come back.

        Tables that agree on all of these have the same fingerprint.
        """
        names = self.domain.attributes
        pairs = [pair for pair in itertools.pairwise(names) if self.domain.size(pair) <= CELLS_AT_ONCE]
        tables = self.project_many([*pairs, *((name,) for name in names)])
        counts = np.concatenate([np.array([self.records]), *(table.datavector() for table in tables)])
        return keyed_digest(hashes_of_rows([np.arange(len(counts)), counts], len(counts)), key)

    def select(self, attributes: Iterable[str] | str) -> LazyDataset:
        """Return the records with only these attributes, in the order given; nothing is scanned."""
        names = self.domain.clique(attributes)
        at_most, seen = self.records_per_person, self._seen
        domain = self.domain.project(names)
        return LazyDataset(
            self._frame, domain, self._weight, self._scanned, at_most, seen, self.unit_column, self.coding
        )

    def recoded(self, domain: Domain, columns: Mapping[str, tuple[Clique, np.ndarray]]) -> LazyDataset:
        """Return the records with new attributes that are functions of the present ones; the engine computes them.

        Args:
            domain: the new attributes.
            columns: for each new attribute the attributes that it is a function of, and its code for each of their
                cells, an array with an axis for each; no code is left out.
        """
        import narwhals as nw

        made = []
        for name, (sources, codes) in columns.items():
            cell: Any = nw.lit(0)
            for source in sources:
                cell = cell * self.domain[source] + nw.col(source)
            new = codes.reshape(-1).tolist()
            made.append(cell.replace_strict(range(len(new)), new, default=0, return_dtype=nw.Int64).alias(name))
        kept = [nw.col(self._weight)] if self._weight else []
        scanned = Scanned(self.records, self.total, {})
        frame, bounded = self._frame.select(*made, *kept), (self.records_per_person, None, self.unit_column)
        return LazyDataset(frame, domain, self._weight, scanned, *bounded)

    @property
    def columns(self) -> Any:  # type: ignore[override]
        """Raises DataError: the records are not here."""
        raise DataError(
            f"the records are in {self._engine}, which only counts them; use project or project_many, or fetch "
            "all records with collect()."
        )

    @property
    def weights(self) -> Any:  # type: ignore[override]
        """None; with weights, raises DataError, as they are not here."""
        return None if self._weight is None else self.columns

    def take(self, rows: Any) -> Dataset:
        return self.columns

    @property
    def _engine(self) -> str:
        return self._frame.implementation.name.lower()

    def __eq__(self, other: object) -> bool:
        """A dataset in an engine equals itself only: comparing would fetch the records."""
        return self is other

    def __hash__(self) -> int:  # type: ignore[override]
        return object.__hash__(self)

    def __repr__(self) -> str:
        weighted = "" if self._weight is None else f", weights summing to {self.total:,.6g}"
        return f"LazyDataset({self.records:,} records in {self._engine}, {len(self.domain)} attributes{weighted})"


DATASET_OF_LAZY_FRAME.append(LazyDataset.of_lazy)


def _batches(frame: nw.LazyFrame[Any], domain: Domain) -> Iterator[Dataset] | None:
    """Yield the records a part at a time, from an engine that streams them; their codes are checked again."""
    if not frame.implementation.is_duckdb() or importlib.util.find_spec("pyarrow") is None:
        return None
    relation: Any = frame.select(*domain).to_native()
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch  # the name before DuckDB 1.5
    return (
        Dataset.from_codes([column.to_numpy(zero_copy_only=False) for column in batch.columns], domain)
        for batch in read(RECORDS_AT_ONCE)
    )


def blocks(cliques: Iterable[Clique], domain: Domain, cells: int = CELLS_AT_ONCE) -> list[tuple[Clique, list[Clique]]]:
    """Sets of attributes that together cover the cliques, each with the cliques that are read off it.

    Greedy: a block starts as the largest clique left, and takes in the attribute that completes the most cliques for as
    long as its table has at most `cells` cells.

    >>> blocks([("a", "b"), ("b", "c"), ("d",)], Domain({"a": 2, "b": 3, "c": 4, "d": 1000}), cells=24)
    [(('d',), [('d',)]), (('b', 'c', 'a'), [('b', 'c'), ('a', 'b')])]
    """
    left = sorted(cliques, key=domain.size, reverse=True)
    found = []
    while left:
        block = list(left[0])
        while (name := _most_completing(block, left, domain, cells)) is not None:
            block.append(name)
        inside = [clique for clique in left if set(clique) <= set(block)]
        left = [clique for clique in left if not set(clique) <= set(block)]
        found.append((tuple(block), inside))
    return found


def _most_completing(block: list[str], cliques: list[Clique], domain: Domain, cells: int) -> str | None:
    """Return the attribute that completes the most cliques inside the block, the one of fewer values among equals."""
    room = cells // math.prod(domain[name] for name in block)
    completed: dict[str, int] = {}
    members = set(block)
    for clique in cliques:
        lacking = [name for name in clique if name not in members]
        if len(lacking) == 1 and domain[lacking[0]] <= room:
            completed[lacking[0]] = completed.get(lacking[0], 0) + 1
    return max(completed, key=lambda name: (completed[name], -domain[name]), default=None)


def _unused(name: str, domain: Domain) -> str:
    while name in domain:
        name += "_"
    return name
