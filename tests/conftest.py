"""Fixtures shared by the tests."""

from __future__ import annotations

import datetime
import gc
import os
import re
import signal
from collections.abc import Callable, Generator
from typing import Any

import pytest
from hypothesis import settings

from experiments.data import load
from pgmest.data.dataset import Dataset
from tests.effort import PROFILE, scale_examples

LONGEST = "test_guides.py"
"""The file whose tests take several seconds each."""

settings.load_profile(PROFILE)
gc.set_threshold(20_000, 20, 20)  # examples leave much garbage without cycles, and memory is plenty


def pytest_configure() -> None:
    """Restore Ctrl-C, which a background process ignores: the tests that raise it would wait forever."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect tests without collecting garbage, of which there is little: passes over the modules take two seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Fail where a file of tests cannot be imported, which `--doctest-ignore-import-errors` would skip.

    Every second worker goes through folders from their end: what one has compiled, the other one loads.
    """
    report = yield
    if isinstance(collector, pytest.Directory) and re.search("[13579]$", os.environ.get("PYTEST_XDIST_WORKER", "")):
        report.result.reverse()
    if report.skipped and "unable to import module" in str(report.longrepr):
        report.outcome, report.longrepr = (
            "failed",
            f"{report.longrepr[2].removeprefix('Skipped: ')}: import it to see the error",
        )
    return report


def pytest_itemcollected(item: pytest.Item) -> None:
    """Scale the number of random examples to the profile."""
    scale_examples(getattr(item, "function", None))


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what lives until the end: thousands of tests and their modules."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first, so that no worker of pytest-xdist waits for another one at the end.

    Workers collect the same names in the same order, if none holds an address or a set, whose order is random.
    """
    items.sort(key=lambda item: (item.path.name != LONGEST, item.path))
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


@pytest.fixture
def blank_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the pictures of reports empty in tests of their texts: drawing takes most of the time."""
    monkeypatch.setattr("pgmest.plots.style.as_image", lambda figure: b"")


class HurriedClock(datetime.datetime):
    """A clock by which a minute passes between two looks."""

    looks = 0

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
        """Return the time, a minute later at each call."""
        HurriedClock.looks += 1
        return datetime.datetime.now(tz) + datetime.timedelta(minutes=HurriedClock.looks)


@pytest.fixture(autouse=True)
def hurried_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a minute pass between any two lines of ledgers and checkpoints, so that no test depends on the clock."""
    for module in ("dataset_ledger", "journal"):
        monkeypatch.setattr(f"pgmest.privacy.{module}.datetime", HurriedClock)
