"""LinearMeasurement: noisy answers of linear queries about one marginal, and what is known of their noise."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pgmest._base.errors import (
    ArgumentError,
    MeasurementError,
    MeasurementShapeError,
)
from pgmest.measurements.checks import (
    LARGEST_ANSWER,
    SMALLEST_STDDEV,
    checked_answers,
    checked_clique,
    checked_query,
    checked_stddev,
    is_identity,
    numbers,
    table_values,
)
from pgmest.measurements.noise import NOISES, noise_scale, noise_stddev
from pgmest.queries import LinearQuery
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

__all__ = ["LARGEST_ANSWER", "NOISES", "SMALLEST_STDDEV", "LinearMeasurement", "noise_scale", "noise_stddev"]

BETWEEN = "between"
"""The kind of a measurement without noise, whose true answers are known to lie between two ends."""

EXACT_STDDEV = 0.05
"""What an exact answer counts for where only a standard deviation is asked: a twentieth of a record."""

ROUNDED_BY = 1e-9
"""Counts; ends computed from percentages are off by less."""

OPEN_STDDEV = 1e6
"""The same for an answer without an upper end."""


@dataclass(frozen=True, eq=False, init=False, repr=False)
class LinearMeasurement:
    """y = Q mu + noise, where mu is the marginal of counts on `clique`, row-major in the clique's order.

    >>> from pgmest import queries
    >>> LinearMeasurement([3.1, 7.8, 12.2], "age", stddev=2.0, query=queries.prefix(3))
    LinearMeasurement(age: 3 noisy answers, prefix(3), gaussian stddev 2)
    >>> LinearMeasurement([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], ("age", "sex"), stddev=10.0).values
    array([1., 2., 3., 4., 5., 6.])

    Args:
        values: the r noisy answers, in counts (not fractions). For identity also an array of the clique's shape or a
            Factor over its attributes in any order; for a Kron also an array of its shape.
        clique: the attributes of the marginal, or one name; () for the number of records.
        stddev: the noise's standard deviation in counts, a scalar or one for each answer. For discrete Gaussian noise
            the parameter sigma, which exceeds the standard deviation by less than 1e-6 of it from sigma = 1 upwards.
        query: None for identity; an (r, n) array, scipy sparse matrix, LinearOperator or `pgmest.queries` query with
            one column per cell of the clique; or a Kron over exactly the clique's attributes, in any order.
        noise: "gaussian", "laplace", "discrete_gaussian" or "discrete_laplace". Only likelihoods read it.

    `LinearMeasurement.exact`, `.rounded`, `.suppressed`, `.percentages` and `.between` make one of published answers
    without noise, `.swapped` one of a table whose records were swapped.

    Attributes:
        low, high: the ends of the true answers where `noise` is "between", else None.
        base: what answers were rounded to at random, which says how likely each count between the ends is; else None.

    Raises:
        MeasurementError: values or stddev that are not finite numbers, stddev not positive, a Kron on other attributes.
        MeasurementShapeError: values, stddev or query whose shapes do not fit together.
        QueryError: a query matrix that cannot be used.
        DuplicateAttributeError: the clique names an attribute twice.
        ArgumentError: an unknown noise kind.
    """

    values: np.ndarray
    clique: Clique
    stddev: float | np.ndarray = 1.0
    query: LinearQuery | None = None
    noise: str = "gaussian"
    low: np.ndarray | None = field(init=False, default=None)
    high: np.ndarray | None = field(init=False, default=None)
    base: float | None = field(init=False, default=None)
    _shape: tuple[int, ...] | None = field(init=False, repr=False)

    def __init__(
        self,
        values: Any,
        clique: Iterable[str] | str,
        stddev: Any = 1.0,
        query: Any = None,
        noise: str = "gaussian",
    ):
        if noise not in NOISES:
            raise ArgumentError.of("noise", noise, NOISES)
        names = checked_clique(clique)
        where = f"the measurement of {names}"
        checked = checked_query(query, names, where)
        array = numbers(table_values(values, names, checked, where), f"{where}: values")
        answers = checked_answers(array, checked, names, where)
        kept, table_shape = checked, array.shape if checked is None and array.ndim > 1 else None
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
            "_shape": table_shape,
        }.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "stddev", checked_stddev(stddev, self.rows, where))

    @classmethod
    def between(cls, low: Any, high: Any, clique: Iterable[str] | str, query: Any = None) -> LinearMeasurement:
        """Exact answers of which only ends are known, such as ranges, or counts that were top-coded (high = inf).

        `noise` is then "between" and `values` the middle of the ends (the lower end where the upper is open).

        >>> LinearMeasurement.between([3, 8], [7, 12], "sex")
        LinearMeasurement(sex: 2 answers, identity, between ends 4 apart)

        Args:
            low, high: the ends, in counts; a scalar or an array as `values` may be, low <= high. high may be inf.
            clique, query: as for a noisy measurement.

        Raises:
            MeasurementError: ends that are not numbers, low above high, or a lower end that is infinite.
        """
        below, above = np.broadcast_arrays(np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64))
        where = f"the measurement of {checked_clique(clique)}"
        if np.isnan(above).any() or not np.isfinite(below).all():
            raise MeasurementError(
                f"{where}: the ends must be numbers, and the lower ones finite; only high may be inf."
            )
        if (below > above).any():
            first = np.argwhere(below > above)[0].tolist()
            raise MeasurementError(f"{where}: low is above high at index {first}; give low <= high.")
        closed = np.isfinite(above)
        middle = np.where(closed, 0.5 * (below + np.where(closed, above, below)), below)
        widths = np.where(closed, (np.where(closed, above, below) - below) / math.sqrt(12.0), OPEN_STDDEV)
        made = cls(middle, clique, np.maximum(widths, EXACT_STDDEV).reshape(-1), query)
        for name, end in {"noise": BETWEEN, "low": below, "high": above}.items():
            kept = end if isinstance(end, str) else np.array(end, dtype=np.float64).reshape(-1)
            if isinstance(kept, np.ndarray):
                kept.flags.writeable = False
            object.__setattr__(made, name, kept)
        return made

    @classmethod
    def exact(cls, values: Any, clique: Iterable[str] | str, query: Any = None) -> LinearMeasurement:
        """Answers without noise or rounding, in counts; errors as for `between`."""
        return cls.between(values, values, clique, query)

    @classmethod
    def rounded(
        cls, values: Any, clique: Iterable[str] | str, base: float, query: Any = None, *, random: bool = False
    ) -> LinearMeasurement:
        """Whole numbers that were rounded to multiples of a base.

        Args:
            values: the published multiples, in counts.
            clique, query: as for a noisy measurement.
            base: the base, 1 or more. Rounding to the nearest multiple moves a whole number by at most base // 2.
            random: each was rounded to the multiple below or above at random, so that it moved by less than the base;
                without bias: to the one above with probability (count - below) / base. Then a count is the likelier the
                nearer it is to what was published, as likelihoods and posteriors know; bounds know the ends.

        Raises:
            MeasurementError: the base is not a number of at least 1, or values that are not numbers.
        """
        if isinstance(base, bool) or not 1 <= base < math.inf:
            raise MeasurementError(
                f"the measurement of {checked_clique(clique)}: base must be at least 1, got {base!r}."
            )
        reach = math.ceil(base) - 1 if random else math.floor(base / 2)
        middle = np.asarray(values, dtype=np.float64)
        low = middle - reach if query is not None else np.maximum(middle - reach, 0.0)
        made = cls.between(low, middle + reach, clique, query)
        if random and base > 1:
            object.__setattr__(made, "base", float(base))
        return made

    @classmethod
    def percentages(
        cls, values: Any, clique: Iterable[str] | str, of: Any, decimals: int = 0, query: Any = None
    ) -> LinearMeasurement:
        """Counts that were published as percentages, rounded to so many decimals.

        >>> LinearMeasurement.percentages([33, 67], "sex", of=120).low
        array([39., 80.])

        Args:
            values: the percentages, between 0 and 100.
            clique, query: as for a noisy measurement.
            of: the count that is 100 %: a number, or an array that broadcasts to the values, such as a column of the
                rows' totals.
            decimals: of the percentages.

        Raises:
            MeasurementError: values that are no percentages, totals that are not positive, or no number of decimals.
        """
        where = f"the measurement of {checked_clique(clique)}"
        shares, totals = numbers(values, f"{where}: values"), numbers(of, f"{where}: of")
        if isinstance(decimals, bool) or not isinstance(decimals, int | np.integer) or not 0 <= decimals <= 12:
            raise MeasurementError(f"{where}: decimals must be an integer from 0 to 12, got {decimals!r}.")
        if shares.size and (shares.min() < 0 or shares.max() > 100):
            raise MeasurementError(f"{where}: percentages must be between 0 and 100; counts need no percentages().")
        if not (totals > 0).all():
            raise MeasurementError(f"{where}: of must be positive, the count that is 100 %.")
        half = 0.5 * 10.0**-decimals
        low, high = (np.clip(shares + end, 0.0, 100.0) * totals / 100.0 for end in (-half, half))
        inner, outer = np.ceil(low - ROUNDED_BY), np.floor(high + ROUNDED_BY)
        whole = inner <= outer  # a count of records is a whole number, if it is one of records
        return cls.between(np.where(whole, inner, low), np.where(whole, outer, high), clique, query)

    @classmethod
    def swapped(
        cls, values: Any, clique: Iterable[str] | str, share: float, attributes: Iterable[str] | str
    ) -> LinearMeasurement:
        r"""Counts of records of which a share had some attributes swapped with those of other records.

        Swapping leaves the marginals of the swapped attributes, and of the others, as they are, and moves the rest of
        the table towards their product: with the share p, $E[y] = (1 - p) x + p \, x_g x_h / n$. The measurement is
        $(y - p \, y_g y_h / n) / (1 - p)$, which has no bias, with noise of variance
        $(p (1 - p) y + p \, y_g y_h / n) / (1 - p)^2$, taken to be Gaussian. Partners are taken to be chosen at random;
        where they are chosen to be alike less has moved, and the noise is stated too large.

        Args:
            values: the published counts, an array of the clique's shape.
            clique: the attributes of the table.
            share: of records that were swapped, below 1.
            attributes: those that were exchanged, such as the district; not all of the clique's.

        Raises:
            MeasurementError: a share that is none, values of another shape, or attributes that are not some of the
                clique's.
        """
        names = checked_clique(clique)
        where = f"the measurement of {names}"
        moved = checked_clique(attributes)
        if not moved or not set(moved) < set(names):
            raise MeasurementError(f"{where}: swapped attributes must be some, but not all, of the clique's.")
        if isinstance(share, bool) or not 0 <= share < 1:
            raise MeasurementError(f"{where}: share must be at least 0 and below 1, got {share!r}.")
        table = numbers(table_values(values, names, None, where), f"{where}: values")
        if table.ndim != len(names) or (table < 0).any() or not table.sum() > 0:
            raise MeasurementError(f"{where}: values must be counts, an array with an axis for each attribute.")
        axes = tuple(axis for axis, name in enumerate(names) if name in moved)
        others = tuple(axis for axis in range(table.ndim) if axis not in axes)
        product = table.sum(axis=axes, keepdims=True) * table.sum(axis=others, keepdims=True) / table.sum()
        variance = share * (1.0 - share) * table + share * product
        spread = np.maximum(np.sqrt(variance) / (1.0 - share), EXACT_STDDEV)
        return cls((table - share * product) / (1.0 - share), names, spread.reshape(-1))

    @classmethod
    def suppressed(
        cls, values: Any, clique: Iterable[str] | str, below: float, query: Any = None, *, least: float = 0.0
    ) -> LinearMeasurement:
        """Whole numbers of which those below a threshold were left out.

        Args:
            values: the published counts, exact; NaN where one was suppressed. +inf where it was suppressed to protect
                another (complementary suppression): then it may be any count.
            clique, query: as for a noisy measurement.
            below: counts below this were suppressed.
            least: the smallest count that is suppressed: 1 where zeros are published.

        Raises:
            MeasurementError: a published count below the threshold yet not below `least`, or values of no meaning.
        """
        table = np.asarray(values, dtype=np.float64)
        hidden, complementary = np.isnan(table), np.isposinf(table)
        if ((table < below) & (table >= max(least, 1.0))).any():
            raise MeasurementError(
                f"the measurement of {checked_clique(clique)}: a published value is below the threshold {below:g}; "
                "counts that were suppressed are NaN, and other exact ones belong into LinearMeasurement.exact."
            )
        low = np.where(hidden, least, np.where(complementary, 0.0, table))
        high = np.where(hidden, max(math.ceil(below) - 1, least), table)
        return cls.between(low, high, clique, query)

    @property
    def noisy(self) -> bool:
        """Whether the answers carry noise; else the true ones lie between `low` and `high`."""
        return self.noise != BETWEEN

    @property
    def published(self) -> np.ndarray | None:
        """The multiples of `base` that answers were rounded to; None where there is no base."""
        return None if self.base is None or self.high is None else self.high - (math.ceil(self.base) - 1)

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
        """The standard deviation where all answers share it, else None."""
        deviations = np.asarray(self.stddev)
        return float(deviations.flat[0]) if np.all(deviations == deviations.flat[0]) else None

    def check(self, domain: Domain) -> None:
        """See that the measurement fits a domain.

        Raises:
            UnknownAttributeError: the domain lacks an attribute of the clique.
            MeasurementShapeError: values or query made for another number of cells.
            QueryError: a factor of a Kron made for another number of values.
        """
        table = domain.project(self.clique)
        if self.query is not None and self.query.attributes is not None:
            self.query.check(table)
        elif self.query is not None and self.query.cells != table.size():
            raise MeasurementShapeError.of(
                f"the query measured on {self.clique}",
                f"(rows, {table.size()})",
                self.query.shape,
                f"Give it one column for each of the {table.size()} cells of {dict(table)}, row-major.",
            )
        elif self.query is None and (self._shape or (self.rows,)) not in (table.shape, (table.size(),)):
            raise MeasurementShapeError.of(
                f"the values measured on {self.clique}",
                table.shape,
                self._shape or (self.rows,),
                f"Give one value for each of the {table.size()} cells of {dict(table)}, or name the query= answered.",
            )

    def answer(self, marginal: Factor) -> np.ndarray:
        """The exact answers Q mu about a marginal in counts that covers the clique, shape (r,)."""
        return self.answer_cells(marginal.project(self.clique).datavector())

    def answer_cells(self, cells: np.ndarray) -> np.ndarray:
        """Q mu for the marginal's cells, row-major in the clique's order; for identity the same array."""
        return cells if self._reading is None else self._reading.apply(cells).reshape(-1)

    def transpose(self, residual: Any, domain: Domain | None = None) -> np.ndarray:
        """Q^T applied to one number per answer: one number per cell, as an array of the clique's shape.

        Where neither `domain`, nor a Kron, nor values given as a table tell that shape, the cells are in one row.
        """
        shape = self._shape if domain is None else domain.project(self.clique).shape
        if shape is None and self._reading is not None:
            shape = self._reading.table_shape
        cells = self.transpose_cells(np.asarray(residual, dtype=np.float64).reshape(-1))
        return cells if shape is None else cells.reshape(shape)

    def transpose_cells(self, residual: np.ndarray) -> np.ndarray:
        """Q^T residual as a flat array of cells, row-major in the clique's order; for identity the same array."""
        return residual if self._reading is None else self._reading.transpose(residual).reshape(-1)

    def weighted_column_squares(self, weights: Any) -> np.ndarray:
        """sum_r weights[r] * Q[r, j]^2 for each cell j, row-major in the clique's order; weights may be a scalar."""
        spread = np.broadcast_to(weights, (self.rows,))
        return spread if self._reading is None else self._reading.weighted_column_squares(spread).reshape(-1)

    @cached_property
    def column_squares(self) -> np.ndarray:
        """||W Q e_j||^2 for each cell j, with W = diag(1 / stddev): the diagonal of the L2 loss's Hessian.

        A LinearOperator is applied to each unit vector once; every other query costs one transposed product.
        """
        squares = self.weighted_column_squares(1.0 / np.square(self.stddev)).view()
        squares.flags.writeable = False
        return squares

    def max_column_norm(self) -> float:
        """max_j ||W Q e_j||_2 with W = diag(1 / stddev), exact for every query."""
        return float(np.sqrt(self.column_squares.max()))

    @cached_property
    def _reading(self) -> LinearQuery | None:
        """The query, as it reads the marginal's cells in the clique's order; None for identity."""
        return None if self.query is None else self.query.in_order(self.clique)

    def __repr__(self) -> str:
        query = "identity" if self.query is None else str(self.query)
        if not self.noisy:
            assert self.low is not None
            assert self.high is not None
            return _between_text(", ".join(self.clique) or "no attributes", query, self.high - self.low)
        uniform = self.uniform_stddev
        spread = f"{np.min(self.stddev):.4g} to {np.max(self.stddev):.4g}" if uniform is None else f"{uniform:.4g}"
        answers = "1 noisy answer" if self.rows == 1 else f"{self.rows:,} noisy answers"
        names = ", ".join(self.clique) or "no attributes"
        return f"LinearMeasurement({names}: {answers}, {query}, {self.noise} stddev {spread})"


def _between_text(names: str, query: str, widths: np.ndarray) -> str:
    answers = "1 answer" if len(widths) == 1 else f"{len(widths):,} answers"
    if not widths.any():
        return f"LinearMeasurement({names}: {answers}, {query}, exact)"
    spread = f"{widths.min():.4g}" if np.ptp(widths) == 0 else f"{widths.min():.4g} to {widths.max():.4g}"
    return f"LinearMeasurement({names}: {answers}, {query}, between ends {spread} apart)"
