"""The kernels compile for a device, without one: needs numba-cuda and what it compiles with (the extra `gpu`)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import warnings
from types import SimpleNamespace

import numba.cuda.dispatcher
from numba import cuda, types
from pgmest.inference.device import kernels

numba.cuda.dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=(9, 0))
i8, table, numbers = types.int64, types.int64[:, ::1], types.int64[::1]
for real in (types.float64, types.float32):
    row = real[::1]
    tables = (table, table, types.int32[::1], types.int32[:, ::1])
    places = (row, row, i8, row, i8, row, i8, row, i8)
    for kernel, own in ((kernels.run_step, (i8,)), (kernels.run_steps, (numbers, i8, i8))):
        ptx, _ = cuda.compile_ptx(kernel.py_func, tables + own + places, cc=(9, 0))
        assert ".local" not in ptx, "values do not stay in registers"
        assert "div.s64" not in ptx and "div.u64" not in ptx, "a slow division"
        assert real == types.float64 or ".f64" not in ptx, "float32 is promoted"
with warnings.catch_warnings():
    warnings.simplefilter("error")
    with kernels.small_grids():
        kernels.run_step[(1, 1), 256]
print("compiled")
"""


@pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None or importlib.util.find_spec("nvidia") is None,
    reason="numba-cuda and NVIDIA's compiler are not installed",
)
def test_both_kernels_compile_in_both_precisions():
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_ENABLE_CUDASIM"}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert run.stdout.strip() == "compiled", run.stderr[-2000:]
