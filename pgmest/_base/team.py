"""A team of threads: helpers take parts of what the calling thread offers in its kernels (team_kernels.py)."""

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
"""Work is offered in up to so many parts for each thread: a helper may come late, or be slower."""

TRIALS, PERIOD = 6, 300
"""Of so many runs the first TRIALS are helped and the next TRIALS are not; the others are as those whose median is
less, for a single run may be fast before helpers get in the way."""

WORTHWHILE = 0.95
"""Help that takes more than this share of the time without is not worth what others could do on these processors."""


class Alone:
    """The calling thread, which nobody helps. In the context of a run it is the array that kernels ask for."""

    def __init__(self) -> None:
        from pgmest._base.team_kernels import alone

        self._array = alone()

    def __enter__(self) -> np.ndarray:
        return self._array

    def __exit__(self, *error: object) -> None:
        """Nothing to end."""


class Team:
    """The calling thread and its helpers; a context for each run, as `Alone`, with the same results as without help.

    Processors need not be cores: two threads of one core gain nothing from each other, and a helper that waits takes
    from the leader. So help is tried, and timed, every now and then.

    Args:
        threads: how many, at least two.
        least: how much work makes a part worth taking, in the units of who offers it.
        assist: a kernel that helps with what is offered in an array.
        linger: whether helpers wait for the next run, which must not need other threads before them.
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
        """Whether the next run is to be helped."""
        place = self._runs % PERIOD
        if place == 0:
            self._seconds = {True: [], False: []}
        if place < 2 * TRIALS:
            return place < TRIALS
        if place > 2 * TRIALS:
            return self._helped
        helped, alone = (statistics.median(self._seconds[which] or [math.inf]) for which in (True, False))
        return helped < WORTHWHILE * alone
