"""CliqueVector: one table per clique, seen as one vector.

Potentials, marginals and gradients are clique vectors. All tables of a vector lie in one flat array, so that the
algebra of the solvers is the algebra of that array, and an inference plan can run on it without copying.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from pgmest._base.errors import ArgumentError, DomainError, PgmestError, ShapeError, UnknownCliqueError, plural
from pgmest._base.memory import check_room
from pgmest.tables.domain import Clique, Domain, as_domain
from pgmest.tables.factor import Factor, divide, multiply, subtract_logs


@dataclass(frozen=True)
class Layout:
    """Where each clique's table lies in the flat array: cliques one after the other, each row-major.

    A clique given twice is kept once: its second table would be the same coordinates again. The same attributes
    in another order are another table.
    """

    domain: Domain
    cliques: tuple[Clique, ...]

    @classmethod
    def of(cls, domain: Domain, cliques: Iterable[Iterable[str]]) -> Layout:
        return cls(domain, tuple(dict.fromkeys(domain.clique(clique) for clique in cliques)))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each table."""
        return tuple(self.domain.size(clique) for clique in self.cliques)

    @cached_property
    def offsets(self) -> np.ndarray:
        """Where each table starts, and at the end where the last one stops (shape (n_cliques + 1,))."""
        return np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)]).astype(np.int64)

    @cached_property
    def cells(self) -> int:
        """Length of the flat array."""
        return sum(self.sizes)

    @cached_property
    def domains(self) -> tuple[Domain, ...]:
        """The domain of each table."""
        return tuple(self.domain.project(clique) for clique in self.cliques)

    @cached_property
    def index(self) -> dict[Clique, int]:
        """Position of each clique."""
        return {clique: position for position, clique in enumerate(self.cliques)}

    def find(self, clique: Iterable[str]) -> tuple[int, Clique]:
        """Position of the table over these attributes, and the attributes as asked for; any order matches."""
        names = self.domain.clique(clique)
        position = self.index.get(names)
        if position is None:
            position = self._by_set.get(frozenset(names))
        if position is None:
            raise UnknownCliqueError.of(names, self.cliques)
        return position, names

    def cover(self, clique: Clique) -> int:
        """Position of the clique itself if it is there, else of the smallest one that holds its attributes.

        Raises:
            UnknownCliqueError: no clique does.
        """
        if clique in self.index:
            return self.index[clique]
        holding = [self._holders.get(name, set()) for name in clique]
        covering = set.intersection(*holding) if holding else range(len(self.cliques))
        if not covering:
            raise UnknownCliqueError.of(clique, self.cliques)
        return min(covering, key=lambda position: (self.sizes[position], position))

    @cached_property
    def _holders(self) -> dict[str, set[int]]:
        """For each attribute the positions of the cliques that hold it."""
        holders: dict[str, set[int]] = {}
        for position, clique in enumerate(self.cliques):
            for name in clique:
                holders.setdefault(name, set()).add(position)
        return holders

    @cached_property
    def _by_set(self) -> dict[frozenset[str], int]:
        return {frozenset(clique): position for position, clique in reversed(list(enumerate(self.cliques)))}


