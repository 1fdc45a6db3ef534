"""LinearMeasurement: answers to linear queries about one marginal, with their noise."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, MeasurementError, excerpt
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
from pgmest.measurements.labeled import in_code_order, labeled_like, totals_in_order, without_masked
from pgmest.measurements.noise import NOISES, noise_scale, noise_stddev
from pgmest.measurements.published import (
    EXACT_STDDEV,
    between_text,
    check_percentages,
    check_swap,
    checked_ends,
    middles,
    percentage_ends,
    suppressed_ends,
    unswapped,
    without_nobody,
)
from pgmest.queries import Kron, LinearQuery
from pgmest.queries.levels import named_levels, without_levels
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

__all__ = ["LARGEST_ANSWER", "NOISES", "SMALLEST_STDDEV", "LinearMeasurement", "noise_scale", "noise_stddev"]

BETWEEN = "between"
"""The noise kind of measurements without noise, whose true answers lie between two known ends."""


@dataclass(frozen=True, eq=False, init=False, repr=False)
class LinearMeasurement:
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
        MeasurementShapeError: the shapes of values, stddev and query do not fit together.
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
        found = object.__new__(LinearMeasurement)
        for one in fields(self):  # and none of the cached properties, which are about other cells
            object.__setattr__(found, one.name, getattr(self, one.name))
        object.__setattr__(found, "clique", tuple(one.attribute for one in named_levels(domain, self.clique)))
        object.__setattr__(found, "query", query)
        return found

    @classmethod
    def between(
        cls, low: Any, high: Any, clique: Iterable[str] | str, query: Any = None, *, total: float | None = None
    ) -> LinearMeasurement:
        """Make a measurement of true answers between two known ends, such as ranges or top-coded counts (high = inf).

        Its `noise` is "between", and its `values` are the middles of the ends (the lower ends if `high` is inf).

        >>> LinearMeasurement.between([3, 8], [7, 12], "sex")
        LinearMeasurement(sex: 2 answers, identity, between ends 4 apart)

        Args:
            low, high: the ends, in counts, low <= high: scalars, or arrays of the same shapes as `values`. An upper end
                may be inf.
            clique, query: as for a noisy measurement.
            total: the number of records that was published with the table, if any.

        Raises:
            MeasurementError: an end is not a number, a lower end is infinite, low is above high, or the total is not a
                number of at least 0.
        """
        names = checked_clique(clique)
        where = f"the measurement of {names}"
        ends = [labeled_like(low, high), labeled_like(high, low)]
        ends = [np.ma.asanyarray(in_code_order(end, names, query, where), dtype=np.float64) for end in ends]
        below, above, hidden = checked_ends(ends[0], ends[1], where)
        number = isinstance(total, int | float | np.number) and not isinstance(total, bool)
        if total is not None and not (number and 0 <= total <= LARGEST_ANSWER):
            raise MeasurementError(f"{where}: total must be a number of at least 0, got {excerpt(total)}.")
        middle, spread = middles(below, above)
        made = cls(np.ma.array(middle, mask=hidden) if hidden.any() else middle, clique, spread.reshape(-1), query)
        for name, end in {"low": below, "high": above}.items():
            kept = end[~hidden]
            kept.flags.writeable = False
            object.__setattr__(made, name, kept)
        object.__setattr__(made, "noise", BETWEEN)
        object.__setattr__(made, "stated_total", None if total is None else float(total))
        return made

    @classmethod
    def exact(cls, values: Any, clique: Iterable[str] | str, query: Any = None) -> LinearMeasurement:
        """Make a measurement of exact answers, in counts, without noise or rounding.

        Estimates hold them to 1e-9 of the total beside noise of any size, and synthetic records hold them as whole
        numbers. `estimate` refuses exact answers that contradict each other. Errors as for `between`.
        """
        return cls.between(values, values, clique, query)

    @classmethod
    def at_least(cls, values: Any, clique: Iterable[str] | str, query: Any = None) -> LinearMeasurement:
        """Make a measurement of true answers that are known to be at least some values, in counts.

        Estimates hold these up to a fraction of a record, and synthetic records hold them as whole numbers. Differences
        are bounded by a query with negative entries: in a table of persons and households by area, at least as many
        persons as households is `at_least([0], ("area", "kind"), [[1, -1]])` for one area. Errors as for `between`.

        >>> LinearMeasurement.at_least([1, 5], "sex").low
        array([1., 5.])
        """
        return cls.between(values, math.inf, clique, query)

    @classmethod
    def at_most(cls, values: Any, clique: Iterable[str] | str, query: Any = None) -> LinearMeasurement:
        """Make a measurement of true answers that are known to be at most some values, in counts.

        It is kept as `at_least` with the negative query: Q x <= b says that -Q x >= -b. Errors as for `between`.
        """
        from scipy.sparse import eye_array

        upper = cls.at_least(values, clique, query)
        assert upper.low is not None
        matrix = eye_array(upper.rows) if upper._ordered_query is None else upper._ordered_query.matrix()
        return cls.at_least(-upper.low, upper.clique, -1.0 * matrix)

    @classmethod
    def rounded(
        cls, values: Any, clique: Iterable[str] | str, base: float, query: Any = None, *, random: bool = False
    ) -> LinearMeasurement:
        """Make a measurement of whole numbers that were rounded to multiples of a base.

        Args:
            values: the published multiples, in counts.
            clique, query: as for a noisy measurement.
            base: the base, at least 1. Rounding to the nearest multiple moves a whole number by at most base // 2.
            random: whether each number was rounded to the multiple below or above at random and without bias, that is
                to the one above with probability (count - below) / base. Then it moved by less than the base, and
                counts close to the published multiple are more likely, which likelihoods and posteriors use; and the
                `values` of the measurement are the published multiples, with the standard deviation of the rounding,
                base / sqrt(6).

        Raises:
            MeasurementError: the base is not a number of at least 1, or a value is not a number.
        """
        if isinstance(base, bool) or not 1 <= base < math.inf:
            raise MeasurementError(
                f"the measurement of {checked_clique(clique)}: base must be at least 1, got {base!r}."
            )
        reach = math.ceil(base) - 1 if random else math.floor(base / 2)
        names = checked_clique(clique)
        middle = np.ma.asanyarray(in_code_order(values, names, query, f"the measurement of {names}"), dtype=np.float64)
        low = middle - reach if query is not None else np.ma.maximum(middle - reach, 0.0)
        made = cls.between(low, middle + reach, clique, query)
        if random and base > 1:
            published = made.high - reach if made.high is not None else made.values
            published.flags.writeable = False
            for name, value in {"base": float(base), "values": published, "stddev": base / math.sqrt(6.0)}.items():
                object.__setattr__(made, name, value)
        return made

    @classmethod
    def percentages(
        cls, values: Any, clique: Iterable[str] | str, of: Any, decimals: int = 0, query: Any = None
    ) -> LinearMeasurement:
        """Make a measurement of counts that were published as rounded percentages.

        >>> LinearMeasurement.percentages([33, 67], "sex", of=120).low
        array([39., 80.])

        Args:
            values: the percentages, between 0 and 100; NaN or 0 of a total of 0.
            clique, query: as for a noisy measurement.
            of: the count that is 100 %: a number, an array that broadcasts to the values, such as a column of row
                totals, or a Series or Factor of totals that is named after attributes of the clique. If the percentages
                of each total can add up to 100, the totals are those of all records, and their sum is the
                `stated_total` of the measurement.
            decimals: the number of decimals to which the percentages were rounded, from 0 to 12.

        Raises:
            MeasurementError: a value is not between 0 and 100, or has more decimals; a total is negative, or 0 with a
                positive percentage; or `decimals` is invalid.
            MeasurementShapeError: the totals do not broadcast to the values.
        """
        names = checked_clique(clique)
        where = f"the measurement of {names}"
        given = np.ma.asanyarray(in_code_order(values, names, query, where))
        hidden, totals = np.ma.getmask(given), numbers(totals_in_order(of, names, query, where), f"{where}: of")
        shares = np.ma.filled(given, 0) if np.any(hidden) else np.ma.getdata(given)
        shares = numbers(without_nobody(shares, totals, where), f"{where}: values")
        check_percentages(shares, totals, decimals, where)
        low, high, stated = percentage_ends(shares, totals, int(decimals), hidden, whole_table=query is None)
        return cls.between(np.ma.array(low, mask=hidden), high, clique, query, total=stated)

    @classmethod
    def swapped(
        cls, values: Any, clique: Iterable[str] | str, share: float, attributes: Iterable[str] | str
    ) -> LinearMeasurement:
        r"""Make a measurement of counts of records, a share of which exchanged some attributes with other records.

        Swapping changes neither the marginal $x_g$ of the swapped attributes nor that of the others, $x_h$. It moves
        the table towards their product: with the share p, $E[y] = (1 - p) x + p \, x_g x_h / n$. The measurement is
        $(y - p \, y_g y_h / n) / (1 - p)$, which has no bias, with noise of variance
        $(p (1 - p) y + p \, y_g y_h / n) / (1 - p)^2$, taken to be Gaussian. Partners are assumed to be chosen at
        random. If partners are chosen for similarity, the table has moved less and the stated noise is too large.

        Args:
            values: the published counts, an array of the clique's shape.
            clique: the attributes of the table.
            share: the share of records that were swapped, at least 0 and below 1.
            attributes: the attributes that were exchanged, such as the district; some but not all of the clique's.

        Raises:
            MeasurementError: the share is out of range, the values have another shape, or `attributes` are not some,
                but not all, of the clique's.
        """
        names = checked_clique(clique)
        where = f"the measurement of {names}"
        moved = checked_clique(attributes)
        table = numbers(in_code_order(values, names, None, where), f"{where}: values")
        check_swap(table, names, moved, share, where)
        corrected, spread = unswapped(table, tuple(axis for axis, name in enumerate(names) if name in moved), share)
        return cls(corrected, names, np.maximum(spread, EXACT_STDDEV).reshape(-1))

    @classmethod
    def suppressed(
        cls, values: Any, clique: Iterable[str] | str, below: float, query: Any = None, *, least: float = 0.0
    ) -> LinearMeasurement:
        """Make a measurement of whole numbers that were suppressed below a threshold.

        Args:
            values: the exact published counts. NaN is a suppressed count; +inf is a count of any size that was
                suppressed to protect another one (complementary suppression).
            clique, query: as for a noisy measurement.
            below: the threshold; smaller counts were suppressed.
            least: the smallest suppressed count; 1 if zeros are published.

        Raises:
            MeasurementError: a published count is below the threshold but not below `least`, or a value is not a count.
        """
        names = checked_clique(clique)
        where = f"the measurement of {names}"
        try:
            given = np.ma.asanyarray(in_code_order(values, names, query, where), dtype=np.float64)
        except (TypeError, ValueError):
            raise MeasurementError(
                f"{where}: values must be numbers, got {excerpt(values, 60)}. Give suppressed counts as NaN."
            ) from None
        low, high = suppressed_ends(np.ma.filled(given, np.inf), below, least, where)
        return cls.between(np.ma.array(low, mask=np.ma.getmask(given)), high, clique, query)

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
            MeasurementShapeError: the values or the query have another number of cells.
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
