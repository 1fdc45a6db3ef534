"""LinearMeasurement: answers to linear queries about one marginal, with their noise."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.measurements.checks import (
    LARGEST_ANSWER,
    SMALLEST_STDDEV,
    check_fit,
    checked_answers,
    checked_clique,
    checked_query,
    checked_stddev,
    is_identity,
    numbers,
)
from pgmest.measurements.labeled import in_code_order, labeled_like, without_masked
from pgmest.measurements.noise import NOISES, noise_scale, noise_stddev
from pgmest.measurements.published import between_text
from pgmest.measurements.published_answers import BETWEEN, PublishedAnswers
from pgmest.queries import Kron, LinearQuery
from pgmest.queries.levels import named_levels, without_levels
from pgmest.queries.matrices import Identity
from pgmest.queries.one_code import without_attributes
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

__all__ = ["LARGEST_ANSWER", "NOISES", "SMALLEST_STDDEV", "LinearMeasurement", "noise_scale", "noise_stddev"]


@dataclass(frozen=True, eq=False, init=False, repr=False)
class LinearMeasurement(PublishedAnswers):
    """Answers y = Q mu + noise, where mu is the marginal of counts on `clique`, row-major in the clique's order.

    >>> from pgmest import queries
    >>> LinearMeasurement([3.1, 7.8, 12.2], "age", stddev=2.0, query=queries.prefix(3))
    LinearMeasurement(age: 3 noisy answers, prefix(3), gaussian stddev 2)
    >>> LinearMeasurement([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], ("age", "sex"), stddev=10.0).values
    array([1., 2., 3., 4., 5., 6.])

    Args:
        values: the r noisy answers, in counts (not fractions). For identity, also an array of the clique's shape; for
            a Kron, also an array of its shape. A Factor, a pandas Series or DataFrame, or an xarray array is put in the
            order of the clique and of the codes by its names and labels, which must be attributes and codes. Masked
            cells of a table (`numpy.ma`) are left out.
        clique: the attributes of the marginal, or one name; () for the number of records.
        stddev: the noise's standard deviation in counts, a scalar or one for each answer, in the form of `values`. For
            discrete Gaussian noise, the parameter sigma, which for sigma >= 1 exceeds the standard deviation by a share
            of less than 1e-6.
        query: None for identity; an (r, n) array, scipy sparse matrix, LinearOperator or `pgmest.queries` query with
            one column per cell of the clique; or a Kron over exactly the clique's attributes, in any order.
        noise: "gaussian", "laplace", "discrete_gaussian" or "discrete_laplace". Only likelihoods use it.

    `LinearMeasurement.exact`, `.at_least`, `.at_most`, `.rounded`, `.suppressed`, `.percentages` and `.between` make
    measurements of published answers without noise; `.swapped` makes one of a table whose records were swapped.

    Attributes:
        low, high: the ends of the true answers if `noise` is "between", otherwise None.
        base: the base of random rounding, which determines how likely each count between the ends is; otherwise None.
        stated_total: the number of records that was published with the answers, as for percentages; otherwise None.

    Raises:
        MeasurementError: values or stddev are not finite numbers, stddev is not positive, a Kron is over other
            attributes, or the names and labels of a table are not the clique's attributes and codes.
        ShapeError: the shapes of values, stddev and query do not fit together.
        QueryError: the query is not valid.
        DuplicateAttributeError: the clique names an attribute twice.
        ArgumentError: the noise kind is unknown.
    """

    values: np.ndarray
    clique: Clique
    stddev: float | np.ndarray = 1.0
    query: LinearQuery | None = None
    noise: str = "gaussian"
    low: np.ndarray | None = field(init=False, default=None)
    high: np.ndarray | None = field(init=False, default=None)
    base: float | None = field(init=False, default=None)
    stated_total: float | None = field(init=False, default=None)
    _shape: tuple[int, ...] | None = field(init=False, repr=False)

    def __init__(
        self, values: Any, clique: Iterable[str] | str, stddev: Any = 1.0, query: Any = None, noise: str = "gaussian"
    ):
        if noise not in NOISES:
            raise ArgumentError.of("noise", noise, NOISES)
        names = checked_clique(clique)
        where = f"the measurement of {names}"
        checked = checked_query(query, names, where)
        table, spread = values, labeled_like(stddev, values)
        table, spread = (in_code_order(given, names, checked, where) for given in (table, spread))
        table, spread, shown, whole_shape = without_masked(table, spread, checked, where)
        checked = checked if shown is None else checked_query(shown, names, where)
        array = numbers(table, f"{where}: values")
        answers = checked_answers(array, checked, names, where)
        kept, table_shape = checked, array.shape if checked is None and array.ndim > 1 else whole_shape
        if checked is not None and is_identity(checked, names):
            kept, table_shape = None, checked.answer_shape
        for name, value in {
            "clique": names,
            "query": kept,
            "noise": noise,
            "values": answers,
            "low": None,
            "high": None,
            "base": None,
            "stated_total": None,
            "_shape": table_shape,
        }.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "stddev", checked_stddev(spread, array.shape, where))

    def without_levels(self, domain: Domain) -> LinearMeasurement:
        """Return the same answers to queries on attributes, where the clique or a Kron names levels of hierarchies.

        Raises:
            UnknownAttributeError, DuplicateAttributeError, QueryError: the levels do not fit.
        """
        if not domain.names_levels(self.clique):
            return self
        if isinstance(self.query, Kron):
            query, _ = without_levels(domain, self.query)
        else:
            query, _ = without_levels(domain, self.query, self.clique)
        return self._about(tuple(one.attribute for one in named_levels(domain, self.clique)), query)

    def without(self, attributes: Collection[str]) -> LinearMeasurement:
        """Return the same answers to queries on the cells without some attributes of one code."""
        query, clique = without_attributes(self.query, self.clique, attributes)
        return self if clique == self.clique else self._about(clique, query)

    def _about(self, clique: Clique, query: LinearQuery | None) -> LinearMeasurement:
        """Return the same answers to a query on a clique."""
        found = object.__new__(LinearMeasurement)
        for one in fields(self):  # and none of the cached properties, which are about other cells
            object.__setattr__(found, one.name, getattr(self, one.name))
        for name, value in (("clique", clique), ("query", query), ("_shape", None)):
            object.__setattr__(found, name, value)
        return found

    @property
    def noisy(self) -> bool:
        """True if the answers have noise; otherwise the true answers lie between `low` and `high`."""
        return self.noise != BETWEEN

    @property
    def exact_rows(self) -> np.ndarray:
        """True for the answers that are facts, known without noise or rounding: those with `low` equal to `high`."""
        if self.low is None or self.high is None:
            return np.zeros(self.rows, dtype=bool)
        return self.low == self.high

    @property
    def published(self) -> np.ndarray | None:
        """The published multiples of `base`; None without a base."""
        return None if self.base is None else self.values

    @property
    def rows(self) -> int:
        """The number of answers r."""
        return len(self.values)

    @property
    def cells(self) -> int:
        """The number of cells of the marginal that the query reads."""
        return self.rows if self.query is None else self.query.cells

    @property
    def uniform_stddev(self) -> float | None:
        """The standard deviation if all answers have the same one, otherwise None."""
        deviations = np.asarray(self.stddev)
        return float(deviations.flat[0]) if np.all(deviations == deviations.flat[0]) else None

    def check(self, domain: Domain) -> None:
        """Check that the measurement fits a domain.

        Raises:
            UnknownAttributeError: the domain lacks an attribute of the clique.
            ShapeError: the values or the query have another number of cells.
            QueryError: a factor of a Kron has another number of values.
        """
        check_fit(domain.project(self.clique), self.query, self._shape or (self.cells,))

    def answer(self, marginal: Factor) -> np.ndarray:
        """Return the exact answers Q mu for a marginal in counts that covers the clique, shape (r,)."""
        return self.answer_cells(marginal.project(self.clique).datavector())

    def answer_cells(self, cells: np.ndarray) -> np.ndarray:
        """Return Q mu for the marginal's cells, row-major in the clique's order; for identity the same array."""
        return cells if self._ordered_query is None else self._ordered_query.apply(cells).reshape(-1)

    def transpose(self, residual: Any, domain: Domain | None = None) -> np.ndarray:
        """Return Q^T applied to one number per answer, as an array of the clique's shape.

        The shape follows from `domain`, a Kron, or values that were given as a table; otherwise the result is flat.
        """
        shape = self._shape if domain is None else domain.project(self.clique).shape
        if shape is None and self._ordered_query is not None:
            shape = self._ordered_query.table_shape
        cells = self.transpose_cells(np.asarray(residual, dtype=np.float64).reshape(-1))
        return cells if shape is None else cells.reshape(shape)

    def transpose_cells(self, residual: np.ndarray) -> np.ndarray:
        """Return Q^T residual by cell, flat and row-major in the clique's order; for identity the same array."""
        return residual if self._ordered_query is None else self._ordered_query.transpose(residual).reshape(-1)

    def sparse_rows(self, rows: np.ndarray | None = None) -> Any:
        """Return some rows of Q, by default all, as a csr_array; cells are row-major in the clique's order."""
        from scipy.sparse import csr_array, eye_array

        query = self._ordered_query
        if query is not None and not isinstance(query, Identity):
            return query.sparse_rows(rows)
        whole = csr_array(eye_array(self.cells))
        return whole if rows is None else whole[rows]

    def weighted_column_squares(self, weights: Any) -> np.ndarray:
        """Return sum_r weights[r] * Q[r, j]^2 for each cell j, row-major in the clique's order.

        The weights may be a scalar.
        """
        by_row, query = np.broadcast_to(weights, (self.rows,)), self._ordered_query
        return by_row if query is None else query.weighted_column_squares(by_row).reshape(-1)

    @cached_property
    def column_squares(self) -> np.ndarray:
        """The diagonal of the Hessian of the L2 loss: ||W Q e_j||^2 for each cell j, with W = diag(1 / stddev).

        A LinearOperator is applied to each unit vector once; other queries cost one transposed product.
        """
        squares = self.weighted_column_squares(1.0 / np.square(self.stddev)).view()
        squares.flags.writeable = False
        return squares

    def max_column_norm(self) -> float:
        """Return max_j ||W Q e_j||_2 with W = diag(1 / stddev), which is exact for every query."""
        return float(np.sqrt(self.column_squares.max()))

    @cached_property
    def _ordered_query(self) -> LinearQuery | None:
        """The query on the marginal's cells in the clique's order; None for identity."""
        return None if self.query is None else self.query.in_order(self.clique)

    def __repr__(self) -> str:
        query = "identity" if self.query is None else str(self.query)
        if not self.noisy:
            assert self.low is not None
            assert self.high is not None
            answers = between_text(query, self.high - self.low)
            return f"LinearMeasurement({', '.join(self.clique) or 'no attributes'}: {answers})"
        uniform = self.uniform_stddev
        spread = f"{np.min(self.stddev):.4g} to {np.max(self.stddev):.4g}" if uniform is None else f"{uniform:.4g}"
        answers = "1 noisy answer" if self.rows == 1 else f"{self.rows:,} noisy answers"
        names = ", ".join(self.clique) or "no attributes"
        return f"LinearMeasurement({names}: {answers}, {query}, {self.noise} stddev {spread})"
