"""How many threads the kernels may use, and the pool that runs them.

Only tables of many cells are shared between threads; everything else runs on the calling thread. The default is the
number of processors this process may run on, or OMP_NUM_THREADS or PGMEST_THREADS where set; worker processes started
by `multiprocessing` get one each, so that several processes do not compete for the same processors.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from pgmest._base.errors import ArgumentError

Result = TypeVar("Result")

_chosen: int | None = None
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def set_threads(count: int | None) -> None:
    """Let the kernels use up to `count` threads (None: the default). Results are the same for the same count.

    Raises:
        ArgumentError: `count` is not a positive integer.
    """
    global _chosen
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise ArgumentError.of("count", count, "a positive integer, or None for the default")
    _chosen = count


def get_threads() -> int:
    """The number of threads the kernels may use now."""
    return _chosen if _chosen is not None else _default_threads()


def _default_threads() -> int:
    for name in ("PGMEST_THREADS", "OMP_NUM_THREADS"):
        value = os.environ.get(name, "")
        if value.isdigit() and int(value) > 0:
            return int(value)
    if multiprocessing.parent_process() is not None:
        return 1
    available = getattr(os, "sched_getaffinity", None)
    return len(available(0)) if available else os.cpu_count() or 1


def run_together(tasks: Iterable[Callable[[], Result]]) -> list[Result]:
    """Run the tasks at the same time, the first one on the calling thread; errors are raised when all are done.

    Returns:
        what they return, in their order.
    """
    first, *others = tasks
    if not others:
        return [first()]
    key = (os.getpid(), len(others))  # threads do not survive a fork, so each process makes its own pool
    pool = _pools.get(key)
    if pool is None:
        pool = _pools[key] = ThreadPoolExecutor(len(others), thread_name_prefix="pgmest")
    waiting = [pool.submit(task) for task in others]
    try:
        found = first()
    finally:
        wait(waiting)  # all of them: they write into arrays of the caller
    return [found, *(future.result() for future in waiting)]
