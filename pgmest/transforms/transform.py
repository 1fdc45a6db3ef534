"""Transform: a recoding of records, with its inverse for models, records, measurements and workloads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pgmest._base.errors import DomainError, ShapeError
from pgmest.data.dataset import Dataset
from pgmest.data.lazy_dataset import LazyDataset
from pgmest.inference.exact.structural_zeros import Rule
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.exact import Model
from pgmest.queries import Kron, MatrixQuery, compress, identity
from pgmest.queries.matrices import Grouping, Identity
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.transforms.impossible import Recoding, pushed

LARGEST_READING = 30_000_000
"""The most cells before a transform that the query of a measurement made after it is materialized for: 0.7 GB."""


@dataclass(frozen=True, eq=False)
class Column:
    """An attribute after the transform: a function of some attributes before it.

    Attributes:
        sources: the attributes before.
        codes: the new code of each of their cells, of the shape of their sizes.
        size: how many new codes there are; each must be the code of a cell.
        shares: the probability of each cell given its new code, of the same shape; by default all are equal.
    """

    sources: Clique
    codes: np.ndarray
    size: int
    shares: np.ndarray

    def __init__(self, sources: Sequence[str], codes: Any, shares: Any = None):
        table = np.asarray(codes, dtype=np.int64)
        cells = np.bincount(table.reshape(-1))
        if table.ndim != len(sources) or not cells.all():
            raise ShapeError(f"codes of {tuple(sources)} must have an axis for each of them and leave out no new code.")
        weights = np.ones(table.shape) if shares is None else np.asarray(shares, dtype=np.float64)
        if weights.shape != table.shape or not (weights >= 0).all():
            raise ShapeError(f"shares of {tuple(sources)} must be non-negative, of shape {table.shape}.")
        sums = np.bincount(table.reshape(-1), weights.reshape(-1), minlength=len(cells))
        even = np.where(sums[table] > 0, weights, 1.0)  # codes of no weight are shared out evenly
        sums = np.bincount(table.reshape(-1), even.reshape(-1), minlength=len(cells))
        values = {"sources": tuple(sources), "codes": table, "size": len(cells), "shares": even / sums[table]}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def same(cls, name: str, size: int) -> Column:
        """An attribute that stays as it is."""
        return cls((name,), np.arange(size))

    @property
    def plain(self) -> bool:
        """Whether the new codes are the cells themselves, in order."""
        return self.size == self.codes.size and bool(np.array_equal(self.codes.reshape(-1), np.arange(self.size)))


@dataclass(frozen=True, eq=False)
class Derived:
    """An attribute that the transform drops, because it is a function of others that it keeps.

    Attributes:
        of: these others, names before the transform.
        codes: its code for each of their cells, of the shape of their sizes.
    """

    of: Clique
    codes: np.ndarray


@dataclass(frozen=True, eq=False)
class Transform:
    """A recoding of the domain, record by record.

    >>> data = Dataset.from_codes([[0, 1, 3, 3], [0, 1, 1, 0]], {"age": 4, "sex": 2})
    >>> transform = Transform(data.domain, {"age": Column(["age"], [0, 0, 1, 1]), "sex": Column(["sex"], [0, 1])})
    >>> transform.encode(data).project("age").values
    array([2., 2.])

    Args:
        before: the attributes.
        columns: the attributes after it, each with the attributes it is made of.
        derived: the attributes that are dropped. Every attribute is the source of one column, or derived.

    Raises:
        DomainError: an attribute that is used twice or not at all, or derived from one that is derived itself.
        ShapeError: codes that do not have the shape of their sources.
    """

    before: Domain
    columns: Mapping[str, Column]
    derived: Mapping[str, Derived]

    def __init__(self, before: Domain, columns: Mapping[str, Column], derived: Mapping[str, Derived] | None = None):
        object.__setattr__(self, "before", before)
        object.__setattr__(self, "columns", dict(columns))
        object.__setattr__(self, "derived", dict(derived or {}))
        used = [name for column in self.columns.values() for name in column.sources] + list(self.derived)
        if sorted(used) != sorted(before):
            raise DomainError(
                f"a transform must use each attribute of {before.attributes} once, as a source or derived; it uses "
                f"{tuple(used)}."
            )
        for name, rule in self.derived.items():
            if set(rule.of) & set(self.derived):
                raise DomainError(f"'{name}' is derived from {rule.of}, of which one is derived itself.")
            if rule.codes.shape != before.project(rule.of).shape or rule.codes.max(initial=0) >= before[name]:
                raise ShapeError(f"'{name}' needs a code below {before[name]} for each cell of {rule.of}.")
        for column in self.columns.values():
            if column.codes.shape != before.project(column.sources).shape:
                raise ShapeError(
                    f"codes of {column.sources}: expected shape {before.project(column.sources).shape}, got "
                    f"{column.codes.shape}."
                )

    @cached_property
    def after(self) -> Domain:
        """The attributes after the transform."""
        return Domain({name: column.size for name, column in self.columns.items()})

    @cached_property
    def _made_of(self) -> dict[str, Clique]:
        """Attribute before -> the attributes after that determine it."""
        made: dict[str, Clique] = {
            source: (name,) for name, column in self.columns.items() for source in column.sources
        }
        for name, rule in self.derived.items():
            made[name] = tuple(dict.fromkeys(after for source in rule.of for after in made[source]))
        return made

    # -- records ------------------------------------------------------------------------------------------------------

    def encode(self, data: Dataset) -> Dataset:
        """The recoded records.

        Raises:
            DomainError: the records are over another domain.
        """
        if data.domain != self.before:
            raise DomainError(f"the records are over {data.domain!r}, the transform is of {self.before!r}.")
        if isinstance(data, LazyDataset):
            return data.recoded({name: (column.sources, column.codes) for name, column in self.columns.items()})
        coded = [_looked_up(data, column.sources, column.codes) for column in self.columns.values()]
        return Dataset.from_codes(coded, self.after, data.weights, trusted=True)

    def decode(self, records: Dataset, seed: int | np.random.Generator | None = None) -> Dataset:
        """Records before the transform: cells drawn among those of a code by their shares.

        Raises:
            DomainError: the records are not over `after`.
        """
        if records.domain != self.after:
            raise DomainError(f"the records are over {records.domain!r}, the transform makes {self.after!r}.")
        rng = np.random.default_rng(seed)
        codes: dict[str, np.ndarray] = {}
        for name, column in self.columns.items():
            cells = _drawn(column, records.column(name), rng)
            codes.update(zip(column.sources, np.unravel_index(cells, column.codes.shape), strict=True))
        for name, rule in self.derived.items():
            codes[name] = rule.codes[tuple(codes[source] for source in rule.of)]
        return Dataset.from_codes([codes[name] for name in self.before], self.before, records.weights, trusted=True)

    # -- models -------------------------------------------------------------------------------------------------------

    def lift(self, model: Model, structural_zeros: Iterable[Rule] = ()) -> Model:
        """The model over the attributes before, whose cells of one code have the shares of their column.

        Args:
            model: over `after`.
            structural_zeros: rules of what cannot occur before the transform. The possible cells of a code share what
                it has, so that marginals after the transform stay, but where several rules are about an attribute.

        Raises:
            DomainError: the model is not over `after`.
        """
        if model.domain != self.after:
            raise DomainError(f"the model is over {model.domain!r}, the transform makes {self.after!r}.")
        tables: dict[Clique, np.ndarray] = {}
        for clique, factor in model.potentials.items():
            sources, table = self._lifted(clique, factor.values)
            tables[sources] = tables[sources] + table if sources in tables else table
        for column in self.columns.values():
            if not column.plain:
                with np.errstate(divide="ignore"):
                    _add(tables, column.sources, np.log(column.shares))
        for name, rule in self.derived.items():
            possible = rule.codes[..., None] == np.arange(self.before[name])
            _add(tables, (*rule.of, name), np.where(possible, 0.0, -np.inf))
        for rule in structural_zeros:
            found = Recoding.of(self, rule)
            _add(tables, found.sources, found.log_shares())
        potentials = CliqueVector(self.before, tables)
        return Model(potentials, model.total, model.report, total_stddev=model.total_stddev)

    def _lifted(self, clique: Clique, table: np.ndarray) -> tuple[Clique, np.ndarray]:
        columns = [self.columns[name] for name in clique]
        cells = table[np.ix_(*(column.codes.reshape(-1) for column in columns))] if columns else table
        shape = [size for column in columns for size in column.codes.shape]
        return tuple(source for column in columns for source in column.sources), cells.reshape(shape)

    def zeros(self, rules: Iterable[Rule]) -> tuple[Rule, ...]:
        """What cannot occur after the transform, given rules of what cannot before it.

        >>> from pgmest import zeros
        >>> transform = Transform(Domain({"age": 3}), {"age": Column(["age"], [0, 0, 1])})
        >>> (rule,) = transform.zeros([zeros.impossible("age", [1, 2])])  # 0 and 1 become 0, of which 0 is possible
        >>> rule.mask(transform.after)
        array([False,  True])

        Raises:
            UnknownAttributeError, CodeRangeError, ShapeError, ArgumentError: rules that do not fit the attributes.
        """
        return tuple(pushed(self, rule) for rule in rules)

    # -- workloads and measurements -----------------------------------------------------------------------------------

    def clique(self, clique: Iterable[str]) -> Clique:
        """The attributes after the transform that determine those of a clique before it."""
        return tuple(dict.fromkeys(after for name in clique for after in self._made_of[name]))

    def merging(self) -> Transform:
        """What says how the cells of tables are merged: itself."""
        return self

    def sources(self, clique: Clique) -> Clique:
        """The attributes before of which some attributes after are made."""
        return tuple(source for name in clique for source in self.columns[name].sources)

    def cells(self, clique: Clique) -> tuple[Clique, np.ndarray]:
        """The sources of some attributes after, and for each of their cells, row-major, the cell that it becomes."""
        columns = [self.columns[name] for name in clique]
        index = np.zeros((1,), dtype=np.int64)
        for column in columns:
            index = (index[:, None] * column.size + column.codes.reshape(1, -1)).reshape(-1)
        return tuple(source for column in columns for source in column.sources), index

    def pull_back(self, measurement: LinearMeasurement) -> LinearMeasurement | None:
        """A measurement made after the transform, as one of the attributes before: its query reads their cells.

        None where its query is no product of matrices of single attributes and would read more than `LARGEST_READING`
        cells, as of five attributes of a hundred values that were recoded into two each.

        Raises:
            UnknownAttributeError: a clique that is not of attributes after the transform.
        """
        clique, asked = self.after.clique(measurement.clique), measurement.query
        columns = [self.columns[name] for name in clique]
        sources = tuple(source for column in columns for source in column.sources)
        if all(column.plain for column in columns) and (asked is None or asked.attributes is None):
            query: Any = asked
        elif (asked is None or isinstance(asked, Kron)) and all(len(column.sources) == 1 for column in columns):
            query = self._recoded(
                Kron({name: identity(self.after[name]) for name in clique}) if asked is None else asked
            )
        elif math.prod(column.codes.size for column in columns) > LARGEST_READING:
            return None
        else:
            from scipy import sparse

            _, index = self.cells(clique)
            cells = math.prod(column.size for column in columns)
            reading = sparse.csr_array((np.ones(index.size), (index, np.arange(index.size))), shape=(cells, index.size))
            query = reading if asked is None else asked.in_order(clique).matrix() @ reading
        return LinearMeasurement(measurement.values, sources, measurement.stddev, query, measurement.noise)

    def _recoded(self, asked: Kron) -> Kron:
        """A factored query of attributes after, each made of one before, as one of those."""
        return Kron([(self.columns[n].sources[0], _composed(f, self.columns[n])) for n, f in asked.factors.items()])

    def push(self, measurement: LinearMeasurement) -> LinearMeasurement:
        """A measured marginal of the sources of some columns, as one of these columns: its cells added up.

        Raises:
            DomainError: it is no plain marginal, or of attributes that are not all the sources of some columns.
        """
        clique = tuple(name for name, c in self.columns.items() if set(c.sources) & set(measurement.clique))
        sources, index = self.cells(clique)
        if measurement.query is not None or set(sources) != set(measurement.clique):
            raise DomainError(f"the measurement of {measurement.clique} is none of attributes after the transform.")
        order = [measurement.clique.index(name) for name in sources]
        shape = self.before.project(measurement.clique).shape
        values, variances = (
            np.broadcast_to(array, measurement.rows).reshape(shape).transpose(order).reshape(-1)
            for array in (measurement.values, np.square(measurement.stddev))
        )
        cells = self.after.size(clique)
        summed = np.bincount(index, values, minlength=cells)
        stddev = np.sqrt(np.bincount(index, variances, minlength=cells))
        return LinearMeasurement(summed, clique, stddev[0] if np.ptp(stddev) == 0 else stddev)


def _composed(query: MatrixQuery, column: Column) -> MatrixQuery | np.ndarray:
    """A query of a column's codes as one of the attribute that it is made of."""
    if column.plain:
        return query
    codes = column.codes.reshape(-1)
    if isinstance(query, Identity):
        return compress(codes.size, codes.tolist(), column.size)
    if isinstance(query, Grouping):
        return compress(codes.size, query.groups[codes].tolist(), query.rows)
    return query.matrix()[:, codes]


