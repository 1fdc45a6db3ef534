"""These tests run on a GPU where there is one, and else in numba's simulator of one, which takes Python threads."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import Any

import numpy as np
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
    config.ENABLE_CUDASIM = 1  # pyright: ignore[reportAttributeAccessIssue]


_sharing = threading.Lock()


def _shared_array(self: Any, shape: int, dtype: Any) -> np.ndarray:
    """One array for all threads of a block that come by this line.

    numba's own looks whether the array is there and makes it in two steps, so that threads which come by at the same
    time may end up with different ones: one run in about 150 went wrong.
    """
    frame = sys._getframe(1)
    with _sharing:
        key = frame.f_code.co_filename, frame.f_lineno
        if key not in self._allocations:
            self._allocations[key] = np.empty(shape, dtype)
        return self._allocations[key]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """In the simulator blocks of a few threads, which take turns quickly.

    A first warning adds a registry to the globals of the kernels' module, which the simulator reads in other threads at
    that time, so the registry is made before.
    """
    from numba import cuda

    if not cuda.is_available():
        pytest.skip("neither a GPU nor numba's simulator of one: numba.cuda was imported before these tests.")
    if not SIMULATED:
        yield
        return
    from numba.cuda.simulator import kernelapi

    from pgmest.inference.device import gpu_oracle, kernels

    kernels.__dict__.setdefault("__warningregistry__", {})
    monkeypatch.setattr(kernelapi.FakeCUDAShared, "array", _shared_array)
    monkeypatch.setattr(gpu_oracle, "BLOCK_THREADS", 8)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)
