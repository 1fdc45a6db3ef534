"""Fixtures shared by the tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings

from experiments.data import load
from pgmest.dataset import Dataset

settings.register_profile("pgmest", deadline=None)  # no test times itself: machines that run tests are busy
settings.load_profile("pgmest")


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Dataset]:
    """`shared_data(name)` is one of the real tables; the test is skipped where they are not at hand."""

    def find(name: str) -> Dataset:
        try:
            return load(name)
        except FileNotFoundError as error:
            pytest.skip(str(error))

    return find
