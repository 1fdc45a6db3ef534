"""Places of buffers: what is needed at the same time never overlaps, and what is large shares its place."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pgmest.inference.exact.workspace import LARGE, Buffer, place


@given(
    st.lists(st.tuples(st.integers(1, 3 * LARGE), st.integers(0, 20), st.integers(0, 20)), max_size=20),
    st.integers(0, 10),
)
def test_no_two_that_are_needed_at_the_same_time_overlap(wanted, begin):
    buffers = [Buffer(cells, min(times), max(times)) for cells, *times in wanted]
    end = place(buffers, begin)
    for one in buffers:
        assert begin <= one.start
        assert one.start + one.cells <= end
    for one, other in itertools.combinations(buffers, 2):
        if one.first <= other.last and other.first <= one.last:
            assert one.start + one.cells <= other.start or other.start + other.cells <= one.start


def test_large_buffers_one_after_the_other_take_the_room_of_two():
    buffers = [Buffer(LARGE, time, time + 1) for time in range(10)]
    assert place(buffers) == 2 * LARGE


def test_times_of_use_are_kept_from_the_first_to_the_last():
    buffer = Buffer(3)
    for time in (5, 2, 9):
        buffer.use(time)
    assert (buffer.first, buffer.last) == (2, 9)
