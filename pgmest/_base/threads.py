"""The number of threads that kernels may use, and the pools that run them.

Only tables of many cells are shared between threads; everything else runs on the calling thread. The default is
PGMEST_THREADS or OMP_NUM_THREADS if set when kernels are first used, and otherwise the number of processors on which
this process may run. Worker processes of `multiprocessing` get one thread each, so that they do not compete for the
same processors.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import ContextVar
from typing import Any, TypeVar

from pgmest.errors import ArgumentError

_chosen: int | None = None
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}
_in_background: ContextVar[int] = ContextVar("_in_background", default=0)

Result = TypeVar("Result")
ItemT = TypeVar("ItemT")


def set_threads(count: int | None) -> None:
    """Let the kernels use up to `count` threads; None sets the default and reads the environment again.

    The same count gives the same results.

    Raises:
        ArgumentError: `count` is not a positive integer.
    """
    global _chosen
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise ArgumentError.of("count", count, "a positive integer, or None for the default")
    _chosen = count
    _environment_threads.cache_clear()


def get_threads() -> int:
    """Return the number of threads that the kernels may use now."""
    return _chosen if _chosen is not None else _default_threads()


def _default_threads() -> int:
    named = _environment_threads()
    if named is not None:
        return named
    if multiprocessing.parent_process() is not None:
        return 1
    available = getattr(os, "sched_getaffinity", None)
    return len(available(0)) if available else os.cpu_count() or 1


@functools.cache
def _environment_threads() -> int | None:
    """Return the number of threads that the environment names.

    The result is cached, because reading a variable takes as long as the messages of a small model.
    """
    values = (os.environ.get(name, "") for name in ("PGMEST_THREADS", "OMP_NUM_THREADS"))
    return next((int(value) for value in values if value.isdigit() and int(value) > 0), None)


def idle_threads() -> int:
    """Return the number of threads that no background work (`behind`) occupies, at least one."""
    return max(1, get_threads() - _in_background.get())


def run_together(tasks: Iterable[Callable[[], Result]]) -> list[Result]:
    """Run the tasks at the same time, the first one on the calling thread; errors are raised when all are done.

    Returns:
        the results of the tasks, in their order.
    """
    first, *others = tasks
    if not others:
        return [first()]
    pool = _pool(len(others))
    waiting = [pool.submit(task) for task in others]
    try:
        found = first()
    finally:
        wait(waiting)  # even after an error, since tasks write into arrays of the caller
    return [found, *(future.result() for future in waiting)]


def run_in_turn(tasks: Iterable[Callable[[], Any]], threads: int) -> None:
    """Run tasks on a number of threads while the calling thread creates the next tasks; at most `threads` tasks wait.

    On one thread, each task runs as soon as it is created. An error is raised when the tasks that have begun are done.
    """
    if threads == 1:
        for task in tasks:
            task()
        return
    pool, waiting = _pool(threads), set[Future[Any]]()
    try:
        for task in tasks:
            waiting.add(pool.submit(task))
            if len(waiting) > threads:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
    finally:
        wait(waiting)
    for future in waiting:
        future.result()


@contextlib.contextmanager
def behind(work: Callable[[ItemT], Any]) -> Iterator[Callable[[ItemT], None]]:
    """Give a function that passes an item to `work` on a background thread and returns at once.

    The function first waits for the previous item and raises its error; the end of the context does the same, and waits
    after other errors, too. If the kernels may use a single thread only, the function is `work` itself.
    """
    if get_threads() == 1:
        yield work
        return
    last: Future[Any] | None = None

    def hand_over(item: ItemT) -> None:
        nonlocal last
        if last is not None:
            last.result()
        last = pool.submit(work, item)

    with ThreadPoolExecutor(1, thread_name_prefix="pgmest-behind") as pool:
        token = _in_background.set(_in_background.get() + 1)
        try:
            yield hand_over
        finally:
            _in_background.reset(token)
        if last is not None:
            last.result()


def helper_pool(threads: int) -> ThreadPoolExecutor:
    """Return a pool of threads for helpers, which wait for work in kernels and would block other tasks of a pool."""
    return _pool(-threads)


def _pool(threads: int) -> ThreadPoolExecutor:
    """Return the pool of this number of threads; a negative number means a pool of helpers."""
    key = (os.getpid(), threads)  # threads do not survive a fork, so each process makes its own pool
    pool = _pools.get(key)
    if pool is None:
        pool = _pools[key] = ThreadPoolExecutor(abs(threads), thread_name_prefix="pgmest")
    return pool
