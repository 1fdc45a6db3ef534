"""Fixtures of the reliability tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.examples import write_examples


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one small file of every kind that pgmest reads."""
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("examples")
    write_examples(folder)
    return folder
