"""A team of threads: helpers take parts of the work that the calling thread offers in its kernels (team_kernels.py)."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np

from pgmest._base.threads import helper_pool

PARTS_A_THREAD = 4
"""Work is offered in at most this many parts per thread; several, because a helper may be late, or slower."""

TRIALS, PERIOD = 6, 300
"""In each PERIOD of runs, the first TRIALS use helpers and the next TRIALS do not.

The other runs use helpers if that made the median time shorter. A median is compared, because a single run may be fast
by chance.
"""

WORTHWHILE = 0.95
"""Helpers are used only if the time with them is below this share of the time without: they occupy processors."""


class Alone:
    """The calling thread without helpers; a context that gives the team's array, which kernels take as an argument."""

    def __init__(self) -> None:
        from pgmest._base.team_kernels import alone

        self._array = alone()

    def __enter__(self) -> np.ndarray:
        return self._array

    def __exit__(self, *error: object) -> None:
        """End the run, for which nothing needs to be done."""


class Team:
    """The calling thread and its helpers; a context for each run, like `Alone`, with the same results.

    Two logical processors may share a core, and a waiting helper then slows the leader down. Runs with and without
    helpers are therefore timed from time to time.

    Args:
        threads: the number of threads, at least two.
        least: the least amount of work in a part, in the unit that kernels use when they offer work.
        assist: the kernel of the helpers, which takes the team's array.
        linger: whether helpers wait a while for the next run; nothing else may need their processors before it.
    """

    def __init__(self, threads: int, least: int, assist: Callable[[np.ndarray], Any], linger: bool):
        from pgmest._base.team_kernels import LEAVE, LINGER, team_of

        self._array = team_of(PARTS_A_THREAD * threads, least)
        self._assist = assist
        self._after = LINGER if linger else LEAVE
        self._helpers: list[Future[Any] | None] = [None] * (threads - 1)
        self._runs, self._helped, self._started = 0, True, 0.0
        self._seconds: dict[bool, list[float]] = {True: [], False: []}

    def __enter__(self) -> np.ndarray:
        from pgmest._base.team_kernels import LEAVE, PHASE, STAY

        self._helped = self._chosen()
        self._runs += 1
        self._array[PHASE] = STAY if self._helped else LEAVE
        if self._helped:
            for number, helper in enumerate(self._helpers):
                if helper is None or helper.done():
                    self._helpers[number] = helper_pool(len(self._helpers)).submit(self._assist, self._array)
        self._started = time.perf_counter()
        return self._array

    def __exit__(self, *error: object) -> None:
        from pgmest._base.team_kernels import PHASE

        if self._runs % PERIOD in range(1, 2 * TRIALS + 1):
            self._seconds[self._helped].append(time.perf_counter() - self._started)
        if self._helped:
            self._array[PHASE] = self._after

    def _chosen(self) -> bool:
        """Return whether the next run uses helpers."""
        place = self._runs % PERIOD
        if place == 0:
            self._seconds = {True: [], False: []}
        if place < 2 * TRIALS:
            return place < TRIALS
        if place > 2 * TRIALS:
            return self._helped
        with_helpers, without = (statistics.median(self._seconds[which] or [math.inf]) for which in (True, False))
        return with_helpers < WORTHWHILE * without
