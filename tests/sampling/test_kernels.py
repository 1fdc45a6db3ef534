"""Compiled kernels, wherever they are: numba's cache on disk looks only at the file that a kernel is written in."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import pgmest

ROOT = Path(pgmest.__file__).parent
FILES = sorted(
    ".".join(("pgmest", *path.relative_to(ROOT).with_suffix("").parts))
    for path in ROOT.rglob("*.py")
    if {"@compiled", "@_cached"}.intersection(path.read_text(encoding="utf-8").split())
)


def called_elsewhere(module: str) -> list[str]:
    """The compiled functions of other files that kernels of this one call, and would keep a stale copy of."""
    names = vars(importlib.import_module(module))
    found = []
    for name, function in names.items():
        if hasattr(function, "py_func") and function.py_func.__module__ == module:
            used = function.py_func.__globals__
            for other in function.py_func.__code__.co_names:
                compiled = getattr(used.get(other), "py_func", None)
                if compiled is not None and compiled.__module__ != module:
                    found.append(f"{name} calls {compiled.__module__}.{other}")
    return found


def test_all_files_with_kernels_are_known():
    assert {"pgmest.sampling.kernels", "pgmest.synthesis.kernels", "pgmest.inference.exact.kernels"} <= set(FILES)


@pytest.mark.parametrize("module", FILES)
def test_kernels_call_nothing_compiled_of_another_file(module):
    assert called_elsewhere(module) == []


def test_a_call_across_files_would_be_found(tmp_path, monkeypatch):
    source = (
        "from pgmest._base.compiled import compiled\n"
        "from pgmest.sampling.kernels import _uniform\n\n\n"
        "@compiled\ndef draw(state):\n    return _uniform(state)\n"
    )
    (tmp_path / "stale_kernels.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    assert called_elsewhere("stale_kernels") == ["draw calls pgmest.sampling.kernels._uniform"]
