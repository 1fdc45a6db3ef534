"""A pytest plugin: mbi's tests with pgmest in mbi's place, and which of them are about something else.

`pytest -p experiments.compat.on_pgmest TESTS` replaces mbi's estimators, oracles and fields before the test files are
imported (`pgmest.adapters.mbi.replacing_mbi`). What is left out is listed here, with the reason, and counted.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from pgmest.adapters.mbi import replacing_mbi

OUT_OF_SCOPE = {
    r"test_precompile\.py.*(Reuse|recompile|Precompile)": "counts how often XLA compiles mbi's own steps",
    r"test_ext_synthetic_data\.py.*(Precompile|CacheHit|warms_cache)": "counts how often XLA compiles mbi's sampler",
    r"test_hugin_warns": "a limit of one of mbi's oracles, which ours does not have",
    r"test_implicit_einsum_semistable_raises": "a limit of one of mbi's oracles, which ours does not have",
}
"""Pattern of a test's name -> why pgmest cannot pass or fail it."""

BY_CHANCE = {
    r"TestExtSyntheticDataAccuracy::test_(chain|independent_cliques)": "compares two random draws of records with a "
    "tolerance of 0.01, within which such draws lie for some seeds only",
}
"""Pattern of a test's name -> why it may fail, with mbi itself, too. It is counted as a failure all the same."""

_left_out: dict[str, int] = {}
_replaced = replacing_mbi()


def pytest_configure(config: pytest.Config) -> None:
    """Before any test file is imported."""
    _replaced.__enter__()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is out of scope."""
    kept, dropped = [], []
    for item in items:
        reason = next((why for pattern, why in OUT_OF_SCOPE.items() if re.search(pattern, item.nodeid)), None)
        if reason is None:
            kept.append(item)
        else:
            dropped.append(item)
            _left_out[reason] = _left_out.get(reason, 0) + 1
    config.hook.pytest_deselected(items=dropped)
    items[:] = kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many were in scope, and why others were not; as JSON, too, where PGMEST_COMPAT_OUT names a file."""
    kinds = {
        kind: [one.nodeid for one in terminalreporter.stats.get(kind, [])] for kind in ("passed", "failed", "error")
    }
    passed, failed = len(kinds["passed"]), sorted({*kinds["failed"], *kinds["error"]})
    terminalreporter.write_line(f"mbi's tests on pgmest: {passed:,} of {passed + len(failed):,} in scope pass")
    for reason, count in _left_out.items():
        terminalreporter.write_line(f"  {count} left out: {reason}")
    if out := os.environ.get("PGMEST_COMPAT_OUT"):
        chances = {name: why for name in failed for pattern, why in BY_CHANCE.items() if re.search(pattern, name)}
        found = {"passed": passed, "failed": failed, "by_chance": chances, "left_out": _left_out}
        Path(out).write_text(json.dumps(found), encoding="utf-8")
