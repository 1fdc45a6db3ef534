"""Loops over rows in vectors of several widths, against NumPy."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from pgmest._base.compiled import OPTIONS
from pgmest._base.row_kernels import WIDTHS, maximum_on_rows, on_rows, sum_on_rows

SIZES = [*range(2 * WIDTHS[0] + 2), 127, 1000]
kernel = numba.njit(**OPTIONS)


@on_rows
def add_multiple(target, row, weight):
    return {"target": target + row * weight}


@on_rows
def swap(one, other):
    return {"one": other, "other": one}


@sum_on_rows
def inner_product(row, other):
    return row * other


@sum_on_rows
def double_and_sum(row, two):
    return {"row": row * two}, row


@maximum_on_rows
def largest_sum(row, other):
    return row + other


@pytest.fixture(params=SIZES)
def size(request):
    return request.param


@pytest.fixture
def rows(size):
    return np.random.default_rng(size).normal(size=(2, size))


@kernel
def call_all(one, other, weight, found):
    found[0] = inner_product(one, other)
    found[1] = largest_sum(one, other)
    add_multiple(one, other, weight)
    swap(one, other)
    found[2] = double_and_sum(one, 2.0)


def test_every_size_gives_what_numpy_gives(rows):
    one, other = (row.copy() for row in rows)
    found = np.zeros(3)
    call_all(one, other, 3.0, found)
    wanted = [rows[0] @ rows[1], (rows[0] + rows[1]).max(initial=-np.inf), rows[1].sum()]
    close: dict[str, Any] = {"rtol": 1e-13, "atol": 1e-12}
    assert np.allclose(found, wanted, **close)
    assert np.allclose(one, 2 * rows[1], **close)
    assert np.allclose(other, rows[0] + 3 * rows[1], **close)


@kernel
def call_on_a_part(row, start, end, longer, found):
    add_multiple(row[start:end], longer, 1.0)
    found[0] = inner_product(row[start:end], row[start:end])


@pytest.mark.parametrize("start", range(9))
def test_nothing_outside_a_row_is_read_or_written(start, size):
    row = np.full(size + 20, np.nan)
    row[start : start + size] = 1.0
    longer, found = np.concatenate([np.ones(size), np.full(40, np.nan)]), np.zeros(1)
    call_on_a_part(row, start, start + size, longer, found)
    assert found[0] == 4.0 * size
    assert (row[start : start + size] == 2.0).all()
    assert np.isnan(np.delete(row, np.s_[start : start + size])).all()


def test_infinite_cells_keep_their_place_in_a_maximum():
    found, row = np.zeros(3), np.full(41, -np.inf)
    call_all(row.copy(), row.copy(), 0.0, found)
    assert found[1] == -np.inf
    row[33] = 1.0
    call_all(row.copy(), row.copy(), 0.0, found)
    assert found[1] == 2.0


def test_a_read_only_row_is_not_written_to():
    row = np.ones(4)
    row.flags.writeable = False
    with pytest.raises(TypingError, match="target is a read-only array"):
        kernel(lambda target, other: add_multiple(target, other, 1.0))(row, np.ones(4))
    assert (row == 1.0).all()


@pytest.mark.parametrize(
    "rows",
    [(np.ones(8)[::2], np.ones(4)), (np.ones((2, 2)), np.ones(4)), (np.ones(4, np.float32), np.ones(4, np.float32))],
    ids=["not contiguous", "two axes", "float32"],
)
def test_what_is_no_row_is_refused_when_it_is_compiled(rows):
    with pytest.raises(TypingError, match="add_multiple"):
        kernel(lambda target, row: add_multiple(target, row, 1.0))(*rows)
