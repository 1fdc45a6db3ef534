"""A user who waits for compilation gets a message; one who waits for a busy machine does not."""

from __future__ import annotations

import time

import pytest

from pgmest.inference.exact import kernel_loading
from pgmest.inference.exact.kernel_loading import compile_notice


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(kernel_loading, "COMPILES", 0.2)
    monkeypatch.setattr(kernel_loading, "LOOKS", 0.05)
    kernel_loading._say_once.cache_clear()
    yield
    kernel_loading._say_once.cache_clear()


def compute(seconds: float) -> None:
    started = time.process_time()
    while time.process_time() - started < seconds:
        sum(range(1000))


def test_compiling_is_said_once(capfd):
    for _ in range(2):
        with compile_notice():
            compute(0.2)
            time.sleep(0.15)  # looks at the processor's clock
    assert capfd.readouterr().err.count("compiling its kernels") == 1


def test_waiting_is_not_taken_for_compiling(capfd):
    with compile_notice():
        time.sleep(0.5)
    assert capfd.readouterr().err == ""