def _looked_up(data: Dataset, sources: Clique, codes: np.ndarray) -> np.ndarray:
    return codes[tuple(data.column(name) for name in sources)]


def _drawn(column: Column, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A cell for each code, drawn by the shares: the inverse of their distribution function, code after code."""
    order = np.argsort(column.codes.reshape(-1), kind="stable")
    ends = np.cumsum(column.shares.reshape(-1)[order]) + 1e-12
    starts = np.searchsorted(column.codes.reshape(-1)[order], np.arange(column.size))
    base = np.concatenate([[0.0], ends])[starts]
    place = np.searchsorted(ends, base[codes] + rng.random(len(codes)) * (1 - 1e-9), side="right")
    last = np.append(starts[1:], order.size) - 1
    return order[np.clip(place, starts[codes], last[codes])]


def _add(tables: dict[Clique, np.ndarray], clique: Clique, table: np.ndarray) -> None:
    """Add a table to those of its own clique, or to the first that covers it."""
    for covering, values in tables.items():
        if set(clique) <= set(covering):
            axes = [clique.index(name) for name in covering if name in clique]
            shape = [size if name in clique else 1 for name, size in zip(covering, values.shape, strict=True)]
            tables[covering] = values + table.transpose(axes).reshape(shape)
            return
    tables[clique] = table
