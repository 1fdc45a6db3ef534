"""Ending a mechanism's run early, at Ctrl-C or at a time limit, without losing any answer that was paid for."""

from __future__ import annotations

import _thread
import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pgmest.errors import ArgumentError, percent_text, plural
from pgmest.privacy.curator import Curator

ALL_PAID = 1e-6
"""The share of the budget below which all of it counts as paid."""


@dataclass
class Stop:
    """The way in which a run ended.

    Attributes:
        limit: the time limit in seconds, or None.
        timed_out: whether the run was stopped, or its estimate ended, by the time limit.
        finished: whether the run ended by itself.
        early: whether the run was interrupted before it ended by itself.
    """

    limit: float | None
    timed_out: bool = False
    finished: bool = False
    early: bool = False


def check_time_limit(limit: Any) -> None:
    """Raise ArgumentError if a time limit is neither None nor a positive number of seconds."""
    number = isinstance(limit, int | float) and not isinstance(limit, bool)
    if limit is not None and not (number and 0 < limit < math.inf):
        raise ArgumentError.of("time_limit", limit, "a positive number of seconds, or None")


@contextlib.contextmanager
def stopped_early(
    curator: Curator, limit: float | None, silent: bool, measuring: float | None = None
) -> Iterator[Stop]:
    """Run the block until it ends, or until Ctrl-C or the time limit interrupts it; yield how it ended.

    An interruption stops the curator, which then answers and charges nothing more. So the next round of a mechanism
    cannot begin, also if `estimate` has answered Ctrl-C by returning early. The interruption is not raised to the
    caller. Only the main thread can be interrupted: in other threads the time limit takes effect at the next request.
    If everything is paid already, the time limit does not interrupt: the last estimate ends by itself at its deadline
    (`pgmest._base.stages`).

    SIGTERM is answered as Ctrl-C is where the program handles it, as the command line does.

    Args:
        curator: the curator of the run.
        limit: the time limit in seconds, or None.
        silent: whether to print nothing to standard error.
        measuring: the seconds after which nothing more is measured, of those of the limit; all by default.
    """
    stop, started = Stop(limit), time.perf_counter()
    ending = threading.Lock()  # without it, the timer could interrupt the main thread after the handlers are restored
    handled = _handled() if threading.current_thread() is threading.main_thread() else {}

    def answer(number: int, frame: Any) -> None:
        if stop.finished:  # the timer fired just after the run had ended
            return
        curator.stopped = True
        if not silent:
            with contextlib.suppress(OSError, ValueError):  # a closed terminal must not lose the answers
                _say(curator, stop, time.perf_counter() - started)
        signal.default_int_handler(number, frame) if stop.timed_out else handled[signal.Signals(number)](number, frame)

    def over() -> None:
        with ending:
            if not (stop.finished or curator.stopped or curator.remaining / curator.budget < ALL_PAID):
                stop.timed_out = curator.stopped = True
                if handled:
                    _thread.interrupt_main(next(iter(handled)))

    seconds = limit if measuring is None else measuring
    timer = None if seconds is None else threading.Timer(min(seconds, threading.TIMEOUT_MAX), over)
    for number in handled:
        signal.signal(number, answer)
    try:
        if timer:
            timer.daemon = True
            timer.start()
        yield stop
        with ending:
            stop.finished = True
    except KeyboardInterrupt:
        stop.early = curator.stopped = True
    finally:
        if timer:
            timer.cancel()
        for number, handler in handled.items():
            signal.signal(number, handler)


def _handled() -> dict[signal.Signals, Any]:
    """Return the signals that end a run early, with the handlers that the program has for them, if it has."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    return {number: handler for number, handler in handlers.items() if callable(handler)}


def _say(curator: Curator, stop: Stop, seconds: float) -> None:
    """Print what happens next, at once, since the estimate that follows can take a while."""
    count, why = len(curator.measurements), "interrupted"
    if stop.timed_out:
        why = f"{seconds:.2g} s of measuring are over, and the rest of the limit of {stop.limit:g} s is for the model"
    if not count:
        rest = "there is nothing to make a model of."
        if curator.invariants:
            rest = "a model can have nothing but the tables that are held exactly; Ctrl-C (again) aborts without it."
        print(f"\npgmest: {why}: nothing was measured yet, so {rest}", file=sys.stderr, flush=True)
        return
    spent = 1 - curator.remaining / curator.budget
    text = (
        f"{why}: nothing more is asked of the data or paid for. A model is now made of the "
        f"{plural(count, 'answer')} so far ({percent_text(spent, 1)} of the budget); Ctrl-C (again) aborts without it."
    )
    print(f"\npgmest: {text}", file=sys.stderr, flush=True)


def say_cut_short(stop: Stop, silent: bool) -> None:
    """Print that the last estimate ended at the time limit, unless `silent`."""
    if not silent:
        with contextlib.suppress(OSError, ValueError):
            text = f"the limit of {stop.limit:g} s made the run shorter: its model is less accurate than without it."
            print(f"\npgmest: {text}", file=sys.stderr, flush=True)