class CliqueVector(Mapping[Clique, Factor]):
    """A vector with one table per clique; it adds, subtracts, scales and has a dot product.

    >>> domain = Domain({"a": 2, "b": 3, "c": 2})
    >>> theta = CliqueVector.zeros(domain, [("a", "b"), ("b", "c")])
    >>> theta[("b", "a")].domain.shape
    (3, 2)

    Args:
        domain: the attributes.
        tables: clique -> Factor over the same attributes, or array of that clique's shape.

    Raises:
        ShapeError: an array of another shape than its clique's.
        DomainError: a factor over other attributes than its clique's, or with other sizes.
        ArgumentError: two keys for the same clique.
    """

    __slots__ = ("flat", "layout")
    __array_priority__ = 1000

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
        """The vector whose tables are consecutive stretches of `values`; contiguous float64 is not copied."""
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
        """Tables of zeros: as potentials, the uniform distribution."""
        layout = _with_room(domain, cliques)
        return cls.of(layout, np.zeros(layout.cells))

    @classmethod
    def ones(cls, domain: Domain | Mapping[str, int], cliques: Iterable[Iterable[str]]) -> CliqueVector:
        """Tables of ones."""
        layout = _with_room(domain, cliques)
        return cls.of(layout, np.ones(layout.cells))

    @classmethod
    def random(
        cls,
        domain: Domain | Mapping[str, int],
        cliques: Iterable[Iterable[str]],
        seed: int | np.random.Generator | None = None,
    ) -> CliqueVector:
        """Tables of independent standard normal values."""
        layout = _with_room(domain, cliques)
        return cls.of(layout, np.random.default_rng(seed).standard_normal(layout.cells))

    @property
    def domain(self) -> Domain:
        """All the attributes, those in no clique included."""
        return self.layout.domain

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques, each once, in the order given."""
        return self.layout.cliques

    def table(self, position: int) -> np.ndarray:
        """The table of the clique at `position`, a read-only view in that clique's own axis order."""
        start, end = self.layout.offsets[position : position + 2]
        return self.flat[start:end].reshape(self.layout.domains[position].shape)

    def expand(self, cliques: Iterable[Iterable[str]]) -> CliqueVector:
        """The same function of the records, written on other cliques that cover these ones.

        Each table is added to the smallest new clique that holds its attributes, the clique itself if it is there.

        Raises:
            UnknownCliqueError: some clique fits into none of the new ones.
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
        """The sum over all cells of all cliques of the products; 0 * -inf counts as 0."""
        if not isinstance(other, CliqueVector):
            raise ArgumentError.of("other", other, "a CliqueVector over the same cliques")
        right = self._conform(other)
        with np.errstate(invalid="ignore"):
            result = float(self.flat @ right)
            return float(multiply(self.flat, right).sum()) if np.isnan(result) else result

    def exp(self) -> CliqueVector:
        """Elementwise exponential."""
        return CliqueVector.of(self.layout, np.exp(self.flat))

    def log(self) -> CliqueVector:
        """Elementwise natural log; the log of 0 is -inf."""
        with np.errstate(divide="ignore"):
            return CliqueVector.of(self.layout, np.log(self.flat))

    def _combine(self, other: Any, operation: Callable[..., Any]) -> CliqueVector:
        if isinstance(other, CliqueVector):
            return CliqueVector.of(self.layout, operation(self.flat, self._conform(other)))
        if isinstance(other, Real | np.ndarray):
            return CliqueVector.of(self.layout, operation(self.flat, other))
        return NotImplemented

    def _conform(self, other: CliqueVector) -> np.ndarray:
        """The other vector's values in this one's layout."""
        if other.layout is self.layout or other.layout == self.layout:
            return other.flat
        if set(other.cliques) == set(self.cliques) and other.domain == self.domain:
            return np.concatenate([other[clique].datavector() for clique in self.cliques])
        raise DomainError(
            f"clique vectors over different cliques ({len(self.cliques)} and {len(other.cliques)}) cannot be combined; "
            "bring both to the same cliques with expand(...)."
        )

    def __add__(self, other: CliqueVector | float) -> CliqueVector:
        return self._combine(other, np.add)

    def __sub__(self, other: CliqueVector | float) -> CliqueVector:
        """Difference; -inf - -inf is -inf."""
        return self._combine(other, subtract_logs)

    def __mul__(self, other: CliqueVector | float) -> CliqueVector:
        """Product, cell by cell; 0 * -inf is 0."""
        return self._combine(other, multiply)

    def __truediv__(self, other: CliqueVector | float) -> CliqueVector:
        """Quotient, cell by cell; 0/0 is 0."""
        return self._combine(other, divide)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: float) -> CliqueVector:
        return self._combine(other, lambda left, right: subtract_logs(right, left))

    def __neg__(self) -> CliqueVector:
        return CliqueVector.of(self.layout, -self.flat)

    def __getitem__(self, clique: Iterable[str]) -> Factor:
        """The table of a clique; the attributes may be asked for in any order."""
        position, names = self.layout.find(clique)
        factor = Factor.owning(self.layout.domains[position], self.table(position))
        return factor if names == self.cliques[position] else factor.transpose(names)

    def __contains__(self, clique: object) -> bool:
        """Whether there is a table over these attributes, in any order."""
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
        return CliqueVector.of, (self.layout, np.array(self.flat))  # a copy, which comes back read-only, too

    def __repr__(self) -> str:
        return f"CliqueVector({len(self.cliques)} cliques, {self.layout.cells:,} cells: {list(self.cliques)[:6]})"


def _table_values(domain: Domain, table: Any) -> np.ndarray:
    if isinstance(table, Factor):
        if set(table.domain.items()) != set(domain.items()):
            raise DomainError(f"the table of clique {domain.attributes} must be over {domain}, got {table.domain}.")
        return table.transpose(domain.attributes).datavector()
    values = np.asarray(table, dtype=np.float64)
    if values.shape != domain.shape:
        raise ShapeError.of(f"the table of clique {domain.attributes}", domain.shape, values.shape)
    return values.reshape(-1)


def _with_room(domain: Domain | Mapping[str, int], cliques: Iterable[Iterable[str]]) -> Layout:
    layout = Layout.of(as_domain(domain), cliques)
    check_room(f"the tables of {plural(len(layout.cliques), 'clique')}", layout.cells)
    return layout
