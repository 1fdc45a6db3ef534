"""Fixtures shared by the tests."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Generator
from typing import Any

import pytest
from hypothesis import settings

from experiments.data import load
from pgmest.data.dataset import Dataset

# No test has a deadline, because machines that run tests are busy.
settings.register_profile("same", deadline=None, derandomize=True)  # the same examples on every machine: `make test`
settings.register_profile("search", deadline=None, max_examples=400)  # random examples, and many: `make search`
settings.register_profile("versions", deadline=None, derandomize=True, max_examples=15)  # `.ci/lowest`: few are enough
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_configure() -> None:
    """Restore Ctrl-C, which a background process ignores: the tests that raise it would wait forever."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    """Fail where a file of tests cannot be imported, which `--doctest-ignore-import-errors` would skip."""
    report = yield
    if report.skipped and "unable to import module" in str(report.longrepr):
        report.outcome, report.longrepr = (
            "failed",
            f"{report.longrepr[2].removeprefix('Skipped: ')}: import it to see the error",
        )
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Workers of pytest-xdist collect the same names only if none holds an address or a set, whose order is random."""
    assert [item.nodeid for item in items if re.search(r" at 0x|\{'[^':]*'[,}]", item.nodeid)] == []


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Dataset]:
    """`shared_data(name)` is one of the real tables; the test is skipped where they are not at hand."""

    def find(name: str) -> Dataset:
        try:
            return load(name)
        except FileNotFoundError as error:
            pytest.skip(str(error))

    return find
