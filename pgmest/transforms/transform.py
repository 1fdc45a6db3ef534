"""Transform: a recoding of records, with its inverse for models, records, measurements and workloads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.data.lazy_dataset import LazyDataset
from pgmest.errors import DomainError, ShapeError
from pgmest.inference.exact.structural_zeros import Rule
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.exact import Model
from pgmest.queries import Kron, MatrixQuery, compress, identity
from pgmest.queries.matrices import Grouping, Identity
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.transforms.structural_zeros import Recoding, push_rule

LARGEST_PULLED_BACK = 30_000_000
"""The largest number of columns of a query that `Transform.pull_back` materializes as a sparse matrix (0.7 GB)."""


@dataclass(frozen=True, eq=False)
class Column:
    """An attribute after the transform, which is a function of some attributes before it.

    Attributes:
        sources: the attributes before the transform.
        codes: the new code of each cell of the sources, an array with one axis for each source.
        size: the number of new codes; each must be the code of at least one cell.
        shares: the probability of each cell given its new code, of the shape of `codes`; by default uniform.

    Raises:
        ShapeError: the codes have another number of axes or leave out a new code, or the shares do not fit.
    """

    sources: Clique
    codes: np.ndarray
    size: int
    shares: np.ndarray

    def __init__(self, sources: Sequence[str], codes: Any, shares: Any = None):
        table = np.asarray(codes, dtype=np.int64)
        cells = np.bincount(table.reshape(-1))
        if table.ndim != len(sources) or not cells.all():
            raise ShapeError(
                f"codes of {tuple(sources)} must have one axis for each source, and must use every code from 0 to the "
                "largest."
            )
        weights = np.ones(table.shape) if shares is None else np.asarray(shares, dtype=np.float64)
        if weights.shape != table.shape or not (weights >= 0).all():
            raise ShapeError(f"shares of {tuple(sources)} must be non-negative, of shape {table.shape}.")
        sums = np.bincount(table.reshape(-1), weights.reshape(-1), minlength=len(cells))
        even = np.where(sums[table] > 0, weights, 1.0)  # the cells of a code without weight are equally likely
        sums = np.bincount(table.reshape(-1), even.reshape(-1), minlength=len(cells))
        values = {"sources": tuple(sources), "codes": table, "size": len(cells), "shares": even / sums[table]}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def same(cls, name: str, size: int) -> Column:
        """Return the column of an unchanged attribute."""
        return cls((name,), np.arange(size))

    @property
    def plain(self) -> bool:
        """True if the new codes are the positions of the cells, so that the column merges nothing."""
        return self.size == self.codes.size and bool(np.array_equal(self.codes.reshape(-1), np.arange(self.size)))


@dataclass(frozen=True, eq=False)
class Derived:
    """An attribute that the transform drops, because other attributes determine it.

    Attributes:
        of: the attributes before the transform that determine it.
        codes: its code for each cell of `of`, an array with one axis for each of these attributes.
    """

    of: Clique
    codes: np.ndarray


@dataclass(frozen=True, eq=False)
class Transform:
    """A recoding of the domain that maps each record separately.

    >>> data = Dataset.from_codes([[0, 1, 3, 3], [0, 1, 1, 0]], {"age": 4, "sex": 2})
    >>> transform = Transform(data.domain, {"age": Column(["age"], [0, 0, 1, 1]), "sex": Column(["sex"], [0, 1])})
    >>> transform.encode(data).project("age").values
    array([2., 2.])

    Args:
        before: the attributes before the transform.
        columns: the attributes after the transform, each as a function of attributes before it.
        derived: the attributes that are dropped. Every attribute is either the source of exactly one column, or
            derived.

    Raises:
        DomainError: an attribute is used twice or not at all, or is derived from a derived attribute.
        ShapeError: the codes of a column or of a derived attribute do not have the shape of their sources.
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
                raise DomainError(
                    f"'{name}' is derived from {rule.of}, and one of these is derived, too; derive it from others."
                )
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
        """The attributes after the transform, with the levels of hierarchies that it keeps."""
        domain, known = Domain({name: column.size for name, column in self.columns.items()}), self.before.hierarchies
        single = {name: c for name, c in self.columns.items() if len(c.sources) == 1 and c.sources[0] in known}
        found = [known[column.sources[0]].recoded(name, column.codes) for name, column in single.items()]
        return domain.with_hierarchies(*(one for one in found if one is not None))

    @cached_property
    def _made_of(self) -> dict[str, Clique]:
        """The attributes after the transform that determine each attribute before it."""
        made: dict[str, Clique] = {
            source: (name,) for name, column in self.columns.items() for source in column.sources
        }
        for name, rule in self.derived.items():
            made[name] = tuple(dict.fromkeys(after for source in rule.of for after in made[source]))
        return made

    # -- records ------------------------------------------------------------------------------------------------------

    def encode(self, data: Dataset) -> Dataset:
        """Return the recoded records.

        Raises:
            DomainError: the domain of the records is not `before`.
        """
        if data.domain != self.before:
            raise DomainError(f"the records have the {data.domain!r}, but the transform recodes the {self.before!r}.")
        if isinstance(data, LazyDataset):
            made = {name: (column.sources, column.codes) for name, column in self.columns.items()}
            return data.recoded(self.after, made)
        coded = [_recoded(column, data) for column in self.columns.values()]
        return Dataset.from_codes(coded, self.after, data.weights, trusted=True)

    def decode(self, records: Dataset, seed: int | np.random.Generator | None = None) -> Dataset:
        """Return records over the attributes before the transform; the cell of a code is drawn by its share.

        Raises:
            DomainError: the domain of the records is not `after`.
        """
        if records.domain != self.after:
            raise DomainError(f"the records have the {records.domain!r}, but the recoded domain is {self.after!r}.")
        rng = np.random.default_rng(seed)
        codes: dict[str, np.ndarray] = {}
        for name, column in self.columns.items():
            cells = _drawn(column, records.column(name), rng)
            codes.update(zip(column.sources, np.unravel_index(cells, column.codes.shape), strict=True))
        for name, rule in self.derived.items():
            codes[name] = np.broadcast_to(rule.codes[tuple(codes[source] for source in rule.of)], records.records)
        return Dataset.from_codes([codes[name] for name in self.before], self.before, records.weights, trusted=True)

    # -- models -------------------------------------------------------------------------------------------------------

    def lift(self, model: Model, structural_zeros: Iterable[Rule] = ()) -> Model:
        """Return the model over the attributes before the transform, in which a code's cells have their shares.

        Args:
            model: a model over `after`.
            structural_zeros: rules on attributes before the transform. The possible cells of a code share its
                probability, so that the marginals after the transform do not change, unless several rules concern the
                same attribute.

        Raises:
            DomainError: the domain of the model is not `after`.
        """
        if model.domain != self.after:
            raise DomainError(f"the model has the {model.domain!r}, but the recoded domain is {self.after!r}.")
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
        """Return the sources of a clique, and a table over the clique as a function of the sources."""
        columns = [self.columns[name] for name in clique]
        cells = table[np.ix_(*(column.codes.reshape(-1) for column in columns))] if columns else table
        shape = [size for column in columns for size in column.codes.shape]
        return self.sources(clique), cells.reshape(shape)

    def zeros(self, rules: Iterable[Rule]) -> tuple[Rule, ...]:
        """Return the structural zeros after the transform that follow from rules before it.

        >>> from pgmest import zeros
        >>> transform = Transform(Domain({"age": 3}), {"age": Column(["age"], [0, 0, 1])})
        >>> (rule,) = transform.zeros([zeros.impossible("age", [1, 2])])  # 0 and 1 become 0, of which 0 is possible
        >>> rule.mask(transform.after)
        array([False,  True])

        Raises:
            UnknownAttributeError, CodeRangeError, ShapeError, ArgumentError: a rule does not fit the attributes.
        """
        return tuple(push_rule(self, rule) for rule in rules if self.clique(rule.attributes))

    # -- workloads and measurements -----------------------------------------------------------------------------------

    def clique(self, clique: Iterable[str]) -> Clique:
        """Return the attributes after the transform that determine those of a clique before it."""
        return tuple(dict.fromkeys(after for name in clique for after in self._made_of[name]))

    def merging(self) -> Transform:
        """Return the object that defines how the cells of tables are merged, which is this transform."""
        return self

    def exactly(self, answers: LinearMeasurement) -> LinearMeasurement | None:
        """Return exact answers about the records after the transform; None if it recodes one of their attributes."""
        fixed = answers.without([name for name, rule in self.derived.items() if self.before[name] == 1])
        columns = [(name, self.columns.get(name)) for name in fixed.clique]
        return fixed if all(c and c.sources == (name,) and c.plain for name, c in columns) else None

    def sources(self, clique: Clique) -> Clique:
        """Return the attributes before the transform from which a clique after it is computed."""
        return tuple(source for name in clique for source in self.columns[name].sources)

    def cells(self, clique: Clique) -> tuple[Clique, np.ndarray]:
        """Return the sources of a clique after the transform, and the clique's cell for each cell of the sources.

        Both kinds of cells are row-major.
        """
        index = np.zeros((1,), dtype=np.int64)
        for column in (self.columns[name] for name in clique):
            index = (index[:, None] * column.size + column.codes.reshape(1, -1)).reshape(-1)
        return self.sources(clique), index

    def pull_back(self, measurement: LinearMeasurement) -> LinearMeasurement | None:
        """Return a measurement made after the transform as a measurement of attributes before it.

        Return None if the query is not a product of matrices of single attributes and would have more than
        `LARGEST_PULLED_BACK` columns, for example on five attributes of a hundred values that were recoded into two
        each.

        Raises:
            UnknownAttributeError: the clique has attributes that do not occur after the transform.
        """
        clique, asked = self.after.clique(measurement.clique), measurement.query
        columns = [self.columns[name] for name in clique]
        sources = self.sources(clique)
        if all(column.plain for column in columns) and (asked is None or asked.attributes is None):
            query: Any = asked
        elif (asked is None or isinstance(asked, Kron)) and all(len(column.sources) == 1 for column in columns):
            known = Kron({name: identity(self.after[name]) for name in clique}) if asked is None else asked
            factors = ((self.columns[name], factor) for name, factor in known.factors.items())
            query = Kron([(column.sources[0], _composed(factor, column)) for column, factor in factors])
        elif math.prod(column.codes.size for column in columns) > LARGEST_PULLED_BACK:
            return None
        else:
            from scipy import sparse

            _, index = self.cells(clique)
            cells = math.prod(column.size for column in columns)
            merging = sparse.csr_array((np.ones(index.size), (index, np.arange(index.size))), shape=(cells, index.size))
            query = merging if asked is None else asked.in_order(clique).matrix() @ merging
        return LinearMeasurement(measurement.values, sources, measurement.stddev, query, measurement.noise)

    def push(self, measurement: LinearMeasurement) -> LinearMeasurement:
        """Return a measured marginal of the sources of some columns as a marginal of these columns, by summing cells.

        Raises:
            DomainError: the measurement is not of a plain marginal, or its attributes are not exactly the sources of
                some columns.
        """
        clique = tuple(name for name, c in self.columns.items() if set(c.sources) & set(measurement.clique))
        sources, index = self.cells(clique)
        if measurement.query is not None or set(sources) != set(measurement.clique):
            raise DomainError(
                f"the measurement of {measurement.clique} cannot be recoded; it must be the marginal of all sources of "
                "some attributes after the transform."
            )
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


