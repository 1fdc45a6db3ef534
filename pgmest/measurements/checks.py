"""Checks of the arguments of a measurement: its attributes, query, answers and noise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pgmest.errors import DuplicateAttributeError, MeasurementError, QueryError, ShapeError, excerpt
from pgmest.measurements.labeled import shaped_like
from pgmest.queries import LinearQuery, as_query
from pgmest.queries.matrices import Identity
from pgmest.tables.domain import Clique, Domain

SMALLEST_STDDEV = 1e-150
"""The smallest standard deviation: one over the square of a much smaller one is infinite."""

LARGEST_ANSWER = 1e100
"""The largest absolute answer, standard deviation and total: squares of much larger numbers, and their sums, are
infinite."""


ROUNDING = 1e-9
"""The largest error by rounding of floating-point numbers, relative to the largest number."""


def checked_clique(attributes: Iterable[str] | str) -> Clique:
    """Return the attributes of a clique, given as one name or several.

    Raises:
        MeasurementError: an attribute is not a string.
        DuplicateAttributeError: an attribute is named twice.
    """
    names = (attributes,) if isinstance(attributes, str) else tuple(attributes)
    if not all(isinstance(name, str) for name in names):
        raise MeasurementError(f"a clique must consist of attribute names (strings), got {excerpt(attributes)}.")
    if len(set(names)) != len(names):
        raise DuplicateAttributeError.of(names, f"the clique {names}")
    return names


def checked_query(query: Any, clique: Clique, where: str) -> LinearQuery | None:
    """Return the query; None for identity.

    Raises:
        QueryError: the value is not a query.
        MeasurementError: the query is a Kron over other attributes.
    """
    if query is None:
        return None
    try:
        found = as_query(query)
    except QueryError as error:
        raise QueryError(f"{where}: {error}") from None
    if found.attributes is not None and set(found.attributes) != set(clique):
        raise MeasurementError(
            f"{where} has a Kron on {found.attributes}: it must be over exactly the clique's attributes. "
            "Leave the others out of the clique, or sum them out with pg.queries.total(n)."
        )
    return found


def is_identity(query: LinearQuery, clique: Clique) -> bool:
    """Return whether the answers of the query are the cells of the clique's table, in its order."""
    return query.attributes in (None, clique) and all(isinstance(matrix, Identity) for matrix in query.matrices)


def checked_answers(array: np.ndarray, query: LinearQuery | None, clique: Clique, where: str) -> np.ndarray:
    """Return the values as a read-only flat array, after checking their shape against the query or the clique.

    Raises:
        ShapeError: the shape does not fit.
        MeasurementError: there are no values, or one is too large.
    """
    if query is None and array.ndim not in (1, len(clique)):
        raise ShapeError.of(f"{where}: values", f"{clique} or flat".replace("'", ""), array.shape)
    if query is not None:
        shapes = {(query.rows,), query.answer_shape}
        if array.shape not in shapes and not (query.rows == 1 and array.shape == ()):
            raise ShapeError.of(
                f"{where}: values", " or ".join(map(str, sorted(shapes))), array.shape, "Give one value for each query."
            )
    if array.size == 0:
        raise MeasurementError(f"{where} has no values; give one for each query.")
    if np.abs(array).max() > LARGEST_ANSWER:
        raise MeasurementError(f"{where}: values must be counts of at most {LARGEST_ANSWER} in absolute value.")
    answers = array.reshape(-1).copy()
    answers.flags.writeable = False
    return answers


def checked_stddev(stddev: Any, shape: tuple[int, ...], where: str) -> float | np.ndarray:
    """Return the standard deviation: a number, or a read-only array with one number for each answer.

    Args:
        stddev: one number, or an array of the values' shape, or one that broadcasts to it.
        shape: the shape of the values.
        where: the name of the measurement in errors.

    Raises:
        ShapeError: the number of standard deviations is not the number of answers.
        MeasurementError: a standard deviation is not positive, or too large.
    """
    deviations = shaped_like(numbers(stddev, f"{where}: stddev"), shape, where)
    if (deviations < SMALLEST_STDDEV).any():
        raise MeasurementError(
            f"{where}: stddev must be positive (at least {SMALLEST_STDDEV}), got {float(deviations.min())}. "
            "For exact answers use LinearMeasurement.exact."
        )
    if (deviations > LARGEST_ANSWER).any():
        raise MeasurementError(f"{where}: stddev must be at most {LARGEST_ANSWER}, got {float(deviations.max())}.")
    if deviations.ndim == 0:
        return float(deviations)
    deviations = deviations.copy()
    deviations.flags.writeable = False
    return deviations


