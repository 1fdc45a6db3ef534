"""Measuring problem after problem, keeping each result at once, so that nothing is lost when a run is stopped."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatch
from typing import Any

from experiments.benchmarks.machine import load_average
from experiments.benchmarks.store import Store
from experiments.benchmarks.worker import WorkerFailed


def chosen(names: Iterable[str], only: Sequence[str]) -> list[str]:
    """The names that match one of the patterns; all names if there are no patterns.

    Raises:
        SystemExit: nothing matches.
    """
    every = list(names)
    found = [name for name in every if not only or any(fnmatch(name, pattern) for pattern in only)]
    if not found:
        raise SystemExit(f"--only {' '.join(only)} matches none of: {', '.join(every)}.")
    return found


def measure_all(
    store: Store,
    names: Iterable[str],
    measure: Callable[[str], Any],
    fresh: bool,
    enough: Callable[[str, Any], bool] = lambda name, result: True,
) -> None:
    """Measure each problem that has no current result in the store, and say so on stderr.

    Args:
        store: where results are and go.
        names: the problems.
        measure: the result of a problem, something JSON can hold.
        fresh: measure those with a current result as well.
        enough: whether a kept result has all that is asked for now.
    """
    for name in names:
        record = store.get(name)
        if not fresh and record is not None and store.is_current(record) and enough(name, record["result"]):
            _say(f"{name}: kept from {record['measured']}")
            continue
        load, start = load_average(), time.perf_counter()
        _say(f"{name}: measuring (load {load:g})...")
        try:
            store.put(name, measure(name), load)
        except WorkerFailed as error:
            _say(f"{name}: FAILED, {error}")
        else:
            _say(f"{name}: done in {time.perf_counter() - start:.1f} s")


def kept(store: Store, names: Iterable[str]) -> list[dict[str, Any]]:
    """The records of these problems, current or not, in their order; those never measured are left out."""
    return [record for record in map(store.get, names) if record is not None]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
