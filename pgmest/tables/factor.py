"""Factor: a dense table labeled by attributes, and its algebra.

A factor is any array whose axes are attributes: a potential (logs), a marginal (counts or probabilities) or the answer
to a query. Binary operations broadcast by attribute name, so the order of the axes does not change the result.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, Self, SupportsIndex

import numpy as np

from pgmest._base.html import html_table
from pgmest.errors import CodeRangeError, DomainError, ShapeError
from pgmest.tables.domain import Domain, as_domain
from pgmest.tables.hierarchy import NamedLevel

SHOWN_CELLS = 60
"""A notebook shows at most this many cells of a table; more would fill the page."""

Operand = float | np.integer | np.floating | np.ndarray
"""The numbers and arrays with which tables are combined, cell by cell."""


class Arithmetic:
    """Elementwise arithmetic in which two structural zeros never give NaN; subclasses say how tables are combined."""

    __slots__ = ()
    __array_priority__ = 1000

    def _combine(self, other: Any, operation: Callable[..., Any]) -> Any:
        """Return operation(self, other), or NotImplemented for another type."""
        raise NotImplementedError

    def __add__(self, other: Self | Operand) -> Self:
        return self._combine(other, np.add)

    def __sub__(self, other: Self | Operand) -> Self:
        """Return the difference; -inf - -inf is -inf, the log of 0/0 := 0."""
        return self._combine(other, subtract_logs)

    def __mul__(self, other: Self | Operand) -> Self:
        """Return the product, cell by cell; 0 * -inf is 0."""
        return self._combine(other, multiply)

    def __truediv__(self, other: Self | Operand) -> Self:
        """Return the quotient, cell by cell; 0/0 is 0, as for a conditional probability given an impossible event."""
        return self._combine(other, divide)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Operand) -> Self:
        return self._combine(other, lambda left, right: subtract_logs(right, left))

    def __rtruediv__(self, other: Operand) -> Self:
        return self._combine(other, lambda left, right: divide(right, left))


class Factor(Arithmetic):
    """A table over the attributes of `domain`, one axis per attribute in domain order.

    >>> f = Factor(Domain({"a": 2, "b": 3}), [[1, 2, 3], [4, 5, 6]])
    >>> f.project(("b",)).values
    array([5., 7., 9.])

    Args:
        domain: the attributes of the axes, in order.
        values: an array of shape `domain.shape`, stored read-only as float64; a writeable array is copied.

    Raises:
        ShapeError: the shape of `values` is not `domain.shape`.
    """

    __slots__ = ("domain", "values")

    def __init__(self, domain: Domain | Mapping[str, int], values: Any):
        array = np.asarray(values, dtype=np.float64)
        copied = array.copy(order="K") if array.flags.writeable and array is values else array
        self._hold(as_domain(domain), copied)

    def reshaped(self, domain: Domain) -> Factor:
        """Return the same values, in their order, with other axes.

        Raises:
            ShapeError: the domain has another number of cells.
        """
        fits = domain.size() == self.values.size
        return Factor.owning(domain, self.values.reshape(domain.shape) if fits else self.values)

    @classmethod
    def owning(cls, domain: Domain | Mapping[str, int], values: Any) -> Factor:
        """Return a factor that takes ownership of an array without copying it.

        The caller must not write to the array afterwards.

        Raises:
            ShapeError: the shape of `values` is not `domain.shape`.
        """
        factor = cls.__new__(cls)
        known = domain if type(domain) is Domain else as_domain(domain)
        factor._hold(known, np.asarray(values, dtype=np.float64))
        return factor

    def _hold(self, domain: Domain, values: np.ndarray) -> None:
        """Store a read-only view of `values`, after checking its shape."""
        array = values.view()
        if array.shape != domain.shape:
            raise ShapeError.of(
                f"factor over {domain.attributes}", domain.shape, array.shape, "Reshape or transpose it."
            )
        array.flags.writeable = False
        self.domain: Domain = domain
        self.values: np.ndarray = array

    @classmethod
    def zeros(cls, domain: Domain | Mapping[str, int]) -> Factor:
        """Return a factor of zeros; as a potential it is the uniform distribution."""
        return cls.owning(domain, np.zeros(as_domain(domain).shape))

    @classmethod
    def ones(cls, domain: Domain | Mapping[str, int]) -> Factor:
        """Return a factor of ones."""
        return cls.owning(domain, np.ones(as_domain(domain).shape))

    @classmethod
    def random(cls, domain: Domain | Mapping[str, int], seed: int | np.random.Generator | None = None) -> Factor:
        """Return a factor of independent uniform values in [0, 1)."""
        return cls.owning(domain, np.random.default_rng(seed).random(as_domain(domain).shape))

    # -- reductions ---------------------------------------------------------------------------------------------

    def project(self, attributes: Iterable[str]) -> Factor:
        """Sum out every other attribute; the axes are in the order given.

        A name may be a level of an attribute whose hierarchy the domain knows, such as "diagnosis@chapter".
        """
        if self.domain.hierarchies:
            wanted = (attributes,) if isinstance(attributes, str) else tuple(attributes)
            if self.domain.names_levels(wanted):
                return self._by_level([self.domain.level(name) for name in wanted])
            attributes = wanted
        names = self.domain.clique(attributes)
        return self._reduce(np.sum, self.domain.without(names)).transpose(names)

    def _by_level(self, levels: Sequence[NamedLevel]) -> Factor:
        """Return the sums over the groups of some attributes."""
        table = self.project([one.attribute for one in levels])
        values = table.values
        for axis, one in enumerate(levels):
            if one.groups is not None:
                order = np.argsort(one.groups, kind="stable")
                starts = np.searchsorted(one.groups[order], np.arange(int(one.groups.max()) + 1))
                values = np.add.reduceat(np.take(values, order, axis=axis), starts, axis=axis)
        return Factor.owning(dict(zip([one.name for one in levels], values.shape, strict=True)), values)

    def sum(self, attributes: Iterable[str] | None = None) -> Factor:
        """Sum out `attributes` (by default all)."""
        return self._reduce(np.sum, attributes)

    def max(self, attributes: Iterable[str] | None = None) -> Factor:
        """Maximize out `attributes` (by default all)."""
        return self._reduce(np.max, attributes)

    def logsumexp(self, attributes: Iterable[str] | None = None) -> Factor:
        """Sum out `attributes` (by default all) of a table of logs; a row of -inf stays -inf."""

        def reduction(values: np.ndarray, axis: tuple[int, ...]) -> np.ndarray:
            shift = np.max(values, axis=axis, keepdims=True)
            shift = np.where(np.isfinite(shift), shift, 0.0)
            with np.errstate(divide="ignore"):
                return np.log(np.sum(np.exp(values - shift), axis=axis)) + np.squeeze(shift, axis=axis)

        return self._reduce(reduction, attributes)

    def _reduce(self, reduction: Callable[..., Any], attributes: Iterable[str] | None) -> Factor:
        names = self.domain.attributes if attributes is None else self.domain.clique(attributes)
        return Factor.owning(self.domain.without(names), reduction(self.values, axis=self.domain.axes(names)))

    # -- shape --------------------------------------------------------------------------------------------------

    def transpose(self, attributes: Iterable[str]) -> Factor:
        """Return the table with its axes in the order given.

        Raises:
            DomainError: `attributes` leaves out an attribute of the factor.
        """
        names = self.domain.clique(attributes)
        if names == self.domain.attributes:
            return self
        if len(names) != len(self.domain):
            raise DomainError(f"cannot transpose a factor over {self.domain.attributes} to {names}; name each axis.")
        return Factor.owning(self.domain.project(names), self.values.transpose(self.domain.axes(names)))

    def expand(self, domain: Domain | Mapping[str, int]) -> Factor:
        """Return the table as a function of more attributes, constant along the new ones; nothing is copied.

        Raises:
            UnknownAttributeError: `domain` lacks one of the factor's attributes.
            DomainError: an attribute has another size in `domain`.
        """
        domain = as_domain(domain)
        self.domain.merge(domain.project(self.domain.attributes))
        return Factor.owning(domain, np.broadcast_to(self._aligned(domain), domain.shape))

    def condition(self, evidence: Mapping[str, SupportsIndex]) -> Factor:
        """Return the slice at the given codes, over the other attributes.

        >>> Factor(Domain({"a": 2, "b": 3}), [[1, 2, 3], [4, 5, 6]]).condition({"a": 1}).values
        array([4., 5., 6.])

        Raises:
            CodeRangeError: a code is not an integer, or lies outside its attribute's range.
        """
        index: list[Any] = [slice(None)] * len(self.domain)
        for axis, (name, code) in zip(self.domain.axes(evidence), evidence.items(), strict=True):
            if not hasattr(code, "__index__") or not 0 <= operator.index(code) < self.domain[name]:
                raise CodeRangeError.in_evidence(name, code, self.domain[name])
            index[axis] = operator.index(code)
        return Factor.owning(self.domain.without(evidence), self.values[tuple(index)])

    def datavector(self) -> np.ndarray:
        """Return the cells as a one-dimensional array, row-major in domain order."""
        return self.values.reshape(-1)

    def _aligned(self, domain: Domain) -> np.ndarray:
        """Return the values with one axis for each attribute of `domain`, of length 1 if this factor lacks it."""
        order = sorted(range(len(self.domain)), key=lambda axis: domain.attributes.index(self.domain.attributes[axis]))
        shape = tuple(self.domain.get(name, 1) for name in domain)
        return self.values.transpose(order).reshape(shape)

    # -- algebra ------------------------------------------------------------------------------------------------

    def _combine(self, other: Any, operation: Callable[..., Any]) -> Factor:
        """Return operation(self, other), broadcast by attribute name; `other` is a factor, a number or an array."""
        if isinstance(other, Real | np.ndarray):
            return Factor.owning(self.domain, operation(self.values, other))
        if not isinstance(other, Factor):
            return NotImplemented
        if self.domain == other.domain:
            return Factor.owning(self.domain, operation(self.values, other.values))
        domain = self.domain.merge(other.domain)
        return Factor.owning(domain, operation(self._aligned(domain), other._aligned(domain)))

    def __neg__(self) -> Factor:
        return Factor.owning(self.domain, -self.values)

    def exp(self) -> Factor:
        """Return the elementwise exponential."""
        return Factor.owning(self.domain, np.exp(self.values))

    def log(self) -> Factor:
        """Return the elementwise natural log; the log of 0 is -inf."""
        with np.errstate(divide="ignore"):
            return Factor.owning(self.domain, np.log(self.values))

    def normalize(self, total: float = 1.0) -> Factor:
        """Return the factor scaled to sum to `total`.

        Raises:
            DomainError: the factor sums to zero, NaN or infinity, so no scaling reaches `total`.
        """
        mass = self.values.sum()
        if mass == 0 or not np.isfinite(mass):
            raise DomainError(
                f"a factor over {self.domain.attributes} that sums to {mass:.3g} cannot be normalized to {total:.6g}; "
                "its values must be finite and not all zero."
            )
        return Factor.owning(self.domain, self.values / mass * total)  # total / mass could overflow

    def __float__(self) -> float:
        """Return the value of a factor of one cell.

        Raises:
            ShapeError: the factor has more cells.
        """
        if self.values.size != 1:
            raise ShapeError(
                f"a factor over {self.domain.attributes} has {self.values.size:,} cells, so it is not one number; "
                "use sum(), max() or project(...)."
            )
        return float(self.values.item())

    def __reduce__(self) -> tuple[Any, ...]:
        return Factor.owning, (self.domain, np.array(self.values))  # `owning` makes the copy read-only

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype) if copy else np.asarray(self.values, dtype=dtype)

    def to_frame(self, labels: Any = None, name: str = "count") -> Any:
        """Return the cells as a pandas DataFrame: a row for each cell (row-major), a column for each attribute and one
        for the values.

        >>> Factor({"sex": 2}, [3, 4]).to_frame({"sex": ["F", "M"]}).to_dict("list")
        {'sex': ['F', 'M'], 'count': [3.0, 4.0]}

        Args:
            labels: the labels of the codes: a mapping of attribute to list of labels, or a schema; None shows codes.
            name: the name of the column of values.

        Raises:
            ShapeError: the number of labels of an attribute is not its number of codes.
        """
        import pandas as pd

        codes = np.indices(self.domain.shape).reshape(len(self.domain), -1)
        columns: dict[str, Any] = {}
        for (attribute, size), found in zip(self.domain.items(), codes, strict=True):
            shown = _labels_of(labels, attribute)
            if shown is not None and len(shown) != size:
                raise ShapeError.of(f"labels of '{attribute}'", (size,), (len(shown),), "Give one for each code.")
            columns[attribute] = found if shown is None else np.array([*shown, None], dtype=object)[:-1][found]
        return pd.DataFrame({**columns, name: self.values.reshape(-1)})

    def _repr_html_(self) -> str:
        cells = self.values.reshape(-1)
        codes = np.indices(self.domain.shape).reshape(len(self.domain), -1).T[:SHOWN_CELLS]
        rows = [(*map(str, place), f"{cell:,.6g}") for place, cell in zip(codes, cells, strict=False)]
        more = f"{cells.size:,} cells in all" if cells.size > SHOWN_CELLS else ""
        return html_table((*self.domain.attributes, "value"), rows, more)

    def __repr__(self) -> str:
        return f"Factor({dict(self.domain)}, values={np.array2string(self.values, threshold=12, edgeitems=2)})"


# -- arithmetic in which two structural zeros never give NaN -----------------------------------------------------------


def subtract_logs(left: Any, right: Any) -> Any:
    """Return left - right with -inf - -inf := -inf, the log of 0/0 := 0."""
    return _repaired(np.subtract, left, right, lambda result: np.where(np.isneginf(left), -np.inf, result))


def multiply(left: Any, right: Any) -> Any:
    """Return left * right with 0 * -inf := 0, as in p log p; potentials times 0 are the uniform distribution."""
    return _repaired(np.multiply, left, right, lambda result: np.where((left == 0) | (right == 0), 0.0, result))


def divide(left: Any, right: Any) -> Any:
    """Return left / right with 0/0 := 0."""
    return _repaired(np.divide, left, right, lambda result: np.where((left == 0) & (right == 0), 0.0, result))


def _repaired(operation: np.ufunc, left: Any, right: Any, repair: Callable[[Any], Any]) -> Any:
    """Return operation(left, right), with undefined cells replaced by `repair`.

    The processor sets its "invalid" flag for undefined cells, so the ordinary case needs no pass over the result.
    """
    try:
        with np.errstate(invalid="raise", divide="ignore"):
            return operation(left, right)
    except FloatingPointError:
        with np.errstate(invalid="ignore", divide="ignore"):
            return repair(operation(left, right))


def _labels_of(labels: Any, attribute: str) -> Any:
    """Return the labels of an attribute from a mapping or a schema, or None if codes are shown."""
    if labels is None:
        return None
    return labels.get(attribute) if isinstance(labels, Mapping) else labels.labels(attribute)
