"""PublishedAnswers: the constructors of measurements of published answers, which have no noise, or that of swapping."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pgmest.errors import MeasurementError, excerpt
from pgmest.measurements.checks import (
    LARGEST_ANSWER,
    ROUNDING,
    check_counts,
    check_finite,
    checked_clique,
    masked_numbers,
    numbers,
)
from pgmest.measurements.labeled import in_code_order, labeled_like, totals_in_order
from pgmest.measurements.published import (
    EXACT_STDDEV,
    check_percentages,
    check_swap,
    checked_ends,
    middles,
    percentage_ends,
    suppressed_ends,
    unswapped,
    without_nobody,
)

if TYPE_CHECKING:
    from pgmest.queries import LinearQuery
    from pgmest.tables.domain import Clique

BETWEEN = "between"
"""The noise kind of measurements without noise, whose true answers lie between two known ends."""


class PublishedAnswers:
    """The part of `LinearMeasurement` that makes measurements of published answers.

    All but `swapped` make measurements whose `noise` is "between": the true answers lie between two known ends.
    """

    if TYPE_CHECKING:  # parts of LinearMeasurement
        values: np.ndarray
        clique: Clique
        query: LinearQuery | None
        low: np.ndarray | None
        high: np.ndarray | None

        def __init__(self, values: Any, clique: Iterable[str] | str, stddev: Any = 1.0, query: Any = None): ...

    @classmethod
    def between(
        cls, low: Any, high: Any, clique: Iterable[str] | str, query: Any = None, *, total: float | None = None
    ) -> Self:
        """Make a measurement of true answers between two known ends, such as ranges or top-coded counts (high = inf).

        Its `noise` is "between", and its `values` are the middles of the ends (the lower ends if `high` is inf).

        >>> import pgmest as pg
        >>> pg.LinearMeasurement.between([3, 8], [7, 12], "sex")
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
        given = {"low": labeled_like(low, high), "high": labeled_like(high, low)}
        ends = [
            masked_numbers(in_code_order(end, names, query, where), f"{where}: {name}") for name, end in given.items()
        ]
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
    def exact(cls, values: Any, clique: Iterable[str] | str, query: Any = None) -> Self:
        """Make a measurement of exact answers, in counts, without noise or rounding.

        Estimates hold them to 1e-9 of the total beside noise of any size, and synthetic records hold them as whole
        numbers. `estimate` refuses exact answers that contradict each other. A negative count of a table is refused;
        other errors as for `between`.
        """
        given = cls._finite(values, clique, query, counts=True)
        return cls.between(given, given, clique, query)

    @staticmethod
    def _finite(values: Any, clique: Iterable[str] | str, query: Any, counts: bool = False) -> np.ma.MaskedArray:
        """Return published values in the order of the codes; check that they are finite, and not negative if counts."""
        names = checked_clique(clique)
        where = f"the measurement of {names}"
        given = masked_numbers(in_code_order(values, names, query, where), f"{where}: values")
        check_finite(given, f"{where}: values")
        if counts:
            check_counts(given, query, names, where)
        return given

    @classmethod
    def at_least(cls, values: Any, clique: Iterable[str] | str, query: Any = None) -> Self:
        """Make a measurement of true answers that are known to be at least some values, in counts.

        Estimates hold these up to a fraction of a record, and synthetic records hold them as whole numbers. Differences
        are bounded by a query with negative entries: in a table of persons and households by area, at least as many
        persons as households is `at_least([0], ("area", "kind"), [[1, -1]])` for one area. Errors as for `between`.

        >>> import pgmest as pg
        >>> pg.LinearMeasurement.at_least([1, 5], "sex").low
        array([1., 5.])
        """
        return cls.between(cls._finite(values, clique, query), math.inf, clique, query)

    @classmethod
    def at_most(cls, values: Any, clique: Iterable[str] | str, query: Any = None) -> Self:
        """Make a measurement of true answers that are known to be at most some values, in counts.

        It is kept as `at_least` with the negative query: Q x <= b says that -Q x >= -b. Errors as for `between`.
        """
        from scipy.sparse import eye_array

        upper = cls.at_least(cls._finite(values, clique, query, counts=True), clique, query)
        assert upper.low is not None
        matrix = eye_array(len(upper.low)) if upper.query is None else upper.query.in_order(upper.clique).matrix()
        return cls.at_least(-upper.low, upper.clique, -1.0 * matrix)

    @classmethod
    def rounded(
        cls, values: Any, clique: Iterable[str] | str, base: float, query: Any = None, *, random: bool = False
    ) -> Self:
        """Make a measurement of whole numbers that were rounded to multiples of a base.

        Args:
            values: the published multiples, in counts.
            clique, query: as for a noisy measurement.
            base: the base, at least 1. Rounding to the nearest multiple moves a whole number by at most base // 2.
            random: whether each number was rounded to the multiple below or above at random and without bias, that is
                to the one above with probability (count - below) / base. Then it moved by less than the base, and
                counts close to the published multiple are more likely, which likelihoods and intervals use; and the
                `values` of the measurement are the published multiples, with the standard deviation of the rounding,
                base / sqrt(6).

        Raises:
            MeasurementError: the base is not a number of at least 1, a value is not a number or not a multiple of the
                base, or a count is negative.
        """
        names = checked_clique(clique)
        where = f"the measurement of {names}"
        number = isinstance(base, int | float | np.number) and not isinstance(base, bool)
        if not number or not 1 <= base < math.inf:
            raise MeasurementError(f"{where}: base must be at least 1, got {excerpt(base)}.")
        reach = math.ceil(base) - 1 if random else math.floor(base / 2)
        middle = cls._finite(values, clique, query, counts=True)
        multiples = np.ma.filled(middle, 0.0) / base
        wrong = np.abs(multiples - np.round(multiples)) > ROUNDING * np.maximum(1.0, np.abs(multiples))
        if wrong.any():
            first = np.argwhere(wrong)[0].tolist() or 0
            raise MeasurementError(
                f"{where}: the value {float(np.ma.getdata(middle)[wrong][0]):.10g} at index {first} is no multiple of "
                f"the base {base:g}. Give the base of the rounding; LinearMeasurement.exact takes exact values."
            )
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
    ) -> Self:
        """Make a measurement of counts that were published as rounded percentages.

        >>> import pgmest as pg
        >>> pg.LinearMeasurement.percentages([33, 67], "sex", of=120).low
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
            ShapeError: the totals do not broadcast to the values.
        """
        names = checked_clique(clique)
        where = f"the measurement of {names}"
        given = masked_numbers(in_code_order(values, names, query, where), f"{where}: values")
        hidden, totals = np.ma.getmaskarray(given), numbers(totals_in_order(of, names, query, where), f"{where}: of")
        shares = np.ma.filled(given, 0) if np.any(hidden) else np.ma.getdata(given)
        shares = numbers(without_nobody(shares, totals, where), f"{where}: values")
        check_percentages(shares, totals, decimals, where)
        low, high, stated = percentage_ends(shares, totals, int(decimals), hidden, whole_table=query is None)
        return cls.between(np.ma.array(low, mask=hidden), high, clique, query, total=stated)

    @classmethod
    def swapped(cls, values: Any, clique: Iterable[str] | str, share: float, attributes: Iterable[str] | str) -> Self:
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
    ) -> Self:
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
            given = in_code_order(values, names, query, where)
            given = given if np.ma.isMaskedArray(given) else np.asarray(given)
            if given.dtype.kind not in "biufO":
                raise TypeError
            given = np.ma.asanyarray(given, dtype=np.float64)  # None is NaN
        except (TypeError, ValueError):
            raise MeasurementError(
                f"{where}: values must be numbers, got {excerpt(values, 60)}. Give suppressed counts as NaN."
            ) from None
        for name, limit in {"below": below, "least": least}.items():
            if isinstance(limit, bool) or not isinstance(limit, int | float | np.number) or not 0 <= limit < math.inf:
                raise MeasurementError(f"{where}: {name} must be a number of at least 0, got {excerpt(limit)}.")
        check_counts(given, query, names, where)
        low, high = suppressed_ends(np.ma.filled(given, np.inf), below, least, where)
        return cls.between(np.ma.array(low, mask=np.ma.getmask(given)), high, clique, query)
