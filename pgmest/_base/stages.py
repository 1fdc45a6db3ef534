"""The stage of a long run and the time that it has left: what progress lines show, and what limits of time go by.

`begun` starts a run, and `stage` says what it is doing. Code that could end early asks `time_left` or `out_of_time`.
Other threads have no run: no stage, and no limit.
"""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

from pgmest.errors import percent_text

TICK = 1.0
"""The seconds between two looks at a run."""
EVERY = 10.0
"""The seconds between two progress lines."""


@dataclass
class Run:
    """A run that reports its progress.

    Attributes:
        title: the name of the run.
        stage: what it is doing.
        share: the share of the budget that is spent; None if there is no budget.
        deadline: the time at which it must end, on the clock of `time.perf_counter`.
        measuring_until: the time at which nothing more is measured, on the same clock.
        expected: the expected seconds of measuring; 0 if not known.
        cut_short: whether something ended early because of the deadline.
        redraw: a function that draws the run's bar again; None if there is no bar on the terminal.
        started: the time at which it began.
    """

    title: str
    stage: str = ""
    share: float | None = None
    deadline: float = math.inf
    measuring_until: float = math.inf
    expected: float = 0.0
    cut_short: bool = False
    redraw: Callable[[], object] | None = None
    started: float = field(default_factory=time.perf_counter)

    def __str__(self) -> str:
        spent = [] if self.share is None else [f"{percent_text(self.share, 1)} of the budget spent"]
        facts = [f"{time.perf_counter() - self.started:.0f} s", *spent, self.stage]
        return f"{self.title}: {', '.join(filter(None, facts))}"


_current: ContextVar[Run | None] = ContextVar("_current", default=None)


def in_command() -> bool:
    """Return whether a command of the command line is running."""
    run = _current.get()
    return run is not None and run.title.startswith("pgmest ")


def stage(text: str) -> None:
    """Say what the run is doing now."""
    run = _current.get()
    if run is not None:
        run.stage = text


def time_left() -> float:
    """Return the seconds until the deadline of the run, at least 0; infinity without a deadline."""
    run = _current.get()
    return math.inf if run is None else max(0.0, run.deadline - time.perf_counter())


def rounds_in_time(rounds: int) -> Iterator[int]:
    """Yield the numbers of rounds of measuring, 1, ..., rounds; go to the last one at once if time is short.

    The last round spends what is left, which would otherwise be lost to a limit of time. Each round is expected to take
    as long as the one before.
    """
    run, number = _current.get() or Run(""), 1
    each = run.expected / rounds
    while number <= rounds:
        started = time.perf_counter()
        if (rounds - number + 1) * each > run.measuring_until - started:
            run.cut_short, number = True, rounds
        yield number
        each, number = time.perf_counter() - started, number + 1


def possible_rounds(wanted: float, done: int, began: float) -> float:
    """Return how many of the wanted rounds of measuring there is time for, at least 1, if they take as long as before.

    Args:
        wanted: the number of rounds that would follow without a limit of time.
        done: the number of rounds so far.
        began: the time at which they began, on the clock of `time.perf_counter`.
    """
    run, now = _current.get(), time.perf_counter()
    if run is None or not done or math.isinf(run.measuring_until):
        return wanted
    possible = max(1.0, (run.measuring_until - now) * done / (now - began))
    run.cut_short |= possible < wanted
    return min(wanted, possible)


def out_of_time() -> bool:
    """Return whether the deadline has passed, so that the caller must end early with what it has."""
    run = _current.get()
    if run is None or time.perf_counter() < run.deadline:
        return False
    run.cut_short = True
    return True


@contextlib.contextmanager
def ending_in(seconds: float) -> Iterator[Run]:
    """Set the deadline of the run while the block runs; a deadline that is nearer stays."""
    run = _current.get()
    token = None if run is not None else _current.set(run := Run(""))
    assert run is not None
    before = run.deadline
    run.deadline = min(before, time.perf_counter() + seconds)
    try:
        yield run
    finally:
        run.deadline = before
        if token is not None:
            _current.reset(token)


@contextlib.contextmanager
def begun(title: str) -> Iterator[Run]:
    """Begin a run, or take part in the one that has begun, and print its progress to standard error.

    A line is printed every ten seconds, unless a bar is shown on a terminal.
    """
    run = _current.get()
    if run is not None and run.title:
        yield run
        return
    run, ended = Run(title), threading.Event()
    token = _current.set(run)
    threading.Thread(target=_report, args=(run, ended), daemon=True).start()
    try:
        yield run
    finally:
        ended.set()
        _current.reset(token)


def _report(run: Run, ended: threading.Event) -> None:
    """Draw the bar again at each tick, or print a line from time to time, until the run has ended."""
    said = run.started
    while not ended.wait(TICK):
        with contextlib.suppress(OSError, ValueError):  # a terminal that was closed must not end the run
            if run.redraw is not None:
                run.redraw()
            elif time.perf_counter() - said >= EVERY and not _bar_is_shown():
                said = time.perf_counter()
                print(run if run.title.startswith("pgmest ") else f"pgmest: {run}", file=sys.stderr, flush=True)


def _bar_is_shown() -> bool:
    """Return whether some code shows a bar of tqdm, which lines would break."""
    tqdm = getattr(sys.modules.get("tqdm"), "tqdm", None)
    return any(not bar.disable for bar in list(getattr(tqdm, "_instances", ())))
