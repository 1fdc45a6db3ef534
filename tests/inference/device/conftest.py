"""These tests run on a GPU where there is one, and else in numba's simulator of one, which takes Python threads."""

from __future__ import annotations

import ctypes
import os
import sys

import pytest
from numba.core import config


def _has_device() -> bool:
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


SIMULATED = not _has_device()
if SIMULATED and "numba.cuda" not in sys.modules:
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    config.ENABLE_CUDASIM = 1


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """In the simulator blocks of a few threads, which take turns quickly."""
    from numba import cuda

    if not cuda.is_available():
        pytest.skip("neither a GPU nor numba's simulator of one: numba.cuda was imported before these tests.")
    if not SIMULATED:
        yield
        return
    from pgmest.inference.device import gpu_oracle

    monkeypatch.setattr(gpu_oracle, "BLOCK_THREADS", 8)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)
