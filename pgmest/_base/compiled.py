"""How kernels are compiled: by numba at their first call, without Python objects, kept on disk.

numba's cache notices changes only in the file a kernel is written in, so what kernels call is written beside them.
"""

from __future__ import annotations

from typing import Any

import numba
from numba.core import config

from pgmest._base.kernel_cache import numba_cache

_SETTINGS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "_nrt": False}
OPTIONS: dict[str, Any] = {**_SETTINGS, "fastmath": {"contract"}}
"""Of kernels and what they call."""


def compiled(function: Any) -> Any:
    """A kernel: compiled on first call, its machine code kept on disk where some folder is writable."""
    try:
        with numba_cache(config):
            return numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # a read-only installation and no writable user cache: compile in memory
        return numba.njit(**OPTIONS)(function)


inlined = numba.njit(**OPTIONS)
"""What kernels call."""

reduction = numba.njit(fastmath={"contract", "reassoc", "nsz", "nnan"}, **_SETTINGS)
"""The same, where sums may be taken in any order, and nothing is NaN."""
