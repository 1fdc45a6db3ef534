"""Codes: the check that a column of values is one of integers in 0..n-1, and how such a column is stored.

A mistake is reported with its column, its row (counted from 0) and its value.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from pgmest.errors import CodeRangeError, DataError, ShapeError
from pgmest.tables.domain import Domain

MOST_COUNTED = 2**53
"""The largest number of records, or sum of weights: up to here every sum of whole numbers is exact in float64."""


def code_type(size: int) -> np.dtype[Any]:
    """Return the smallest unsigned integer type that holds 0..size-1 (64 bits for sizes beyond any type)."""
    return np.min_scalar_type(min(size, 2**64) - 1)


def code_columns(codes: np.ndarray | Sequence[Any], domain: Domain) -> list[np.ndarray]:
    """Return one array per attribute, all of the same length."""
    if isinstance(codes, np.ndarray):
        if codes.ndim != 2 or codes.shape[1] != len(domain):
            raise ShapeError.of("codes", f"(records, {len(domain)})", codes.shape, "Give one column per attribute.")
        return list(codes.T)
    columns = [np.asarray(column) for column in codes]
    if len(columns) != len(domain):
        raise ShapeError.of("codes, a list of columns", (len(domain),), (len(columns),), "Give one per attribute.")
    for name, column in zip(domain, columns, strict=True):
        if column.shape != columns[0].shape or column.ndim != 1:
            expected = f"({len(columns[0])},)" if columns[0].ndim else "(records,)"
            raise ShapeError.of(f"column '{name}'", expected, column.shape, "Give one code per record and attribute.")
    return columns


def as_codes(values: np.ndarray, column: str, size: int) -> np.ndarray:
    """Return a copy of a column of values as codes, shape (records,), of type `code_type(size)`.

    Integers and booleans are codes, and so are whole numbers of another type; text never is.

    Raises:
        DataError: a value is not a whole number.
        CodeRangeError: one is not in 0..size-1.
    """
    if values.dtype.kind == "f":
        _check(np.isfinite(values) & (values == np.floor(values)), values, column, size, DataError.not_a_code)
    elif values.dtype.kind not in "iub":
        return _scalars_as_codes(values, column, size)
    if len(values) and not (values.min() >= 0 and values.max() < size):
        _check((values >= 0) & (values < size), values, column, size, CodeRangeError.of)
    return values.astype(code_type(size), order="C")


def as_weights(weights: Any, records: int) -> np.ndarray:
    """Return a read-only copy of the weights as float64, shape (records,).

    Raises:
        DataError: a weight is no number, negative, or not finite; or they are too many for exact counts.
        ShapeError: there is not one per record.
    """
    remedy = "Weights are finite numbers of at least 0, one per record."
    try:
        values = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"the weights are not numbers ({error}). {remedy}") from None
    if values.shape != (records,):
        raise ShapeError.of("weights", (records,), values.shape, remedy)
    bad = ~((values >= 0) & np.isfinite(values))
    if bad.any():
        row = int(bad.argmax())
        raise DataError(f"the weight in row {row} is {values[row]}. {remedy}")
    check_countable(math.fsum(values))
    return read_only(values)


def check_countable(total: float) -> None:
    """Raise DataError if a number of records, or a sum of weights, is too large for exact counts.

    Raises:
        DataError: it is not.
    """
    if total >= MOST_COUNTED:
        raise DataError(
            f"the table holds {total:.6g} records (or weight) in all, but counts are exact only below 2**53, about "
            "9e15. Scale the weights down, or count a part of the table at a time."
        )


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view that cannot be written through."""
    view = array.view()
    view.flags.writeable = False
    return view


def _check(valid: np.ndarray, values: np.ndarray, column: str, size: int, error: Any) -> None:
    if not valid.all():
        row = int(valid.argmin())
        raise error(column, row, values[row].item(), size)


def _scalars_as_codes(values: np.ndarray, column: str, size: int) -> np.ndarray:
    """Return the codes of a column of Python objects, text, dates, ..., one value at a time."""
    is_plain = values.dtype.kind in "OUST"  # of anything else, such as dates, tolist would make numbers
    items = values.tolist() if is_plain else [str(value) for value in values]
    codes = [_whole(item) for item in items]
    bad = [row for row, code in enumerate(codes) if code is None]
    if bad:
        row = _telling(bad, items)
        raise DataError.not_a_code(column, row, items[row], size)
    for row, code in enumerate(codes):
        if not 0 <= code < size:  # type: ignore[operator]
            raise CodeRangeError.of(column, row, items[row], size)
    return np.array(codes, dtype=code_type(size))


def _whole(value: object) -> int | None:
    """Return the value as an integer; None if it is not a whole number."""
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, (numbers.Real, Decimal)) and math.isfinite(value) and value % 1 == 0:
        return int(value)  # type: ignore[arg-type]
    return None


def _telling(rows: Sequence[int], items: Sequence[object]) -> int:
    """Return the first of the rows whose value is not even the text of an integer.

    One such value turns a whole column of a file into text.
    """
    for row in rows:
        text = items[row]
        if not (isinstance(text, str) and text.strip().lstrip("-").isdigit()):
            return row
    return rows[0]