def _recoded(column: Column, data: Dataset) -> np.ndarray:
    """Return the codes of a column, without a copy if they are those of its source."""
    if column.plain and len(column.sources) == 1:
        return data.column(column.sources[0])
    return column.codes[tuple(data.column(name) for name in column.sources)]


def _composed(query: MatrixQuery, column: Column) -> MatrixQuery | np.ndarray:
    """Return a query on a column's codes as a query on the column's source."""
    if column.plain:
        return query
    codes = column.codes.reshape(-1)
    if isinstance(query, Identity):
        return compress(codes.size, codes.tolist(), column.size)
    if isinstance(query, Grouping):
        return compress(codes.size, query.groups[codes].tolist(), query.rows)
    return query.matrix()[:, codes]


def _drawn(column: Column, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a cell for each code by the shares, by inversion of the cumulative shares of the code's cells."""
    order = np.argsort(column.codes.reshape(-1), kind="stable")
    ends = np.cumsum(column.shares.reshape(-1)[order]) + 1e-12
    starts = np.searchsorted(column.codes.reshape(-1)[order], np.arange(column.size))
    base = np.concatenate([[0.0], ends])[starts]
    place = np.searchsorted(ends, base[codes] + rng.random(len(codes)) * (1 - 1e-9), side="right")
    last = np.append(starts[1:], order.size) - 1
    return order[np.clip(place, starts[codes], last[codes])]


def _add(tables: dict[Clique, np.ndarray], clique: Clique, table: np.ndarray) -> None:
    """Add a table to the first table whose clique contains its clique, or insert it."""
    for covering, values in tables.items():
        if set(clique) <= set(covering):
            axes = [clique.index(name) for name in covering if name in clique]
            shape = [size if name in clique else 1 for name, size in zip(covering, values.shape, strict=True)]
            tables[covering] = values + table.transpose(axes).reshape(shape)
            return
    tables[clique] = table
