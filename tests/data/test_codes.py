"""Columns of values as codes: what counts as one, and how a mistake is reported."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from pgmest.data.codes import as_codes, as_weights, code_type, read_only
from pgmest.errors import CodeRangeError, DataError, ShapeError


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (1, np.uint8),
        (256, np.uint8),
        (257, np.uint16),
        (65536, np.uint16),
        (65537, np.uint32),
        (2**32 + 1, np.uint64),
        (10**30, np.uint64),
    ],
)
def test_smallest_type_that_holds_the_largest_code(size, expected):
    assert code_type(size) == expected


@pytest.mark.parametrize(
    "values",
    [
        np.array([0, 2, 1], dtype=np.int8),
        np.array([0, 2, 1], dtype=np.uint64),
        np.array([0.0, 2.0, 1.0], dtype=np.float32),
        np.array([0, 2.0, True], dtype=object),
        np.array([Decimal(0), Decimal("2.0"), Fraction(1)], dtype=object),
        np.array([9, 0, 9, 2, 9, 1])[1::2],
    ],
)
def test_whole_numbers_of_any_type_are_codes(values):
    codes = as_codes(values, "a", 3)
    assert codes.dtype == np.uint8
    assert codes.tolist() == [0, 2, 1]
    assert codes.flags.c_contiguous


def test_booleans_are_zero_and_one():
    assert as_codes(np.array([True, False]), "a", 2).tolist() == [1, 0]


def test_codes_are_a_copy():
    values = np.array([0, 1], dtype=np.uint8)
    codes = as_codes(values, "a", 2)
    values[0] = 1
    assert codes.tolist() == [0, 1]


def test_no_values_of_any_type_are_no_codes():
    for dtype in (np.int64, np.float64, object, "U1"):
        assert as_codes(np.array([], dtype=dtype), "a", 2).shape == (0,)


@pytest.mark.parametrize(
    ("values", "row", "shown"),
    [
        (np.array([0, 5, 7]), 1, "5"),
        (np.array([0, 1, -1], dtype=np.int8), 2, "-1"),
        (np.array([0.0, 3.0]), 1, "3.0"),
        (np.array([2**64 - 1], dtype=np.uint64), 0, "18446744073709551615"),
        (np.array([0, 10**30], dtype=object), 1, "1000000000000000000000000000000"),
    ],
)
def test_code_out_of_range_names_column_row_and_value(values, row, shown):
    with pytest.raises(CodeRangeError) as caught:
        as_codes(values, "age", 3)
    assert str(caught.value) == (
        f"column 'age', row {row}: value {shown} is not a code in 0..2. "
        "Recode the column to integers from 0, or give 'age' a larger size in the domain."
    )


@pytest.mark.parametrize(
    ("values", "row", "shown"),
    [
        (np.array([0, 1.5, np.nan]), 1, "1.5"),
        (np.array([0, np.nan]), 1, "nan"),
        (np.array([np.inf, 0]), 0, "inf"),
        (np.array([0, None], dtype=object), 1, "None"),
        (np.array([0, Decimal("0.5")], dtype=object), 1, "Decimal('0.5')"),
        (np.array(["female", "male"]), 0, "'female'"),
        (np.array(["0", "1"]), 0, "'0'"),
        (np.array(["0", "-1", "x", "y"], dtype=object), 2, "'x'"),
        (np.array([datetime.date(2020, 1, 2)], dtype="datetime64[D]"), 0, "'2020-01-02'"),
        (np.array([1 + 2j]), 0, "'(1+2j)'"),
    ],
)
def test_value_that_is_no_integer_names_column_row_and_value(values, row, shown):
    with pytest.raises(DataError) as caught:
        as_codes(values, "sex", 2)
    assert str(caught.value) == (
        f"column 'sex', row {row}: {shown} is not an integer code. "
        "Recode the column to integers 0..1; give missing values a separate code."
    )


def test_weights_are_a_read_only_copy():
    given = np.array([1, 2])
    weights = as_weights(given, 2)
    given[0] = 5
    assert weights.tolist() == [1.0, 2.0]
    assert weights.dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        weights[0] = 3


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_weights_are_finite_and_not_negative(bad):
    with pytest.raises(DataError) as caught:
        as_weights([1.0, bad], 2)
    assert str(caught.value) == (
        f"the weight in row 1 is {bad}. Weights are finite numbers of at least 0, one per record."
    )


def test_weights_are_numbers():
    with pytest.raises(
        DataError, match=r"^the weights are not numbers \(could not convert string to float: 'x'\)\. We"
    ):
        as_weights(["x"], 1)


def test_one_weight_per_record():
    with pytest.raises(ShapeError) as caught:
        as_weights([1.0, 2.0], 3)
    assert str(caught.value) == (
        "weights: expected shape (3,), got (2,). Weights are finite numbers of at least 0, one per record."
    )


def test_read_only_view_leaves_the_array_itself_writable():
    array = np.zeros(2)
    view = read_only(array)
    array[0] = 1
    assert view[0] == 1
    assert not view.flags.writeable
