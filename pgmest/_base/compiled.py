"""Decorators for kernels, which numba compiles at their first call, without Python objects, and keeps on disk.

numba's cache notices changes only in the file that holds a kernel. The functions that kernels call are therefore in the
same file, or in one of the files of `CALLED`, whose content is added to what numba compares.

Functions that add in any order, and those that call them, are always inlined. Otherwise the machine code of a kernel
would contain a copy of each, optimized together with the kernel, and the process that compiles the kernel would not run
this copy but the one that numba compiled by itself before. The two may add the same numbers in a different order, so
that a process that compiles a kernel and one that loads it from disk would differ in the last digits.

Compiling takes most of the time of a first call, so each function that kernels call is compiled once for each type, and
not again for each constant that is passed to it. Kernels that call others are: for chains, this is 3 % faster.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config, event, types

from pgmest._base.kernel_cache import compiling, numba_cache

_SETTINGS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "_nrt": False, "no_cfunc_wrapper": True}

OPTIONS: dict[str, Any] = {**_SETTINGS, "fastmath": {"contract"}}
"""The options of numba for kernels."""

CALLED = (
    "_base/elementary_kernels.py",
    "_base/blas_kernels.py",
    "_base/row_kernels.py",
    "_base/team_kernels.py",
    "inference/exact/contraction_matrices.py",
    "inference/exact/contraction_products.py",
    "mechanisms/linked/pairing.py",
    "mechanisms/linked/pair_kernels.py",
    "mechanisms/linked/rule_kernels.py",
)
"""The files of the package whose functions kernels in other files may call."""


class _Compiling(event.Listener):
    """The listener that keeps the clock of compiling."""

    def on_start(self, event: Any) -> None:
        compiling.start()

    def on_end(self, event: Any) -> None:
        compiling.stop()


event.register("numba:compile", _Compiling())


def _for_all_constants(function: Any) -> Any:
    """Let kernels that call a function with constants use the machine code for any number of that type.

    By default numba compiles a function again for each constant argument.
    """
    find = function.get_call_template

    def template(arguments: Any, keywords: Any) -> Any:
        return find(tuple(map(types.unliteral, arguments)), {k: types.unliteral(v) for k, v in keywords.items()})

    function.get_call_template = template
    return function


def compiled(function: Any) -> Any:
    """Return a function as a kernel that is compiled at its first call, and kept on disk if a folder is writable."""
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


def inlined(function: Any) -> Any:
    """Return a function that kernels call, and that does not call reductions."""
    return _for_all_constants(numba.njit(**OPTIONS)(function))


def reduction(function: Any) -> Any:
    """Return a function that kernels call, with sums in any order and without NaN."""
    return _for_all_constants(
        numba.njit(forceinline=True, fastmath={"contract", "reassoc", "nsz", "nnan"}, **_SETTINGS)(function)
    )


def reducing(function: Any) -> Any:
    """Return a function that kernels call, and that calls reductions."""
    return _for_all_constants(numba.njit(forceinline=True, **OPTIONS)(function))
