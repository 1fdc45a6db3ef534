"""CliqueVector: one table for each clique, treated as one vector.

Potentials, marginals and gradients are clique vectors. All tables of a vector are stored in one flat array: solvers do
their arithmetic on that array, and an inference plan reads and writes it without copying.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from pgmest._base.memory import check_room
from pgmest.errors import ArgumentError, DomainError, PgmestError, ShapeError, UnknownAttributeError, plural
from pgmest.tables.domain import Clique, Domain, as_domain
from pgmest.tables.factor import Arithmetic, Factor, multiply


@dataclass(frozen=True)
class Layout:
    """The positions of the cliques' tables in the flat array: one table after the other, each row-major.

    A clique that is given twice is stored once, because a second table would repeat the same coordinates. The same
    attributes in another order are a different clique with another table.
    """

    domain: Domain
    cliques: tuple[Clique, ...]

    @classmethod
    def of(cls, domain: Domain, cliques: Iterable[Iterable[str]]) -> Layout:
        """Return the layout of the tables of `cliques`, in the order given."""
        return cls(domain, tuple(dict.fromkeys(domain.clique(clique) for clique in cliques)))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each table."""
        return tuple(self.domain.size(clique) for clique in self.cliques)

    @cached_property
    def offsets(self) -> np.ndarray:
        """The start of each table in the flat array, followed by the array's length; shape (n_cliques + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)]).astype(np.int64)

    @cached_property
    def cells(self) -> int:
        """The length of the flat array."""
        return sum(self.sizes)

    @cached_property
    def domains(self) -> tuple[Domain, ...]:
        """The domain of each table."""
        return tuple(self.domain.project(clique) for clique in self.cliques)

    @cached_property
    def index(self) -> dict[Clique, int]:
        """The position of each clique."""
        return {clique: position for position, clique in enumerate(self.cliques)}

    def find(self, clique: Iterable[str]) -> tuple[int, Clique]:
        """Return the position of the table over these attributes, and the attributes as a checked tuple.

        A table whose axes have the same order is preferred; otherwise any order matches.

        Raises:
            UnknownAttributeError: there is no table over these attributes.
        """
        names = self.domain.clique(clique)
        position = self.index.get(names)
        if position is None:
            position = self._by_set.get(frozenset(names))
        if position is None:
            raise UnknownAttributeError.no_table(names, self.cliques)
        return position, names

    def cover(self, clique: Clique) -> int:
        """Return the position of the clique itself if there is one, else of the smallest clique that contains it.

        Raises:
            UnknownAttributeError: no clique contains it.
        """
        if clique in self.index:
            return self.index[clique]
        holding = [self._holders.get(name, set()) for name in clique]
        covering = set.intersection(*holding) if holding else range(len(self.cliques))
        if not covering:
            raise UnknownAttributeError.no_table(clique, self.cliques)
        return min(covering, key=lambda position: (self.sizes[position], position))

    @cached_property
    def _holders(self) -> dict[str, set[int]]:
        """The positions of the cliques that contain each attribute."""
        holders: dict[str, set[int]] = {}
        for position, clique in enumerate(self.cliques):
            for name in clique:
                holders.setdefault(name, set()).add(position)
        return holders

    @cached_property
    def _by_set(self) -> dict[frozenset[str], int]:
        return {frozenset(clique): position for position, clique in reversed(list(enumerate(self.cliques)))}


class CliqueVector(Arithmetic, Mapping[Clique, Factor]):
    """A vector with one table for each clique, with addition, subtraction, scaling and a dot product.

    >>> domain = Domain({"a": 2, "b": 3, "c": 2})
    >>> theta = CliqueVector.zeros(domain, [("a", "b"), ("b", "c")])
    >>> theta[("b", "a")].domain.shape
    (3, 2)

    Args:
        domain: the attributes.
        tables: clique -> a Factor over the same attributes, or an array of the clique's shape.

    Raises:
        ShapeError: the shape of an array is not that of its clique.
        DomainError: a factor has other attributes than its clique, or other sizes.
        ArgumentError: two keys name the same clique.
    """

    __slots__ = ("flat", "layout")

    def __init__(self, domain: Domain | Mapping[str, int], tables: Mapping[Clique, Factor | Any]):
        self.layout: Layout = Layout.of(as_domain(domain), tables)
        if len(self.layout.cliques) != len(tables):
            raise ArgumentError(f"tables has two keys for the same clique ({list(tables)}); give each clique once.")
        values = np.empty(self.layout.cells)
        for (clique, table), start, end in zip(
            tables.items(), self.layout.offsets[:-1], self.layout.offsets[1:], strict=True
        ):
            values[start:end] = _table_values(self.layout.domain.project(clique), table)
        values.flags.writeable = False
        self.flat: np.ndarray = values

    @classmethod
    def of(cls, layout: Layout, values: np.ndarray) -> CliqueVector:
        """Return the vector whose flat array is `values`; contiguous float64 is not copied.

        Raises:
            ShapeError: the length of `values` is not that of the layout's flat array.
        """
        flat = np.asarray(values, dtype=np.float64, order="C").view()
        if flat.shape != (layout.cells,):
            raise ShapeError.of("the values of a clique vector", (layout.cells,), flat.shape)
        vector = cls.__new__(cls)
        vector.layout = layout
        flat.flags.writeable = False
        vector.flat = flat
        return vector

    @classmethod
    def zeros(cls, domain: Domain | Mapping[str, int], cliques: Iterable[Iterable[str]]) -> CliqueVector:
        """Return tables of zeros; as potentials they are the uniform distribution."""
        layout = _with_room(domain, cliques)
        return cls.of(layout, np.zeros(layout.cells))

    @classmethod
    def ones(cls, domain: Domain | Mapping[str, int], cliques: Iterable[Iterable[str]]) -> CliqueVector:
        """Return tables of ones."""
        layout = _with_room(domain, cliques)
        return cls.of(layout, np.ones(layout.cells))

    @classmethod
    def random(
        cls,
        domain: Domain | Mapping[str, int],
        cliques: Iterable[Iterable[str]],
        seed: int | np.random.Generator | None = None,
    ) -> CliqueVector:
        """Return tables of independent standard normal values."""
        layout = _with_room(domain, cliques)
        return cls.of(layout, np.random.default_rng(seed).standard_normal(layout.cells))

    @property
    def domain(self) -> Domain:
        """The domain of all attributes, including those in no clique."""
        return self.layout.domain

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques, each once, in the order given."""
        return self.layout.cliques

    def table(self, position: int) -> np.ndarray:
        """Return the table of the clique at `position`: a read-only view, axes in the clique's order."""
        start, end = self.layout.offsets[position : position + 2]
        return self.flat[start:end].reshape(self.layout.domains[position].shape)

    def expand(self, cliques: Iterable[Iterable[str]]) -> CliqueVector:
        """Return the same function of the records as tables on other cliques that cover the present ones.

        Each table is added to its own clique if that is among the new ones, else to the smallest new clique that
        contains it.

        Raises:
            UnknownAttributeError: no new clique contains one of the present cliques.
        """
        layout = Layout.of(self.domain, cliques)
        flat = np.zeros(layout.cells)
        for position, clique in enumerate(self.cliques):
            target = layout.cover(clique)
            start, end = layout.offsets[target : target + 2]
            table = self.table(position)
            if layout.cliques[target] != clique:
                factor = Factor.owning(self.layout.domains[position], table)
                table = factor.expand(layout.domains[target]).values
            flat[start:end] += table.reshape(-1)
        return CliqueVector.of(layout, flat)

    def dot(self, other: CliqueVector) -> float:
        """Return the sum of the products of all cells; 0 * -inf counts as 0.

        Raises:
            ArgumentError: `other` is not a CliqueVector.
            DomainError: the cliques differ.
        """
        if not isinstance(other, CliqueVector):
            raise ArgumentError.of("other", other, "a CliqueVector over the same cliques")
        right = self._conform(other)
        with np.errstate(invalid="ignore"):
            result = float(self.flat @ right)
            return float(multiply(self.flat, right).sum()) if np.isnan(result) else result

    def exp(self) -> CliqueVector:
        """Return the elementwise exponential."""
        return CliqueVector.of(self.layout, np.exp(self.flat))

    def log(self) -> CliqueVector:
        """Return the elementwise natural log; the log of 0 is -inf."""
        with np.errstate(divide="ignore"):
            return CliqueVector.of(self.layout, np.log(self.flat))

    def _combine(self, other: Any, operation: Callable[..., Any]) -> CliqueVector:
        if isinstance(other, CliqueVector):
            return CliqueVector.of(self.layout, operation(self.flat, self._conform(other)))
        if isinstance(other, Real | np.ndarray):
            return CliqueVector.of(self.layout, operation(self.flat, other))
        return NotImplemented

    def _conform(self, other: CliqueVector) -> np.ndarray:
        """Return the values of the other vector in this vector's layout.

        Raises:
            DomainError: the cliques or the domains differ.
        """
        if other.layout is self.layout or other.layout == self.layout:
            return other.flat
        if set(other.cliques) == set(self.cliques) and other.domain == self.domain:
            return np.concatenate([other[clique].datavector() for clique in self.cliques])
        raise DomainError(
            f"clique vectors over different cliques ({len(self.cliques)} and {len(other.cliques)}) cannot be combined; "
            "bring both to the same cliques with expand(...)."
        )

    def __neg__(self) -> CliqueVector:
        return CliqueVector.of(self.layout, -self.flat)

    def __getitem__(self, clique: Iterable[str]) -> Factor:
        """Return the table of a clique, axes in the order given.

        Raises:
            UnknownAttributeError: there is no table over these attributes in any order.
        """
        position, names = self.layout.find(clique)
        factor = Factor.owning(self.layout.domains[position], self.table(position))
        return factor if names == self.cliques[position] else factor.transpose(names)

    def __contains__(self, clique: object) -> bool:
        """Return whether there is a table over these attributes, in any order."""
        if not isinstance(clique, str | Iterable):
            return False
        try:
            self.layout.find(clique)
        except PgmestError:
            return False
        return True

    def __iter__(self) -> Iterator[Clique]:
        return iter(self.cliques)

    def __len__(self) -> int:
        return len(self.cliques)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CliqueVector) and (
            self.layout == other.layout and np.array_equal(self.flat, other.flat)
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return CliqueVector.of, (self.layout, np.array(self.flat))  # `of` makes the copy read-only

    def __repr__(self) -> str:
        return f"CliqueVector({len(self.cliques)} cliques, {self.layout.cells:,} cells: {list(self.cliques)[:6]})"


def _table_values(domain: Domain, table: Any) -> np.ndarray:
    """Return the cells of a factor or an array as a flat array, row-major in the order of `domain`."""
    if isinstance(table, Factor):
        if set(table.domain.items()) != set(domain.items()):
            raise DomainError(f"the table of clique {domain.attributes} must be over {domain}, got {table.domain}.")
        return table.transpose(domain.attributes).datavector()
    values = np.asarray(table, dtype=np.float64)
    if values.shape != domain.shape:
        raise ShapeError.of(f"the table of clique {domain.attributes}", domain.shape, values.shape)
    return values.reshape(-1)


def _with_room(domain: Domain | Mapping[str, int], cliques: Iterable[Iterable[str]]) -> Layout:
    """Return the layout of the cliques' tables, after checking that the tables fit into memory."""
    layout = Layout.of(as_domain(domain), cliques)
    check_room(f"the tables of {plural(len(layout.cliques), 'clique')}", layout.cells)
    return layout
