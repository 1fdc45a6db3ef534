"""Recycler: memory is handed out again when nobody holds it any more, and not before."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from pgmest.inference.exact import recycler
from pgmest.inference.exact.recycler import Recycler

KIND = np.dtype(np.float64)


@pytest.fixture(autouse=True)
def _any_size(monkeypatch):
    monkeypatch.setattr(recycler, "FEWEST_CELLS", 0)


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_an_array_is_handed_out_again_once_nobody_holds_it():
    room = Recycler()
    first = room.empty((2, 3), KIND)
    place = address(first)
    del first
    assert address(room.empty((3, 2), KIND)) == place


def test_not_while_a_view_of_it_is_held():
    room = Recycler()
    view = np.broadcast_to(room.empty((2, 3), KIND).T[None], (4, 3, 2))[1:, :2]
    other = room.empty((2, 3), KIND)
    assert not np.shares_memory(view, other)


def test_arrays_held_together_are_apart_and_of_their_type():
    room = Recycler()
    held = [room.empty((6,), np.dtype(kind)) for kind in (np.float64, np.float64, np.float32)]
    assert [array.dtype for array in held] == [np.float64, np.float64, np.float32]
    assert not any(np.shares_memory(one, other) for i, one in enumerate(held) for other in held[:i])


def test_contiguous_copies_only_what_is_not():
    room, table = Recycler(), np.arange(6.0).reshape(2, 3)
    assert room.contiguous(table) is table
    copy = room.contiguous(table.T)
    assert copy.flags.c_contiguous
    np.testing.assert_array_equal(copy, table.T)


def test_small_arrays_are_not_kept(monkeypatch):
    monkeypatch.setattr(recycler, "FEWEST_CELLS", 10)
    room = Recycler()
    assert room.empty((9,), KIND).base is None
    assert room.empty((10,), KIND).base is not None


def test_a_pickle_holds_no_memory():
    room = Recycler()
    room.empty((1000,), KIND)
    assert len(pickle.dumps(room)) < 200
