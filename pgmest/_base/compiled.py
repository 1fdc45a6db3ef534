"""How kernels are compiled: by numba at their first call, without Python objects, kept on disk.

numba's cache notices changes only in the file a kernel is written in, so what kernels call is written beside them, or
in the files of `CALLED`, whose content is added to what numba compares.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config

from pgmest._base.kernel_cache import numba_cache

_SETTINGS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "_nrt": False}
OPTIONS: dict[str, Any] = {**_SETTINGS, "fastmath": {"contract"}}
"""Of kernels and what they call."""


CALLED = (
    "_base/elementary_kernels.py",
    "_base/blas_kernels.py",
    "_base/row_kernels.py",
    "_base/team_kernels.py",
    "inference/exact/contraction_matrices.py",
    "inference/exact/contraction_products.py",
    "inference/exact/node_row_kernels.py",
)
"""Files of the package that kernels of others may call."""


def compiled(function: Any) -> Any:
    """A kernel: compiled on first call, its machine code kept on disk where some folder is writable."""
    try:
        with numba_cache(config):
            kernel = numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # a read-only installation and no writable user cache: compile in memory
        return numba.njit(**OPTIONS)(function)
    index = kernel._cache._cache_file  # type: ignore[attr-defined]
    index._source_stamp = index._source_stamp, _digest_of_called()
    return kernel


@cache
def _digest_of_called() -> str:
    package = Path(__file__).parents[1]
    return hashlib.sha256(b"".join((package / name).read_bytes() for name in CALLED)).hexdigest()


inlined = numba.njit(**OPTIONS)
"""What kernels call."""

reduction = numba.njit(fastmath={"contract", "reassoc", "nsz", "nnan"}, **_SETTINGS)
"""The same, where sums may be taken in any order, and nothing is NaN."""
