"""Compiled kernels: the process that compiles a kernel gets the same digits as those that load it from disk."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numba
import pytest
from numba.core.dispatcher import Dispatcher

import pgmest
from pgmest._base.compiled import inlined
from pgmest._base.kernel_cache import compiling

PACKAGE = Path(pgmest.__file__).parent
SUMS = """
import hashlib
import numpy as np
from pgmest.models.errors.plausible_kernels import fit_sums

found = hashlib.sha256()
for codes in (3, 30, 297, 1600):
    rng = np.random.default_rng(0)
    counts, spread = rng.normal(size=(2, 4, codes, 1)), rng.random((4, codes, 1))
    fit_sums(counts, spread, rng.random((2, 4, 1)), 5, 1e-12, np.empty(1), np.empty(1))
    found.update(counts.tobytes())
print(found.hexdigest(), sum(fit_sums.stats.cache_hits.values()))
"""


def dispatchers() -> Iterator[tuple[str, Dispatcher]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if "_base.compiled import" not in path.read_text(encoding="utf-8"):
            continue
        module = importlib.import_module(".".join(("pgmest", *path.relative_to(PACKAGE).with_suffix("").parts)))
        for name, value in vars(module).items():
            if isinstance(value, Dispatcher) and value.py_func.__module__ == module.__name__:
                yield f"{module.__name__}.{name}", value


def test_a_process_that_compiles_a_kernel_and_one_that_loads_it_find_the_same_digits(tmp_path):
    environment = {**os.environ, "PGMEST_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SUMS]
    first, second = (
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()
        for _ in range(2)
    )
    assert (first[1], second[1]) == ("0", "1")
    assert first[0] == second[0]


def test_constants_of_callers_compile_nothing_again():
    @inlined
    def power(base, exponent, negative):
        return -(base**exponent) if negative else base**exponent

    @numba.njit
    def three(x):
        return power(x, 1, True) + power(x, 2, False) + power(x, x, True)

    assert three(3) == -3 + 9 - 27
    assert [tuple(map(str, arguments)) for arguments in power.signatures] == [("int64", "int64", "bool")]


def test_compiling_is_timed_once_where_kernels_compile_those_that_they_call():
    @inlined
    def inner(x):
        return x + 1

    @inlined
    def outer(x):
        return inner(x) * 2

    before, started = compiling.seconds, time.perf_counter()
    assert outer(3) == 8
    took, found = time.perf_counter() - started, compiling.seconds - before
    assert 0 < found <= took
    assert outer(4) == 10
    assert compiling.seconds - before == found


def test_other_cliques_compile_nothing():
    def marginals(sizes: dict[str, int], cliques: list[tuple[str, ...]]) -> None:
        theta = pgmest.CliqueVector.random(pgmest.Domain(sizes), cliques, seed=0)
        assert pgmest.marginals(theta, total=10.0)[cliques[0]].values.sum() == pytest.approx(10.0)

    def chain(length: int) -> None:
        marginals({f"n{place}": 2 for place in range(length)}, [(f"n{i}", f"n{i + 1}") for i in range(length - 1)])

    marginals({"a": 2, "b": 3, "c": 4, "d": 2}, [("a", "b", "c"), ("c", "d")])
    chain(12)
    before = compiling.seconds
    marginals({"x": 5, "y": 2, "z": 3, "w": 2, "v": 7}, [("x", "y", "z"), ("w", "z"), ("v",), ("w", "x")])
    chain(31)
    assert compiling.seconds == before


def test_sums_in_any_order_are_compiled_only_within_their_kernel():
    """A function that is not inlined exists twice, optimized alone and in its caller, and its sums may differ."""
    found = dict(dispatchers())
    reordered = {value for value in found.values() if "reassoc" in value.targetoptions["fastmath"]}
    assert len(reordered) > 3
    inside = {value: reachable(value) for value in found.values()}
    called = set().union(*inside.values())
    summing = {name for name, value in found.items() if value in called and ({value} | inside[value]) & reordered}
    assert sorted(name for name in summing if not found[name].targetoptions.get("forceinline")) == []


def reachable(function: Dispatcher) -> set[Dispatcher]:
    """Return the functions of the package that a function calls, also indirectly."""
    python = function.py_func
    values = [python.__globals__.get(name) for name in python.__code__.co_names]
    direct = {value for value in values if isinstance(value, Dispatcher)}
    return direct.union(*map(reachable, direct))