def check_fit(table: Domain, query: LinearQuery | None, shape: tuple[int, ...]) -> None:
    """Check that a query, or values of a shape, fit a marginal.

    Args:
        table: the attributes of the marginal, in the clique's order.
        query: the query; None for identity.
        shape: the shape of the table that the values are of, or (cells,).

    Raises:
        ShapeError: the values or the query have another number of cells.
        QueryError: a factor of a Kron has another number of values.
    """
    if query is not None and query.attributes is not None:
        query.check(table)
    elif query is not None and query.cells != table.size():
        raise ShapeError.of(
            f"the query measured on {table.attributes}",
            f"(rows, {table.size()})",
            query.shape,
            f"Give it one column for each of the {table.size()} cells of {dict(table)}, row-major.",
        )
    elif shape not in (table.shape, (table.size(),)):
        raise ShapeError.of(
            f"the values measured on {table.attributes}",
            table.shape,
            shape,
            f"Give one value for each of the {table.size()} cells of {dict(table)}, or name the query= answered.",
        )


def numbers(values: Any, what: str) -> np.ndarray:
    """Return finite numbers as a float64 array; `what` names them in errors.

    Raises:
        MeasurementError: the values are not real numbers, or not finite.
    """
    if np.ma.is_masked(values):
        raise MeasurementError(f"{what}: {np.ma.count_masked(values)} are masked. Give a number for each answer.")
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise MeasurementError(f"{what} must be real numbers, got {excerpt(values, 60)}.") from None
    finite = np.isfinite(array)
    if not finite.all():
        count, first = np.count_nonzero(~finite), np.argwhere(~finite)[0].tolist() or 0
        raise MeasurementError(f"{what}: {count} NaN or infinite, the first at index {first}. Give finite numbers.")
    return array


def masked_numbers(values: Any, what: str) -> np.ma.MaskedArray:
    """Return numbers, which may be NaN or infinite, as a float64 array with the mask of the cells that are left out.

    Raises:
        MeasurementError: the values are not real numbers.
    """
    try:
        given = values if np.ma.isMaskedArray(values) else np.asarray(values)
        if given.dtype.kind not in "biufO":
            raise TypeError
        hidden = np.ma.getmaskarray(given)
        return np.ma.array(np.where(hidden, 0, np.ma.getdata(given)).astype(np.float64), mask=hidden)
    except (TypeError, ValueError):
        raise MeasurementError(f"{what} must be real numbers, got {excerpt(values, 60)}.") from None


def check_finite(given: np.ma.MaskedArray, what: str) -> None:
    """Check that all numbers of a table that are not masked are finite.

    Raises:
        MeasurementError: a number is NaN or infinite.
    """
    wrong = ~np.isfinite(np.ma.filled(given, 0.0))
    if wrong.any():
        count, first = np.count_nonzero(wrong), np.argwhere(wrong)[0].tolist() or 0
        raise MeasurementError(
            f"{what}: {count} NaN or infinite, the first at index {first}. Give finite numbers, and mask unknown cells."
        )


def check_counts(given: np.ma.MaskedArray, query: Any, clique: Clique, where: str) -> None:
    """Check that no number is negative if the numbers are the counts of a table, or upper ends of them.

    Raises:
        MeasurementError: a count is negative.
    """
    checked = checked_query(query, clique, where)
    table = np.ma.filled(given, 0.0)
    negative = table < -ROUNDING * max(1.0, float(np.abs(table[np.isfinite(table)]).max(initial=0.0)))
    if (checked is None or is_identity(checked, clique)) and negative.any():
        first = np.argwhere(negative)[0].tolist() or 0
        raise MeasurementError(
            f"{where}: the count {float(table[negative][0]):.10g} at index {first} is negative. Counts are at least 0; "
            "name the query= that was answered if the values are no counts of the table."
        )
