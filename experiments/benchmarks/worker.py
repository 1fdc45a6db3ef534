"""Measuring in a process of its own: no memory, cache or compiled code is left over from another measurement.

`apart(function, ...)` calls a function of an importable module there; its arguments and result travel as JSON.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.benchmarks.memory import limit_memory

SHARE_OF_MEMORY = 0.8
"""A measurement may take this share of the memory that is free at its start; an allocation beyond it fails."""

ROOT = Path(__file__).resolve().parents[2]


class WorkerFailed(RuntimeError):
    """The process of a measurement ended without a result."""


def apart(function: Callable[..., Any], *arguments: Any, timeout: float = 1800.0) -> Any:
    """`function(*arguments)`, run in a new process.

    Raises:
        WorkerFailed: the process ended without a result, was killed (for its memory, say), or took over `timeout` s.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "result.json"
        name = f"{function.__module__}:{function.__name__}"
        command = [sys.executable, "-m", __name__, name, json.dumps(arguments), str(target)]
        try:
            code = subprocess.run(command, cwd=ROOT, timeout=timeout, check=False).returncode
        except subprocess.TimeoutExpired:
            raise WorkerFailed(f"stopped after {timeout:g} s") from None
        if code:
            failure = target.with_suffix(".error")
            raise WorkerFailed(failure.read_text() if failure.exists() else f"exit code {code}, out of memory?")
        return json.loads(target.read_text())


def _main(name: str, arguments: str, target: str) -> None:
    limit_memory(SHARE_OF_MEMORY)
    module, function = name.split(":")
    try:
        result = getattr(importlib.import_module(module), function)(*json.loads(arguments))
    except Exception as error:
        Path(target).with_suffix(".error").write_text(f"{type(error).__name__}: {error}"[:200])
        raise
    Path(target).write_text(json.dumps(result))


if __name__ == "__main__":
    _main(*sys.argv[1:])
