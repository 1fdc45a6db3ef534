"""Compiled kernels, wherever they are: numba's cache on disk looks only at the file that a kernel is written in."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from numba.core.extending import _Intrinsic

import pgmest
from pgmest._base import compiled

ROOT = Path(pgmest.__file__).parent
FILES = sorted(
    ".".join(("pgmest", *path.relative_to(ROOT).with_suffix("").parts))
    for path in ROOT.rglob("*.py")
    if {"@compiled", "@_cached"}.intersection(path.read_text(encoding="utf-8").split())
)


CALLED = [".".join(("pgmest", *Path(name).with_suffix("").parts)) for name in compiled.CALLED]
"""The functions whose changes every kernel notices."""


def called_elsewhere(module: str) -> list[str]:
    """The compiled functions of other files that kernels of this one call, and would keep a stale copy of."""
    names = vars(importlib.import_module(module))
    found = []
    for name, function in names.items():
        if hasattr(function, "py_func") and function.py_func.__module__ == module:
            used = function.py_func.__globals__
            for other in function.py_func.__code__.co_names:
                known = used.get(other)
                called = known if isinstance(known, _Intrinsic) else getattr(known, "py_func", None)
                if called is not None and called.__module__ not in (module, *CALLED):
                    found.append(f"{name} calls {called.__module__}.{other}")
    return found


def test_all_files_with_kernels_are_known():
    assert {"pgmest.sampling.kernels", "pgmest.synthesis.kernels", "pgmest.losses.squares_kernels"} <= set(FILES)


@pytest.mark.parametrize("module", FILES)
def test_kernels_call_nothing_compiled_of_another_file(module):
    assert called_elsewhere(module) == []


@pytest.mark.parametrize("called", ["pgmest.sampling.kernels._uniform", "pgmest.losses.squares_kernels._weigh"])
def test_a_call_across_files_would_be_found(called, tmp_path, monkeypatch):
    """The call is found in a compiled function, and in a loop over a row."""
    module, name = called.rsplit(".", 1)
    source = (
        "from pgmest._base.compiled import compiled\n"
        f"from {module} import {name}\n\n\n"
        f"@compiled\ndef draw(state):\n    return {name}(state)\n"
    )
    (tmp_path / f"stale{name}_kernels.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    assert called_elsewhere(f"stale{name}_kernels") == [f"draw calls {called}"]


@dataclass(frozen=True)
class Copy:
    """A copy of the package in a folder, with a cache of its own."""

    folder: Path

    def __post_init__(self) -> None:
        shutil.copytree(ROOT, self.folder / "pgmest", ignore=shutil.ignore_patterns("__pycache__", "_kernels"))

    def loads(self) -> int:
        """Call a kernel in a new process, and return how often it was loaded from the disk."""
        program = (
            "import numpy as np\nfrom pgmest._base.compiled import compiled\n"
            "from pgmest.losses.squares_kernels import square as kernel\n"
            "kernel(np.ones(2), np.ones(2))\n"
            "print(sum(kernel.stats.cache_hits.values()))"
        )
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.folder),
            "PGMEST_CACHE_DIR": str(self.folder / "cache"),
        }
        command = [sys.executable, "-c", program]
        run = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=True)
        return int(run.stdout)

    def change(self, name: str) -> None:
        changed = self.folder / "pgmest" / name
        changed.write_text(changed.read_text() + "\n")


def test_a_change_of_what_all_kernels_may_call_compiles_them_anew(tmp_path):
    """The kernel is loaded from the disk until that file changes."""
    copy = Copy(tmp_path)
    assert (copy.loads(), copy.loads()) == (0, 1)
    copy.change(compiled.CALLED[-1])
    assert (copy.loads(), copy.loads()) == (0, 1)


@pytest.mark.parametrize("name", compiled.CALLED)
def test_every_file_that_all_kernels_may_call_is_part_of_what_is_compared(name, tmp_path, monkeypatch):
    copy = Copy(tmp_path)
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "pgmest" / "_base" / "compiled.py"))
    digest = compiled._digest_of_called.__wrapped__
    before = digest()
    copy.change(name)
    assert digest() != before
