"""How many threads the kernels may use, and the pool that runs them.

Only tables of many cells are shared between threads; everything else runs on the calling thread. The default is the
number of processors this process may run on, or OMP_NUM_THREADS or PGMEST_THREADS where set when the kernels are first
used; worker processes started by `multiprocessing` get one each, so that several processes do not compete for the same
processors.
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

from pgmest._base.errors import ArgumentError

_chosen: int | None = None
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}
_in_background: ContextVar[int] = ContextVar("_in_background", default=0)

Result = TypeVar("Result")
ItemT = TypeVar("ItemT")


def set_threads(count: int | None) -> None:
    """Let the kernels use up to `count` threads (None: the default, for which the environment is read anew).

    Results are the same for the same count.

    Raises:
        ArgumentError: `count` is not a positive integer.
    """
    global _chosen
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise ArgumentError.of("count", count, "a positive integer, or None for the default")
    _chosen = count
    _said_by_environment.cache_clear()


def get_threads() -> int:
    """The number of threads the kernels may use now."""
    return _chosen if _chosen is not None else _default_threads()


def _default_threads() -> int:
    said = _said_by_environment()
    if said is not None:
        return said
    if multiprocessing.parent_process() is not None:
        return 1
    available = getattr(os, "sched_getaffinity", None)
    return len(available(0)) if available else os.cpu_count() or 1


@functools.cache
def _said_by_environment() -> int | None:
    """Read once: looking a variable up takes as long as a small model's messages."""
    values = (os.environ.get(name, "") for name in ("PGMEST_THREADS", "OMP_NUM_THREADS"))
    return next((int(value) for value in values if value.isdigit() and int(value) > 0), None)


def idle_threads() -> int:
    """Those that nothing runs on in the background (`behind`); at least one."""
    return max(1, get_threads() - _in_background.get())


def run_together(tasks: Iterable[Callable[[], Result]]) -> list[Result]:
    """Run the tasks at the same time, the first one on the calling thread; errors are raised when all are done.

    Returns:
        what they return, in their order.
    """
    first, *others = tasks
    if not others:
        return [first()]
    pool = _pool(len(others))
    waiting = [pool.submit(task) for task in others]
    try:
        found = first()
    finally:
        wait(waiting)  # all of them: they write into arrays of the caller
    return [found, *(future.result() for future in waiting)]


def run_in_turn(tasks: Iterable[Callable[[], Any]], threads: int) -> None:
    """Run tasks on so many threads, while the calling thread makes the next ones; no more wait than there are threads.

    On one thread each runs as soon as it is made. An error is raised when those that have begun are done.
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
    """A function that hands an item to `work` and returns, while a thread of its own works on it.

    It waits until the item before is done, whose error it raises; so does the end of the context. After another error
    the context waits, too. Where the kernels may use a single thread, the function is `work` itself.
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
    """A pool of so many threads for those that wait for work in kernels; others would wait for them."""
    return _pool(-threads)


def _pool(threads: int) -> ThreadPoolExecutor:
    """One of so many threads; by negative numbers, those of helpers."""
    key = (os.getpid(), threads)  # threads do not survive a fork, so each process makes its own pool
    pool = _pools.get(key)
    if pool is None:
        pool = _pools[key] = ThreadPoolExecutor(abs(threads), thread_name_prefix="pgmest")
    return pool
