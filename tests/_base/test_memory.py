"""The memory of this machine, and Python's collector."""

import gc

import pytest

from pgmest._base.memory import without_collection


def fail() -> None:
    with without_collection():
        assert not gc.isenabled()
        raise KeyError


@pytest.mark.parametrize("before", [True, False])
def test_collection_is_afterwards_as_it_was_also_after_an_error(before):
    collecting = gc.isenabled()
    try:
        (gc.enable if before else gc.disable)()
        with pytest.raises(KeyError):
            fail()
        assert gc.isenabled() is before
    finally:
        (gc.enable if collecting else gc.disable)()
