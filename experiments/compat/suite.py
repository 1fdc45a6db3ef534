"""A pytest plugin that keeps how many of pgmest's own tests passed with which versions, for the page "Compatibility".

    pytest -p experiments.compat.suite tests/...

Runs of a part add to what is kept of the others, file by file, in experiments/results/compat_suite.json, under the
version of Python and those of the packages that matter; PGMEST_SUITE names what kind of run it is, such as "lowest".
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from pathlib import Path
from typing import Any

import pytest

RESULTS = Path(__file__).resolve().parents[1] / "results" / "compat_suite.json"
PACKAGES = ("numpy", "scipy", "pandas", "numba", "narwhals", "opendp", "networkx", "polars", "duckdb", "pyarrow", "mbi")

_counts: dict[str, dict[str, Any]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count each test once, by the phase that decided; a file that was left is kept at once."""
    file = report.nodeid.split("::")[0]
    if _counts and file not in _counts:
        keep()
    found = _counts.setdefault(file, {"passed": 0, "skipped": 0, "failed": []})
    if report.outcome == "failed":
        found["failed"].append(report.nodeid.split("::", 1)[1])
    elif report.when == "call" or report.outcome != "passed":
        found[report.outcome] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep the counts; with pytest-xdist only the process that gathers them does."""
    if _counts and not hasattr(session.config, "workerinput"):
        keep()


def keep() -> None:
    """The counts so far into the results; workers of pytest-xdist leave that to the process that gathers them."""
    if os.environ.get("PYTEST_XDIST_WORKER"):
        return
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    name = f"{os.environ.get('PGMEST_SUITE', 'newest')}, Python {platform.python_version()}"
    run = kept.setdefault(name, {"versions": {}, "files": {}})
    run["versions"] = versions()
    run["files"].update(_counts)
    RESULTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def versions() -> dict[str, str]:
    """Return the versions of the relevant installed packages."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
