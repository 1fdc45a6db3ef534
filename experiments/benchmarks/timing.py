"""Timing several pieces of work against each other, so that a machine that slows down slows them all.

The subjects take turns; a turn is a burst of calls, long enough that most of them find their tables in the caches, as
they do in a solver.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pgmest.inference.exact.kernel_loading import load_contraction_kernels, load_max_contraction_kernels

BURST_SECONDS = 0.1
MOST_ROUNDS = 200


def load_all_kernels() -> None:
    """What each process loads once, however many problems it has, and an installation compiles once."""
    load_contraction_kernels(together=True)
    load_max_contraction_kernels()


@dataclass
class Timings:
    """The seconds of each call of one subject, a list per turn."""

    turns: list[list[float]] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return sum(map(len, self.turns))

    @property
    def median(self) -> float:
        """The median of all calls, in seconds."""
        return statistics.median(call for turn in self.turns for call in turn)

    @property
    def least(self) -> float:
        """The fastest call, in seconds."""
        return min(map(min, self.turns))

    def ratio(self, other: Timings) -> float:
        """Return the ratio of a call's time to that of `other`: the median over rounds of the ratio in a round."""
        pairs = zip(self.turns, other.turns, strict=True)
        return statistics.median(statistics.median(mine) / statistics.median(theirs) for mine, theirs in pairs)


def alternate(subjects: Mapping[str, Callable[[], Any]], seconds: float, least_rounds: int = 3) -> dict[str, Timings]:
    """Let the subjects take turns for about `seconds` in all, each at least `least_rounds` times.

    Each subject is called once untimed first. The garbage collector is off meanwhile.
    """
    for call in subjects.values():
        call()
    timings = {name: Timings() for name in subjects}
    collecting = gc.isenabled()
    gc.disable()
    try:
        end = time.perf_counter() + seconds
        for round_number in range(MOST_ROUNDS):
            if round_number >= least_rounds and time.perf_counter() >= end:
                break
            for name, call in subjects.items():
                timings[name].turns.append(_burst(call))
    finally:
        if collecting:
            gc.enable()
    return timings


def _burst(call: Callable[[], Any]) -> list[float]:
    """Seconds of each of as many calls as fit into a burst, at least one."""
    turn: list[float] = []
    start = now = time.perf_counter()
    while not turn or now - start < BURST_SECONDS:
        before = now
        call()
        now = time.perf_counter()
        turn.append(now - before)
    return turn


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that one call takes, and what it returns."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result
